"""A snapshot's objects as a sandbox can play them: nodes without kubelet, pods without an image, nobody's owners. Pure.

What decides about pods stays as it is; what only another cluster could fill in, such as owners, accounts and states
of containers, goes.

Decided in docs/decisions.md: "A snapshot is loaded as pods, without what owned them".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import yaml
from gpuyard.cli.files import loaded
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.resources import (
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    Resource,
)
from gpuyard.engine.kube.parts import SHARED_GPU

ORDER = (NAMESPACES, PRIORITY_CLASSES, QUEUES, NODES, POD_GROUPS, DISRUPTION_BUDGETS, PODS)
"""What is needed comes before what needs it; of one kind the oldest first, for age decides between equals."""

BUILT_IN = "system-"
_KINDS: Mapping[str, Resource] = {each.kind: each for each in ORDER}
_LIFECYCLE = "node.kubernetes.io/"
"""Taints of these names the node controller puts on and takes away by itself."""

_SECURITY = "pod-security.kubernetes.io/"
_NODE_STATUS = ("capacity", "allocatable", "nodeInfo", "addresses")
_OF_A_POD = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "schedulingGates",
    "priorityClassName",
    "preemptionPolicy",
    "restartPolicy",
    "terminationGracePeriodSeconds",
)
_OF_A_CONTAINER = ("name", "resources", "restartPolicy")
_PARTS = frozenset({"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"})
_NOT_OURS = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/")


class Wanted(NamedTuple):
    """An object to be made, and what its status shall say."""

    resource: Resource
    body: Json
    status: Json

    @property
    def about(self) -> str:
        """The object in messages."""
        meta = self.body["metadata"]
        place = f"{meta['namespace']}/" if meta.get("namespace") else ""
        return f"{self.resource.kind} {place}{meta['name']}"


class Playable(NamedTuple):
    """What can be made of a snapshot, and how much of each kind cannot."""

    wanted: list[Wanted]
    left_out: Mapping[str, int]


def documents(text: bytes) -> list[object]:
    """The documents of a file, JSON or YAML; raises `ValueError` where it is neither."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    try:
        return list(loaded(text))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"it is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def playable(things: Iterable[Json]) -> Playable:
    """The objects in the order in which they can be made."""
    wanted: list[Wanted] = []
    left_out: dict[str, int] = {}
    for thing in sorted(things, key=_age):
        made = _played(thing)
        if made is None:
            kind = str(thing.get("kind"))
            left_out[kind] = left_out.get(kind, 0) + 1
        else:
            wanted.append(made)
    return Playable(sorted(wanted, key=lambda each: ORDER.index(each.resource)), left_out)


def flat(document: object) -> Iterator[Json]:
    """The objects of a document, lists taken apart."""
    if isinstance(document, list):
        for each in document:
            yield from flat(each)
    elif isinstance(document, dict) and str(document.get("kind")).endswith("List"):
        kind = {"kind": document["kind"].removesuffix("List")} if document["kind"] != "List" else {}
        version = {"apiVersion": document.get("apiVersion")} if kind else {}
        for item in document.get("items") or ():
            yield from flat(version | kind | item if isinstance(item, dict) else item)
    elif isinstance(document, dict):
        yield document


def _age(thing: Json) -> tuple[str, str, str]:
    meta = thing.get("metadata") or {}
    return meta.get("creationTimestamp") or "", meta.get("namespace") or "", meta.get("name") or ""


def _played(thing: Json) -> Wanted | None:
    """The object for a sandbox; None if there is nothing to play: it has ended, or its kind is not known."""
    resource = _KINDS.get(str(thing.get("kind")))
    if resource is None or not (thing.get("metadata") or {}).get("name"):
        return None
    if resource is PODS:
        return _pod(thing)
    if resource is NODES:
        return _node(thing)
    if resource is PRIORITY_CLASSES and thing["metadata"]["name"].startswith(BUILT_IN):
        return None
    rest = {key: thing[key] for key in ("value", "globalDefault", "description", "preemptionPolicy") if key in thing}
    spec = {"spec": thing["spec"]} if "spec" in thing and resource is not NAMESPACES else {}
    return Wanted(resource, _head(resource, thing) | rest | spec, {})


def _head(resource: Resource, thing: Json) -> Json:
    meta, given = {}, thing["metadata"]
    for key in ("name", "namespace", "labels"):
        if given.get(key):
            meta[key] = given[key]
    if resource in (PODS, POD_GROUPS, DISRUPTION_BUDGETS):
        meta.setdefault("namespace", "default")
    if resource is NAMESPACES:
        # Pods are made without the promises that such a namespace asks for; nothing of them ever runs.
        meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if not key.startswith(_SECURITY)}
    notes = {key: value for key, value in (given.get("annotations") or {}).items() if not key.startswith(_NOT_OURS)}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta | ({"annotations": notes} if notes else {}),
    }


def _node(thing: Json) -> Wanted:
    spec = thing.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if not each["key"].startswith(_LIFECYCLE)]
    kept: Json = {"taints": taints} if taints else {}
    if spec.get("unschedulable"):
        kept["unschedulable"] = True
    given = thing.get("status") or {}
    status = {key: given[key] for key in _NODE_STATUS if given.get(key)}
    # Who wrote a snapshot by hand gives one of the two.
    if "allocatable" in status:
        status.setdefault("capacity", status["allocatable"])
    return Wanted(NODES, _head(NODES, thing) | {"spec": kept}, status)


def _pod(thing: Json) -> Wanted | None:
    ended = (thing.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if ended or thing["metadata"].get("deletionTimestamp"):
        return None
    given: Mapping[str, Any] = thing.get("spec") or {}
    spec: Json = {key: given[key] for key in _OF_A_POD if given.get(key)}
    for part in ("containers", "initContainers"):
        if given.get(part):
            spec[part] = [_container(each) for each in given[part]]
    if "containers" in spec and _is_draft_with_part(thing["metadata"]):
        first, *others = spec["containers"]
        spec["containers"] = [_sharing(first), *others]
    if "nodeName" in spec:
        spec.pop("schedulingGates", None)
    return Wanted(PODS, _head(PODS, thing) | {"spec": spec | {"automountServiceAccountToken": False}}, {})


def _is_draft_with_part(meta: Json) -> bool:
    return not meta.get("uid") and not _PARTS.isdisjoint(meta.get("annotations") or {})


def _sharing(container: Json) -> Json:
    """The container of a draft as the overlay `shared-gpus` admits it; what a cluster had has the resource already."""
    has: Json = container.get("resources") or {}
    both = {part: {**(has.get(part) or {}), SHARED_GPU: "1"} for part in ("limits", "requests")}
    return container | {"resources": has | both}


def _container(given: Json) -> Json:
    return {"image": "played", **{key: given[key] for key in _OF_A_CONTAINER if given.get(key)}}
