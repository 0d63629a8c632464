"""This version understands what the last one left behind, and lists the names that it no longer has."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest
from gpuyard.common.plans.plan import Plan
from gpuyard.engine.model.settings import REMOVED

from tests.last_version.record import NAMES, PLAN, names_of

ROOT = Path(__file__).parents[2]

Names = Mapping[str, Iterable[str]]


def gone(last: Names, now: Names) -> set[str]:
    """The names that the last version had and this one has not."""
    return {name for family, names in last.items() for name in set(names) - set(now.get(family, ()))}


def unlisted(names: Iterable[str], changelog: str) -> set[str]:
    """Those of the names that the changes since the last version do not tell of."""
    unreleased = re.split(r"^## ", changelog, flags=re.MULTILINE)[1]
    return set(names) - set(re.findall(r"`([^`]+)`", unreleased))


# --- names


@pytest.mark.row("B-85", case="names")
def test_each_name_of_the_last_version_is_there_or_is_listed_as_a_change() -> None:
    left = gone(json.loads(NAMES.read_text()), names_of(ROOT))
    assert unlisted(left, (ROOT / "CHANGELOG.md").read_text()) == set()


@pytest.mark.row("B-83", case="accepted")
def test_each_setting_of_the_last_version_is_there_or_accepted_as_removed() -> None:
    last, now = json.loads(NAMES.read_text())["settings"], names_of(ROOT)["settings"]
    assert set(last) - set(now) <= REMOVED.keys()


@pytest.mark.row("B-85", case="changelog")
def test_a_name_that_is_gone_has_to_stand_in_the_changes_since_the_last_version() -> None:
    left = gone({"metrics": ["a_total", "b_total"], "alerts": ["A"]}, {"metrics": ["b_total"], "alerts": ["B"]})
    assert left == {"a_total", "A"}
    changelog = "# Changelog\n\n## Unreleased\n- Alert `A` is `B` now.\n\n## 0.1.0\n- `a_total` counts.\n"
    assert unlisted(left, changelog) == {"a_total"}


def test_names_of_each_family_are_found() -> None:
    found = names_of(ROOT)
    assert "gpuyard_verb_seconds" in found["metrics"]
    assert "GpuyardAbsent" in found["alerts"]
    assert {"OverLimit", "MoveRefused", "QueueInvalid", "OverQuota"} <= set(found["reasons and conditions"])
    assert "consolidation.maxMoved" in found["settings"]


# --- a plan


@pytest.mark.row("B-84", case="recorded")
def test_a_plan_of_the_last_version_is_gone_on_with() -> None:
    plan = msgspec.json.decode(PLAN.read_bytes(), type=Plan)
    assert plan.runs
    assert [victim.pod for victim in plan.spec.evictions] == ["ns/two", "ns/one"]
    assert plan.status.evicted == (plan.spec.evictions[0].uid,), "so only the other one has to go yet"
    assert all(plan.kept_of(victim.uid) for victim in plan.spec.evictions), "both can be created again"
    assert [(place.pod, place.node, place.shape and place.shape.gpus) for place in plan.spec.promises] == [
        ("ns/large", "node-4", 8),
        ("ns/two", "node-3", 4),
        ("ns/one", "node-2", 4),
    ]


@pytest.mark.row("B-84", case="recorded")
def test_what_a_plan_of_the_last_version_says_is_written_again() -> None:
    recorded = json.loads(PLAN.read_bytes())["status"]
    plan = msgspec.json.decode(PLAN.read_bytes(), type=Plan)
    written = json.loads(msgspec.json.encode(plan.status))
    assert {key: written.get(key) for key in recorded} == recorded
