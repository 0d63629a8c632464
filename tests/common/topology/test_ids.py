"""Ids: a pure function of names, for ever."""

from gpuyard.common.topology.ids import gpu_id, mig_id, other_id, pci_bus_id, physical_id, replica_id


def test_a_missing_id_is_made_of_the_nodes_name_and_the_index() -> None:
    assert gpu_id("node-1", 0) == "GPU-1db792c1-8cea-5a63-95f0-bb954b5adfa1"


def test_instances_of_one_profile_differ_by_number() -> None:
    assert len({mig_id("G", "1g.5gb", 0), mig_id("G", "1g.5gb", 1), mig_id("H", "1g.5gb", 0)}) == 3


def test_a_replica_knows_its_device() -> None:
    assert replica_id("GPU-1", 3) == "GPU-1::3"
    assert physical_id("GPU-1::3") == physical_id("GPU-1") == "GPU-1"


def test_another_resources_devices_count_up() -> None:
    assert other_id("example.com/x", 2) == "example.com-x-2"


def test_the_pci_bus_begins_at_seven_and_ends_at_255() -> None:
    assert (pci_bus_id(0), pci_bus_id(248)) == ("00000000:07:00.0", "00000000:FF:00.0")
