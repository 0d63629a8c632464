"""Settings are read strictly, every error leads to its place, and a bad file never replaces a good one."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from gpuyard.common.following import FollowedSettings
from gpuyard.common.settings import Seconds, SettingsError, Span, Strict, check, load, parse
from gpuyard.engine.model.settings import Removed


class Filter(Strict, frozen=True):
    max_nodes: int = 32


GONE = {
    "filter.fewest": Removed("filter.maxNodes alone decides", "0.3"),
    "speed": Removed("nothing is needed", "0.3"),
    "old.part.name": Removed("set grace", "0.3"),
}


class SampleConfig(Strict, frozen=True):
    removed = GONE
    filter: Filter = Filter()
    grace: Seconds = Seconds(60)
    ttl: Span = Span(60)
    names: list[str] = msgspec.field(default_factory=list)


HEAD = "apiVersion: gpuyard.io/v1alpha1\nkind: SampleConfig\n"


def read(body: str) -> SampleConfig:
    return parse((HEAD + body).encode(), SampleConfig, "sample.yaml")


def error_of(body: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(body)
    return str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sample.yaml"
    path.write_text(HEAD + "filter: {maxNodes: 10}\n")
    return path


def test_what_is_not_given_has_its_default() -> None:
    assert read("") == SampleConfig()


def test_names_are_camel_case_outside() -> None:
    assert read("filter: {maxNodes: 7}").filter.max_nodes == 7


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("5m", 300), ("1h30m", 5400), ("-1s", -1), ("1500ms", 2), ('"0"', 0)]
)
def test_durations_become_whole_seconds(text: str, seconds: int) -> None:
    assert read(f"grace: {text}").grace == seconds


@pytest.mark.parametrize("text", ["0s", "-5s", "-1ms"])
def test_a_span_of_no_time_is_refused_where_there_must_be_some(text: str) -> None:
    assert read("ttl: 1s").ttl == 1
    assert error_of(f"ttl: {text}") == f"sample.yaml:3: ttl: Expected at least 1s, got '{text}'"


@pytest.mark.parametrize(
    "body",
    [
        "names: &a [*a]",
        "unknown: &a {b: *a}",
        "names: " + "[" * 3000 + "]" * 3000,
        "names: " + "[" * 25_000,
        "names: [!!timestamp 2026-11-19]",
        "grace: 2026-13-45",
        "grace: !!timestamp soon",
        "grace: " + "9" * 5000,
        "grace: !!int ''",
        "filter: !!bool perhaps",
        "2026-11-19: 1",
        "? [a]\n: 1",
    ],
    ids=[
        "a list in itself",
        "a mapping in itself",
        "a deep one",
        "one deeper than the stack",
        "a date",
        "no date",
        "no time",
        "no number",
        "no digit",
        "no truth",
        "a date as a key",
        "a list as a key",
    ],
)
def test_what_yaml_makes_of_a_file_neither_ends_the_process_nor_replaces_a_good_one(file: Path, body: str) -> None:
    refused: list[str] = []
    reloaded = FollowedSettings(file, SampleConfig, refused=refused.append)
    file.write_text(HEAD + body)
    reloaded.poll()
    assert reloaded.current.filter.max_nodes == 10
    assert len(refused) == 1


def test_a_date_is_the_text_that_it_is() -> None:
    assert read("names: [2026-11-19]").names == ["2026-11-19"]
    said = error_of("filter: {}\ngrace: 2026-11-19\n")
    assert said == "sample.yaml:4: grace: '2026-11-19' is not a duration, as 60s or 1m30s"


@pytest.mark.parametrize("text", ["9" * 12 + "h", "9" * 400 + "s", "-" + "9" * 400 + "s"])
def test_a_time_that_no_clock_counts_is_refused(text: str) -> None:
    assert error_of(f"grace: {text}").startswith("sample.yaml:3: grace: ")


def test_what_many_aliases_mean_is_looked_at_once() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "a0" in error_of(f"a0: &a0 [x]\n{levels}")


@pytest.mark.parametrize("text", ["60", "soon", "5 m", "[]", "1d", "60.5"])
def test_what_is_no_duration_is_refused_at_its_line(text: str) -> None:
    said = error_of(f"names: []\ngrace: {text}")
    assert said.startswith("sample.yaml:4: grace: ")
    assert "60s" in said


def test_an_unknown_field_is_named_with_its_own_line() -> None:
    said = error_of("filter:\n  maxNodes: 3\n  maxNode: 4\n")
    assert said == "sample.yaml:5: filter.maxNode: Object contains unknown field `maxNode`"


def test_a_wrong_type_is_named_with_path_and_line() -> None:
    assert error_of("\nfilter:\n  maxNodes: many\n") == "sample.yaml:5: filter.maxNodes: Expected `int`, got `str`"


def test_a_wrong_item_of_a_list_is_found() -> None:
    assert error_of("names:\n- a\n- b\n- 3\n") == "sample.yaml:6: names.2: Expected `str`, got `int`"


def test_a_key_given_twice_is_refused_where_it_comes_again() -> None:
    assert error_of("grace: 1s\ngrace: 2s\n") == "sample.yaml:4: 'grace' is given twice; keep one"


def test_a_key_given_twice_deep_inside_is_refused_too() -> None:
    assert "sample.yaml:5: 'maxNodes' is given twice" in error_of("filter:\n  maxNodes: 1\n  maxNodes: 2\n")


def test_broken_yaml_is_refused_with_its_line() -> None:
    assert error_of("filter: {maxNodes: 3\n").startswith("sample.yaml:4: not YAML: ")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"^x: not YAML: "):
        parse(b"\xff\xfe\x00", SampleConfig, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: SampleConfig", "x:1: apiVersion is None; this reads 'gpuyard.io/v1alpha1'"),
        ("apiVersion: gpuyard.io/v2\nkind: SampleConfig", "x:1: apiVersion is 'gpuyard.io/v2'"),
        ("apiVersion: gpuyard.io/v1alpha1\nkind: Other", "kind is 'Other'; this reads 'SampleConfig'"),
        ("- a", "x:1: expected `apiVersion: gpuyard.io/v1alpha1` and `kind: SampleConfig`"),
        ("", "apiVersion is None"),
    ],
)
def test_another_kind_or_version_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text.encode(), SampleConfig, "x")
    assert said in str(caught.value)


def test_yaml_tags_cannot_make_objects() -> None:
    with pytest.raises(SettingsError, match="could not determine a constructor"):
        read("names: !!python/object/apply:os.system ['true']")


def test_a_file_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file or directory; name the file with --config"):
        load(tmp_path / "none.yaml", SampleConfig)


def test_check_says_yes_with_exit_code_0(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(file, SampleConfig) == 0
    assert capsys.readouterr().out == f"{file}: a valid SampleConfig\n"


def test_check_says_what_is_wrong_with_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(HEAD + "nope: 1\n")
    assert check(file, SampleConfig) == 2
    assert f"{file}:3: nope: " in capsys.readouterr().err


class Followed:
    def __init__(self, file: Path) -> None:
        self.changed: list[SampleConfig] = []
        self.refused: list[str] = []
        self.warned: list[str] = []
        self.settings = FollowedSettings(
            file,
            SampleConfig,
            changed=self.changed.append,
            refused=self.refused.append,
            warned=self.warned.append,
        )
        self.settings.interval = 0.01


def test_a_change_of_the_file_is_taken_over(file: Path) -> None:
    followed = Followed(file)
    file.write_text(HEAD + "filter: {maxNodes: 11}\n")
    followed.settings.poll()
    assert followed.settings.current.filter.max_nodes == 11
    assert len(followed.changed) == 1


def test_a_bad_file_leaves_the_last_good_settings_in_force_and_is_reported_once(file: Path) -> None:
    followed = Followed(file)
    file.write_text(HEAD + "filter: 3\n")
    followed.settings.poll()
    followed.settings.poll()
    assert followed.settings.current.filter.max_nodes == 10
    assert [text.partition("; ")[2] for text in followed.refused] == ["the last good settings stay in force"]
    assert ":3: filter: " in followed.settings.problem


def test_a_file_put_right_again_clears_the_problem(file: Path) -> None:
    followed = Followed(file)
    good = file.read_text()
    file.unlink()
    followed.settings.poll()
    assert followed.settings.problem
    file.write_text(good)
    followed.settings.poll()
    assert (followed.settings.problem, followed.changed) == ("", [])


def test_the_first_file_must_be_good(file: Path) -> None:
    file.write_text("")
    with pytest.raises(SettingsError):
        Followed(file)


def mount(folder: Path, version: str, body: str) -> None:
    """Publish a file as kubelet does: a new folder, then a swapped link."""
    (folder / version).mkdir()
    (folder / version / "sample.yaml").write_text(HEAD + body)
    (folder / "..data_tmp").symlink_to(version)
    (folder / "..data_tmp").replace(folder / "..data")


async def test_a_mounted_config_map_is_followed_across_its_swapped_link(tmp_path: Path) -> None:
    mount(tmp_path, "..1", "filter: {maxNodes: 1}\n")
    (tmp_path / "sample.yaml").symlink_to("..data/sample.yaml")
    followed = Followed(tmp_path / "sample.yaml")
    task = asyncio.create_task(followed.settings.run())
    mount(tmp_path, "..2", "filter: {maxNodes: 2}\n")
    async with asyncio.timeout(5):
        while not followed.changed:
            await asyncio.sleep(0.01)
    task.cancel()
    assert followed.settings.current.filter.max_nodes == 2


# --- settings that were removed


def warnings_of(body: str) -> tuple[SampleConfig, list[str]]:
    found: list[str] = []
    return parse((HEAD + body).encode(), SampleConfig, "sample.yaml", found.append), found


@pytest.mark.row("B-83", case="accepted")
def test_a_removed_setting_is_accepted_with_a_warning_that_says_where_it_is_and_what_to_do_instead() -> None:
    made, warnings = warnings_of("filter: {maxNodes: 7}\nspeed: 3\n")
    assert made.filter.max_nodes == 7
    what = "removed, without effect; nothing is needed; refused from version 0.3 on"
    assert warnings == [f"sample.yaml:4: speed: {what}"]


@pytest.mark.row("B-83", case="accepted")
@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("filter:\n  maxNodes: 7\n  fewest: 2\n", 7),
        ("filter: {fewest: 2}\n", 32),
        ("old: {part: {name: x}}\n", 32),
        ("old: {part: {name: x}}\nfilter: {fewest: null, maxNodes: 9}\n", 9),
    ],
)
def test_a_removed_setting_of_a_section_leaves_the_rest_of_the_section(body: str, most: int) -> None:
    made, warnings = warnings_of(body)
    assert (made.filter.max_nodes, len(warnings)) == (most, body.count("old") + body.count("fewest"))


@pytest.mark.row("B-83", case="unknown")
@pytest.mark.parametrize(
    ("body", "unknown"),
    [("nope: 1\n", "nope"), ("old: {part: {name: x, other: 1}}\n", "old"), ("filter: {speed: 1}\n", "filter.speed")],
)
def test_a_key_that_never_was_a_setting_is_refused_beside_removed_ones(body: str, unknown: str) -> None:
    assert f"{unknown}: " in error_of(body + "speed: 3\n")


@pytest.mark.parametrize("body", ["old: 3\n", "old: {part: [name]}\n", "filter: fewest\n"])
def test_a_value_in_place_of_a_section_is_no_removed_setting(body: str) -> None:
    assert error_of(body)


@pytest.mark.row("B-83", case="log")
def test_a_warning_is_told_at_the_start_and_again_only_after_it_was_over(file: Path) -> None:
    good = file.read_text()
    file.write_text(good + "speed: 3\n")
    followed = Followed(file)
    followed.settings.poll()
    assert len(followed.warned) == 1
    file.write_text(good)
    followed.settings.poll()
    file.write_text(good + "speed: 4\n")
    followed.settings.poll()
    assert len(followed.warned) == 2
    assert not followed.changed, "it has no effect"


@pytest.mark.row("B-83", case="check")
def test_check_accepts_a_removed_setting_and_warns_of_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(file.read_text() + "speed: 3\n")
    assert check(file, SampleConfig) == 0
    told = capsys.readouterr()
    assert told.out == f"{file}: a valid SampleConfig\n"
    assert told.err.startswith(f"warning: {file}:4: speed: removed, without effect")
