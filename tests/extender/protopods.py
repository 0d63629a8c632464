"""A pod in protobuf, as the API server would write the one that is given as its JSON has it."""

from calendar import timegm
from collections.abc import Mapping
from time import strptime
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from gpuyard.common.cluster import pod_pb2 as wire

Json = dict[str, Any]


def in_protobuf(pod: Json) -> bytes:
    """All of it that `objects.Pod` has, and of the rest what comes on the same level."""
    meta, spec, status = _meta(pod["metadata"]), _bytes(_spec(pod["spec"])), _status(pod["status"])
    return b"k8s\0" + _bytes(wire.Wrapped(pod=wire.Pod(metadata=meta, spec=spec, status=status)))


def _meta(meta: Json) -> wire.Meta:
    return wire.Meta(
        name=meta.get("name"),
        namespace=meta.get("namespace"),
        uid=meta.get("uid"),
        resource_version=meta.get("resourceVersion"),
        creation_timestamp=_time(meta, "creationTimestamp"),
        deletion_timestamp=_time(meta, "deletionTimestamp"),
        labels=[_bytes(wire.Label(key=key, value=value)) for key, value in meta.get("labels", {}).items()],
        annotations=meta.get("annotations"),
        owner_references=[_bytes(ParseDict(owner, wire.Owner())) for owner in meta.get("ownerReferences", ())],
    )


def _spec(spec: Json) -> wire.PodSpec:
    affinity = spec.get("affinity")
    return wire.PodSpec(
        volumes=[_volume(volume) for volume in spec.get("volumes", ())],
        containers=[_container(container) for container in spec.get("containers") or ()],
        init_containers=[_container(container) for container in spec.get("initContainers", ())],
        node_selector=spec.get("nodeSelector"),
        node_name=spec.get("nodeName"),
        affinity=None if affinity is None else _bytes(ParseDict(affinity, wire.Affinity())),
        scheduler_name=spec.get("schedulerName"),
        tolerations=[_bytes(ParseDict(one, wire.Toleration())) for one in spec.get("tolerations", ())],
        priority_class_name=spec.get("priorityClassName"),
        priority=spec.get("priority"),
        overhead=_amounts(spec.get("overhead", {})),
        scheduling_gates=[wire.SchedulingGate(name=gate["name"]) for gate in spec.get("schedulingGates", ())],
    )


def _status(status: Json) -> wire.PodStatus:
    return wire.PodStatus(
        phase=status.get("phase"),
        conditions=[_bytes(_condition(condition)) for condition in status.get("conditions", ())],
        start_time=_time(status, "startTime"),
        nominated_node_name=status.get("nominatedNodeName"),
    )


def _condition(condition: Json) -> wire.Condition:
    return wire.Condition(
        type=condition["type"],
        status=condition["status"],
        last_transition_time=_time(condition, "lastTransitionTime"),
        message=condition.get("message"),
    )


def _container(container: Json) -> wire.Container:
    amounts = {name: _amounts(named) for name, named in container["resources"].items()}
    return wire.Container(resources=_bytes(wire.Resources(**amounts)), restart_policy=container.get("restartPolicy"))


def _volume(volume: Json) -> wire.Volume:
    kinds = {"persistentVolumeClaim": "persistent_volume_claim", "ephemeral": "ephemeral"}
    return wire.Volume(source=wire.VolumeSource(**{ours: b"" for kind, ours in kinds.items() if kind in volume}))


def _amounts(amounts: Mapping[str, str]) -> dict[str, wire.Quantity]:
    return {name: wire.Quantity(text=text) for name, text in amounts.items()}


def _time(of: Json, name: str) -> bytes | None:
    """A time that is null in JSON is there, and empty."""
    text = of.get(name)
    return text and _bytes(wire.Time(seconds=timegm(strptime(text, "%Y-%m-%dT%H:%M:%SZ"))))


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)
