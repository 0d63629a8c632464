"""Settings as text: durations, ratios, switches, and what is said of those that cannot be read."""

from collections.abc import Mapping
from typing import cast

import pytest
from gpuyard.common.version import __version__
from gpuyard.engine.model import SCALE
from gpuyard.engine.model.settings import KEYS, LIVE_KEYS, REMOVED, Removed, SettingError, Settings, duration, scaled


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("1m30s", 90), ("2h", 7200), ("0", 0), ("500ms", 1), ("1.5s", 2), ("0.25h", 900), ("-1s", -1)],
)
def test_a_duration_is_whole_seconds_rounded_up(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "60", "s", "1d", "1m 30s", "--1s", "1..5s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration(text)


@pytest.mark.parametrize(("text", "value"), [("1", SCALE), ("0.5", SCALE // 2), ("2.000001", 2 * SCALE + 1)])
def test_a_ratio_is_kept_exactly(text: str, value: int) -> None:
    assert scaled(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1.0000001", "one", "9" * 5000, "²"])
def test_what_is_no_ratio_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        scaled(text)


@pytest.mark.parametrize("text", ["9" * 30 + "h", "2562048h"])
def test_a_duration_longer_than_kubernetes_can_say_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than Kubernetes can say, 292 years"):
        duration(text)


def test_a_setting_is_read_under_its_outside_name() -> None:
    settings = Settings().with_text("consolidation.maxMoved", "-1").with_text("honorDisruptionBudgets", "false")
    assert (settings.max_moved, settings.honor_disruption_budgets) == (-1, False)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("filter.maxNodes", "64"),
        ("reservation.ttl", "90s"),
        ("outrank.grace", "0"),
        ("planner.interval", "500ms"),
        ("verdict.ttl", "1m"),
        pytest.param("promise.ttl", "1m", marks=pytest.mark.row("B-36", case="removed")),
        pytest.param("capacity.grace", "1m", marks=pytest.mark.row("B-36", case="removed")),
    ],
)
def test_what_concerns_only_the_live_extender_is_read_and_changes_no_plan(key: str, text: str) -> None:
    assert Settings().with_text(key, text) == Settings()
    with pytest.raises(SettingError, match=f"{key}: 'wrong' is not a"):
        Settings().with_text(key, "wrong")


def test_an_unknown_setting_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"consolidation\.maxmoved: no such setting; known are defaultQueue"):
        Settings().with_text("consolidation.maxmoved", "1")


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("consolidation.maxMoved", "many", "'many' is not a whole number"),
        ("consolidation.maxMoved", "-5", "-5 is negative; -1 is no limit"),
        ("namespaceMatch", "maybe", "'maybe' is none of off, name, label"),
        ("consolidation.keepNodesEmpty", "yes", "'yes' is none of true, false"),
    ],
)
def test_a_wrong_value_names_the_setting_and_the_fault(key: str, text: str, why: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings().with_text(key, text)
    assert str(caught.value) == f"{key}: {why}"


def test_every_setting_is_a_field() -> None:
    assert {field for field, _ in KEYS.values()} <= set(Settings.__struct_fields__)


# --- settings that were removed


@pytest.mark.row("B-83", case="plan")
def test_a_removed_setting_is_accepted_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[str, Removed]", REMOVED), "speed", Removed("nothing is needed", "0.3"))
    assert Settings().with_text("speed", "anything") == Settings()
    with pytest.raises(SettingError, match="speeds: no such setting"):
        Settings().with_text("speeds", "1")


def overdue(removed: Mapping[str, Removed], version: str) -> list[str]:
    """The removed settings that this version should refuse, so that their entries have to go."""
    return [key for key, one in removed.items() if _numbers(version) >= _numbers(one.until)]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:2]]


@pytest.mark.row("B-83", case="expired")
def test_a_removed_setting_leaves_the_table_with_the_version_that_it_names() -> None:
    removed = {"a": Removed("", "0.9"), "b": Removed("", "0.10"), "c": Removed("", "1.0")}
    assert overdue(removed, "0.9.1") == ["a"]
    assert overdue(removed, "0.10.0") == ["a", "b"]
    assert overdue(REMOVED, __version__) == []


def test_no_setting_is_removed_that_is_there() -> None:
    assert REMOVED.keys().isdisjoint({*KEYS, *LIVE_KEYS})
