"""Binds a pod to its node, with the names of the GPUs that it shares."""

from collections.abc import Sequence

from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.resources import PODS
from gpuyard.engine.kube.parts import GPU_GROUP


async def bind(client: Client, pod: str, uid: str, node: str, groups: Sequence[str]) -> None:
    """Bind this very pod; what the binding says of shared GPUs is copied to the pod in the same write."""
    namespace, _, name = pod.partition("/")
    await client.create(PODS.named(name, namespace).sub("binding"), _body(namespace, name, uid, node, groups))


def _body(namespace: str, name: str, uid: str, node: str, groups: Sequence[str]) -> Json:
    names = {GPU_GROUP: groups[0]} if len(groups) == 1 else {f"{GPU_GROUP}/{group}": group for group in groups}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "labels": names},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
