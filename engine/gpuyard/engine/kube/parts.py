"""Which parts of GPUs count: an annotation alone takes no GPU.

kube-scheduler asks the extender only about pods that request a resource which the extender manages. A pod that has the
annotation `gpu-fraction` and requests none starts without being asked about, so its part must not count: otherwise
whoever may write annotations could fill a queue, or a node, with GPUs that nobody uses.

pod                                                              its part counts
without a uid: the draft of a user, or made for a test           yes: the overlay `shared-gpus` adds the resource
requests gpuyard.io/shared-gpu                                   yes: kube-scheduler asks about it
placed by KAI, and KAI's reservation pods hold its GPUs there    yes: the GPUs are taken
any other                                                        no

The scheduler's name and the label `runai-gpu-group` are no proof that KAI has placed a pod: users can write both, and
the kube-scheduler of gpuyard serves `kai-scheduler`, too. The proof is the reservation pod, in a namespace of KAI's,
which kubelet has given a whole GPU.

Decided in docs/decisions.md: "A part of a GPU counts by the resource, a draft's by its annotation, KAI's by the
reservation pod".
"""

from collections.abc import Container
from functools import lru_cache

from gpuyard.engine.kube import objects
from gpuyard.engine.kube.meta import NO_META
from gpuyard.engine.model import NO_LABELS, Labels, Pod, Shape
from msgspec.structs import replace

SHARED_GPU = "gpuyard.io/shared-gpu"
"""The resource that stands for a part of a GPU; it takes nothing of any node."""

GPU_GROUP = "runai-gpu-group"
"""Label of the shared GPU a pod stands on; on several GPUs `runai-gpu-group/NAME` each."""

KAI = "kai-scheduler"

RESERVATIONS = frozenset({"kai-resource-reservation", "runai-reservation"})
"""The namespaces of KAI's reservation pods: each takes a whole GPU from kubelet for the pods of one GPU group."""

Card = tuple[str, str]
"""A shared GPU: its node and its group."""

_REMEDY = "create it anew where the overlay shared-gpus is installed"
_NO_SPEC = objects.PodSpec()


def named_groups(labels: Labels) -> tuple[str, ...]:
    """The GPU groups that labels name."""
    return tuple(sorted(value for name, value in labels.items() if name.partition("/")[0] == GPU_GROUP))


def may_count(seen: objects.Pod) -> bool:
    """Whether a part counts that the pod's annotations name; of a pod `of_kai` only beside its reservation pods."""
    return _part(seen) is None or _is_asked_about(seen) or bool(_kai_cards(seen))


def of_kai(seen: objects.Pod) -> tuple[Card, ...]:
    """The shared GPUs of a pod whose part counts only where KAI's reservation pods hold all of them."""
    return () if _part(seen) is None or _is_asked_about(seen) else _kai_cards(seen)


def reserved(pod: Pod) -> tuple[Card, ...]:
    """The GPUs that a reservation pod of KAI holds; none of any other pod."""
    return () if pod.shape.shared else tuple((pod.node, group) for group in pod.gpu_groups)


def beside(pod: Pod, held: Container[Card]) -> Pod:
    """A pod `of_kai` as it counts where reservation pods hold these GPUs."""
    if pod.gpu_groups and all((pod.node, group) in held for group in pod.gpu_groups):
        return pod
    return replace(pod, shape=_without_part(pod.shape), gpu_groups=())


def without_effect(seen: objects.Pod, counted: Pod) -> tuple[str, str] | None:
    """The annotation by which a pod names a part that does not count, and why it does not; None: there is none."""
    name = _part(seen)
    if name is None or _is_asked_about(seen) or counted.shape.wants_gpu:
        return None
    if cards := _kai_cards(seen):
        node, group = cards[0]
        return name, f"has no effect: no reservation pod of KAI holds a GPU of group {group} on {node}"
    return name, f"has no effect: the pod does not request {SHARED_GPU}; {_REMEDY}"


def _is_asked_about(seen: objects.Pod) -> bool:
    """Whether kube-scheduler asks the extender about the pod, or will once it is submitted."""
    if not (seen.metadata or NO_META).uid:
        return True
    spec = seen.spec or _NO_SPEC
    return any(map(_requests_part, spec.containers or ())) or any(map(_requests_part, spec.init_containers or ()))


def _requests_part(container: objects.Container) -> bool:
    """Whether a container names the resource, in whatever amount: for kube-scheduler that is enough."""
    has = container.resources
    return has is not None and any(one is not None and one.shared_gpu is not None for one in (has.requests, has.limits))


def _kai_cards(seen: objects.Pod) -> tuple[Card, ...]:
    spec, meta = seen.spec or _NO_SPEC, seen.metadata or NO_META
    if spec.scheduler_name != KAI or not spec.node_name:
        return ()
    node = spec.node_name
    return tuple((node, group) for group in named_groups(meta.labels or NO_LABELS))


def _part(seen: objects.Pod) -> str | None:
    """The first annotation by which a pod asks for a part of a GPU."""
    notes = (seen.metadata or NO_META).annotations
    if notes is None:
        return None
    if notes.gpu_fraction is not None:
        return "gpu-fraction"
    return None if notes.gpu_memory is None else "gpu-memory"


@lru_cache(maxsize=1 << 8)
def _without_part(shape: Shape) -> Shape:
    return replace(shape, fraction=0, gpu_memory=0, devices=1)
