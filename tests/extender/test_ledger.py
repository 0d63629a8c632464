"""The ledger: what counts in a queue, from filter's yes to the end of the pod."""

import pytest
from gpuyard.common.cluster.sighting import Sighting
from gpuyard.engine.model import GPU, NO_BOUND, Amounts, Node, Pod, Promise, Queue, Shape, State, Workload
from gpuyard.extender.ledger import (
    BURIED,
    IN_FLIGHT,
    NOT_SEEN_SENTENCE,
    NOT_SEEN_YET,
    TRANSITIONS,
    Event,
    Grant,
    Ledger,
    Phase,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

NODE = Node(name="n1", gpus=8, cpu=64_000, memory=1 << 40)


def ledger() -> Ledger:
    made = Ledger()
    made.put_nodes([NODE])
    made.put_queue(Queue(name="team", limit=NO_BOUND, quota=NO_BOUND))
    made.take_news()
    return made


def sighting(
    name: str = "p", *, uid: str = "", version: int = 1, verdict: str | None = None, **pod: object
) -> Sighting:
    key = f"ns/{name}"
    made = Pod(key=key, uid=uid or f"uid-{name}", workload=key, shape=Shape(gpus=1))
    return Sighting(
        pod=replace(made, **pod), workload=Workload(key=key, queue="team"), version=version, verdict=verdict
    )


def used(of: Ledger) -> int:
    use = of.snapshot.use.get("team")
    return use.allocated.gpu // GPU if use else 0


def asked(of: Ledger) -> int:
    use = of.snapshot.use.get("team")
    return use.requested.gpu // GPU if use else 0


def test_the_table_knows_every_event_in_every_phase() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert all(set(row) == set(Event) for row in TRANSITIONS.values())


def test_a_waiting_pod_is_asked_for_and_not_used() -> None:
    of = ledger()
    of.see(sighting())
    assert (used(of), asked(of)) == (0, 1)


def test_a_granted_pod_counts_from_that_moment() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    assert (used(of), asked(of), len(of.granted)) == (1, 1, 1)


def test_granting_twice_counts_once() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    of.reserve(sighting(), Grant(), now=1, until=61)
    assert (used(of), len(of.granted)) == (1, 1)


@pytest.mark.row("X-03", case="ledger")
def test_nothing_is_reserved_for_a_pod_that_no_watch_has_shown() -> None:
    of = ledger()
    of.reserve(sighting(), Grant(), now=0, until=60)
    assert (used(of), asked(of), dict(of.entries)) == (0, 0, {})
    assert not of.snapshot.workloads


def test_the_watch_confirms_a_reservation() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    of.see(sighting(version=2, state=State.BOUND, node="n1"))
    of.expire(1000)
    assert (used(of), len(of.granted)) == (1, 0)
    assert of.snapshot.room["n1"].idle == 7
    assert not of.take_news()


def test_a_reservation_ends_when_its_time_is_over_and_says_so_once() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    of.expire(59.9)
    assert used(of) == 1
    of.expire(60)
    assert (used(of), asked(of)) == (0, 1)
    assert of.take_news()
    assert not of.take_news()


def test_a_deleted_pod_gives_back_what_it_had() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    of.end("ns/p", "uid-p")
    assert (used(of), asked(of), len(of.granted)) == (0, 0, 0)
    assert not of.snapshot.workloads


def test_the_end_of_an_older_pod_of_that_name_touches_nothing() -> None:
    of = ledger()
    of.see(sighting(uid="new"))
    of.reserve(sighting(uid="new"), Grant(), now=0, until=60)
    of.end("ns/p", "old")
    assert used(of) == 1


def test_a_new_pod_of_that_name_does_not_inherit_a_reservation() -> None:
    of = ledger()
    of.see(sighting(uid="old"))
    of.reserve(sighting(uid="old"), Grant(), now=0, until=60)
    of.see(sighting(uid="new", version=2))
    assert (used(of), asked(of)) == (0, 1)


@pytest.mark.row("X-04")
def test_a_grant_to_another_pod_of_that_name_does_not_take_a_running_pod_off_the_books() -> None:
    of = ledger()
    of.see(sighting(uid="running", state=State.RUNNING, node="n1"))
    of.reserve(sighting(uid="another", version=3), Grant(nodes=("n1",)), now=0, until=60)
    assert (used(of), len(of.granted)) == (1, 0)
    assert of.snapshot.room["n1"].idle == 7
    assert of.entries["ns/p"].seen.pod.uid == "running"


def test_nothing_is_reserved_for_a_pod_whose_name_another_one_has_by_now() -> None:
    of = ledger()
    of.see(sighting(uid="new", version=3))
    of.reserve(sighting(uid="old", version=2), Grant(), now=0, until=60)
    assert (used(of), asked(of)) == (0, 1)


def test_nothing_is_reserved_for_a_pod_that_is_deleted() -> None:
    of = ledger()
    of.see(sighting())
    of.end("ns/p", "uid-p")
    of.reserve(sighting(), Grant(), now=0, until=60)
    assert (used(of), dict(of.entries), of.is_deleted("uid-p")) == (0, {}, True)


def test_nothing_is_reserved_for_a_pod_that_leaves_without_ever_having_had_a_node() -> None:
    of = ledger()
    of.see(leaving := sighting(version=2, state=State.TERMINATING))
    of.reserve(leaving, Grant(), now=0, until=60)
    assert (used(of), set(of.granted)) == (0, set())


def test_a_new_pod_under_the_name_of_a_deleted_one_is_granted() -> None:
    of = ledger()
    of.see(sighting())
    of.end("ns/p", "uid-p")
    of.see(sighting(uid="later", version=2))
    of.reserve(sighting(uid="later", version=2), Grant(), now=0, until=60)
    assert used(of) == 1


def test_only_so_many_deleted_pods_are_remembered() -> None:
    of = ledger()
    for number in range(BURIED + 1):
        of.see(sighting(f"p{number}"))
        of.end(f"ns/p{number}", f"uid-p{number}")
    assert not of.is_deleted("uid-p0")
    assert of.is_deleted("uid-p1")


def test_a_finished_pod_no_longer_counts() -> None:
    of = ledger()
    of.see(sighting(state=State.RUNNING, node="n1"))
    of.see(sighting(version=2, state=State.SUCCEEDED, node="n1"))
    assert (used(of), asked(of)) == (0, 0)
    assert of.snapshot.pods["ns/p"].state is State.SUCCEEDED


def test_a_terminating_pod_counts_on_its_node_and_not_in_its_queue() -> None:
    of = ledger()
    of.see(sighting(state=State.TERMINATING, node="n1"))
    assert used(of) == 0
    assert of.snapshot.room["n1"].idle == 7


def test_a_later_refusal_by_kube_scheduler_ends_the_reservation_once_a_binding_would_have_landed() -> None:
    of = ledger()
    of.see(sighting(version=5))
    of.reserve(sighting(version=5), Grant(), now=100, until=160)
    of.see(sighting(version=6, verdict="the volume could not be bound"))
    of.expire(100 + IN_FLIGHT / 2)
    assert used(of) == 1
    of.expire(100 + IN_FLIGHT)
    assert used(of) == 0


def test_a_refusal_that_was_known_when_the_pod_was_granted_says_nothing_new() -> None:
    of = ledger()
    of.see(sighting(version=5, verdict="0/4 nodes"))
    of.reserve(sighting(version=5, verdict="0/4 nodes"), Grant(), now=100, until=160)
    of.see(sighting(version=6, verdict="0/4 nodes"))
    of.expire(159)
    assert used(of) == 1


def test_a_pod_adopted_at_start_counts_until_kube_schedulers_next_word() -> None:
    of = ledger()
    of.see(sighting(version=5))
    of.adopt(sighting(version=5), until=60)
    assert used(of) == 1
    of.see(sighting(version=6, verdict="0/4 nodes"))
    of.expire(0)
    assert used(of) == 0


def test_a_pod_that_is_refused_after_all_gives_back_what_it_had() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    of.lapse("ns/p", "uid-p")
    assert (used(of), asked(of)) == (0, 1)


def test_the_gates_of_a_granted_pod_are_asked_as_if_it_waited() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(), now=0, until=60)
    view = of.waiting(sighting())
    assert view.pods["ns/p"].state is State.PENDING
    assert view.use["team"].allocated == Amounts()
    assert used(of) == 1


