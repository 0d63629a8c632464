"""Metadata of any object is read; what is not needed is not kept."""

import msgspec
from gpuyard.common.kube.objects import Bare, Meta, ObjectReference, OwnerReference, refer
from gpuyard.common.kube.resources import NODES, PODS

POD = b"""{"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
"labels": {"a": "b"}, "managedFields": [{}], "deletionTimestamp": "2026-01-01T00:00:00Z",
"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": true}]}}"""


def test_metadata_is_read_by_its_names_on_the_wire() -> None:
    meta = msgspec.json.decode(POD, type=Bare).metadata
    assert (meta.key, meta.uid, meta.resource_version, meta.labels) == ("ns/p", "u", "7", {"a": "b"})
    assert meta.deletion_timestamp == "2026-01-01T00:00:00Z"
    assert meta.owner_references == (OwnerReference("o", "Job", "j", "batch/v1", controller=True),)


def test_a_cluster_scoped_object_is_known_by_its_name_alone() -> None:
    assert Meta(name="n1").key == "n1"


def test_a_reference_says_which_object_and_leaves_out_what_it_has_not() -> None:
    assert refer(PODS, Meta(name="p", namespace="ns", uid="u")) == ObjectReference("v1", "Pod", "p", "ns", "u")
    node = msgspec.to_builtins(refer(NODES, Meta(name="n1")))
    assert node == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
