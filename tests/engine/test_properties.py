"""What holds of every cluster: nothing is booked twice, no bound is passed, plans settle, and order plays no part."""

from collections import Counter
from random import Random

import msgspec
import pytest
from gpuyard.engine.model import GPU, SCALE, UNLIMITED, Shape, State
from gpuyard.engine.model.amounts import smaller
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.results import Evict, FinalState, Nominate, Outcome
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.scratch import ACTIVE, Scratch, is_stuck
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.settle import rounds, settle
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.builders import NOW, PLACED, Yard, yard

chances = st.integers(0, 2**32).map(Random)
"""Seeds, not single choices: hypothesis would prefer the simplest choices, and so clusters with nothing in them."""
examples = settings(max_examples=100)
pytestmark = pytest.mark.chance


def some_yard(chance: Random) -> Yard:
    """A small cluster: queues of one or two levels, gangs and shares of GPUs, some of it running, budgets, delays."""
    some = yard()
    for n in range(chance.randint(1, 4)):
        some.node(f"node-{n}", gpus=chance.choice([1, 2, 4, 8]), cordoned=chance.random() < 0.05)
    departments = chance.randint(0, 2)
    for n in range(departments):
        some.queue(f"d{n}", quota=chance.choice([-1, 0, 4, 8]), limit=chance.choice([-1, -1, 6]))
    leaves = [f"q{n}" for n in range(chance.randint(1, 4))]
    for name in leaves:
        some.queue(
            name,
            parent=f"d{chance.randrange(departments)}" if departments else "",
            quota=chance.choice([-1, 0, 1, 2, 4]),
            limit=chance.choice([-1, -1, -1, 3]),
            weight=chance.choice([0, 1, 2]),
            priority=chance.choice([100, 100, 150]),
            reclaim_min_runtime=chance.choice([None, None, 100, 2000]),
        )
    for _ in range(chance.randint(2, 12)):
        add_workload(some, chance, chance.choice(leaves))
    return some


def add_workload(some: Yard, chance: Random, queue: str) -> None:
    size, priority = chance.choice([1, 1, 1, 2, 3]), chance.choice([50, 50, 75, 100])
    gpus = chance.choice(["1", "1", "2", "3", "0.5", "0.3"])
    shape = Shape(fraction=400, devices=2) if chance.random() < 0.1 else None
    fits = [name for name, free in some._free.items() if free >= size * 3 * GPU]
    running = chance.randint(1, size) if fits and chance.random() < 0.6 else 0
    some.gang(
        queue,
        size,
        name=f"{queue}-job-{len(some._workloads):02}",
        minimum=chance.randint(1, size),
        running=running,
        on=fits[:1],
        gpus=gpus,
        shape=shape,
        priority=priority,
        preemptible=priority < 100,
        preemption_delay=chance.choice([0, 0, 0, 5000]),
    )
    workload = list(some._workloads)[-1]
    for key, pod in [(key, pod) for key, pod in some._pods.items() if pod.workload == workload and pod.node]:
        devices = pod.shape.devices if pod.shape.shared else 0
        groups = tuple(f"own-{key.removeprefix('ns/')}-{n}" for n in range(devices))
        some._free[pod.node] -= devices * GPU - pod.shape.fraction
        some._pods[key] = msgspec.structs.replace(pod, gpu_groups=groups)
        some.pod(key.removeprefix("ns/"), bare=chance.random() < 0.3)
        if chance.random() < 0.05:
            some.pod(key.removeprefix("ns/"), state=State.TERMINATING, deleted_at=NOW - chance.choice([10, 500]))
        elif chance.random() < 0.1:
            some.budget(f"budget-{len(some._pods)}", allowed=chance.randint(0, 1), pods=[key.removeprefix("ns/")])