def test_a_workload_that_changes_takes_its_pods_along() -> None:
    of = ledger()
    of.see(sighting())
    of.put_queue(Queue(name="other"))
    of.put_workload(Workload(key="ns/p", queue="other"))
    assert asked(of) == 0
    assert of.snapshot.use["other"].requested.gpu == GPU


def test_a_reservation_that_lapses_does_not_bring_back_what_its_workload_was() -> None:
    of, gang = ledger(), Workload(key="ns/gang", queue="other")
    first, second = (replace(one, pod=replace(one.pod, workload="ns/gang")) for one in (sighting("a"), sighting("b")))
    of.see(replace(first, workload=gang))
    of.reserve(replace(first, workload=gang), Grant(), now=0, until=60)
    of.see(replace(second, workload=replace(gang, queue="team")))
    of.expire(61)
    assert of.snapshot.workloads["ns/gang"].queue == "team"
    assert (used(of), asked(of)) == (0, 2)
    assert {one.seen.workload for one in of.entries.values()} == {replace(gang, queue="team")}


def test_a_workload_is_known_as_long_as_it_has_pods() -> None:
    of = ledger()
    of.see(sighting())
    assert of.workload("ns/p") == Workload(key="ns/p", queue="team")
    of.end("ns/p", "uid-p")
    assert of.workload("ns/p") is None


