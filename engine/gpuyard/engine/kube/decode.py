"""Finds the objects in JSON: single ones, lists, lists of lists. What cannot be read is a fault."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Fault, printable
from gpuyard.engine.kube.makers import Maker, Submitted
from gpuyard.engine.kube.meta import explained, key_of
from gpuyard.engine.kube.parts import SHARED_GPU, without_effect
from gpuyard.engine.kube.pod_facts import pod_facts
from gpuyard.engine.kube.pods import past_its_queue

T = TypeVar("T", bound=objects.Object)

_TRAINING = ("kubeflow.org/v1", "kubeflow.org/v2beta1", "kubeflow.org/v1alpha1")
_PAST = "spec.nodeName: with it the pod starts there at once, past its queue; this plan takes the name for nothing"
_SHORT = 64
_NAMED = 3
"""Of pods that are alike."""
_DEEPEST = 8
"""Lists within lists, at most."""

_KINDS: tuple[tuple[type[objects.Object], str, tuple[str, ...]], ...] = (
    (objects.Node, "Node", ("v1",)),
    (objects.Pod, "Pod", ("v1",)),
    (objects.Namespace, "Namespace", ("v1",)),
    (objects.PriorityClass, "PriorityClass", ("scheduling.k8s.io/v1",)),
    (objects.PodDisruptionBudget, "PodDisruptionBudget", ("policy/v1",)),
    (objects.Queue, "Queue", ("scheduling.run.ai/v2",)),
    (objects.PodGroup, "PodGroup", ("scheduling.run.ai/v2alpha2",)),
    (objects.Topology, "Topology", ("kai.scheduler/v1alpha1",)),
    (objects.QueueUsage, "QueueUsage", ("gpuyard.io/v1alpha1",)),
    (objects.Plan, "Plan", ("gpuyard.io/v1alpha1",)),
    (objects.PodOwner, "Job", ("batch/v1",)),
    *((objects.PodOwner, kind, _TRAINING) for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "MPIJob")),
    (objects.PodOwner, "RayCluster", ("ray.io/v1", "ray.io/v1alpha1")),
    (objects.PodOwner, "LeaderWorkerSet", ("leaderworkerset.x-k8s.io/v1",)),
)

_MAKERS: Mapping[str, str] = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
}
"""Kinds that are read only while they are being submitted, for the pods that they will make."""

READ = frozenset(kind for _, kind, _ in _KINDS)
"""The kinds of which a snapshot is made."""

_header = msgspec.json.Decoder(objects.Header)
_name = msgspec.json.Decoder(objects.Object)
_nameless = msgspec.json.Decoder(objects.Nameless)
_maker = msgspec.json.Decoder(Maker)
_decoders: Mapping[tuple[str, str], Callable[[bytes | msgspec.Raw], objects.Object]] = {
    (kind, version): msgspec.json.Decoder(form).decode for form, kind, versions in _KINDS for version in versions
}
_VERSIONS: Mapping[str, str] = {kind: versions[0] for _, kind, versions in _KINDS}
"""The version of an object that does not say: items of a list of one kind do not."""

_OWNERS = frozenset(kind for form, kind, _ in _KINDS if form is objects.PodOwner)


class Found(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object and where it was found. Of a pod only what it says is kept: there may be very many."""

    source: str
    kind: str
    object: T


