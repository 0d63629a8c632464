"""Which plans follow from a cycle of the engine: a turn that takes from somebody, or that must be kept free, is one.

A pod that simply starts needs no plan: kube-scheduler starts it, and filter agrees.
"""

import hashlib
from collections.abc import Collection, Sequence
from itertools import chain

from gpuyard.common.kube.objects import Meta
from gpuyard.common.plans.plan import Place, Plan, Spec, Victim
from gpuyard.engine.explain.sentences import eviction
from gpuyard.engine.model import Pod
from gpuyard.engine.model.results import Action, Bind, Evict, Nominate
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.search.cycle import Cycle


def decided(cycle: Cycle) -> list[Plan]:
    """The plans of a cycle that has run, in the order in which it decided."""
    if not (cycle.record.evictions or cycle.settings.keep_nodes_empty):
        # Many may start at once: nothing is made of them, only to be passed over.
        return []
    turns = cycle.record.turns()
    leaving = {action.pod for turn in turns for action in turn if isinstance(action, Evict)}
    return [_plan(cycle, turn) for turn in turns if any(_needs_plan(cycle, action, leaving) for action in turn)]


def _needs_plan(cycle: Cycle, action: Action, leaving: set[str]) -> bool:
    if isinstance(action, Bind):
        # Filter offers no empty node by itself then: it waits for this word.
        return cycle.settings.keep_nodes_empty and action.pod not in cycle.standing and _opens(cycle, action)
    return isinstance(action, Evict) or action.pod in leaving


def _opens(cycle: Cycle, action: Bind) -> bool:
    """Whether a start takes the first GPU of its node."""
    node = cycle.snapshot.fleet.nodes[action.node]
    return node.gpus > 0 and cycle.snapshot.room[action.node].idle == node.gpus


def _plan(cycle: Cycle, turn: Sequence[Action]) -> Plan:
    pods, workloads = cycle.snapshot.pods, cycle.snapshot.workloads
    victims = tuple(_victim(pods[one.pod], one) for one in turn if isinstance(one, Evict))
    leaving = {victim.pod for victim in victims}
    places = tuple(_place(cycle, one, leaving) for one in turn if isinstance(one, Bind | Nominate))
    phase, pod = _lead(turn, {place.pod for place in places})
    claims = [place for place in places if place.pod not in leaving]
    claimant = next((place for place in claims if place.pod == pod), claims[0] if claims else None)
    workload = workloads.get(claimant.workload) if claimant else None
    spec = Spec(
        phase=phase,
        workload=workload.key if workload else "",
        queue=(workload.queue or "") if workload else "",
        evictions=victims,
        promises=places,
    )
    return Plan(metadata=Meta(name=_name(cycle, spec)), spec=spec)


def _lead(turn: Sequence[Action], placed: Collection[str]) -> tuple[Phase, str]:
    """The phase of a decision and its claimant; of several the ones that take a place for good."""
    evicted = [one for one in turn if isinstance(one, Evict)]
    lost = (one for one in evicted if one.pod not in placed)
    lead = next(chain(lost, evicted), None)
    if lead is not None:
        return lead.phase, lead.claimant
    return next((one.phase for one in turn if isinstance(one, Nominate)), "allocate"), ""


def _victim(pod: Pod, evicted: Evict) -> Victim:
    return Victim(pod=pod.key, uid=pod.uid, node=pod.node, reason=eviction(evicted))


def _place(cycle: Cycle, placed: Bind | Nominate, leaving: Collection[str]) -> Place:
    pod = cycle.snapshot.pods[placed.pod]
    workload = cycle.snapshot.workloads[pod.workload]
    return Place(
        pod=pod.key,
        node=placed.node,
        shape=pod.shape,
        owner=pod.owner,
        workload=workload.key,
        queue=workload.queue or "",
        priority=workload.priority,
        gpu_groups=placed.groups,
        uid="" if pod.key in leaving else pod.uid,
    )


def _name(cycle: Cycle, spec: Spec) -> str:
    """The same plan at the same second has one name, however often it is written."""
    about = [victim.uid for victim in spec.evictions]
    about += [cycle.snapshot.pods[place.pod].uid + place.node for place in spec.promises]
    digest = hashlib.sha256("\0".join(about).encode()).hexdigest()[:6]
    return f"{spec.phase}-{cycle.snapshot.now:x}-{digest}"
