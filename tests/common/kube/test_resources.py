"""Paths follow the API groups, and addresses read well in errors."""

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