class Harvest:
    """What was found so far: objects, faults, and how many objects of which kind were passed over."""

    def __init__(self, namespace: str = "") -> None:
        self._namespace = namespace
        """Of what names none."""
        self.found: list[Found[Any]] = []
        self.submitted: list[Submitted] = []
        """What will make pods once it is submitted."""
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self.skipped: Counter[str] = Counter()
        self._in_vain = defaultdict[str, list[str]](list)
        """The pods of which an annotation names a part of a GPU that does not count, by annotation."""
        self._last: tuple[str, str] | None = None
        self._at = ("", objects.Object())
        self._documents: Counter[str] = Counter()
        self._named: Counter[tuple[object, ...]] = Counter()
        self._place = ""

    def take(self, source: str, document: bytes) -> None:
        """Take the object or list of objects of a JSON document; raises `msgspec.DecodeError` where it is none.

        The documents of a source are counted: what has no name in a later one is told by its number.
        """
        self._documents[source] += 1
        number = self._documents[source]
        self._place = f"document {number}" if number > 1 else ""
        if document[:_SHORT].strip() not in {b"", b"null"}:
            self._take(source, document, "", _DEEPEST)

    def notes(self) -> list[str]:
        """What was passed over, a sentence for each kind, and for each annotation that has no effect."""
        return [_skipped(kind, n) for kind, n in sorted(self.skipped.items())] + [
            _in_vain(name, pods) for name, pods in sorted(self._in_vain.items())
        ]

    def _take(self, source: str, document: bytes | msgspec.Raw, kind: str, depth: int) -> None:
        try:
            header = _header.decode(document)
        except msgspec.ValidationError as error:
            self.faults.append(Fault(source, self._nameless(kind), *explained(error)))
            return
        kind = header.kind or kind
        if kind.endswith("List") and header.items is not None:
            self._take_list(source, header.items, kind, depth)
        else:
            self._take_one(source, document, kind, header.api_version or "")

    def _take_list(self, source: str, items: Iterable[msgspec.Raw], kind: str, depth: int) -> None:
        if not depth:
            self.faults.append(Fault(source, kind, "items", f"lists within lists, more than {_DEEPEST} deep"))
            return
        within = self._place
        for n, item in enumerate(items):
            self._place = f"{within} items[{n}]".lstrip()
            if not self._took_another(source, item):
                self._take(source, item, kind.removesuffix("List"), depth - 1)

    def _took_another(self, source: str, document: msgspec.Raw) -> bool:
        """Take an object of the kind of the last one. Lists are long and of few kinds: that saves a look at each."""
        last = self._last
        if last is None:
            return False
        try:
            seen = _decoders[last](document)
        except msgspec.DecodeError:
            return False
        if seen.kind != last[0] or seen.api_version != last[1]:
            return False
        self._keep(source, last[0], seen, document)
        return True

    def _take_one(self, source: str, document: bytes | msgspec.Raw, kind: str, version: str) -> None:
        if not kind:
            self.faults.append(
                Fault(source, _name_in(document) or self._place, "kind", "missing; is this a Kubernetes object?")
            )
            return
        decode = _decoders.get((kind, version or _VERSIONS.get(kind, "")))
        makes = _MAKERS.get(kind) == version if decode is None else kind in _OWNERS
        try:
            if makes and not _is_there(document):
                self._submit(source, _maker.decode(document), document)
            elif decode is None:
                self.skipped[f"{kind} ({version})" if version else kind] += 1
            if decode is not None:
                self._keep(source, kind, decode(document), document)
        except msgspec.DecodeError as error:
            name = _name_in(document)
            thing = f"{kind} {name}" if name else self._nameless(kind)
            self.faults.append(Fault(source, thing, *explained(error)))
            return
        # Of what makes pods each one needs a look of its own.
        self._last = None if makes or decode is None else (kind, version or _VERSIONS[kind])

    def _submit(self, source: str, seen: Maker, document: bytes | msgspec.Raw) -> None:
        self._settle(seen, document)
        self.submitted.append(Submitted(source, seen))

    def _settle(self, seen: objects.Object, document: bytes | msgspec.Raw) -> None:
        """Give a namespace to what names none, and a name to what has only the beginning of one."""
        meta = seen.metadata
        if meta is None:
            return
        if self._namespace and not meta.namespace:
            meta.namespace = self._namespace
        if not meta.name:
            meta.name = self._generated(seen, meta, document)

    def _generated(self, seen: objects.Object, meta: objects.Meta, document: bytes | msgspec.Raw) -> str:
        """A name as the API server makes one; its end is x, x2, x3 instead of random, so that it can be asked about."""
        prefix = _prefix_in(document)
        if not prefix:
            return ""
        # A Job is read in two forms: each of them counts for itself.
        alike = (type(seen), seen.kind, meta.namespace, prefix)
        self._named[alike] += 1
        number = self._named[alike]
        return f"{prefix}x{number}" if number > 1 else f"{prefix}x"

    def _nameless(self, kind: str) -> str:
        """What has no name that can be read: its kind, and its place in a source of several."""
        return f"{kind} {self._place}".strip()

    def _keep(self, source: str, kind: str, seen: objects.Object, document: bytes | msgspec.Raw) -> None:
        self._at = source, seen
        self._settle(seen, document)
        if isinstance(seen, objects.Pod):
            told = pod_facts(seen, self._complain)
            if past_its_queue(seen) and told.pod.shape.wants_gpu:
                self.warnings.append(printable(f"{source}: Pod {key_of(seen)}: {_PAST}"))
            if (vain := without_effect(seen, told.pod)) is not None:
                self._in_vain[vain[0]].append(told.pod.key)
            seen = told
        self.found.append(Found(source, kind, seen))

    def _complain(self, field: str, why: str) -> None:
        source, pod = self._at
        self.faults.append(Fault(source, f"Pod {key_of(pod)}", field, why))


def _skipped(kind: str, n: int) -> str:
    read = _VERSIONS.get(kind.partition(" ")[0])
    return f"skipped {n} of {kind}: " + (f"gpuyard reads {read}" if read else "gpuyard does not read these")


def _in_vain(name: str, pods: list[str]) -> str:
    more = f" and {len(pods) - _NAMED} others" if len(pods) > _NAMED else ""
    named = ", ".join(printable(key) for key in pods[:_NAMED])
    return f"the annotation {name} has no effect in pods that do not request {SHARED_GPU}: {named}{more}"


def _is_there(document: bytes | msgspec.Raw) -> bool:
    """Whether the object comes from an API server, and is not being submitted."""
    meta = _name.decode(document).metadata
    return meta is not None and bool(meta.uid or meta.creation_timestamp)


def _prefix_in(document: bytes | msgspec.Raw) -> str:
    """What the object's name is to begin with, if it can be read."""
    try:
        meta = _nameless.decode(document).metadata
    except msgspec.DecodeError:
        return ""
    return (meta and meta.generate_name) or ""


def _name_in(document: bytes | msgspec.Raw) -> str:
    """The object's name as far as it can be read, for a message."""
    try:
        meta = _name.decode(document).metadata
    except msgspec.DecodeError:
        return ""
    return "/".join(x for x in (meta.namespace, meta.name) if x) if meta else ""
