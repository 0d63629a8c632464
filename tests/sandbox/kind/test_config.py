"""What kind, kubeadm, kubelet and kube-scheduler are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import config
from gpuyard.sandbox.spec import Spec

REPOSITORY = Path(__file__).parents[3]


def rendered(**wanted: object) -> dict[str, Any]:
    return config.cluster(msgspec.convert(wanted, Spec), "node-image", Path("/home/ann/sandbox"))


def patches(**wanted: object) -> dict[str, dict[str, Any]]:
    found = [yaml.safe_load(text) for text in rendered(**wanted)["kubeadmConfigPatches"]]
    return {patch["kind"]: patch for patch in found}


@pytest.mark.parametrize("workers", [0, 1, 5])
def test_there_is_one_control_plane_and_as_many_workers_as_wanted(workers: int) -> None:
    nodes = rendered(nodes=workers)["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", *["worker"] * workers]
    assert {node["image"] for node in nodes} == {"node-image"}


def test_the_clusters_name_cannot_be_one_of_the_users_own() -> None:
    assert rendered(name="mine")["name"] == "gpuyard-mine"


def test_the_control_plane_sees_its_settings_and_may_not_change_them() -> None:
    mounts = {mount["containerPath"]: mount for mount in rendered()["nodes"][0]["extraMounts"]}
    assert mounts["/etc/gpuyard"] == {
        "hostPath": "/home/ann/sandbox/settings", "containerPath": "/etc/gpuyard", "readOnly": True,
    }  # fmt: skip
    assert mounts["/var/log/gpuyard"]["hostPath"] == "/home/ann/sandbox/logs"


def test_workers_see_nothing_of_the_host() -> None:
    assert all("extraMounts" not in node for node in rendered(nodes=2)["nodes"][1:])


def test_kubelets_report_every_two_seconds_and_start_on_old_cgroups() -> None:
    assert patches()["KubeletConfiguration"] == {
        "kind": "KubeletConfiguration", "nodeStatusUpdateFrequency": "2s", "failCgroupV1": False,
    }  # fmt: skip


def test_the_scheduler_reads_a_file_that_is_mounted_into_its_pod() -> None:
    scheduler = patches()["ClusterConfiguration"]["scheduler"]
    (volume,) = scheduler["extraVolumes"]
    assert Path(scheduler["extraArgs"]["config"]).parent == Path(volume["mountPath"])
    assert volume["readOnly"]


def test_the_api_server_keeps_an_audit_log_where_it_may_write() -> None:
    server = patches()["ClusterConfiguration"]["apiServer"]
    volumes = {volume["mountPath"]: volume["readOnly"] for volume in server["extraVolumes"]}
    assert volumes == {"/etc/gpuyard": True, "/var/log/gpuyard": False}
    assert Path(server["extraArgs"]["audit-log-path"]).parent == Path("/var/log/gpuyard")
    assert Path(server["extraArgs"]["audit-policy-file"]).parent == Path("/etc/gpuyard")


def test_flags_of_the_users_reach_the_api_server() -> None:
    flags = ("--feature-gates=A=true,B=false", "--v=4")
    arguments = patches(api_server_flags=flags)["ClusterConfiguration"]["apiServer"]["extraArgs"]
    assert arguments["feature-gates"] == "A=true,B=false"
    assert arguments["v"] == "4"


@pytest.mark.parametrize("flag", ["--v", "v", "--", "--=4"])
def test_a_flag_that_is_no_name_with_a_value_is_refused(flag: str) -> None:
    with pytest.raises(SandboxError, match="has no value") as refusal:
        patches(api_server_flags=(flag,))
    assert "--name=value" in refusal.value.remedy


@pytest.mark.parametrize("kind", ["InitConfiguration", "JoinConfiguration"])
def test_kubeadm_has_patience_with_a_busy_machine(kind: str) -> None:
    assert set(patches()[kind]["timeouts"].values()) == {"10m0s"}


def test_patches_name_no_version_so_that_kind_fits_them_to_kubeadms() -> None:
    assert all("apiVersion" not in patch for patch in patches().values())


def test_the_scheduler_is_wired_as_the_manifests_wire_it() -> None:
    shipped = yaml.safe_load((REPOSITORY / "manifests" / "kube-scheduler" / "config.yaml").read_text())
    assert config.scheduler("TOKEN") == shipped


def test_a_configuration_of_the_users_keeps_all_but_the_way_to_the_api_server() -> None:
    theirs = {"kind": "KubeSchedulerConfiguration", "parallelism": 4, "clientConnection": {"qps": 7, "kubeconfig": "x"}}
    assert config.scheduler("t", theirs) == {
        **theirs,
        "clientConnection": {"qps": 7, "kubeconfig": "/etc/kubernetes/scheduler.conf"},
    }


def test_another_address_replaces_that_of_every_extender_and_has_the_token() -> None:
    theirs = {"extenders": [{"urlPrefix": "http://a", "weight": 1}, {"urlPrefix": "http://b"}]}
    assert config.scheduler("t", theirs, "http://c")["extenders"] == [
        {"urlPrefix": "http://gpuyard:t@c", "weight": 1},
        {"urlPrefix": "http://gpuyard:t@c"},
    ]
