"""What a pod says by itself, whatever else is in the input: all of it that can be read when the pod is found.

So the forms of its JSON, which are many times larger, need not be kept until everything else is known.
"""

from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.parts import Card, of_kai
from gpuyard.engine.kube.pods import device_ids, pod
from gpuyard.engine.kube.verdicts import in_vain
from gpuyard.engine.kube.workloads import Claim, own_claim
from gpuyard.engine.model import Pod, State

NOT_BORN = -1
"""The age of a pod that does not say when it was made."""


class PodFacts(objects.Object, kw_only=True):
    """A pod, as if nothing else were given: in a workload of its own, and what it would say of another one."""

    pod: Pod
    claim: Claim
    """Without the value of its priority class."""
    device_ids: tuple[str, ...]
    of_kai: tuple[Card, ...]
    """The GPUs on which its part counts only if KAI's reservation pods hold them."""
    in_vain: str
    """Why no eviction would help it while it waits, by kube-scheduler's word."""


def pod_facts(seen: objects.Pod, complain: Complain) -> PodFacts:
    """Read what one pod says."""
    read = pod(seen, None, NOT_BORN, complain)
    return PodFacts(
        kind=seen.kind,
        metadata=seen.metadata,
        pod=read,
        claim=own_claim(seen, complain),
        device_ids=device_ids(seen),
        of_kai=of_kai(seen),
        in_vain=in_vain(seen.status) if read.state is State.PENDING else "",
    )
