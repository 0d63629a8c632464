"""Whether kube-scheduler's own words leave any hope in evictions."""

import pytest
from gpuyard.extender.planner.verdicts import evictions_may_help

NOBODY = " no new claims to deallocate, preemption: 0/4 nodes are available: "


@pytest.mark.parametrize(
    "causes",
    [
        "4 Insufficient nvidia.com/gpu." + NOBODY + "4 No preemption victims found for incoming pod.",
        "3 Too many pods, 1 node(s) had untolerated taint(s)." + NOBODY + "4 Preemption is not helpful for scheduling.",
        "1 node(s) were unschedulable, 3 queue team, with 2 departments, has a limit of 8 GPUs.",
    ],
)
def test_where_something_is_short_evictions_may_help(causes: str) -> None:
    assert evictions_may_help(f"0/4 nodes are available: {causes}")


@pytest.mark.parametrize(
    "causes",
    [
        'persistentvolumeclaim "data" not found.' + NOBODY + "4 Preemption is not helpful for scheduling.",
        "pod has unbound immediate PersistentVolumeClaims. not found",
        "4 node(s) didn't match pod affinity rules." + NOBODY + "4 No preemption victims found for incoming pod.",
        "1 node(s) had untolerated taint(s), 3 node(s) didn't have free ports for the requested pod ports.",
    ],
)
def test_where_the_cause_is_another_they_do_not(causes: str) -> None:
    assert not evictions_may_help(f"0/4 nodes are available: {causes}")


@pytest.mark.parametrize("said", ["", "gpuyard is starting: it does not know the cluster yet", "0/x nodes"])
def test_what_cannot_be_read_is_held_against_nobody(said: str) -> None:
    assert evictions_may_help(said)