def test_a_workload_without_pods_is_not_kept() -> None:
    of = ledger()
    of.put_workload(Workload(key="ns/gang", queue="team"))
    assert not of.snapshot.workloads


def test_a_pod_that_joins_a_gang_leaves_no_workload_of_its_own_behind() -> None:
    of = ledger()
    of.see(sighting())
    alone = sighting(version=2)
    of.see(replace(alone, pod=replace(alone.pod, workload="ns/gang"), workload=Workload(key="ns/gang", queue="team")))
    assert set(of.snapshot.workloads) == {"ns/gang"}
    assert asked(of) == 1


def test_a_refused_pod_sleeps_until_it_is_woken_or_placed() -> None:
    of = ledger()
    of.see(sighting())
    of.refuse(sighting(), "OverLimit")
    assert of.asleep == {"ns/p": "OverLimit"}
    of.woken("ns/p")
    assert not of.asleep
    of.refuse(sighting(), "OverLimit")
    of.see(sighting(version=2, state=State.BOUND, node="n1"))
    assert not of.asleep


def test_a_refused_pod_that_is_deleted_sleeps_no_more() -> None:
    of = ledger()
    of.see(sighting())
    of.refuse(sighting(), "OverLimit")
    of.end("ns/p", "uid-p")
    assert not of.asleep


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_the_end_of_a_placed_pod_is_news(state: State) -> None:
    of = ledger()
    of.see(sighting(state=State.BOUND, node="n1"))
    assert not of.take_news()
    of.see(sighting(version=2, state=state, node="n1"))
    assert of.take_news()


def test_a_changed_queue_is_news_and_one_that_is_equal_is_none() -> None:
    of = ledger()
    of.put_queue(Queue(name="team", limit=NO_BOUND, quota=NO_BOUND))
    assert not of.take_news()
    of.put_queue(Queue(name="team"))
    assert of.take_news()


def test_a_queue_that_is_gone_is_news() -> None:
    of = ledger()
    of.drop_queue("team")
    assert of.take_news()


def test_where_a_pod_in_flight_may_land_is_known_until_it_has_landed() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(nodes=("n1", "n2")), now=0, until=60)
    assert [(pod.key, nodes) for pod, nodes in of.flights.all] == [("ns/p", ("n1", "n2"))]
    of.see(sighting(version=2, state=State.BOUND, node="n1"))
    assert not list(of.flights.all)


def test_where_one_has_landed_is_news_for_those_who_were_refused_meanwhile() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(nodes=("n1", "n2")), now=0, until=60)
    of.see(sighting("q"))
    of.refuse(sighting("q"), "PromisedToOther")
    of.see(sighting(version=2, state=State.BOUND, node="n1"))
    assert of.take_news()


def test_whom_preempt_gave_away_is_known_while_the_grant_counts() -> None:
    of = ledger()
    of.see(sighting())
    of.reserve(sighting(), Grant(victims=("uid-x", "uid-y")), now=0, until=5)
    assert of.doomed == {"uid-x", "uid-y"}
    of.expire(5)
    assert not of.doomed


