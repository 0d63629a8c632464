"""What cluster tests compare of a machine changes by engines and clusters, and not by what else goes on there."""

from pathlib import Path

from tests.cluster import machine


def test_services_that_come_and_go_meanwhile_are_not_compared() -> None:
    system = "/sys/fs/cgroup/system.slice"
    assert machine.marked([f"{system}/logrotate.service", "lo", "eth0", "/run/user/0", "/proc"]) == []


def test_what_engines_and_clusters_leave_is_compared() -> None:
    left = ["/run/gpuyard-1/netns/a", "/sys/fs/cgroup/memory/gpuyard-1", "br-12", "gy34", "veth5"]
    assert machine.marked([*left, left[0]]) == sorted(left)


def test_a_process_that_ends_while_it_is_looked_at_is_none(tmp_path: Path) -> None:
    for pid, name in ((1, b"/usr/bin/dockerd\0--x\0"), (2, b"\xff\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(name)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "cmdline").symlink_to(tmp_path / "gone")
    assert sorted(machine._programs(tmp_path)) == ["/usr/bin/dockerd", "\ufffd"]
