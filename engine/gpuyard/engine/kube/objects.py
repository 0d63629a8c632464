"""The typed forms of the Kubernetes objects that gpuyard reads: only the fields that are used, as the API writes them.

Everything may be absent or null, as in a manifest. What a pod asks for is frozen, so that pods of one kind are found by
their hash and read once; affinity and tolerations stay bytes until then for the same reason.
"""

from collections.abc import Sequence

import msgspec
from gpuyard.engine.kube.quantity import Number

Text = str | None
Pairs = dict[str, str] | None
NO_BYTES = msgspec.Raw()


class Form(msgspec.Struct, rename="camel", gc=False):
    """What all forms have in common: names as in JSON, and never part of a circle."""


class Frozen(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """As `Form`, for what is looked up by its hash."""


class Header(Form):
    """What every object says of itself first; a list has items as well."""

    api_version: Text = None
    kind: Text = None
    items: list[msgspec.Raw] | None = None


class Prefix(Form):
    """`metadata` of what is named by the API server."""

    generate_name: Text = None


class Nameless(Form):
    """What every object without a name says of itself."""

    metadata: Prefix | None = None


class Owner(Frozen, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""
    """Several APIs have a kind `Job`."""


class Notes(Frozen, frozen=True):
    """The annotations that gpuyard knows; all others are passed over."""

    pod_group: Text = msgspec.field(name="pod-group-name", default=None)
    gpu_fraction: Text = msgspec.field(name="gpu-fraction", default=None)
    gpu_memory: Text = msgspec.field(name="gpu-memory", default=None)
    num_devices: Text = msgspec.field(name="gpu-fraction-num-devices", default=None)
    preemption_delay: Text = msgspec.field(name="kai.scheduler/preemption-delay", default=None)
    staleness_grace: Text = msgspec.field(name="kai.scheduler/staleness-grace-period", default=None)
    batch_minimum: Text = msgspec.field(name="kai.scheduler/batch-min-member", default=None)
    stale_since: Text = msgspec.field(name="kai.scheduler/stale-podgroup-timestamp", default=None)
    display: Text = msgspec.field(name="gpuyard.io/display-name", default=None)


class Meta(Form):
    """`metadata`."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    labels: Pairs = None
    annotations: Notes | None = None
    creation_timestamp: Text = None
    deletion_timestamp: Text = None
    owner_references: list[Owner] | None = None


class Object(Form, kw_only=True):
    """What all kinds have in common."""

    api_version: Text = None
    kind: Text = None
    metadata: Meta | None = None


# --- nodes ------------------------------------------------------------------------------------------------------------


class Taint(Form):
    """An entry of a node's `spec.taints`."""

    key: str
    effect: str
    value: Text = None


class NodeSpec(Form):
    """`spec` of a Node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class Allocatable(Form):
    """`status.allocatable` of a Node, as far as gpuyard counts it."""

    gpu: Number | None = msgspec.field(name="nvidia.com/gpu", default=None)
    cpu: Number | None = None
    memory: Number | None = None
    pods: Number | None = None


class Capacity(Form):
    """`status.capacity` of a Node, as far as it says more than `allocatable`."""

    gpu: Number | None = msgspec.field(name="nvidia.com/gpu", default=None)


class Condition(Form):
    """An entry of `status.conditions`."""

    type: str
    status: str


class NodeStatus(Form):
    """`status` of a Node."""

    allocatable: Allocatable | None = None
    capacity: Capacity | None = None
    conditions: list[Condition] | None = None


class Node(Object):
    """v1 Node."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# --- pods -------------------------------------------------------------------------------------------------------------


class Requests(Frozen, frozen=True):
    """The resources of a container that gpuyard counts."""

    gpu: Number | None = msgspec.field(name="nvidia.com/gpu", default=None)
    cpu: Number | None = None
    memory: Number | None = None
    shared_gpu: Number | None = msgspec.field(name="gpuyard.io/shared-gpu", default=None)
    """Not counted: it says that the annotations of the pod name a part of a GPU."""


class Resources(Frozen, frozen=True):
    """`resources` of a container; what has a limit only is requested at that limit, as the API server has it."""

    requests: Requests | None = None
    limits: Requests | None = None


class Container(Frozen, frozen=True):
    """A container. An init container that always restarts is a sidecar."""

    resources: Resources | None = None
    restart_policy: Text = None


class SchedulingGate(Form):
    """An entry of `spec.schedulingGates`."""

    name: str


class Spread(Frozen, frozen=True):
    """An entry of `spec.topologySpreadConstraints`: kube-scheduler counts the pods, we only ask how strict it is."""

    when_unsatisfiable: Text = None


class PodSpec(Form):
    """`spec` of a Pod."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: Requests | None = None
    node_name: Text = None
    scheduler_name: Text = None
    scheduling_gates: list[SchedulingGate] | None = None
    priority_class_name: Text = None
    priority: int | None = None
    node_selector: Pairs = None
    affinity: msgspec.Raw = NO_BYTES
    tolerations: msgspec.Raw = NO_BYTES
    topology_spread_constraints: tuple[Spread, ...] | None = None


class Device(Form):
    """One device of a container, by the id its plugin gave it."""

    resource_id: str = msgspec.field(name="resourceID")


class AllocatedResource(Form):
    """An entry of `allocatedResourcesStatus`."""

    name: str
    resources: list[Device] | None = None


class ContainerStatus(Form):
    """An entry of `status.containerStatuses`."""

    allocated_resources_status: list[AllocatedResource] | None = None


class PodCondition(Condition):
    """An entry of a pod's `status.conditions`."""

    message: Text = None


class PodStatus(Form):
    """`status` of a Pod."""

    phase: Text = None
    start_time: Text = None
    nominated_node_name: Text = None
    conditions: Sequence[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object):
    """v1 Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


# --- where a pod may stand --------------------------------------------------------------------------------------------


class Expression(Form):
    """A requirement on a label or field."""

    key: str
    operator: str
    values: list[str] | None = None


class Selector(Form):
    """A label selector; an empty one selects everything."""

    match_labels: Pairs = None
    match_expressions: list[Expression] | None = None


class NodeSelectorTerm(Form):
    """Requirements that hold together."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Form):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredTerm(Form):
    """A wish for nodes."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Form):
    """`affinity.nodeAffinity`."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[PreferredTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(Form):
    """Near (or far from) the pods that match."""

    topology_key: str
    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Selector | None = None


class WeightedPodTerm(Form):
    """A wish for the neighbourhood of pods."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Form):
    """`affinity.podAffinity` and `affinity.podAntiAffinity`."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Form):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Form):
    """An entry of `spec.tolerations`."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None


# --- queues and what stands beside them -------------------------------------------------------------------------------


class QueueResource(Form):
    """One resource of a Queue."""

    quota: int | float | None = None
    limit: int | float | None = None
    over_quota_weight: int | float | None = None


class QueueResources(Form):
    """`spec.resources` of a Queue."""

    gpu: QueueResource | None = None
    cpu: QueueResource | None = None
    memory: QueueResource | None = None


class QueueSpec(Form):
    """`spec` of a Queue."""

    resources: QueueResources | None = None
    display_name: Text = None
    parent_queue: Text = None
    priority: int | None = None
    preempt_min_runtime: Text = None
    reclaim_min_runtime: Text = None


class Queue(Object):
    """scheduling.run.ai/v2 Queue."""

    spec: QueueSpec | None = None


class PriorityClass(Object):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int


class Namespace(Object):
    """v1 Namespace; only its labels count."""


class Usage(Form):
    """Past use of one queue as a share of the cluster."""

    gpu: int | float = 0
    cpu: int | float = 0
    memory: int | float = 0


class QueueUsage(Object):
    """gpuyard.io/v1alpha1 QueueUsage: the past use of each queue, for the time-aware share."""

    queues: dict[str, Usage] | None = None


class TopologyLevel(Form):
    """One level of a Topology."""

    node_label: str


class TopologySpec(Form):
    """`spec` of a Topology."""

    levels: list[TopologyLevel] | None = None


class Topology(Object):
    """kai.scheduler/v1alpha1 Topology."""

    spec: TopologySpec | None = None


class BudgetSpec(Form):
    """`spec` of a PodDisruptionBudget."""

    selector: Selector | None = None


class BudgetStatus(Form):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: int | None = None


class PodDisruptionBudget(Object):
    """policy/v1 PodDisruptionBudget."""

    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


# --- gangs ------------------------------------------------------------------------------------------------------------


class TopologyConstraint(Form):
    """`topologyConstraint` of a PodGroup or of one of its sub-groups."""

    topology: Text = None
    required_topology_level: Text = None
    preferred_topology_level: Text = None


class SubGroup(Form):
    """An entry of `spec.subGroups`."""

    name: str
    parent: Text = None
    min_member: int | None = None
    min_sub_group: int | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Form):
    """`spec` of a PodGroup."""

    min_member: int | None = None
    min_sub_group: int | None = None
    sub_groups: list[SubGroup] | None = None
    queue: Text = None
    priority_class_name: Text = None
    preemptibility: Text = None
    preemption_delay: Text = None
    staleness_grace_period: Text = None
    topology_constraint: TopologyConstraint | None = None


class PodGroup(Object):
    """scheduling.run.ai/v2alpha2 PodGroup."""

    spec: PodGroupSpec | None = None


class SchedulingPolicy(Form):
    """`schedulingPolicy` of a training job."""

    min_available: int | None = None


class RunPolicy(Form):
    """`spec.runPolicy` of a training job."""

    scheduling_policy: SchedulingPolicy | None = None


class ElasticPolicy(Form):
    """`spec.elasticPolicy` of a PyTorchJob."""

    min_replicas: int | None = None


class ReplicaSpec(Form):
    """One kind of replicas of a training job."""

    replicas: int | None = None


class WorkerGroup(Form):
    """An entry of `spec.workerGroupSpecs` of a RayCluster."""

    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int | None = None


class LeaderWorkerTemplate(Form):
    """`spec.leaderWorkerTemplate` of a LeaderWorkerSet."""

    size: int | None = None


Replicas = dict[str, ReplicaSpec] | None


class OwnerSpec(Form):
    """What the owners of pods say about how many must start together, all kinds in one."""

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None
    pytorch: Replicas = msgspec.field(name="pytorchReplicaSpecs", default=None)
    tensorflow: Replicas = msgspec.field(name="tfReplicaSpecs", default=None)
    xgboost: Replicas = msgspec.field(name="xgbReplicaSpecs", default=None)
    jax: Replicas = msgspec.field(name="jaxReplicaSpecs", default=None)
    mpi: Replicas = msgspec.field(name="mpiReplicaSpecs", default=None)
    worker_group_specs: list[WorkerGroup] | None = None
    startup_policy: Text = None
    leader_worker_template: LeaderWorkerTemplate | None = None


class PodOwner(Object):
    """A Job, PyTorchJob, RayCluster, …: read only for the minimum of its gang."""

    spec: OwnerSpec | None = None


# --- plans ------------------------------------------------------------------------------------------------------------


class PlanPromise(Form):
    """Room that a Plan keeps for a pod."""

    pod: str
    node: str
    shape: msgspec.Raw
    owner: str = ""
    workload: str = ""
    queue: str = ""
    priority: int = 50
    gpu_groups: tuple[str, ...] = ()


class PlanSpec(Form):
    """`spec` of a Plan, as far as a later cycle needs it."""

    promises: list[PlanPromise] | None = None


class PlanStatus(Form):
    """`status` of a Plan."""

    state: Text = None
    deserted: list[str] | None = None


class Plan(Object):
    """gpuyard.io/v1alpha1 Plan."""

    spec: PlanSpec | None = None
    status: PlanStatus | None = None
