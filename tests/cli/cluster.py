"""A cluster as far as commands read it: an HTTP server with some objects, and a kubeconfig that leads there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gpuyard.common import tokens

from tests.cli.serving import serving
from tests.engine.kube.written import Json

PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "Queue": "/apis/scheduling.run.ai/v2/queues",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Plan": "/apis/gpuyard.io/v1alpha1/plans",
    "Job": "/apis/batch/v1/jobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/pytorchjobs",
    "Topology": "/apis/kai.scheduler/v1alpha1/topologies",
}
CONFIG = "/api/v1/namespaces/gpuyard/configmaps/gpuyard-extender"
TOKEN = f"/api/v1/namespaces/gpuyard/secrets/{tokens.SECRET}"
BUILT_IN = ("Node", "Pod", "Namespace", "PriorityClass", "PodDisruptionBudget")
PAGE = 2
"""So few objects on a page that reading more than one is the rule."""


@contextmanager
def cluster(
    folder: Path,
    *given: Json,
    kinds: tuple[str, ...] = tuple(PATHS),
    namespace: str = "",
    config: str = "",
    forbidden: str = "",
    secret: Json | None = None,
) -> Iterator[str]:
    """A kubeconfig for a cluster of these objects that knows only these kinds; `config` is its extender's file,
    `secret` what it answers when asked for the extender's Secret.

    Objects of the `forbidden` kind may not be listed.
    """
    lists = {PATHS[kind]: [thing for thing in given if thing["kind"] == kind] for kind in kinds}
    lists["/api/v1/namespaces/gpuyard-mock/pods"] = []

    def answered(path: str) -> tuple[int, bytes]:
        asked = urlsplit(path)
        found = lists.get(asked.path)
        start = int(parse_qs(asked.query).get("continue", ["0"])[0])
        more = str(start + PAGE) if found is not None and start + PAGE < len(found) else ""
        missing = {"kind": "Status", "reason": "NotFound", "message": "not there", "code": 404}
        page = {
            "metadata": {"continue": more},
            "items": [_item(one) for one in (found or [])[start : start + PAGE]],
        }
        answer: Json | None = None if found is None else page
        if config and asked.path == CONFIG:
            answer = {"data": {"extender.yaml": config}}
        if secret and asked.path == TOKEN:
            answer = secret
        status = secret["code"] if secret is answer and secret and "code" in secret else 200 if answer else 404
        if forbidden and asked.path == PATHS[forbidden]:
            status, answer = 403, {"kind": "Status", "reason": "Forbidden", "message": "you may not", "code": 403}
        return status, json.dumps(answer or missing).encode()

    with serving(answered) as port:
        yield _kubeconfig(folder, port, namespace)


def _item(thing: Json) -> Json:
    """As in a list of one kind: without kind and version."""
    return {key: value for key, value in thing.items() if key not in {"kind", "apiVersion"}}


def _kubeconfig(folder: Path, port: int, namespace: str) -> str:
    here = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "c", "context": here}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    return str(path)
