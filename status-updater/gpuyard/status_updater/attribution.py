"""Which container has which GPU. A pure function of the node, its pods, and what was known before.

    1  kubelet says it (`allocatedResourcesStatus`): exactly that
    2  kubelet said it earlier, or a device was given by rule earlier: still that, as long as nobody else has it
    3  otherwise: the lowest free index, the oldest pod first

Parts of GPUs keep to rules 2 and 3 as well, and a GPU of which pods have parts is not free for others as a whole.
A pod that asks for more than is left gets nothing, and a problem says so: never fewer silently.

Slots of a pod: one for each device its main containers ask for, then those that only an init container asks for, then
one for each device of a sidecar. While an init container runs, it has the first slots: kubelet hands its devices on.
Those of the sidecars before it are theirs already.

Decided in docs/decisions.md: "A pod keeps its mock GPU"; "What was given stays".
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from gpuyard.common.topology.ids import physical_id
from gpuyard.common.topology.model import Node, Owner, Share, Usage
from gpuyard.common.topology.resources import offers
from gpuyard.common.topology.utilization import IDLE
from gpuyard.status_updater.parts import Space, choose, keep, lacking, named_gpu, part
from gpuyard.status_updater.pods import RESERVED_INDEX, Container, Pod, utilization

MISSING = "GpusMissing"
REFUSED = "UtilizationRefused"
PART_REFUSED = "GpuPartRefused"
PART = "part"
"""Stands for a resource where a pod asks for parts of GPUs, which have no name as a resource."""


class Place(NamedTuple):
    """A container of one very pod, and the resource it asks for."""

    uid: str
    container: str
    resource: str


Held = Mapping[Place, tuple[str, ...]]
"""What was known before: device ids by place. A card's id stands for any of its replicas."""


class Problem(NamedTuple):
    """What a pod's owner should know."""

    pod: Pod
    reason: str
    note: str


@dataclass(slots=True)
class Attribution:
    """Usage by device, what to remember, and what went wrong."""

    usage: dict[str, Usage] = field(default_factory=dict)
    held: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class _Taken(NamedTuple):
    """One pod's part of one device, before pods are summed up."""

    pod: Pod
    container: str
    device: str


def attribute(node: Node, pods: Iterable[Pod], before: Held) -> Attribution:
    """Say for each device of the node who uses it."""
    found = Attribution()
    holding = sorted((pod for pod in pods if pod.holds), key=lambda pod: pod.age)
    taken = _whole(node, holding, before, found)
    taken += _shared(node, holding, taken, before, found)
    found.usage = _usage(node, taken, found)
    return found


# ---- whole devices ------------------------------------------------------------------------------------------------


def _whole(node: Node, pods: Sequence[Pod], before: Held, found: Attribution) -> list[_Taken]:
    offered = offers(node)
    free = {name: [offer.id for offer in each] for name, each in offered.items()}
    ill = {offer.id for each in offered.values() for offer in each if not offer.healthy}
    lent = _lent(node, pods, before)
    needs = {place: count for pod in pods for place, count in _needs(pod).items()}
    exact = {place: ids for pod in pods for place, ids in _given(pod, needs).items()}
    for place, ids in exact.items():
        _take(free, place.resource, ids)
    for place, count in needs.items():
        if place not in exact and (ids := _again(free.get(place.resource, []), before.get(place, ()), count)):
            _take(free, place.resource, ids)
            exact[place] = ids
    for name, devices in free.items():
        free[name] = [device for device in devices if device not in ill and physical_id(device) not in lent]
    for pod in pods:
        _by_rule(node, pod, needs, exact, free, found)
    found.held = exact
    return [taken for pod in pods for taken in _owners(pod, needs, exact)]


def _needs(pod: Pod) -> dict[Place, int]:
    """Devices by place: the mains', those that only init containers ask for, and the sidecars'."""
    mains = _asked(pod, pod.spec.containers)
    sidecars = _asked(pod, (each for each in pod.spec.init_containers if each.sidecar))
    return mains | _surplus(pod, mains | sidecars) | sidecars