def test_only_a_place_that_nobody_has_asked_about_is_given_up() -> None:
    of = ledger()
    of.see(sighting())
    of.promise("ns/p", Grant("n1"), now=0, until=60)
    of.give_up("ns/p")
    assert used(of) == 0
    of.reserve(sighting(), Grant("n1"), now=0, until=60)
    of.give_up("ns/p")
    assert used(of) == 1


def test_a_promised_place_holds_its_room_and_calls_the_pod() -> None:
    of = ledger()
    of.see(sighting())
    of.promise("ns/p", Grant("n1"), now=0, until=60)
    assert of.snapshot.room["n1"].idle == 7
    assert of.place_kept(sighting().pod) == Grant("n1")
    assert of.place_kept(sighting(uid="another").pod) is None
    assert of.take_called() == {"ns/p"}
    of.expire(60)
    assert of.snapshot.room["n1"].idle == 8
    assert not of.kept


def test_offers_are_those_of_one_pod_and_of_a_time() -> None:
    of = ledger()
    pod = sighting().pod
    assert of.offered(pod, 0) is None
    of.offer(pod, frozenset({"n1"}), 5)
    assert of.offered(pod, 5) == frozenset({"n1"})
    assert of.offered(pod, 5.1) is None
    assert of.offered(sighting(uid="another").pod, 0) is None


@pytest.mark.row("X-02", case="nodes")
def test_of_the_nodes_that_a_call_names_only_known_ones_are_remembered() -> None:
    of = ledger()
    of.see(sighting())
    of.offer(sighting().pod, ["invented", "n1"], 0)
    assert of.offered(sighting().pod, 0) == frozenset({"n1"})


@pytest.mark.row("X-08", case="ledger")
def test_where_anybody_may_call_what_a_call_names_is_no_ground_to_evict_or_rank() -> None:
    of = ledger()
    of.see(sighting())
    of.offer(sighting().pod, ["n1"], 0)
    assert (of.heeded(sighting().pod, 0), of.last_offer(sighting().pod)) == (frozenset({"n1"}), 0)
    of.callers_are_known = False
    assert (of.heeded(sighting().pod, 0), of.last_offer(sighting().pod)) == (None, None)


REFUSED = f"0/1 nodes are available: 1 {NOT_SEEN_SENTENCE}."


@pytest.mark.row("X-06")
def test_a_pod_that_was_refused_unseen_sleeps_and_is_looked_at_once_the_watch_shows_that() -> None:
    of = ledger()
    of.see(sighting())
    of.take_news()
    of.see(sighting(version=2, verdict=REFUSED))
    assert of.asleep == {"ns/p": NOT_SEEN_YET}
    assert of.take_news()


@pytest.mark.row("X-06")
def test_a_pod_that_was_refused_unseen_is_woken_once_for_it() -> None:
    of = ledger()
    of.see(sighting(verdict=REFUSED))
    of.woken("ns/p")
    of.take_news()
    of.see(sighting(version=2, verdict=REFUSED))
    assert not of.asleep
    assert not of.take_news()


def test_a_pod_that_has_a_node_by_now_does_not_sleep_for_having_been_refused_unseen() -> None:
    of = ledger()
    of.see(sighting(verdict=REFUSED, state=State.BOUND, node="n1"))
    assert not of.asleep


def test_a_pod_of_which_kube_scheduler_knew_more_is_woken_by_its_next_version() -> None:
    of = ledger()
    of.see(sighting())
    of.overtaken("ns/p")
    of.see(sighting())
    assert not of.take_called(), "the same version again"
    of.see(sighting(version=2))
    assert of.take_called() == {"ns/p"}
    of.see(sighting(version=3))
    assert not of.take_called()


def test_a_pod_of_which_kube_scheduler_knew_more_and_that_is_deleted_is_not_woken() -> None:
    of = ledger()
    of.see(sighting())
    of.overtaken("ns/p")
    of.end("ns/p", "uid-p")
    of.see(sighting(uid="later", version=3))
    assert not of.take_called()


def test_promises_that_stay_as_they_are_are_no_news() -> None:
    of = ledger()
    promise = Promise(plan="plan-1", pod="ns/x", shape=Shape(gpus=1), node="n1")
    of.put_promises([promise])
    assert of.take_news()
    of.put_promises([promise])
    assert not of.take_news()


