"""The inventory: what kubelet is told of, and when a device may go."""

import pytest
from gpuyard.common.topology.resources import Offer
from gpuyard.device_plugin.inventory import Inventory, preferred

A, B = Offer("a", healthy=True), Offer("b", healthy=True)


def offered(*offers: Offer) -> Inventory:
    inventory = Inventory()
    inventory.offer(offers)
    return inventory


def test_devices_are_told_in_the_topologys_order_with_their_health() -> None:
    inventory = offered(B, Offer("a", healthy=False))
    assert list(inventory.health.items()) == [("b", "Healthy"), ("a", "Unhealthy")]


def test_health_goes_both_ways_and_each_way_is_news() -> None:
    inventory = offered(A)
    assert inventory.offer([Offer("a", healthy=False)])
    assert inventory.health == {"a": "Unhealthy"}
    assert inventory.offer([A])
    assert inventory.health == {"a": "Healthy"}
    assert not inventory.offer([A])


def test_another_numa_zone_is_news() -> None:
    inventory = offered(A)
    assert inventory.offer([Offer("a", healthy=True, zone=1)])
    assert [device.zone for device in inventory.devices] == [1]


def test_a_device_that_is_no_longer_offered_is_unhealthy_until_nobody_has_it() -> None:
    inventory = offered(A, B)
    assert inventory.offer([A])
    assert inventory.health == {"a": "Healthy", "b": "Unhealthy"}
    assert not inventory.release({"b"})
    assert inventory.release({"a"})
    assert inventory.health == {"a": "Healthy"}


def test_a_device_that_is_offered_again_stays() -> None:
    inventory = offered(A, B)
    inventory.offer([A])
    inventory.offer([A, B])
    assert inventory.leaving == ()
    assert inventory.health == {"a": "Healthy", "b": "Healthy"}


def test_a_device_that_a_pod_has_from_before_our_restart_is_told_as_unhealthy() -> None:
    inventory = offered(A)
    assert inventory.adopt({"a", "old"})
    assert inventory.health == {"a": "Healthy", "old": "Unhealthy"}
    assert not inventory.adopt({"a", "old"})


@pytest.mark.row("M-33", case="must-include")
def test_what_must_be_included_is_and_the_rest_is_the_lowest_index() -> None:
    order = ["g1", "g2", "g3"]
    assert preferred(["g1", "g2"], ["g2"], 1, order) == ["g2"]
    for available in (["g3", "g2", "g1"], ["g1", "g3", "g2"]):
        assert preferred(available, ["g3"], 2, order) == ["g3", "g1"]


@pytest.mark.row("M-33", case="too-many")
def test_more_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 devices are asked for, 2 are available"):
        preferred(["g1", "g2"], ["g2"], 3, ["g1", "g2"])


def test_fewer_than_must_be_included_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 must be in it"):
        preferred(["g1", "g2"], ["g1", "g2"], 1, ["g1", "g2"])
