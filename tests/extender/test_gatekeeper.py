"""The engine's gates, asked about one pod at a time."""

from gpuyard.engine.model.results import Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.ledger.gate_check import Gatekeeper

from tests.extender.builders import Bench, Json, group, node, pod, queue, typed

KEEPER = Gatekeeper(Ledger().promises)


def refusal(bench: Bench, thing: Json, **settings: object) -> Waiting | None:
    seen = bench.translator.sight(typed(thing))
    assert seen.workload
    return KEEPER.refusal(bench.ledger.snapshot, Settings(**settings), seen.workload, seen.pod)  # type: ignore[arg-type]


def reason(bench: Bench, thing: Json, **settings: object) -> Reason | None:
    found = refusal(bench, thing, **settings)
    return found.reason if found else None


def test_one_keeper_serves_whatever_queues_there_are() -> None:
    small, large = Bench(queue("team", limit=0)), Bench(queue("team", limit=1))
    assert reason(small, pod("p", "team")) is Reason.OVER_LIMIT
    assert reason(large, pod("p", "team")) is None
    assert reason(small, pod("p", "team")) is Reason.OVER_LIMIT


def test_use_is_looked_up_at_the_moment_of_asking() -> None:
    bench = Bench(node("n1"), queue("team", limit=1))
    assert reason(bench, pod("p", "team")) is None
    bench.put(pod("q", "team", on="n1"))
    assert reason(bench, pod("p", "team")) is Reason.OVER_LIMIT


def test_queues_that_lead_nowhere_are_refused() -> None:
    bench = Bench(queue("dept"), queue("team", parent="dept"), queue("orphan", parent="gone"))
    assert reason(bench, pod("p", "team")) is None
    for name in ("dept", "orphan", "unknown"):
        assert reason(bench, pod("p", name)) is Reason.QUEUE_DOES_NOT_EXIST


def test_a_pod_of_another_scheduler_is_refused() -> None:
    assert reason(Bench(queue("team")), pod("p", "team", schedulerName="mine")) is Reason.OTHER_SCHEDULER


def test_a_namespace_must_match_where_that_is_asked_for() -> None:
    bench = Bench(queue("team"), queue("ns"))
    assert reason(bench, pod("p", "team"), namespace_match="name") is Reason.NAMESPACE_MISMATCH
    assert reason(bench, pod("p", "ns"), namespace_match="name") is None


def test_a_gang_counts_whole_until_it_stands_and_by_the_pod_afterwards() -> None:
    members = [pod(name, annotations={"pod-group-name": "g"}) for name in ("a", "b", "c")]
    bench = Bench(node("n1"), queue("team", limit=2), group("g", 2, "team"), *members)
    assert reason(bench, members[2]) is None
    bench.put(*[pod(name, on="n1", annotations={"pod-group-name": "g"}) for name in ("a", "b")])
    assert reason(bench, members[2]) is Reason.OVER_LIMIT
    bench.put(queue("team", limit=3))
    assert reason(bench, members[2]) is None
