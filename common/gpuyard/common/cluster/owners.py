"""How many pods of one owner start together: told by the owner, which a pod may be seen before.

                      the owner is seen
        awaited ─────────────────────────▶ known ──the last of its pods is gone, and so is it──▶ forgotten
           ├──the API server has no such kind, or none for us──▶ alone
           └──only a label names it, and it does not come──▶ alone

A pod that is awaited does not exist yet for the planner, and is refused. What an owner said holds for its pods as long
as there are any, even if it goes before them.

Decided in docs/decisions.md: "A pod of a Job waits until its Job has been seen".
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from gpuyard.common.cluster.objects import Pod, PodOwner
from gpuyard.common.kube.resources import JOBS, Resource
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.gangs import LWS, OwnerKey, owner_key
from gpuyard.engine.kube.meta import notes_of

TRAINING = "kubeflow.org/v1"
KINDS: Mapping[str, Resource] = {
    one.kind: one
    for one in (
        JOBS,
        Resource(TRAINING, "pytorchjobs", "PyTorchJob"),
        Resource(TRAINING, "tfjobs", "TFJob"),
        Resource(TRAINING, "xgboostjobs", "XGBoostJob"),
        Resource(TRAINING, "jaxjobs", "JAXJob"),
        Resource(TRAINING, "mpijobs", "MPIJob"),
        Resource("ray.io/v1", "rayclusters", "RayCluster"),
        Resource("leaderworkerset.x-k8s.io/v1", "leaderworkersets", LWS),
    )
}
"""The kinds that are asked, by the name that pods give them."""

PATIENCE = 10
"""Seconds for which a pod waits at least for an owner that only a label names: anybody can write that."""


class Owners:
    """The owners of pods, and who waits for them."""

    def __init__(self) -> None:
        self.known: dict[OwnerKey, objects.PodOwner] = {}
        """Those that have been seen."""
        self.followed: AbstractSet[str] = frozenset()
        """The kinds of which every one will be seen."""
        self._gone: set[OwnerKey] = set()
        self._pods: dict[OwnerKey, set[str]] = {}
        self._alone: set[str] = set()
        self._missed: dict[OwnerKey, float] = {}
        """Since when those are awaited that only labels name."""

    def put(self, kind: str, key: str, seen: PodOwner | None) -> list[str]:
        """An owner is new, changed or gone (None): the pods of which something else may be so now, by key."""
        namespace, _, name = key.partition("/")
        owner = (namespace, kind, name)
        if seen is None:
            self._gone.add(owner)
            self._forget(owner)
            return []
        self._gone.discard(owner)
        before = self.known.get(owner)
        meta = objects.Meta(annotations=seen.metadata.annotations)
        now = self.known[owner] = objects.PodOwner(kind=kind, metadata=meta, spec=seen.spec)
        return sorted(self._pods.get(owner, ())) if before != now else []

    def add(self, pod: Pod) -> None:
        """There is this pod."""
        owner = owner_key(pod)
        if owner is not None:
            self._pods.setdefault(owner, set()).add(pod.metadata.key)

    def change(self, before: Pod, now: Pod) -> None:
        """This pod has changed, and may name another owner."""
        old, new = before.metadata, now.metadata
        if (old.owner_references, old.labels) == (new.owner_references, new.labels):
            return
        if owner_key(before) != owner_key(now):
            self.drop(before)
            self.add(now)

    def drop(self, pod: Pod) -> None:
        """This pod is gone."""
        key, owner = pod.metadata.key, owner_key(pod)
        self._alone.discard(key)
        if owner is not None and owner in self._pods:
            self._pods[owner].discard(key)
            if not self._pods[owner]:
                del self._pods[owner]
                self._forget(owner)

    def go_without(self, kind: str) -> list[str]:
        """The API server has no owners of this kind: the pods that waited for one, by key; they are alone."""
        return self._let_go(self._awaited_of(kind))

    def give_up(self, now: float, heard: float) -> list[str]:
        """The pods that have waited long enough for an owner that only a label names, by key; they are alone.

        `heard` is when the API server last said something of such owners: by then it would have been seen.
        """
        self._missed = {owner: self._missed.get(owner, now) for owner in self._awaited_of(LWS)}
        return self._let_go(owner for owner, since in self._missed.items() if since + PATIENCE <= now and since < heard)

    def _awaited_of(self, kind: str) -> list[OwnerKey]:
        return [owner for owner in self._pods if owner[1] == kind and owner not in self.known]

    def _let_go(self, owners: Iterable[OwnerKey]) -> list[str]:
        found = sorted(pod for owner in owners for pod in self._pods[owner] if pod not in self._alone)
        self._alone.update(found)
        return found

    def awaited(self, pod: Pod) -> str:
        """The owner that has to be seen before it is known how many start with this pod; empty: none."""
        notes = notes_of(pod)
        if notes.pod_group or notes.batch_minimum or pod.metadata.key in self._alone:
            return ""
        owner = owner_key(pod)
        if owner is None or owner in self.known or owner[1] not in self.followed:
            return ""
        return f"{owner[1]} {owner[0]}/{owner[2]}"

    def _forget(self, owner: OwnerKey) -> None:
        if owner in self._gone and owner not in self._pods:
            self._gone.discard(owner)
            self.known.pop(owner, None)
