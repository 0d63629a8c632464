"""`gpuyard certificates token`: what a run leaves in the cluster, in a folder, and what it says."""

from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from click.testing import CliRunner
from gpuyard.cli import certificates, token_keeping
from gpuyard.cli.token_keeping import CONFIG, SECRET_FILE, Keeper, NoTokenError
from gpuyard.common import tokens
from gpuyard.common.tokens import PREVIOUS, SECRET, TOKEN
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cli.test_keeping import Secrets

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.common.kube.client import Client

Json = dict[str, Any]
GIVEN = "given-by-somebody-else"


class Run:
    """Runs on one cluster."""

    def __init__(self) -> None:
        self.secrets = Secrets()
        self.said: list[str] = []

    async def keep(self, *, rotate: bool = False) -> str:
        return await Keeper(cast("Client", self.secrets), "gpuyard", self.said.append).keep(rotate=rotate)

    def held(self) -> dict[str, str]:
        data = self.secrets.held[SECRET]["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}


@pytest.fixture
def run() -> Run:
    return Run()


def secret(token: str) -> Json:
    """A Secret that somebody else has written."""
    data = {TOKEN: base64.b64encode(token.encode()).decode()}
    return {"metadata": {"name": SECRET, "namespace": "gpuyard"}, "data": data}


@pytest.mark.row("X-37", case="made")
async def test_the_first_run_makes_the_secret(run: Run) -> None:
    token = await run.keep()
    assert run.held() == {TOKEN: token}
    made = run.secrets.held[SECRET]
    assert made["type"] == "Opaque"
    assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gpuyard"


@pytest.mark.row("X-37", case="kept")
async def test_another_run_keeps_what_is_there(run: Run) -> None:
    token = await run.keep()
    assert await run.keep() == token
    run.secrets.put(secret(f"{GIVEN}\n"))
    assert await run.keep() == GIVEN


@pytest.mark.row("X-37", case="rotated")
async def test_a_rotation_keeps_the_one_before_and_no_older_one(run: Run) -> None:
    first = await run.keep()
    second = await run.keep(rotate=True)
    assert run.held() == {TOKEN: second, PREVIOUS: first}
    third = await run.keep(rotate=True)
    assert run.held() == {TOKEN: third, PREVIOUS: second}
    assert len({first, second, third}) == 3


async def test_what_somebody_else_makes_meanwhile_is_taken(run: Run) -> None:
    run.secrets.before_write = [secret(GIVEN)]
    assert await run.keep() == GIVEN


async def test_where_others_write_again_and_again_it_gives_up(run: Run) -> None:
    await run.keep()
    run.secrets.before_write = [secret(f"{GIVEN}-{number}") for number in range(5)]
    with pytest.raises(NoTokenError, match="others write it"):
        await run.keep(rotate=True)


@pytest.mark.row("X-26", case="never-shown")
async def test_what_is_said_shows_no_token(run: Run) -> None:
    shown = {await run.keep(), await run.keep(rotate=True), await run.keep()}
    assert len(run.said) == 3
    assert not any(token in line for token in shown for line in run.said)


# --- kube-scheduler's configuration ---


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.row("X-37", case="saved")
def test_in_an_empty_folder_it_is_the_shipped_one_with_the_token(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "gpuyard"
    token_keeping.save(folder, GIVEN)
    shipped = (MANIFESTS / "kube-scheduler" / "config.yaml").read_text().replace("TOKEN@", f"{GIVEN}@")
    assert yaml.safe_load((folder / CONFIG).read_text()) == yaml.safe_load(shipped)
    assert mode(folder / CONFIG) == 0o600


OWN = """\
# Ours.
extenders:
  - urlPrefix: "http://10.0.0.9/other"
  - filterVerb: filter  # and so on
    urlPrefix: 'http://gpuyard-extender.gpuyard:8080/scheduler'
  - urlPrefix: https://10.0.0.9:8443/scheduler
"""


@pytest.mark.row("X-37", case="saved")
def test_of_a_configuration_that_is_there_only_the_address_of_our_extender_changes(tmp_path: Path) -> None:
    (file := tmp_path / CONFIG).write_text(OWN)
    file.chmod(0o644)
    for token in ("one", "two"):
        token_keeping.save(tmp_path, token)
        assert file.read_text() == OWN.replace("gpuyard-extender", f"gpuyard:{token}@gpuyard-extender")
        assert mode(file) == 0o600


def urls(*found: str) -> str:
    return "extenders:\n" + "".join(f"  - urlPrefix: {url}\n" for url in found)


@pytest.mark.row("X-37", case="saved")
@pytest.mark.parametrize("host", ["10.96.0.77:8080", "gpuyard-extender", "gpuyard:old@10.7.0.77", "TOKEN@10.7.0.77"])
def test_our_extender_is_known_by_its_address_its_host_or_its_user(tmp_path: Path, host: str) -> None:
    (file := tmp_path / CONFIG).write_text(urls(f"http://{host}/scheduler", "http://gpu.example/scheduler"))
    token_keeping.save(tmp_path, GIVEN)
    ours = f"http://gpuyard:{GIVEN}@{host.rpartition('@')[2]}/scheduler"
    assert file.read_text() == urls(ours, "http://gpu.example/scheduler")


@pytest.mark.row("X-37", case="saved")
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ((), "no urlPrefix that ends with /scheduler"),
        (("http://vendor.example/scheduler", "http://user:word@10.7.0.77/scheduler"), "write gpuyard:TOKEN@ there"),
        (("http://10.96.0.77:8080/scheduler-2",), "no urlPrefix that ends with /scheduler"),
        (("http://10.96.0.77:8080/scheduler", "http://gpuyard-two/scheduler"), "several extenders .* lines 2 and 3"),
    ],
)
def test_a_configuration_in_which_not_exactly_one_extender_is_ours_is_left_alone(
    tmp_path: Path, found: tuple[str, ...], problem: str
) -> None:
    (file := tmp_path / CONFIG).write_text(urls(*found))
    with pytest.raises(NoTokenError, match=problem):
        token_keeping.save(tmp_path, GIVEN)
    assert file.read_text() == urls(*found)