class Lives(RuleBasedStateMachine):
    """Pods live as they like; the sums of the snapshot are always those of the entries."""

    names = st.sampled_from(["a", "b", "c"])
    uids = st.sampled_from(["u1", "u2"])

    def __init__(self) -> None:
        super().__init__()
        self.of = ledger()
        self.version = 0
        self.now = 0.0

    def seen(self, name: str, uid: str, state: State, verdict: str | None = None) -> Sighting:
        self.version += 1
        node = "" if state is State.PENDING else "n1"
        return sighting(name, uid=uid, version=self.version, verdict=verdict, state=state, node=node)

    @rule(name=names, uid=uids, verdict=st.sampled_from([None, "no", "still no"]))
    def watch_shows_it_waiting(self, name: str, uid: str, verdict: str | None) -> None:
        self.of.see(self.seen(name, uid, State.PENDING, verdict))

    @rule(name=names, uid=uids, state=st.sampled_from([State.BOUND, State.RUNNING, State.TERMINATING, State.FAILED]))
    def watch_shows_it_placed(self, name: str, uid: str, state: State) -> None:
        self.of.see(self.seen(name, uid, state))

    @rule(name=names, uid=uids)
    def granted(self, name: str, uid: str) -> None:
        seen = self.of.seen(f"ns/{name}", uid) or self.seen(name, uid, State.PENDING)
        self.of.reserve(seen, Grant(nodes=("n1", "n2")), now=self.now, until=self.now + 60)

    @rule(name=names, uid=uids)
    def adopted(self, name: str, uid: str) -> None:
        if seen := self.of.seen(f"ns/{name}", uid):
            self.of.adopt(seen, until=self.now + 60)

    @rule(name=names, node=st.sampled_from(["n1", "n2"]))
    def promised(self, name: str, node: str) -> None:
        if f"ns/{name}" in self.of.entries:
            self.of.promise(f"ns/{name}", Grant(node), now=self.now, until=self.now + 60)

    @rule(name=names, uid=uids)
    def lapsed(self, name: str, uid: str) -> None:
        self.of.lapse(f"ns/{name}", uid)

    @rule(name=names, uid=uids)
    def deleted(self, name: str, uid: str) -> None:
        self.of.end(f"ns/{name}", uid)

    @rule(seconds=st.sampled_from([1, 30, 61]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.of.expire(self.now)

    @invariant()
    def sums_match_the_entries(self) -> None:
        left = self.of.room(["n1", "n2"])
        counted = [entry.counted for entry in self.of.entries.values()]
        assert used(self.of) == sum(pod.active for pod in counted)
        assert dict(self.of.snapshot.pods) == {pod.key: pod for pod in counted}
        assert set(self.of.snapshot.workloads) == {pod.workload for pod in counted}
        assert left == {name: self.of.snapshot.room.get(name) for name in ("n1", "n2")} == self.of.room(["n1", "n2"])

    @invariant()
    def a_reservation_stands_exactly_in_the_phases_that_have_one(self) -> None:
        granted = [(entry, entry.reservation) for entry in self.of.entries.values() if entry.reservation]
        assert len(granted) == len(self.of.granted)
        assert dict(self.of.kept) == {entry.seen.pod.key: made.grant.node for entry, made in granted if made.grant.node}
        assert all(entry.phase is Phase.RESERVED for entry, _ in granted)

    @invariant()
    def what_may_land_and_what_is_kept_is_known_by_node(self) -> None:
        flights = [
            entry.seen.pod
            for entry in self.of.entries.values()
            if entry.reservation and not entry.reservation.grant.node and entry.reservation.grant.nodes
        ]
        assert self.of.flights.gpus == sum(pod.shape.gpus for pod in flights)
        for node in ("n1", "n2"):
            assert {pod.key for pod in self.of.flights.landing_on(node)} == {pod.key for pod in flights}
            assert self.of.flights.keeps(node, "") == (node in self.of.kept.values())


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_a_pod_first_seen_finished_takes_nothing(state: State) -> None:
    of = ledger()
    of.see(sighting(state=state, node="n1"))
    assert (used(of), asked(of)) == (0, 0)
