"""A desk with a cluster around it, as far as the desk sees of one: maps, nodes and pods, and what is written."""

from collections.abc import Iterable

import msgspec
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import ConfigMap, Maps
from gpuyard.status_updater.desk import Desk, Due
from gpuyard.status_updater.pods import Pod


def a_map(text: str, name: str = "topology", version: int = 1, labels: dict[str, str] | None = None) -> ConfigMap:
    meta = Meta(name=name, uid=f"uid-{name}", resource_version=str(version), labels=labels)
    return ConfigMap(meta, {"topology.yml": text})


def marked(node: ClusterNode, patch: Json) -> ClusterNode:
    """The node as a merge patch of its labels and annotations leaves it."""
    changes = patch["metadata"]
    merged = {
        field: {key: value for key, value in ((getattr(node.metadata, field) or {}) | changes[field]).items() if value}
        for field in ("labels", "annotations")
    }
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, **merged))


class Office:
    """A desk with a cluster around it that takes in what is written."""

    def __init__(self, nodes: Iterable[ClusterNode] = (), maps: Iterable[ConfigMap] = ()) -> None:
        self.nodes = {node.metadata.name: node for node in nodes}
        self.maps = {found.metadata.name: found for found in maps}
        self.pods: dict[str, Pod] = {}
        self.start()

    def start(self) -> None:
        """An updater that begins with nothing but the caches."""
        cache = Maps()
        cache.take(Batch([Change(None, found) for found in self.maps.values()], listed=True))
        self.desk = Desk(cache, self.nodes)
        for each in self.pods.values():
            self.desk.take_pod(None, each)
        self.desk.touch_all()

    def pod(self, name: str, new: Pod | None) -> None:
        """A change of a pod that the watch delivers."""
        self.desk.take_pod(self.pods.get(name), new)
        self.missed(name, new)

    def missed(self, name: str, new: Pod | None) -> None:
        """A change that the watch does not deliver."""
        if new is None:
            self.pods.pop(name, None)
        else:
            self.pods[name] = new

    def relist(self) -> None:
        """What a reflector does after a gap: it compares with the list, and tells the differences."""
        self.desk.maps.take(Batch([Change(found, found) for found in self.maps.values()], listed=True))
        self.desk.touch_all()
        known = {uid: each for pods in self.desk.pods.values() for uid, each in pods.items()}
        there = {each.metadata.uid: each for each in self.pods.values()}
        for uid, old in known.items():
            if uid not in there:
                self.desk.take_pod(old, None)
        for uid, new in there.items():
            self.desk.take_pod(known.get(uid), new)

    def put_map(self, found: ConfigMap) -> None:
        """A map that the watch delivers."""
        self.maps[found.metadata.name] = found
        self.desk.maps.take(Batch([Change(None, found)]))
        self.desk.touch_map(found)

    def put_node(self, node: ClusterNode) -> None:
        """A node that the watch delivers."""
        self.nodes[node.metadata.name] = node
        self.desk.touched.add(node.metadata.name)

    def settle(self) -> Due:
        """One round: what is due is written as the API server would take it, and comes back by the watch."""
        due = self.desk.due()
        for name, (text, version) in due.texts.items():
            found = self.maps[name]
            if version != found.metadata.resource_version:
                self.desk.touch_all()  # refused: somebody else was faster
                continue
            self.put_map(a_map(text, name, int(version) + 1, labels=found.metadata.labels))
        for name, body in due.create.items():
            self.put_map(a_map(body["data"]["topology.yml"], name, labels=body["metadata"]["labels"]))
        for name in due.delete:
            gone = self.maps.pop(name)
            self.desk.maps.take(Batch([Change(gone, None)]))
            self.desk.touch_map(gone)
        for name, patch in due.marks.items():
            self.put_node(marked(self.nodes[name], patch))
        return due

    def settled(self) -> dict[str, str]:
        """The maps when nothing is due any more, without their copies."""
        for _ in range(5):
            due = self.settle()
            if not (due.texts or due.create or due.delete or due.marks):
                return {name: found.text for name, found in self.maps.items() if not name.startswith("last-good-")}
        raise AssertionError("the updater never comes to rest")

    def rebuilt(self) -> dict[str, str]:
        """What an updater that begins anew makes of the same cluster."""
        self.start()
        return self.settled()
