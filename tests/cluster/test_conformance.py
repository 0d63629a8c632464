"""Whatever of Kubernetes' own scheduling tests passes without the extender passes with it, with queues and without.

Decided in docs/decisions.md: "Kubernetes' own scheduling tests are run in soak".
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import SandboxError

from tests.cluster import conformance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.conformance import Outcome, Run

pytestmark = [pytest.mark.ground("processes"), pytest.mark.soak, pytest.mark.timeout(5300)]


@pytest.fixture(scope="module")
def outcomes(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """How the tests ended in each run. The runs are beside each other: most of the time tests wait."""
    try:
        tests = conformance.program()
    except SandboxError as error:
        pytest.fail(f"the tests cannot be built: {error}", pytrace=False)

    def go(run: Run, name: str, folder: Path) -> Outcome:
        with run.sandbox(name) as cluster:
            return conformance.run(tests, cluster, folder, run.skipped)

    with ThreadPoolExecutor() as pool:
        started = {
            key: pool.submit(go, run, next(sandbox_names), tmp_path_factory.mktemp(key))
            for key, run in conformance.RUNS.items()
        }
        return {key: future.result() for key, future in started.items()}


def test_all_tests_that_are_not_skipped_pass_without_the_extender(outcomes: Mapping[str, Outcome]) -> None:
    alone = outcomes["without-extender"]
    assert alone.failed == {}
    assert len(alone.passed) == 28


@pytest.mark.row("B-90", case="without-queues")
def test_what_passes_without_the_extender_passes_with_it(outcomes: Mapping[str, Outcome]) -> None:
    assert lost(outcomes, "without-queues") == {}


@pytest.mark.row("B-90", case="with-queues")
def test_what_passes_without_the_extender_passes_where_each_pod_is_of_a_queue(
    outcomes: Mapping[str, Outcome],
) -> None:
    assert lost(outcomes, "with-queues") == {}


def lost(outcomes: Mapping[str, Outcome], run: str) -> dict[str, str]:
    """The tests that pass without the extender and not in this run, and what they said."""
    outcome = outcomes[run]
    missing = outcomes["without-extender"].passed - outcome.passed
    skipped = "|".join(conformance.RUNS[run].skipped)
    return {name: outcome.failed.get(name, "not run") for name in missing if not re.search(skipped, name)}


def test_kube_scheduler_asked_the_extender_each_kind_of_question(outcomes: Mapping[str, Outcome]) -> None:
    for run in ("without-queues", "with-queues"):
        asked = [
            outcomes[run].metrics[f'gpuyard_verb_calls_total{{outcome="answered",verb="{verb}"}}']
            for verb in ("filter", "prioritize", "preempt")
        ]
        assert min(asked) > 0, run


def test_the_pods_belonged_to_a_queue_in_the_run_with_queues_alone(outcomes: Mapping[str, Outcome]) -> None:
    planned = {run: outcome.metrics.get("gpuyard_cycle_seconds_count", 0) > 0 for run, outcome in outcomes.items()}
    assert planned == {"without-extender": False, "without-queues": False, "with-queues": True}
