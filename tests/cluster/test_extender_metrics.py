"""What a running extender tells Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mock.prometheus import promtool

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


def test_prometheus_finds_nothing_to_complain_of(yard: Yard) -> None:
    found = promtool("check", "metrics", stdin=yard.page())
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_verbs_reasons_and_queues_are_told(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    yard.submit("first", "second", queue=queue)
    yard.until(lambda: len(yard.placed()) == 1 and len(yard.verdicts()) == 1, 15, "one runs, one waits")
    refused = 'gpuyard_refused_pods{reason="OverLimit"}'
    # The page may be that of a second ago.
    yard.until(lambda: yard.metrics().get(refused, 0) >= 1, 5, "the one that waits is counted")
    told = yard.metrics()
    assert told['gpuyard_verb_seconds_count{verb="filter"}'] >= 2
    assert told['gpuyard_refusals_total{reason="OverLimit"}'] >= 1
    assert told[f'gpuyard_queue_allocated_gpus{{queue="{queue}"}}'] == 1
    assert told['gpuyard_cache_synced{resource="pods"}'] == 1
