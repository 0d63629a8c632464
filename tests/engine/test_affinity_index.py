"""The counts by domain: the same answers as looking at every pod, and no step that grows with the cluster."""

from collections.abc import Iterator
from random import Random

import pytest
from gpuyard.engine.model import Node, Pod, PodTerm, Requirement, Shape, State, Workload
from gpuyard.engine.model.constraints import matches
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.pod_affinity import Company
from gpuyard.engine.placing.scratch import ACTIVE, Scratch, Status
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.stepwise import at_once

from benchmarks.engine.yards import with_affinity
from tests.engine.builders import yard
from tests.engine.work import most_calls

SELECTORS = [
    (Requirement("app", "In", ("web",)),),
    (Requirement("app", "In", ("web", "db")), Requirement("tier", "Exists")),
    (Requirement("app", "NotIn", ("db",)),),
    (Requirement("", "In"),),
    (),
]


# --- the rule, read off every pod


def speaks_of(term: PodTerm, of: Pod, other: Pod) -> bool:
    spaces = term.namespaces or (of.namespace,)
    return (spaces == ("*",) or other.namespace in spaces) and matches(term.selector, other.labels)


def whereabouts(scratch: Scratch, pod: Pod, *, now: bool) -> Iterator[str]:
    place = scratch.place(pod)
    if place.status in ACTIVE:
        yield place.node
    if now and pod.holds and place.status in (Status.EVICTED, Status.MOVED, Status.GONE):
        yield pod.node


def meets(scratch: Scratch, term: PodTerm, others: list[Pod], node: Node, *, now: bool = False) -> bool:
    nodes, mine = scratch.snapshot.fleet.nodes, node.labels.get(term.topology_key)
    places = (there for other in others for there in whereabouts(scratch, other, now=now))
    return mine is not None and any(
        nodes[there].labels.get(term.topology_key) == mine for there in places if there in nodes
    )


def allowed(scratch: Scratch, pod: Pod, node: Node, *, now: bool) -> bool:
    others = [one for one in scratch.snapshot.pods.values() if one.key != pod.key]
    for term in (t for t in pod.shape.pod_affinity if not t.weight):
        meant = [one for one in others if speaks_of(term, pod, one)]
        nowhere = not any(True for one in meant for _ in whereabouts(scratch, one, now=False))
        first = speaks_of(term, pod, pod) and nowhere and term.topology_key in node.labels
        if not (first or meets(scratch, term, meant, node)):
            return False
    for term in (t for t in pod.shape.pod_anti_affinity if not t.weight):
        if meets(scratch, term, [one for one in others if speaks_of(term, pod, one)], node, now=now):
            return False
    return not any(
        meets(scratch, term, [one], node, now=now)
        for one in others
        for term in one.shape.pod_anti_affinity
        if not term.weight and speaks_of(term, one, pod)
    )


def preferred(scratch: Scratch, pod: Pod, node: Node) -> int:
    others = [one for one in scratch.snapshot.pods.values() if one.key != pod.key]

    def fulfilled(terms: tuple[PodTerm, ...]) -> int:
        return sum(t.weight for t in terms if meets(scratch, t, [o for o in others if speaks_of(t, pod, o)], node))

    return fulfilled(pod.shape.pod_affinity) - fulfilled(pod.shape.pod_anti_affinity)


# --- random clusters


def random_terms(chance: Random) -> tuple[PodTerm, ...]:
    count = chance.choice([0, 0, 1, 2])
    return tuple(
        PodTerm(
            chance.choice(["host", "zone"]),
            chance.choice(SELECTORS),
            chance.choice([(), ("*",), ("ns", "other")]),
            chance.choice([0, 0, 5]),
        )
        for _ in range(count)
    )


def random_pod(chance: Random, number: int) -> Pod:
    state = chance.choice([State.PENDING, State.PENDING, State.RUNNING, State.BOUND, State.TERMINATING])
    key = f"{chance.choice(['ns', 'other'])}/p{number}"
    labels = {"app": chance.choice(["web", "db", "etc"])} | ({"tier": "1"} if chance.random() < 0.5 else {})
    return Pod(
        key=key,
        workload=key,
        shape=Shape(cpu=1, pod_affinity=random_terms(chance), pod_anti_affinity=random_terms(chance)),
        state=state,
        node="" if state is State.PENDING else f"node-{chance.randrange(5)}",
        labels=labels if chance.random() < 0.9 else {},
    )


def random_scratch(chance: Random) -> Scratch:
    some = yard().queue("a", quota=8)
    for n in range(5):
        labels = {"host": str(n)} | ({"zone": str(n % 2)} if chance.random() < 0.8 else {})
        some.node(f"node-{n}", labels=labels)
    snapshot = some.snapshot()
    draft = snapshot.draft()
    for number in range(12):
        pod = random_pod(chance, number)
        draft.put_workload(Workload(key=pod.key, queue="a"))
        draft.put_pods([pod])
    snapshot = draft.done()
    if chance.random() < 0.3:
        snapshot = snapshot.draft().drop_node("node-4").done()
    return Scratch(snapshot, Accounts.of(snapshot, 0))


def change(chance: Random, scratch: Scratch) -> None:
    pod, node = chance.choice(list(scratch.snapshot.pods.values())), f"node-{chance.randrange(4)}"
    if scratch.status(pod) is Status.WAITING:
        chance.choice([scratch.bind, scratch.nominate])(pod, node, ())
    elif scratch.status(pod) is Status.EVICTED:
        scratch.nominate(pod, node, ())
    elif scratch.active(pod) and pod.node in (*scratch.snapshot.fleet.nodes, ""):
        scratch.evict(pod)


@pytest.mark.row("B-25")
@pytest.mark.parametrize("seed", range(60))
def test_the_index_answers_as_looking_at_every_pod_does_whatever_a_cycle_tries_and_undoes(seed: int) -> None:
    chance = Random(seed)
    scratch = random_scratch(chance)
    company, mark = Company(scratch), scratch.mark()
    for _ in range(30):
        change(chance, scratch)
        if chance.random() < 0.1:
            scratch.undo(mark)
        pod = chance.choice(list(scratch.snapshot.pods.values()))
        wishes = at_once(company.of(pod))
        for node in scratch.snapshot.fleet.nodes.values():
            for now in (False, True):
                expected = allowed(scratch, pod, node, now=now)
                assert (wishes is None or wishes.allow(node.name, now=now)) == expected, (pod.key, node.name, now)
            assert (wishes.preference(node.name) if wishes else 0) == preferred(scratch, pod, node)


# --- bounded steps


def longest_step(snapshot: Snapshot) -> int:
    return most_calls(Cycle(snapshot, Settings()).steps())


@pytest.mark.row("B-26")
@pytest.mark.parametrize("nodes", [50, 400])
def test_no_step_of_a_cycle_with_affinity_looks_at_more_than_a_few_objects(nodes: int) -> None:
    assert longest_step(with_affinity(nodes, nodes * 10, 20)) < 1_000
