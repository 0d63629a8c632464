"""Kubernetes objects as people write them, and what the reader says of them."""

from typing import Any, TypeVar

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.assemble import Reading, assemble
from gpuyard.engine.kube.decode import Harvest
from gpuyard.engine.kube.faults import Unreadable
from gpuyard.engine.model.settings import Settings

Json = dict[str, Any]
T = TypeVar("T", bound=objects.Object)

MORNING = "2026-03-01T08:00:00Z"
NOON = "2026-03-01T12:00:00Z"
DEFAULTS = Settings()


class Heard(list[tuple[str, str]]):
    """Complaints, as (field, why)."""

    def __call__(self, field: str, why: str) -> None:
        self.append((field, why))


def meta(name: str, namespace: str = "", **more: object) -> Json:
    return {"name": name} | ({"namespace": namespace} if namespace else {}) | more


def node(name: str = "node-1", gpus: int | str = 8, *, labels: Json | None = None, **spec: object) -> Json:
    have = {"nvidia.com/gpu": gpus, "cpu": "64", "memory": "256Gi", "pods": 110}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=labels or {}),
        "spec": spec,
        "status": {"allocatable": have, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def queue(
    name: str = "team-a", quota: float = 8, limit: float | None = -1, *, parent: str = "", **spec: object
) -> Json:
    gpu = {"quota": quota} | ({} if limit is None else {"limit": limit})
    above = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": meta(name),
        "spec": {"resources": {"gpu": gpu}} | above | spec,
    }


def container(gpus: int | str = 0, **requests: object) -> Json:
    return {"name": "main", "resources": {"requests": requests, "limits": {"nvidia.com/gpu": gpus} if gpus else {}}}


def pod(
    name: str = "p",
    gpus: int | str = 1,
    queue: str | None = "team-a",
    *,
    namespace: str = "default",
    on: str = "",
    labels: Json | None = None,
    notes: Json | None = None,
    status: Json | None = None,
    **spec: object,
) -> Json:
    """A pod; `on` a node it runs there."""
    named = {"kai.scheduler/queue": queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, namespace, labels=named | (labels or {}), annotations=notes or {}),
        "spec": {"containers": [container(gpus)]} | ({"nodeName": on} if on else {}) | spec,
        "status": ({"phase": "Running"} if on else {"phase": "Pending"}) | (status or {}),
    }


def pod_group(name: str = "gang", minimum: int | None = 2, namespace: str = "default", **spec: object) -> Json:
    least = {} if minimum is None else {"minMember": minimum}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta(name, namespace),
        "spec": least | spec,
    }


def with_meta(of: Json, **more: object) -> Json:
    """The object with more metadata."""
    return of | {"metadata": of["metadata"] | more}


def seen(form: type[T], of: Json) -> T:
    """The object as the reader decodes it."""
    return msgspec.json.decode(msgspec.json.encode(of), type=form)


def harvest(*given: Json, source: str = "cluster.yaml") -> Harvest:
    found = Harvest()
    for one in given:
        found.take(source, msgspec.json.encode(one))
    return found


def reading(*given: Json, now: int | None = None, settings: Settings = DEFAULTS) -> Reading:
    """The snapshot of these objects."""
    found = harvest(*given)
    assert not found.faults
    return assemble(found.found, settings, now)


def faults(*given: Json, settings: Settings = DEFAULTS) -> list[str]:
    """The lines that say what is wrong with these objects."""
    found = harvest(*given)
    lines = [str(f) for f in found.faults]
    try:
        assemble(found.found, settings, None)
    except Unreadable as error:
        lines += [str(f) for f in error.faults]
    return lines
