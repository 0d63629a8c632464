"""Bare pods that are moved: whoever evicts one makes it anew, under its name, as soon as the old one is gone.

Until then its spec is kept in a ControllerRevision beside it, in its own namespace: who may read pods may read it.
Users of that namespace may also be able to replace the ControllerRevision, and what we create is created with our
rights. So the UID of the ControllerRevision and a digest of its data stand in the Plan, which users cannot write, and
nothing is created from data that does not match.

    keep: create the ControllerRevision ──▶ write its UID and digest into the Plan ──▶ evict the pod
    bring back: compare with the Plan ──▶ create the pod ──▶ delete the ControllerRevision

Decided in docs/decisions.md: "A moved pod's spec lives in a ControllerRevision".
"""

import hashlib
from collections.abc import Mapping
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

import msgspec
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONTROLLER_REVISIONS, PODS, Address
from gpuyard.common.plans.plan import Kept

MOVED_FROM = "gpuyard.io/moved-from"
"""The annotation of a pod made anew: the UID of the old one."""

OF_PLAN = "gpuyard.io/plan"
"""The label of a kept spec: for which plan it is kept."""

_KEPT_META = ("name", "namespace", "labels", "finalizers")
_GIVEN_BY_SERVER = ("nodeName", "priority", "preemptionPolicy", "ephemeralContainers")
_OURS = frozenset({"gpuyard.io/poke"})
_GPU_GROUP = "runai-gpu-group"


class Found(Enum):
    """What became of a pod that was to be made anew."""

    MADE = auto()
    LEAVING = auto()
    """The old one is still there."""
    NOTHING = auto()
    """It is back already, or had come to its end before."""
    FORGED = auto()
    """The ControllerRevision is not the one that was kept, or has other data."""
    LOST = auto()
    """The ControllerRevision is gone, and the pod is not back."""
    UNRECORDED = auto()
    """There is a ControllerRevision of which the plan says nothing, and the pod is not back."""
    UNREADABLE = auto()
    """The plan says nothing of a ControllerRevision, we may not look for one, and the pod is not back."""


class MovesAreOffError(ApiError):
    """A bare pod is not moved, since the settings do not allow it."""

    def __init__(self, pod: str) -> None:
        why = "it has no owner that would create it again, and moveBarePods is off"
        super().__init__(f"move pod {pod}", HTTPStatus.FORBIDDEN, "MovesAreOff", why)


def made_anew(old: Mapping[str, Any]) -> Json:
    """The pod as it is submitted again."""
    meta = old["metadata"]
    kept = {name: meta[name] for name in _KEPT_META if name in meta}
    labels = {k: v for k, v in meta.get("labels", {}).items() if k.partition("/")[0] != _GPU_GROUP}
    notes = {k: v for k, v in meta.get("annotations", {}).items() if k not in _OURS}
    spec = {name: value for name, value in old["spec"].items() if name not in _GIVEN_BY_SERVER}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": kept | {"labels": labels, "annotations": notes | {MOVED_FROM: meta["uid"]}},
        "spec": spec,
    }


async def keep(client: Client, pod: str, uid: str, plan: str, *, allowed: bool) -> Kept | None:
    """Keep the spec of a pod that is about to go; None if there is nothing to keep: it is gone, or has an owner.

    Raises `MovesAreOffError` for a bare pod where these are not `allowed` to be moved.
    """
    namespace, _, name = pod.partition("/")
    old = await _get(client, PODS.named(name, namespace))
    if old is None or old["metadata"]["uid"] != uid or old["metadata"].get("ownerReferences"):
        return None
    if not allowed:
        raise MovesAreOffError(pod)
    revision = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {"name": kept_as(pod), "namespace": namespace, "labels": {OF_PLAN: plan}},
        "revision": 1,
        "data": made_anew(old),
    }
    # What is kept can never be changed; one that was left over is of no use to anybody.
    await forget(client, pod)
    made = await client.create(CONTROLLER_REVISIONS.within(namespace), revision)
    # The digest is of what the API server has, which need not be what was sent to it.
    return Kept(uid=uid, revision=made["metadata"]["uid"], digest=digest(made["data"]))


def digest(data: object) -> str:
    """The SHA-256 of what a ControllerRevision holds, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()


def is_genuine(revision: Json, kept: Kept) -> bool:
    """Whether a ControllerRevision is the one that was kept, with the same data."""
    return revision["metadata"]["uid"] == kept.revision and digest(revision.get("data")) == kept.digest


async def bring_back(client: Client, pod: str, kept: Kept) -> Found:
    """Make a moved pod anew from what was kept, unless that is done, or its old one is still there."""
    namespace, _, name = pod.partition("/")
    revision = await _get(client, CONTROLLER_REVISIONS.named(kept_as(pod), namespace))
    if revision is None or not is_genuine(revision, kept):
        there = await _there(client, pod, kept.uid)
        return there or (Found.LOST if revision is None else Found.FORGED)
    found = await _make(client, namespace, name, revision["data"], kept.uid)
    if found is not Found.LEAVING:
        await forget(client, pod, kept)
    return found


async def left_over(client: Client, pod: str, uid: str) -> Found:
    """What became of a pod of which the plan says nothing: a plan of an earlier version does not say what was kept."""
    there = await _there(client, pod, uid)
    if there is not None:
        return there
    try:
        revision = await _get(client, CONTROLLER_REVISIONS.named(kept_as(pod), pod.partition("/")[0]))
    except ApiError as error:
        if error.forbidden:
            return Found.UNREADABLE
        raise
    return Found.NOTHING if revision is None else Found.UNRECORDED


async def _there(client: Client, pod: str, uid: str) -> Found | None:
    """What the pod of that name, if there is one, means for the moved one with this UID."""
    namespace, _, name = pod.partition("/")
    there = await _get(client, PODS.named(name, namespace))
    return None if there is None else _meaning(there["metadata"], uid)


def _meaning(meta: Mapping[str, Any], uid: str) -> Found:
    # One that has come to its end by itself stays there, and is not wanted back.
    return Found.LEAVING if meta["uid"] == uid and "deletionTimestamp" in meta else Found.NOTHING


async def _get(client: Client, address: Address) -> Json | None:
    try:
        return await client.get(address)
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def _make(client: Client, namespace: str, name: str, pod: Json, uid: str) -> Found:
    try:
        await client.create(PODS.within(namespace), pod)
    except ApiError as error:
        if not error.already_exists:
            raise
        there = (await client.get(PODS.named(name, namespace)))["metadata"]
        return _meaning(there, uid)
    return Found.MADE


async def stays(client: Client, pod: str, uid: str) -> bool:
    """Whether this very pod is there and not on its way out, by the API server's word."""
    namespace, _, name = pod.partition("/")
    there = await _get(client, PODS.named(name, namespace))
    return there is not None and there["metadata"]["uid"] == uid and "deletionTimestamp" not in there["metadata"]


async def forget(client: Client, pod: str, kept: Kept | None = None) -> None:
    """Nobody needs the kept spec of a pod any more: it is back, or it does not have to go.

    With `kept` only that very ControllerRevision is deleted, and none that somebody put in its place.
    """
    namespace = pod.partition("/")[0]
    try:
        await client.delete(CONTROLLER_REVISIONS.named(kept_as(pod), namespace), uid=kept.revision if kept else "")
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise


def kept_as(pod: str) -> str:
    """Where the spec of a pod is kept: the name of a ControllerRevision in its namespace."""
    return f"gpuyard-move-{pod.rpartition('/')[2]}"