def planned(chance: Random) -> tuple[Snapshot, Settings, Outcome]:
    snapshot = some_yard(chance).snapshot()
    chosen = Settings(
        max_moved=chance.choice([-1, 16, 1]),
        placement=chance.choice(["pack", "spread"]),
        keep_nodes_empty=chance.random() < 0.2,
        move_bare_pods=chance.random() < 0.5,
    )
    return snapshot, chosen, settle(snapshot, chosen)


def evictions(outcome: Outcome) -> list[str]:
    return [action.pod for cycle in outcome.cycles for action in cycle.actions if isinstance(action, Evict)]


@examples
@given(chances)
def test_no_node_and_no_gpu_is_booked_twice(chance: Random) -> None:
    snapshot, _, outcome = planned(chance)
    whole: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for key, final in outcome.final.items():
        if final.state in PLACED or final.state is FinalState.TERMINATING:
            shape = snapshot.pods[key].shape
            assert len(final.groups) == (shape.devices if shape.shared else 0)
            whole[final.node] += shape.gpus
            shared.update({(final.node, group): shape.fraction for group in final.groups})
    assert all(used <= GPU for used in shared.values())
    for node, _group in shared:
        whole[node] += 1
    assert all(used <= snapshot.fleet.nodes[node].gpus for node, used in whole.items())


@pytest.mark.row("X-77", case="property")
@examples
@given(chances)
def test_no_bare_pod_is_moved_where_the_settings_do_not_allow_it(chance: Random) -> None:
    snapshot, chosen, outcome = planned(chance)
    for cycle in outcome.cycles[:1] if not chosen.move_bare_pods else ():
        gone = {action.pod for action in cycle.actions if isinstance(action, Evict)}
        promised = {action.pod for action in cycle.actions if isinstance(action, Nominate)}
        assert not [pod for pod in gone & promised if snapshot.pods[pod].bare]


def fragmented_yard(chance: Random) -> Yard:
    """Small pods of queues that have lent everything, strewn over the nodes; gangs that need whole nodes; ghosts."""
    some = yard().nodes(chance.randint(4, 12)).queue("many", quota=UNLIMITED).queue("lent-0").queue("lent-1")
    for node in list(some._free):
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 5])):
            queue = f"lent-{chance.randrange(2)}"
            some.running(queue, on=node, priority=chance.choice([50, 50, 75]))
            some.pod(list(some._pods)[-1].removeprefix("ns/"), bare=chance.random() < 0.5)
        if chance.random() < 0.1:
            some.promise(node, to=f"moved-to-{node}", queue="lent-0")
    size, gpus = chance.randint(1, 4), chance.choice([6, 8, 8])
    for _ in range(chance.randint(2, 4)):
        some.gang("many", size, gpus=gpus, priority=chance.choice([50, 50, 75]))
    return some


@pytest.mark.row("B-53", case="property")
@examples
@given(chances, st.booleans())
def test_a_decision_that_moves_a_pod_names_its_new_place_and_a_consolidation_evicts_nobody_else(
    chance: Random, fragmented: bool
) -> None:
    snapshot = (fragmented_yard if fragmented else some_yard)(chance).snapshot()
    chosen = Settings(max_moved=-1, move_bare_pods=True, keep_nodes_empty=chance.random() < 0.2)
    for cycle in rounds(snapshot, chosen):
        for turn in cycle.record.turns():
            placed = {action.pod for action in turn if not isinstance(action, Evict)}
            lost = [action for action in turn if isinstance(action, Evict) and action.pod not in placed]
            assert not [action for action in lost if action.phase == "consolidate"]
            assert not [action for action in lost if action.pod in cycle.record.placements]


@examples
@given(chances)
def test_nobody_starts_beyond_a_limit(chance: Random) -> None:
    snapshot, _, outcome = planned(chance)
    held: Counter[str] = Counter()
    for key, final in outcome.final.items():
        if final.state in PLACED:
            pod = snapshot.pods[key]
            for queue in snapshot.path(snapshot.workloads[pod.workload].queue):
                held[queue] += pod.shape.gpus * GPU + pod.shape.fraction
    for queue, amount in held.items():
        limit = snapshot.queues[queue].limit.gpu
        assert limit == UNLIMITED or amount <= max(limit, snapshot.use.get(queue, UNUSED).allocated.gpu)


