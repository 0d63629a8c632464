"""docs/extender.md names every metric and every reason that there is."""

import re
from pathlib import Path

from gpuyard.engine.model.results import Reason
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.ledger.metrics import LedgerCollector
from gpuyard.extender.planner.metrics import PlannerMetrics
from gpuyard.extender.verbs.verbs import UNREADABLE
from prometheus_client import CollectorRegistry

from tests.extender.builders import Bench

PAGE = (Path(__file__).parents[2] / "docs" / "extender.md").read_text()
PLANNERS = {
    Reason.PREEMPTION_DELAY,
    Reason.FRAGMENTED,
    Reason.RECLAIM_NOT_ALLOWED,
    Reason.PROTECTED_BY_MIN_RUNTIME,
    Reason.PROTECTED_BY_BUDGET,
    Reason.REFUSED_BY_SCHEDULER,
}
"""The reasons that no pod hears from filter."""


def test_every_metric_is_in_the_document() -> None:
    registry = CollectorRegistry()
    registry.register(LedgerCollector(Bench().ledger))
    VerbMetrics(registry)
    PlannerMetrics(registry)
    families = {f"{one.name}_total" if one.type == "counter" else one.name for one in registry.collect()}
    assert families <= set(re.findall(r"`(gpuyard_\w+)`", PAGE))


def test_every_reason_of_filter_is_in_the_document() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE))
    assert {*map(str, set(Reason) - PLANNERS), UNREADABLE} <= told
