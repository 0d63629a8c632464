"""The boards and alerts speak of metrics that there are, and of panels that can be laid out."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
from gpuyard.common.metrics import CacheCollector, CertificateCollector, LeaseCollector, new_registry
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.ledger.metrics import LedgerCollector, UnreadableCollector
from gpuyard.extender.planner.metrics import PlannerMetrics

from tests.extender.builders import Bench
from tests.mock.prometheus import EXTENDER, GPUS, Part, board, rules

BOARDS = pytest.mark.parametrize("part", [GPUS, EXTENDER], ids=lambda part: part.board)


def families() -> set[str]:
    """The names of all that the extender tells."""
    registry = new_registry("gpuyard-extender")
    registry.register(LedgerCollector(Bench().ledger))
    registry.register(UnreadableCollector(dict))
    registry.register(CacheCollector([]))
    registry.register(LeaseCollector([]))
    registry.register(CertificateCollector(dict))
    VerbMetrics(registry)
    PlannerMetrics(registry)
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in registry.collect()}


def test_board_and_alerts_of_the_extender_name_metrics_that_it_tells() -> None:
    spoken = set(re.findall(r"gpuyard_\w+", json.dumps([board(EXTENDER)["panels"], rules(EXTENDER)])))
    assert len(spoken) > 10
    assert {name.removesuffix("_bucket") for name in spoken} <= families()


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not below


@BOARDS
def test_panels_have_ids_of_their_own_and_do_not_cover_each_other(part: Part) -> None:
    panels: list[dict[str, Any]] = board(part)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [(a["title"], b["title"]) for a, b in combinations(panels, 2) if overlap(a["gridPos"], b["gridPos"])] == []
    assert max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in panels) <= 24


@BOARDS
def test_each_query_asks_the_source_that_was_chosen(part: Part) -> None:
    for panel in board(part)["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"


@BOARDS
def test_each_alert_has_a_severity_and_a_sentence(part: Part) -> None:
    for group in rules(part)["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"]["summary"]