def _surplus(pod: Pod, lasting: Mapping[Place, int]) -> dict[Place, int]:
    """What an init container and the sidecars before it ask for beyond all that run in the end, where most is due."""
    most: dict[str, tuple[int, str]] = {}
    before: Counter[str] = Counter()
    for each in pod.spec.init_containers:
        if each.sidecar:
            before.update(each.gpus())
            continue
        for name, count in each.gpus().items():
            most[name] = max(most.get(name, (0, "")), (count + before[name], each.name), key=itemgetter(0))
    totals: Counter[str] = Counter()
    for place, count in lasting.items():
        totals[place.resource] += count
    more = {Place(pod.metadata.uid, who, name): peak - totals[name] for name, (peak, who) in most.items()}
    return {place: count for place, count in more.items() if count > 0}


def _asked(pod: Pod, containers: Iterable[Container]) -> dict[Place, int]:
    return {Place(pod.metadata.uid, each.name, name): n for each in containers for name, n in each.gpus().items()}


def _given(pod: Pod, needs: Mapping[Place, int]) -> dict[Place, tuple[str, ...]]:
    """What kubelet says, for the main containers; of others it says nothing."""
    uid = pod.metadata.uid
    return {
        Place(uid, each.name, name): ids
        for each in pod.spec.containers
        for name, ids in pod.given(each.name).items()
        if ids and Place(uid, each.name, name) in needs
    }


def _again(free: Sequence[str], before: Sequence[str], count: int) -> tuple[str, ...]:
    """The devices of before, if all are still free. A card's id is met by any of its replicas, and by several."""
    left = list(free)
    ids: list[str] = []
    for known in before:
        same = next((device for device in left if known in {device, physical_id(device)}), None)
        if same is None:
            return ()
        left.remove(same)
        ids.append(same)
    ids += [device for device in left if physical_id(device) in before][: count - len(ids)]
    return tuple(ids) if len(ids) == count else ()


def _by_rule(  # noqa: PLR0913, PLR0917
    node: Node,
    pod: Pod,
    needs: Mapping[Place, int],
    exact: dict[Place, tuple[str, ...]],
    free: Mapping[str, list[str]],
    found: Attribution,
) -> None:
    """The lowest free indices for what is still open, all of the pod's or nothing."""
    missing = {place: n for place, n in needs.items() if place.uid == pod.metadata.uid and place not in exact}
    for name in {place.resource for place in missing}:
        wanted = sum(n for place, n in missing.items() if place.resource == name)
        if wanted > len(free.get(name, [])):
            note = f"asks for {wanted} {name}, {len(free.get(name, []))} are free on {node.name}; none is shown for it"
            found.problems.append(Problem(pod, MISSING, note))
            return
    for place, count in missing.items():
        ids = tuple(_choose(node, pod, free[place.resource], count))
        _take(free, place.resource, ids)
        exact[place] = ids


def _choose(node: Node, pod: Pod, free: Sequence[str], count: int) -> Sequence[str]:
    """The lowest indices; a reservation may name the index that it keeps."""
    index = pod.annotation(RESERVED_INDEX)
    if pod.reservation and count == 1 and index.isdecimal() and int(index) < len(node.gpus):
        named = node.gpus[int(index)].id
        return [named] if named in free else free[:1]
    return free[:count]


def _take(free: Mapping[str, list[str]], resource: str, ids: Iterable[str]) -> None:
    for device in ids:
        if device in free.get(resource, []):
            free[resource].remove(device)


def _owners(pod: Pod, needs: Mapping[Place, int], exact: Held) -> list[_Taken]:
    places = [place for place in needs if place.uid == pod.metadata.uid and place in exact]
    slots = [(place, device) for place in places for device in exact[place]]
    running = _running_init(pod)
    borrowed = running.gpus() if running else {}
    started = {each.name for each in takewhile(lambda each: each != running, pod.spec.init_containers) if each.sidecar}
    taken: list[_Taken] = []
    for place, device in slots:
        owner = place.container
        if running is not None and owner not in started and borrowed.get(place.resource, 0) > 0:
            borrowed[place.resource] -= 1
            owner = running.name
        taken.append(_Taken(pod, owner, device))
    return taken


