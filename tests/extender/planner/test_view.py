"""What is under way counts as if it were done."""

from gpuyard.engine.model import Budget, Gang, Node, Offer, Pod, Promise, Shape, State, Workload
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.extender.planner.look.view import UnderWay, view

NOW = 1_800_000_000
ONE = Shape(gpus=1)


def counted(*pods: Pod, minimum: int = 1) -> Snapshot:
    workloads = [Workload(key="ns/w", queue="team", gang=Gang(minimum=minimum))]
    return Snapshot.build(nodes=[Node(name="n1", gpus=8)], workloads=workloads, pods=pods)


def pod(name: str, on: str = "", *, state: State | None = None) -> Pod:
    stands = State.RUNNING if on else State.PENDING
    return Pod(key=f"ns/{name}", uid=f"uid-{name}", workload="ns/w", shape=ONE, state=state or stands, node=on)


def test_it_is_now() -> None:
    assert view(counted(), UnderWay(), NOW).now == NOW


def test_who_was_let_through_stands_where_he_likely_goes() -> None:
    made = view(counted(pod("a", state=State.BOUND)), UnderWay(granted={"ns/a": "n1"}), NOW)
    assert (made.pods["ns/a"].node, made.room["n1"].idle) == ("n1", 7)


def test_who_was_let_through_to_nobody_knows_where_is_not_there_yet() -> None:
    for node in ("", "unknown"):
        made = view(counted(pod("a", state=State.BOUND)), UnderWay(granted={"ns/a": node}), NOW)
        assert (made.pods["ns/a"].state, made.pods["ns/a"].gated) == (State.PENDING, True)
        assert not made.waiting.get("team")


def test_who_has_to_go_is_leaving_already() -> None:
    made = view(counted(pod("a", "n1"), pod("b", "n1")), UnderWay(leaving=frozenset({"uid-a"})), NOW)
    assert (made.pods["ns/a"].state, made.pods["ns/b"].state) == (State.TERMINATING, State.RUNNING)
    assert (made.room["n1"].idle, made.room["n1"].releasing) == (6, 1)


def test_who_waits_does_not_leave() -> None:
    made = view(counted(pod("a")), UnderWay(leaving=frozenset({"uid-a"})), NOW)
    assert made.pods["ns/a"].state is State.PENDING


def test_a_dip_counts_as_before() -> None:
    dip = Node(name="n1", gpus=0, stable_gpus=8)
    made = view(counted(), UnderWay(dips=(dip,)), NOW)
    assert (made.total.gpu, made.fleet.nodes["n1"].open) == (8000, False)


def test_a_gang_below_its_minimum_is_so_since_it_was_first_seen() -> None:
    made = view(counted(pod("a", "n1"), minimum=2), UnderWay(torn_since={"ns/w": NOW - 60, "ns/gone": 0}), NOW)
    assert made.torn["ns/w"].stale_since == NOW - 60


def test_promises_budgets_and_refused_places_are_taken_over() -> None:
    promise = Promise(plan="p", pod="ns/a", shape=ONE, node="n1")
    budget, offer = Budget("ns/b", frozenset({"ns/a"}), 0), Offer(refused=frozenset({"n1"}))
    under_way = UnderWay(promises=(promise,), budgets=(budget,), offers={"ns/a": offer})
    made = view(counted(pod("a")), under_way, NOW)
    assert (made.promises, made.budgets, made.offers) == ((promise,), {"ns/b": budget}, {"ns/a": offer})
