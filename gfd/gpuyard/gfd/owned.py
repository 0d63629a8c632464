"""What would make the labels of a node right."""

from gpuyard.common.node_labels import LabelledNode, owned
from gpuyard.gfd.labels import TIMESTAMP, Labels


def change(node: LabelledNode, wanted: Labels) -> Labels | None:
    """What to apply, or None when all is right already. A timestamp alone is no reason to write."""
    ours = owned(node)
    if _timeless(ours) == _timeless(wanted):
        return None
    return wanted


def _timeless(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if name != TIMESTAMP}