def _running_init(pod: Pod) -> Container | None:
    inits = (each for each in pod.spec.init_containers if not each.sidecar)
    return next((each for each in inits if (s := pod.status_of(each.name)) and s.state.running), None)


# ---- parts of a device --------------------------------------------------------------------------------------------


def _shares(pod: Pod) -> bool:
    return bool(pod.spec.containers) and pod.concerned and not pod.reservation and not _needs(pod)


def _part_of(pod: Pod) -> Place:
    """Where it stands in what is remembered that a pod has parts of GPUs."""
    return Place(pod.metadata.uid, pod.spec.containers[0].name, PART)


def _lent(node: Node, pods: Sequence[Pod], before: Held) -> set[str]:
    """GPUs of which pods have parts already, or that they name. A group with a reservation goes where that is."""
    kept = {group for pod in pods if pod.reservation for group in pod.groups}
    sharing = [pod for pod in pods if _shares(pod) and not kept & set(pod.groups)]
    known = {device for pod in sharing for device in before.get(_part_of(pod), ())}
    return known | {named_gpu(node, pod) for pod in sharing}


def _shared(node: Node, pods: Sequence[Pod], whole: Sequence[_Taken], before: Held, found: Attribution) -> list[_Taken]:
    """Pods that ask for a part of a GPU by annotation, or whose group shares one."""
    keeping = [each for each in whole if each.pod.reservation]
    groups = {group: physical_id(each.device) for each in keeping for group in each.pod.groups}
    full = {physical_id(each.device) for each in whole if not each.pod.reservation}
    space = Space(node, groups, {gpu.id: 1.0 for gpu in node.gpus if gpu.id not in full})
    asking = {_part_of(pod): (pod, part(pod)[0]) for pod in pods if _shares(pod)}
    kept = {place: keep(space, *each, before.get(place, ())) for place, each in asking.items()}
    for gpu in node.gpus:
        if not gpu.healthy:
            space.room.pop(gpu.id, None)
    taken: list[_Taken] = []
    for place, each in asking.items():
        devices = kept[place] or choose(space, *each)
        if devices:
            found.held[place] = tuple(devices)
        else:
            found.problems.append(Problem(each[0], MISSING, lacking(space, *each)))
        taken += [_Taken(each[0], place.container, device) for device in devices]
    return taken


# ---- usage --------------------------------------------------------------------------------------------------------


def _usage(node: Node, taken: Iterable[_Taken], found: Attribution) -> dict[str, Usage]:
    by_device: dict[str, list[tuple[_Taken, Share]]] = {}
    refused: dict[tuple[str, str], Problem] = {}
    for each in taken:
        share, problems = _share(node, each)
        refused |= {(problem.pod.metadata.uid, problem.reason): problem for problem in problems}
        if not each.pod.reservation:
            by_device.setdefault(physical_id(each.device), []).append((each, share))
    found.problems += refused.values()
    return {device: _summed(parts, _room(node, device)) for device, parts in by_device.items()}


def _share(node: Node, taken: _Taken) -> tuple[Share, list[Problem]]:
    pod = taken.pod
    busy, doubt = utilization(pod, node.hardware.utilization)
    wanted, mistake = part(pod)
    problems = [Problem(pod, REFUSED, doubt)] if doubt else []
    if mistake:
        problems.append(Problem(pod, PART_REFUSED, f"{mistake}; it counts as one whole GPU"))
    started = pod.started(taken.container)
    memory = wanted.of(_room(node, physical_id(taken.device), whole=True))
    if started is None:
        return Share(pod.metadata.uid, IDLE, memory), problems
    return Share(pod.metadata.uid, busy, memory, started), problems


