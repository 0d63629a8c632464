"""Room that an elastic plan keeps for a workload: what filter answers its pods, and what it answers others."""

from datetime import UTC, datetime

import pytest
from gpuyard.engine.model import Promise, Shape

from tests.extender.builders import Bench, Json, group, node, pod, queue

PROMISED = "the room is promised to others"
IN_JOB = {"pod-group-name": "job"}


def reserved(gpus: int = 8, on: str = "n1", *, named: str = "team", plan: str = "elastic-1") -> Promise:
    return Promise(plan=plan, workload="ns/job", shape=Shape(gpus=gpus), node=on, queue=named)


def member(name: str, gpus: int = 4, **more: object) -> Json:
    """A pod of the workload."""
    return pod(name, "team", gpus, annotations=IN_JOB, **more)  # type: ignore[arg-type]


@pytest.fixture
def of() -> Bench:
    made = Bench(node("n1"), node("n2"), queue("team"), group("job", 1, "team"))
    made.ledger.put_promises([reserved()])
    return made


@pytest.mark.row("B-70", case="filter")
def test_reserved_room_is_not_for_others(of: Bench) -> None:
    other = pod("other", "team", 8)
    assert of.filter(other).node_names == ["n2"]
    assert set(of.filter(other, "n1").failed_and_unresolvable_nodes.values()) == {PROMISED}
    assert of.filter(pod("stranger", gpus=8)).node_names == ["n2"]


@pytest.mark.row("B-70", case="filter")
@pytest.mark.parametrize("sizes", [(8,), (4, 4), (1, 2, 5)])
def test_pods_of_the_workload_get_it_in_any_parts(of: Bench, sizes: tuple[int, ...]) -> None:
    for number, gpus in enumerate(sizes):
        assert of.filter(member(f"job-{number}", gpus)).node_names == ["n1"]


@pytest.mark.row("B-70", case="filter")
def test_what_they_have_taken_is_not_counted_twice(of: Bench) -> None:
    of.put(node("n1", 9))
    assert of.passes(member("job-0", 4))
    assert of.passes(pod("small", "team", 1), "n1"), "one GPU is beside the promise"
    assert not of.passes(pod("second", "team", 1), "n1"), "four are kept, four are taken"


@pytest.mark.row("B-70", case="filter")
def test_nobody_gets_more_than_was_promised_out_of_what_is_kept_for_others(of: Bench) -> None:
    of.ledger.put_promises([reserved(4), Promise(plan="p", pod="ns/x", shape=Shape(gpus=4), node="n1", queue="team")])
    assert not of.passes(member("large", 5), "n1")
    assert of.passes(member("fits", 4), "n1")


@pytest.mark.row("B-70", case="filter")
def test_a_pod_that_asks_for_more_gets_it_where_there_is_more(of: Bench) -> None:
    of.ledger.put_promises([reserved(4)])
    assert of.filter(member("large", 6)).node_names == ["n1"]


def test_what_was_promised_is_taken_once(of: Bench) -> None:
    for number in range(2):
        assert of.passes(member(f"job-{number}"))
    assert not of.passes(member("third"), "n1")
    assert of.filter(member("third")).node_names == ["n2"]


def test_a_pod_of_the_workload_may_go_to_another_node_where_its_own_is_not_offered(of: Bench) -> None:
    assert of.filter(member("job-0"), "n2").node_names == ["n2"]


def test_of_no_node_at_all_none_is_answered(of: Bench) -> None:
    of.show(member("job-0"))
    assert not of.passes(member("job-0"), "unknown")


def test_pods_that_were_there_before_hold_their_own_room() -> None:
    of = Bench(node("n1"), queue("team"), group("job", 1, "team"), member("job-1", 4, on="n1"))
    later = 1_767_225_601
    of.ledger.put_promises([Promise(plan="e", workload="ns/job", shape=Shape(gpus=4), node="n1", since=later)])
    assert not of.passes(pod("other", "team", 1))
    of.drop(member("job-1", 4, on="n1"))
    assert not of.passes(pod("five", "team", 5))
    assert of.passes(pod("four", "team", 4))
    assert of.passes(member("job-2", 4, created="2026-01-01T00:00:02Z"))


@pytest.mark.row("B-70", case="filter")
def test_a_pod_in_another_queue_than_the_promise_names_does_not_get_it(of: Bench) -> None:
    of.ledger.put_promises([reserved(named="another")])
    assert not of.passes(member("job-0"), "n1")
    of.ledger.put_promises([reserved(named="")])
    assert of.passes(member("job-0"), "n1")


def test_a_gang_starts_whole_on_the_nodes_that_are_kept_for_it() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"), group("job", 2, "team"))
    of.ledger.put_promises([reserved(), reserved(on="n2")])
    of.put(member("job-0", 8), member("job-1", 8))
    assert not of.passes(member("job-0", 8), "n1"), "the other has not been offered a node yet"
    assert of.passes(member("job-1", 8), "n2")
    assert of.passes(member("job-0", 8), "n1")


def test_reserved_room_counts_in_its_queue_until_pods_have_taken_it(of: Bench) -> None:
    of.put(queue("team", limit=9))
    assert not of.passes(pod("other", "team", 2), "n2"), "eight of nine are spoken for"
    assert of.passes(pod("small", "team", 1), "n2")
    assert of.passes(member("job-0", 8)), "what is kept for its own workload does not count against a pod"


def test_of_a_promise_that_names_no_queue_the_queue_of_its_workload_is_charged(of: Bench) -> None:
    of.put(queue("team", limit=9), member("job-0", 1))
    of.ledger.put_promises([reserved(8, named="")])
    assert not of.passes(pod("other", "team", 2), "n2")


def test_a_pod_that_leaves_the_workload_gives_its_part_back(of: Bench) -> None:
    assert of.passes(member("job-0", 8))
    of.drop(member("job-0", 8))
    assert not of.passes(pod("other", "team", 1), "n1")


def test_kube_scheduler_evicts_nobody_for_a_pod_whose_room_is_reserved(of: Bench) -> None:
    of.put(pod("lower", "team", 8, on="n2"), member("job-0", 8))
    victims = {"n2": {"Pods": [{"UID": "uid-lower"}]}}
    assert not of.preempt(member("job-0", 8), victims).node_name_to_meta_victims


@pytest.mark.row("B-70", case="filter")
def test_a_pod_that_asks_for_more_than_is_kept_lets_others_go_first() -> None:
    of = Bench(node("n1"), queue("team"), group("job", 1, "team"))
    of.ledger.put_promises([reserved(1)])
    now = datetime.fromtimestamp(of.today, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    high = {"priorityClassName": "inference"}
    of.put(*(pod(f"first-{n}", "team", 4, labels=high, created=now) for n in range(3)))
    of.put(large := member("large", 8, created=now))
    for _ in of.verbs.precedence.line_up(of.ledger.snapshot, of.config.engine):
        pass
    assert not of.passes(large, "n1")
    assert of.refusals[-1] == "Outranked"
