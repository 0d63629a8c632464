"""What in a namespace of ours is somebody else's."""

import pytest
from gpuyard.cli.inventory import Thing, is_strange
from gpuyard.common.kube.objects import Meta, OwnerReference
from gpuyard.common.kube.resources import CONFIG_MAPS


@pytest.mark.parametrize(
    "meta",
    [
        Meta(name="anything", labels={"app.kubernetes.io/part-of": "gpuyard"}),
        Meta(name="pod-of-a-deployment", owner_references=(OwnerReference(name="some"),)),
        Meta(name="kube-root-ca.crt"),
        Meta(name="default"),
        Meta(name="topology"),
        Meta(name="topology-node-1"),
        Meta(name="gpu-profile-mine"),
        Meta(name="gpuyard-status-updater"),
    ],
    ids=lambda meta: meta.name,
)
def test_what_gpuyard_makes_and_what_every_namespace_has_is_not(meta: Meta) -> None:
    assert not is_strange(meta)


@pytest.mark.parametrize("name", ["notes", "my-topology", "defaults"])
def test_everything_else_is(name: str) -> None:
    assert is_strange(Meta(name=name, labels={"app.kubernetes.io/part-of": "another"}))


def test_a_thing_is_told_by_kind_and_name() -> None:
    thing = Thing(CONFIG_MAPS, Meta(name="notes", namespace="gpuyard"))
    assert str(thing) == "ConfigMap notes"
    assert thing.address.path == "/api/v1/namespaces/gpuyard/configmaps/notes"