def _room(node: Node, device: str, *, whole: bool = False) -> int:
    """MiB of a device: what pods can use of it, or all."""
    slices = {each.id: each.profile for gpu in node.gpus for each in gpu.mig or ()}
    if device in slices:
        return slices[device].memory - (0 if whole else slices[device].reserved)
    return node.hardware.memory if whole else node.room


def _summed(parts: Sequence[tuple[_Taken, Share]], room: int) -> Usage:
    """The usage of one device, under the pod with most memory (the oldest of equals); memory within the room."""
    most = max(parts, key=lambda part: part[1].fb_used)[0]
    shares: dict[str, Share] = {}
    for _, share in parts:
        left = room - sum(each.fb_used for each in shares.values())
        # Two containers of one pod on one device are one share of it.
        shares.setdefault(share.uid, Share(share.uid, share.utilization, min(share.fb_used, left), share.started))
    owner = Owner(most.pod.metadata.namespace, most.pod.metadata.name, most.container)
    return Usage(owner, tuple(shares.values()))


def recorded(node: Node, pods: Iterable[Pod]) -> dict[Place, tuple[str, ...]]:
    """What the topology itself says about these pods: where an updater that has just started begins."""
    pods = list(pods)
    by_uid = {pod.metadata.uid: pod for pod in pods}
    by_name = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    resources = {physical_id(offer.id): name for name, each in offers(node).items() for offer in each}
    found: dict[Place, tuple[str, ...]] = {}
    told: list[tuple[Pod, str, str]] = []
    for device, usage in node.devices():
        owner = usage.owner
        named = by_name.get((owner.namespace, owner.pod)) if owner else None
        users = {pod.metadata.uid: "" for share in usage.shares if (pod := by_uid.get(share.uid))}
        if owner is not None and named is not None:
            users[named.metadata.uid] = owner.container
        told += [(by_uid[uid], device, container) for uid, container in users.items()]
    # Containers that are named first: they know their device, the others take what the pod has beside.
    for pod, device, container in sorted(told, key=lambda each: not each[2]):
        place = _open_place(pod, resources.get(device, ""), container, found)
        if place is not None:
            found[place] = (*found.get(place, ()), device)
    return found | _reserved(pods, found) | _together(node, pods, found)


def _together(node: Node, pods: Iterable[Pod], found: Held) -> dict[Place, tuple[str, ...]]:
    """Containers of which the topology says nothing: two of one pod on one shared card are one share of it."""
    shared = {name for name, each in offers(node).items() if each and physical_id(each[0].id) != each[0].id}
    beside: dict[tuple[str, str], tuple[str, ...]] = {}
    for place, devices in found.items():
        beside[place.uid, place.resource] = (*beside.get((place.uid, place.resource), ()), *devices)
    return {
        place: beside[place.uid, place.resource][:count]
        for pod in pods
        for place, count in _needs(pod).items()
        if place.resource in shared and place not in found and (place.uid, place.resource) in beside
    }


def _reserved(pods: Sequence[Pod], found: Held) -> dict[Place, tuple[str, ...]]:
    """Reservations, of which the topology says nothing: each is where the pods of its group are."""
    sharing = [pod for pod in pods if _shares(pod) and len(pod.groups) == 1 and _part_of(pod) in found]
    devices = {pod.groups: found[_part_of(pod)] for pod in sharing}
    keepers = [pod for pod in pods if pod.reservation and pod.groups in devices]
    return {place: devices[pod.groups] for pod in keepers for place in _needs(pod)}


def _open_place(pod: Pod, resource: str, container: str, found: Held) -> Place | None:
    """A container of a pod, that of a name if one is given, which still misses a device of this resource."""
    if _shares(pod):
        return _part_of(pod)
    needs = _needs(pod).items()
    fitting = (place for place, count in needs if place.resource == resource and len(found.get(place, ())) < count)
    return next((place for place in fitting if container in {"", place.container}), None)
