"""The values the engine decides about: nodes, queues, workloads and their pods.

Every type is immutable and every quantity an integer: milli-GPUs, MiB of GPU memory, millicores, bytes, seconds.
Nothing here decides anything: the readers (`gpuyard.engine.kube`, the extender's ledger) fill these types, and
`snapshot.Snapshot` holds them.
"""

from gpuyard.engine.model.amounts import GPU, NO_BOUND, NOTHING, RESOURCES, SCALE, UNLIMITED, Amounts
from gpuyard.engine.model.nodes import NO_LABELS, Labels, Node, Taint, Topology
from gpuyard.engine.model.pods import ACTIVE, HOLDING, STUCK_AFTER, Budget, Offer, Pod, State
from gpuyard.engine.model.promises import Promise, PromiseName
from gpuyard.engine.model.queues import MOST_LEVELS, Queue
from gpuyard.engine.model.shapes import NodeTerm, PodTerm, PreferredNodes, Requirement, Shape, Toleration
from gpuyard.engine.model.workloads import ALONE, Gang, TopologyConstraint, Workload

__all__ = [
    "ACTIVE",
    "ALONE",
    "GPU",
    "HOLDING",
    "MOST_LEVELS",
    "NOTHING",
    "NO_BOUND",
    "NO_LABELS",
    "RESOURCES",
    "SCALE",
    "STUCK_AFTER",
    "UNLIMITED",
    "Amounts",
    "Budget",
    "Gang",
    "Labels",
    "Node",
    "NodeTerm",
    "Offer",
    "Pod",
    "PodTerm",
    "PreferredNodes",
    "Promise",
    "PromiseName",
    "Queue",
    "Requirement",
    "Shape",
    "State",
    "Taint",
    "Toleration",
    "Topology",
    "TopologyConstraint",
    "Workload",
]
