"""A sandbox with the overlay `admission`, users with few rights, and the objects that they try to write."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuyard.sandbox import SandboxError, Spec, up
from gpuyard.sandbox.rendering import MANIFESTS

from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuyard.sandbox import Cluster

Json = dict[str, Any]

NAMESPACE = "team-a"
ANN = "--as=ann"
"""She may create and change pods, PodGroups and what pods are made from, and use queue `a` in one namespace."""
ED = "--as=ed"
"""He has the role `edit` in that namespace, may change PodGroups there, and may use every queue and priority class."""
NODE = ("--as=system:node:node-1", "--as-group=system:nodes", "--subresource=status")
"""A kubelet, which writes the status of pods."""
EXTENDER = "--as=system:serviceaccount:gpuyard:gpuyard-extender"
BINDER = "--as=system:serviceaccount:kai-scheduler:binder"

RIGHTS = """
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
  - {apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}
  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 1000}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: work}
    rules:
      - {apiGroups: [""], resources: [pods, replicationcontrollers], verbs: [create, get, list, patch, update]}
      - {apiGroups: [apps, batch, scheduling.run.ai], resources: ["*"], verbs: [create, get, list, patch, update]}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: use-a}
    rules: [{apiGroups: [scheduling.run.ai], resources: [queues], resourceNames: [a], verbs: [use]}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: work}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: work}
    subjects:
      - {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
      - {kind: ServiceAccount, name: binder, namespace: kai-scheduler}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: use-a, namespace: team-a}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-a}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: report}
    rules: [{apiGroups: [""], resources: [pods/status], verbs: [get, patch]}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: report}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: report}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: edit, namespace: team-a}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ed}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: work, namespace: team-a}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: work}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ed}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: use-every-queue, namespace: team-a}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gpuyard-use-every-queue}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ed}]
"""


def set_up(name: str) -> Cluster:
    """A sandbox with the extender's objects, its right to create moved pods, and the policies; `placed` has a node."""
    made = up(Spec(name=name, nodes=1, gpus=4))
    made.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "default-scheduler"))
    made.kubectl("wait", "--for=condition=established", "--timeout=60s", "crd", "--all")
    made.kubectl("apply", "-f", "-", stdin=RIGHTS)
    made.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s", "--namespace", NAMESPACE)
    for overlay in ("move-bare-pods", "admission"):
        made.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / overlay))
    create(made, named(pod("a", gpus=1), "placed"), named(group("a"), "standing"))
    wait_for_node(made, "placed")
    eventually(lambda: in_force(made), within=120)
    return made


def in_force(cluster: Cluster) -> bool:
    """Whether all policies act: they do so some seconds after they were applied."""
    attempts = (
        refused(cluster, pod("b")),
        refused(cluster, pod("a", gpus=1, nodeName="node-1")),
        refused(cluster, classed(pod("a"), label="urgent")),
        unchangeable(cluster, "pod/placed", labels({"kai.scheduler/queue": None})),
        unchangeable(cluster, "podgroups.scheduling.run.ai/standing", {"spec": {"queue": "b"}}),
    )
    return all(attempts)


# --- objects ---


def pod(queue: str, gpus: int = 0, label: str = "kai.scheduler/queue", **spec: object) -> Json:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "x", "resources": limits}
    meta = {"generateName": "p-", "labels": {label: queue} if queue else {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def group(queue: str, **spec: object) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"generateName": "g-"},
        "spec": {"queue": queue, "minMember": 1, **spec},
    }


def template(queue: str) -> Json:
    made = pod(queue)
    return {"metadata": {"labels": {"app": "x", **made["metadata"]["labels"]}}, "spec": made["spec"]}


def job(queue: str, name: str = "") -> Json:
    made = template(queue)
    made["spec"]["restartPolicy"] = "Never"
    meta = {"name": name} if name else {"generateName": "j-"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": made}}


def cron_job(queue: str) -> Json:
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job(queue)["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"generateName": "c-"}, "spec": spec}


def controlled(kind: str, version: str, queue: str, **spec: object) -> Json:
    selector: Json = {"app": "x"} if kind == "ReplicationController" else {"matchLabels": {"app": "x"}}
    spec = {"selector": selector, "template": template(queue), **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"generateName": "w-"}, "spec": spec}


MADE_FROM: Mapping[str, Callable[..., Json]] = {
    "Job": job,
    "CronJob": cron_job,
    "Deployment": partial(controlled, "Deployment", "apps/v1"),
    "ReplicaSet": partial(controlled, "ReplicaSet", "apps/v1"),
    "DaemonSet": partial(controlled, "DaemonSet", "apps/v1"),
    "StatefulSet": partial(controlled, "StatefulSet", "apps/v1", serviceName="x"),
    "ReplicationController": partial(controlled, "ReplicationController", "v1"),
}
"""What pods are made from."""


def carrier(thing: Json) -> Json:
    """What has the labels and the spec of pods: the object itself, or the template in it."""
    spec = thing["spec"].get("jobTemplate", thing)["spec"]
    made: Json = spec.get("template", thing)
    return made


def classed(thing: Json, label: str = "", spec: str = "") -> Json:
    """The same with these priority classes."""
    made = carrier(thing)
    if label:
        made["metadata"].setdefault("labels", {})["priorityClassName"] = label
    if spec:
        made["spec"]["priorityClassName"] = spec
    return thing


def named(thing: Json, name: str) -> Json:
    """The same under a name of its own."""
    meta = {key: value for key, value in thing["metadata"].items() if key != "generateName"}
    return thing | {"metadata": meta | {"name": name}}


def labels(values: Mapping[str, str | None]) -> Json:
    """A patch of labels; None removes one."""
    return {"metadata": {"labels": {**values}}}


def notes(values: Mapping[str, str | None]) -> Json:
    """A patch of annotations; None removes one."""
    return {"metadata": {"annotations": {**values}}}


# --- attempts ---


def refused(cluster: Cluster, thing: Json, who: str = ANN, namespace: str = NAMESPACE) -> str:
    """Why the API server does not create it; empty: it does."""
    return attempted(cluster, "create", "-f", "-", "--namespace", namespace, who, stdin=json.dumps(thing))


def unchangeable(cluster: Cluster, what: str, patch: Json, *who: str) -> str:
    """Why the API server does not accept this patch, from Ed where nobody else is named; empty: it does."""
    change = ("patch", what, "--namespace", NAMESPACE, "--type=merge", "--patch", json.dumps(patch))
    return attempted(cluster, *change, *(who or (ED,)))


def attempted(cluster: Cluster, *arguments: str, stdin: str = "") -> str:
    """What the API server says to a call that changes nothing even if it is accepted; empty: it accepts."""
    try:
        cluster.kubectl(*arguments, "--dry-run=server", stdin=stdin)
    except SandboxError as error:
        return str(error)
    return ""


def create(cluster: Cluster, *things: Json) -> None:
    """Create objects as the administrator."""
    made = {"apiVersion": "v1", "kind": "List", "items": list(things)}
    cluster.kubectl("create", "--namespace", NAMESPACE, "-f", "-", stdin=json.dumps(made))


def wait_for_node(cluster: Cluster, *pods: str) -> None:
    """Wait until these pods have nodes."""
    names = [f"pod/{name}" for name in pods]
    cluster.kubectl("wait", "--for=condition=PodScheduled", *names, "--timeout=60s", "--namespace", NAMESPACE)
