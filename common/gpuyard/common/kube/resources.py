"""How the API addresses things: resources, and addresses of one object or of a collection.

A name is one part of a path, whatever it contains: `x/exec?command=id` is no other address than that of an object
with this name, which cannot exist.
"""

from dataclasses import dataclass, replace
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Address:
    """Where a call goes: a path, and the words that errors and logs use for it."""

    path: str
    about: str

    def sub(self, name: str) -> "Address":
        """A sub-resource of this object: `status`, `eviction`, `binding`."""
        return replace(self, path=f"{self.path}/{name}", about=f"{self.about}/{name}")


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object as the API addresses it."""

    api_version: str
    plural: str
    kind: str

    def within(self, namespace: str = "") -> Address:
        """The collection in one namespace; without a namespace, in the whole cluster."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        if not namespace:
            return Address(f"{root}/{self.plural}", self.plural)
        return Address(f"{root}/namespaces/{_part(namespace)}/{self.plural}", f"{self.plural} in {namespace}")

    def named(self, name: str, namespace: str = "") -> Address:
        """One object; cluster-scoped ones have no namespace."""
        about = f"{self.plural} {namespace}/{name}" if namespace else f"{self.plural} {name}"
        return Address(f"{self.within(namespace).path}/{_part(name)}", about)


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe=":")


CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("v1", "namespaces", "Namespace")
NODES = Resource("v1", "nodes", "Node")
PODS = Resource("v1", "pods", "Pod")
JOBS = Resource("batch/v1", "jobs", "Job")
CONTROLLER_REVISIONS = Resource("apps/v1", "controllerrevisions", "ControllerRevision")
DISRUPTION_BUDGETS = Resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
EVENTS = Resource("events.k8s.io/v1", "events", "Event")
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease")
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass")
PLANS = Resource("gpuyard.io/v1alpha1", "plans", "Plan")
POD_GROUPS = Resource("scheduling.run.ai/v2alpha2", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.run.ai/v2", "queues", "Queue")
SECRETS = Resource("v1", "secrets", "Secret")
TOPOLOGIES = Resource("kai.scheduler/v1alpha1", "topologies", "Topology")