@examples
@given(chances)
def test_the_actions_lead_to_where_every_pod_is_said_to_end(chance: Random) -> None:
    snapshot, _, outcome = planned(chance)
    places = {pod.key: pod.node if pod.holds else "" for pod in snapshot.pods.values()}
    places |= dict.fromkeys(gone_by_themselves(snapshot), "")
    for cycle in outcome.cycles:
        for action in cycle.actions:
            assert bool(places[action.pod]) is isinstance(action, Evict), action
            places[action.pod] = "" if isinstance(action, Evict) else action.node
    assert places == {key: final.node for key, final in outcome.final.items()}


def gone_by_themselves(snapshot: Snapshot) -> list[str]:
    return [pod.key for pod in snapshot.terminating.values() if not is_stuck(pod, snapshot.now)]


@pytest.mark.row("Q-32")
@examples
@given(chances)
def test_every_plan_settles_and_evicts_nobody_twice(chance: Random) -> None:
    _, _, outcome = planned(chance)
    assert outcome.settled
    gone = evictions(outcome)
    assert len(gone) == len(set(gone))


@pytest.mark.row("Q-33")
@examples
@given(chances)
def test_the_order_of_the_input_does_not_matter(chance: Random) -> None:
    some = some_yard(chance)
    told = [msgspec.json.encode(settle(some.snapshot(backwards=turned), Settings())) for turned in (False, True, False)]
    assert told[0] == told[1] == told[2]


@examples
@given(chances)
def test_what_cannot_be_preempted_is_evicted_only_with_a_torn_gang(chance: Random) -> None:
    snapshot, _, outcome = planned(chance)
    for cycle in outcome.cycles:
        for action in cycle.actions:
            if isinstance(action, Evict) and action.phase != "evict-stale":
                assert snapshot.workloads[snapshot.pods[action.pod].workload].preemptible


@examples
@given(chances)
def test_nobody_is_taken_from_a_department_within_its_quota(chance: Random) -> None:
    snapshot = some_yard(chance).snapshot()
    cycle = Cycle(snapshot, Settings(phases=("allocate", "reclaim")))
    at_first = {
        name: (account.allocated.gpu, account.allocatable.gpu) for name, account in cycle.accounts.by_name.items()
    }
    for action in cycle.run().actions:
        if isinstance(action, Evict) and action.pod not in cycle.record.placements:  # who is moved loses nothing
            claimant = snapshot.workloads[snapshot.pods[action.claimant].workload].queue or ""
            victim = snapshot.workloads[snapshot.pods[action.pod].workload].queue or ""
            _, side = cycle.accounts.levelled(claimant, victim)
            allocated, _ = at_first[side.name]
            protected = smaller(side.quota.gpu, side.limit.gpu)  # a quota protects nothing above the limit
            assert protected != UNLIMITED
            assert allocated + cycle_gains(cycle, side.name, at_first) > protected


def cycle_gains(cycle: Cycle, queue: str, at_first: dict[str, tuple[int, int]]) -> int:
    """What a queue came to hold beyond its start in this very cycle, before anything was taken from it."""
    started = (key for key, placement in cycle.record.placements.items() if placement.phase == "allocate")
    pods = (cycle.snapshot.pods[key] for key in started)
    mine = (p for p in pods if queue in cycle.snapshot.path(cycle.snapshot.workloads[p.workload].queue))
    assert queue in at_first
    return sum(p.shape.gpus * GPU + p.shape.fraction for p in mine)