# --- without a cluster ---


def asked(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(certificates.certificates, ["token", *arguments])
    return done.exit_code, done.output


def both(folder: Path) -> tuple[dict[str, str], str]:
    """What the Secret holds, and what kube-scheduler would show."""
    namespace, made = yaml.safe_load_all((folder / SECRET_FILE).read_text())
    assert (namespace["kind"], namespace["metadata"]["name"], made["kind"]) == ("Namespace", "gpuyard", "Secret")
    url: str = yaml.safe_load((folder / CONFIG).read_text())["extenders"][0]["urlPrefix"]
    held = {key: base64.b64decode(value).decode() for key, value in made["data"].items()}
    return held, url.partition("@")[0].removeprefix("http://gpuyard:")


@pytest.mark.row("X-37", case="offline")
def test_offline_both_sides_get_the_token_as_files_that_only_their_owner_reads(tmp_path: Path) -> None:
    code, said = asked("--offline", "--save", str(tmp_path / "kind"))
    held, shown = both(tmp_path / "kind")
    assert (code, held) == (0, {TOKEN: shown})
    assert shown not in said
    assert {mode(file) for file in (tmp_path / "kind").iterdir()} == {0o600}


@pytest.mark.row("X-37", case="offline")
def test_offline_it_may_be_repeated_and_rotated_likewise(tmp_path: Path) -> None:
    for options in ((), ()):
        asked("--offline", "--save", str(tmp_path), *options)
    held, first = both(tmp_path)
    assert held == {TOKEN: first}
    asked("--offline", "--save", str(tmp_path), "--rotate")
    held, second = both(tmp_path)
    assert held == {TOKEN: second, PREVIOUS: first}


@pytest.mark.parametrize("text", ["", "a: [", "kind: Secret", "data: {}", "data: {token: ü}"])
def test_a_secret_that_cannot_be_read_is_named_and_left(tmp_path: Path, text: str) -> None:
    (file := tmp_path / SECRET_FILE).write_text(text)
    code, said = asked("--offline", "--save", str(tmp_path))
    assert (code, str(file) in said, file.read_text()) == (2, True, text)


def test_offline_needs_a_folder() -> None:
    code, said = asked("--offline")
    assert (code, "--save FOLDER" in said) == (2, True)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, said = asked("--offline", "--save", str(tmp_path / "file" / "inner"))
    assert (code, "name a folder that you may write" in said) == (2, True)


def test_on_a_cluster_the_configuration_gets_the_token_of_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tokens.new()
    monkeypatch.setattr(certificates, "calling", lambda *_: token)
    code, said = asked("--save", str(tmp_path))
    assert (code, token in said) == (0, False)
    assert token in (tmp_path / CONFIG).read_text()
