"""Bare pods that are moved: whoever evicts one makes it anew, under its name, as soon as the old one is gone.

Until then its spec is kept in a ControllerRevision beside it, in its own namespace: who may read pods may read it.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONTROLLER_REVISIONS, PODS

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
    """It is back already, or nothing was kept of it: it has an owner, or left by itself."""


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


async def keep(client: Client, pod: str, uid: str, plan: str) -> bool:
    """Keep the spec of a pod that is about to go; False if there is nothing to keep: it is gone, or has an owner."""
    namespace, _, name = pod.partition("/")
    try:
        old = await client.get(PODS.named(name, namespace))
    except ApiError as error:
        if error.not_found:
            return False
        raise
    if old["metadata"]["uid"] != uid or old["metadata"].get("ownerReferences"):
        return False
    revision = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {"name": kept_as(pod), "namespace": namespace, "labels": {OF_PLAN: plan}},
        "revision": 1,
        "data": made_anew(old),
    }
    # What is kept can never be changed; one that was left over is of no use to anybody.
    await forget(client, pod)
    await client.create(CONTROLLER_REVISIONS.within(namespace), revision)
    return True


async def bring_back(client: Client, pod: str, uid: str) -> Found:
    """Make a moved pod anew, unless that is done, or its old one is still there."""
    namespace, _, name = pod.partition("/")
    try:
        kept = await client.get(CONTROLLER_REVISIONS.named(kept_as(pod), namespace))
    except ApiError as error:
        if error.not_found:
            return Found.NOTHING
        raise
    if _kept_of(kept) != uid:
        return Found.NOTHING
    found = await _make(client, namespace, name, kept["data"], uid)
    if found is not Found.LEAVING:
        await forget(client, pod)
    return found


def _kept_of(revision: Json) -> str:
    """The UID of the pod whose spec is kept; empty where somebody else has written what is there."""
    try:
        return str(revision["data"]["metadata"]["annotations"][MOVED_FROM])
    except (KeyError, TypeError):
        return ""


async def _make(client: Client, namespace: str, name: str, pod: Json, uid: str) -> Found:
    try:
        await client.create(PODS.within(namespace), pod)
    except ApiError as error:
        if not error.already_exists:
            raise
        there = (await client.get(PODS.named(name, namespace)))["metadata"]
        # One that has come to its end by itself stays there, and is not wanted back.
        return Found.LEAVING if there["uid"] == uid and "deletionTimestamp" in there else Found.NOTHING
    return Found.MADE


async def stays(client: Client, pod: str, uid: str) -> bool:
    """Whether this very pod is there and not on its way out, by the API server's word."""
    namespace, _, name = pod.partition("/")
    try:
        there = (await client.get(PODS.named(name, namespace)))["metadata"]
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return there["uid"] == uid and "deletionTimestamp" not in there


async def forget(client: Client, pod: str) -> None:
    """Nobody needs the kept spec of a pod any more: it is back, or it does not have to go."""
    namespace = pod.partition("/")[0]
    try:
        await client.delete(CONTROLLER_REVISIONS.named(kept_as(pod), namespace))
    except ApiError as error:
        if not error.not_found:
            raise


def kept_as(pod: str) -> str:
    """Where the spec of a pod is kept: the name of a ControllerRevision in its namespace."""
    return f"gpuyard-move-{pod.rpartition('/')[2]}"
