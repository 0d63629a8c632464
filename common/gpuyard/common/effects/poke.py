"""Wakes a waiting pod: kube-scheduler asks again about a pod whose annotation has changed."""

from gpuyard.common.kube.client import Client
from gpuyard.common.kube.resources import PODS
from gpuyard.engine.model import Pod

POKE = "gpuyard.io/poke"
"""The annotation; its value says when."""


async def poke(client: Client, pod: Pod, today: float) -> None:
    """Wake this very pod, and none that has taken its name since."""
    namespace, _, name = pod.key.partition("/")
    patch = {"metadata": {"uid": pod.uid, "annotations": {POKE: f"{today:.3f}"}}}
    await client.patch(PODS.named(name, namespace), patch)
