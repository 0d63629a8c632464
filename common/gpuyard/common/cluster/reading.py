"""Reads pods as the API server writes them, in JSON and in protobuf, to the same values.

Most of what a pod says it says as thousands of others do: resources, tolerations, labels, conditions, owners, times.
Such parts are read once and found by their bytes from then on, so that pods share them; that is quicker, and no pod
keeps the whole answer of the API server in memory, as undecoded parts of it would. What is long is read each time: few
say the same, and what thousands of long ones had said would stay after they have gone.

Decided in docs/decisions.md: "The extender watches pods in protobuf".
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from typing import TypeVar

import msgspec
from gpuyard.common.cluster import pod_pb2 as wire
from gpuyard.common.cluster.objects import Given, Meta, Pod, PodCondition, PodSpec, PodStatus, Volume
from gpuyard.common.kube.forms import Unread
from gpuyard.common.kube.protobuf import as_json, parsed, unwrapped
from gpuyard.engine.kube.objects import NO_BYTES, Container, Notes, Owner, Requests, Resources, SchedulingGate, Spread

T = TypeVar("T")

SHORT = 1 << 12
"""Bytes up to which a part is kept to be found again."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GIVEN = Given()
_NOTES = {field.encode_name: field.name for field in msgspec.structs.fields(Notes)}
_RESOURCES = Requests.__struct_encode_fields__
_POD = msgspec.json.Decoder(Pod)


def _shared(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Read what is short once, and what is long each time."""
    known = lru_cache(maxsize=1 << 11)(read)

    @wraps(read)
    def found(raw: bytes) -> T:
        return known(raw) if len(raw) <= SHORT else read(raw)

    return found


class JsonPods:
    """What reads a pod from JSON."""

    def decode(self, raw: Unread, /) -> Pod:
        """The pod, on its own: its undecoded parts would keep all of `raw` in memory."""
        pod = _POD.decode(raw)
        if pod.spec is not None:
            pod.spec.affinity = _part(bytes(pod.spec.affinity))
            pod.spec.tolerations = _part(bytes(pod.spec.tolerations))
        return pod


def read_pod(raw: Unread) -> Pod:
    """A pod from protobuf."""
    pod = unwrapped(wire.Wrapped, raw).pod
    return Pod(
        api_version="v1",
        kind="Pod",
        metadata=_meta(pod.metadata),
        spec=_spec(pod.spec),
        status=_status(pod.status),
    )


def _meta(meta: wire.Meta) -> Meta:
    notes = meta.annotations
    return Meta(
        name=meta.name or None,
        namespace=meta.namespace or None,
        uid=meta.uid,
        labels=dict(map(_label, meta.labels)) or None,
        annotations=Notes(**{_NOTES[key]: notes[key] for key in notes if key in _NOTES}) if notes else None,
        creation_timestamp=_time(meta.creation_timestamp),
        deletion_timestamp=_time(meta.deletion_timestamp),
        owner_references=list(map(_owner, meta.owner_references)) or None,
        resource_version=meta.resource_version,
    )


@_shared
def _spec(raw: bytes) -> PodSpec:
    """A pod's own; most events of a pod are about its status."""
    spec = parsed(wire.PodSpec, raw)
    return PodSpec(
        containers=_containers(spec.containers),
        init_containers=_containers(spec.init_containers),
        overhead=_amounts(spec.overhead),
        node_name=spec.node_name or None,
        scheduler_name=spec.scheduler_name or None,
        scheduling_gates=[SchedulingGate(gate.name) for gate in spec.scheduling_gates] or None,
        priority_class_name=spec.priority_class_name or None,
        priority=spec.priority if spec.HasField("priority") else None,
        node_selector=dict(spec.node_selector) or None,
        affinity=_affinity(spec.affinity) if spec.HasField("affinity") else NO_BYTES,
        tolerations=_tolerations(spec.tolerations),
        topology_spread_constraints=_spreads(spec.topology_spread_constraints),
        volumes=list(map(_volume, spec.volumes)) or None,
    )


def _spreads(spreads: Iterable[wire.Spread]) -> tuple[Spread, ...] | None:
    return tuple(Spread(one.when_unsatisfiable or None) for one in spreads) or None


def _status(status: wire.PodStatus) -> PodStatus:
    return PodStatus(
        phase=status.phase or None,
        start_time=_time(status.start_time),
        nominated_node_name=status.nominated_node_name or None,
        conditions=list(map(_condition, status.conditions)) or None,
    )


def _containers(containers: Iterable[wire.Container]) -> tuple[Container, ...] | None:
    return tuple(Container(_resources(each.resources), each.restart_policy or None) for each in containers) or None


def _volume(volume: wire.Volume) -> Volume:
    source = volume.source
    return Volume(
        persistent_volume_claim=_GIVEN if source.HasField("persistent_volume_claim") else None,
        ephemeral=_GIVEN if source.HasField("ephemeral") else None,
    )


def _amounts(amounts: Mapping[str, wire.Quantity]) -> Requests | None:
    """What of these resources is read."""
    if not amounts:
        return None
    return Requests(*(amounts[name].text if name in amounts else None for name in _RESOURCES))


def _tolerations(tolerations: Iterable[bytes]) -> msgspec.Raw:
    """A list of them all; nothing for none."""
    written = b",".join(map(_toleration, tolerations))
    return _part(b"[" + written + b"]" if written else b"")


# --- what pods share --------------------------------------------------------------------------------------------------


@_shared
def _part(raw: bytes) -> msgspec.Raw:
    return msgspec.Raw(raw) if raw else NO_BYTES


@_shared
def _label(raw: bytes) -> tuple[str, str]:
    label = parsed(wire.Label, raw)
    return label.key, label.value


@_shared
def _owner(raw: bytes) -> Owner:
    owner = parsed(wire.Owner, raw)
    return Owner(
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid,
        controller=owner.controller if owner.HasField("controller") else None,
        api_version=owner.api_version,
    )


@_shared
def _time(raw: bytes) -> str | None:
    """As text; a time that is there and says nothing is null in JSON."""
    time = parsed(wire.Time, raw)
    if not time.HasField("seconds"):
        return None
    try:
        return (_EPOCH + timedelta(seconds=time.seconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise msgspec.DecodeError(f"no time that has a date: {time.seconds} s") from None


@_shared
def _resources(raw: bytes) -> Resources:
    read = parsed(wire.Resources, raw)
    return Resources(_amounts(read.requests), _amounts(read.limits))


@_shared
def _condition(raw: bytes) -> PodCondition:
    condition = parsed(wire.Condition, raw)
    return PodCondition(
        type=condition.type,
        status=condition.status,
        message=condition.message or None,
        last_transition_time=_time(condition.last_transition_time),
    )


@_shared
def _affinity(raw: bytes) -> msgspec.Raw:
    return msgspec.Raw(as_json(parsed(wire.Affinity, raw)))


@_shared
def _toleration(raw: bytes) -> bytes:
    return as_json(parsed(wire.Toleration, raw))
