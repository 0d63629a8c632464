"""Paths follow the API groups, and addresses read well in errors."""

from urllib.parse import unquote

import pytest
from gpuyard.common.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS, QUEUES, Address


@pytest.mark.parametrize(
    ("address", "path", "about"),
    [
        (PODS.within(), "/api/v1/pods", "pods"),
        (PODS.within("ns"), "/api/v1/namespaces/ns/pods", "pods in ns"),
        (PODS.named("p", "ns"), "/api/v1/namespaces/ns/pods/p", "pods ns/p"),
        (PODS.named("p", "ns").sub("eviction"), "/api/v1/namespaces/ns/pods/p/eviction", "pods ns/p/eviction"),
        (NODES.named("n1").sub("status"), "/api/v1/nodes/n1/status", "nodes n1/status"),
        (LEASES.within("ns"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases", "leases in ns"),
        (QUEUES.named("team-a"), "/apis/scheduling.run.ai/v2/queues/team-a", "queues team-a"),
        (CONFIG_MAPS.named("topology", "m"), "/api/v1/namespaces/m/configmaps/topology", "configmaps m/topology"),
    ],
)
def test_an_address_is_a_path_and_words(address: Address, path: str, about: str) -> None:
    assert (address.path, address.about) == (path, about)


@pytest.mark.row("X-11")
@pytest.mark.parametrize("name", ["x/exec?command=id", "../secrets/s", "x#y", "x%2Fexec"])
def test_a_name_is_one_part_of_a_path_whatever_it_contains(name: str) -> None:
    path = PODS.named(name, name).path
    assert path.count("/") == len(["", "api", "v1", "namespaces", "n", "pods", "p"]) - 1
    assert not set("?#") & set(path)
    assert unquote(path.rpartition("/")[2]) == name