@examples
@given(chances)
def test_the_numbers_of_a_queue_are_the_sum_of_its_pods_at_every_level(chance: Random) -> None:
    """Whatever a cycle has tried and taken back: what the accounts say is what the pods hold that have places."""
    snapshot = some_yard(chance).snapshot()
    cycle = Cycle(snapshot, Settings())
    cycle.run()
    held: Counter[str] = Counter()
    for pod in snapshot.pods.values():
        place = cycle.scratch.place(pod)
        if place.status in ACTIVE:
            for queue in snapshot.path(snapshot.workloads[pod.workload].queue):
                held[queue] += cycle.scratch.claim(pod, place.node).gpu
    assert {name: a.allocated.gpu for name, a in cycle.accounts.by_name.items() if a.allocated.gpu} == +held


@examples
@given(chances)
def test_shares_add_up_to_no_more_than_there_is_unless_quotas_do(chance: Random) -> None:
    snapshot = some_yard(chance).snapshot()
    accounts = Accounts.of(snapshot, SCALE).by_name.values()
    for parent in {a.parent for a in accounts}:
        children = [a for a in accounts if a.parent == parent]
        whole = next((a.fair_share.gpu for a in accounts if a.name == parent), snapshot.total.gpu)
        quotas = sum(whole if a.quota.gpu == UNLIMITED else a.quota.gpu for a in children)
        assert sum(a.fair_share.gpu for a in children) <= max(whole, quotas)


@examples
@given(chances)
def test_undo_restores_everything(chance: Random) -> None:
    snapshot = some_yard(chance).snapshot()
    scratch = Scratch(snapshot, Accounts.of(snapshot, SCALE))
    before = state_of(scratch)
    for pod in sorted(snapshot.pods.values(), key=lambda p: p.key):
        if scratch.active(pod):
            scratch.evict(pod)
            if chance.random() < 0.5:
                scratch.nominate(pod, chance.choice(sorted(snapshot.fleet.nodes)), pod.gpu_groups)
        elif scratch.waits(pod):
            node = chance.choice(sorted(snapshot.fleet.nodes))
            scratch.bind(pod, node, ("new",) if pod.shape.shared else ())
            if chance.random() < 0.5:
                scratch.postpone(pod)
    scratch.undo(0)
    assert state_of(scratch) == before


def state_of(scratch: Scratch) -> object:
    rooms = [scratch.rooms[name] for name in sorted(scratch.rooms.names())]
    fields = [name for name in type(rooms[0]).__slots__ if name not in ("node", "version")]
    queues = {name: (account.allocated, account.fixed) for name, account in scratch.accounts.by_name.items()}
    shelves = sorted((slot, list(scratch.rooms.shelf(slot))) for slot in scratch.rooms.slots())
    teams = {key: {g: n for g, n in scratch.team(key).active.items() if n} for key in scratch.snapshot.workloads}
    return [{name: getattr(room, name) for name in fields} for room in rooms], queues, shelves, teams, scratch.changed


@examples
@given(chances)
def test_a_snapshot_changed_pod_by_pod_equals_one_built_at_once(chance: Random) -> None:
    some = some_yard(chance)
    whole = some.snapshot()
    grown = Snapshot.build(now=NOW, nodes=whole.fleet.nodes.values(), queues=whole.queues.values())
    for workload in sorted(whole.workloads.values(), key=lambda _: chance.random()):
        grown = grown.with_workload(workload)
    pods = sorted(whole.pods.values(), key=lambda _: chance.random())
    for pod in pods:
        grown = grown.with_pod(msgspec.structs.replace(pod, state=State.PENDING, node="", gpu_groups=())).with_pod(pod)
    assert {q: use for q, use in grown.use.items() if use != UNUSED} == {
        q: u for q, u in whole.use.items() if u != UNUSED
    }
    for field in ("room", "members", "on_node", "torn", "terminating", "sharing"):
        assert getattr(grown, field) == getattr(whole, field), field
    for field in ("waiting", "victims", "slots"):
        filled = [{key: inner for key, inner in getattr(one, field).items() if inner} for one in (grown, whole)]
        assert filled[0] == filled[1], field
    gone = grown.draft().drop_pods(whole.pods).done()
    assert all(not any(use.allocated) and not any(use.requested) for use in gone.use.values())
