"""One extender answers, the others stand by: by a Lease, and by a label that the Service selects on.

kube-scheduler keeps its connection whatever the Service says. So whoever does not lead answers every call with an error
and closes the connection; the next call then finds the leader.
"""

from gpuyard.common.kube.client import Client, Selector
from gpuyard.common.kube.errors import KubeError
from gpuyard.common.kube.resources import PODS
from gpuyard.common.logs import get_logger

LEASE = "gpuyard-extender"
LABEL = "gpuyard.io/leader"

log = get_logger()


async def take_label(client: Client, namespace: str, pod: str) -> None:
    """Let the Service route to this pod and to no other: the label is taken from the others first."""
    if not pod:
        return
    try:
        carriers = await client.items(PODS.within(namespace), Selector(labels=f"{LABEL}=true"))
        for other in carriers:
            if other["metadata"]["name"] != pod:
                await _label(client, namespace, other["metadata"]["name"], None)
        await _label(client, namespace, pod, "true")
    except KubeError as error:
        # Without it nobody is routed here: the process ends, and whoever is next tries again.
        log.error("label-not-taken", pod=pod, reason=str(error))  # noqa: TRY400
        raise


async def _label(client: Client, namespace: str, pod: str, value: str | None) -> None:
    await client.patch(PODS.named(pod, namespace), {"metadata": {"labels": {LABEL: value}}})
