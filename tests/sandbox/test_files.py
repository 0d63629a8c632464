"""The files in a sandbox's folder."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from gpuyard.sandbox import files
from gpuyard.sandbox.components import COMPONENTS, Place
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from pathlib import Path

PORTS = {name: 20_000 + number for number, name in enumerate(COMPONENTS)}


def record(spec: Spec | None = None) -> Record:
    return Record(spec or Spec(), PORTS, {}, files.new_tokens())


def write(folder: Path, what: Record) -> Place:
    place = Place(folder, what.ports, what.spec)
    files.write(place, what)
    return place


def config(path: Path, **fields: Any) -> Path:  # noqa: ANN401 - YAML
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("kind: Policy")
    written = record(Spec(name="mine", nodes=2, audit_policy=policy, api_server_flags=("--v=2",)))
    written = msgspec.structs.replace(written, programs={"etcd": tmp_path / "etcd"})
    write(tmp_path / "home", written)
    assert files.read(tmp_path / "home") == written


@pytest.mark.parametrize("content", ["", "{", '{"spec": {"nodes": "many"}}', '{"spec": {"name": "UPPER"}}'])
def test_half_a_record_is_none(tmp_path: Path, content: str) -> None:
    assert files.read(tmp_path) is None
    (tmp_path / files.RECORD).write_text(content)
    assert files.read(tmp_path) is None


def test_secrets_are_the_users_alone(tmp_path: Path) -> None:
    write(tmp_path / "home", record())
    for name in (files.RECORD, "tokens.csv", *files.USERS):
        assert stat.S_IMODE((tmp_path / "home" / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_every_kubeconfig_names_its_user_with_a_token_the_api_server_knows(tmp_path: Path) -> None:
    what = record(Spec(name="mine"))
    write(tmp_path, what)
    table = [line.split(",") for line in (tmp_path / "tokens.csv").read_text().splitlines()]
    known = {user: token for token, user, *_ in table}
    for name, (user, _) in files.USERS.items():
        kubeconfig = yaml.safe_load((tmp_path / name).read_text())
        assert kubeconfig["users"] == [{"name": user, "user": {"token": known[user]}}]
        assert kubeconfig["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{PORTS['kube-apiserver']}"
        assert kubeconfig["current-context"] == "gpuyard-mine"
    assert '"system:masters"' in (tmp_path / "tokens.csv").read_text().splitlines()[0]


def test_tokens_are_new_for_each_sandbox() -> None:
    tokens = [*files.new_tokens().values(), *files.new_tokens().values()]
    assert len(set(tokens)) == len(tokens)


def test_writing_twice_changes_no_file(tmp_path: Path) -> None:
    what = record()
    write(tmp_path, what)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    write(tmp_path, what)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_the_scheduler_configuration_is_the_users_but_for_the_way_to_the_api_server(tmp_path: Path) -> None:
    source = config(
        tmp_path / "own.yaml",
        parallelism=4,
        leaderElection={"leaderElect": True},
        clientConnection={"kubeconfig": "/etc/scheduler.conf", "qps": 7},
    )
    place = write(tmp_path / "home", record(Spec(scheduler_config=source)))
    written = yaml.safe_load((tmp_path / "home" / "scheduler.yaml").read_text())
    assert written["parallelism"] == 4
    assert written["leaderElection"] == {"leaderElect": False}
    assert written["clientConnection"] == {"kubeconfig": place.path("scheduler.kubeconfig"), "qps": 7, "burst": 1000}


def test_the_extenders_get_the_wanted_address_with_the_token_and_keep_the_rest(tmp_path: Path) -> None:
    source = config(tmp_path / "own.yaml", extenders=[{"urlPrefix": "http://x", "filterVerb": "filter", "weight": 2}])
    spec = Spec(scheduler_config=source, extender_url="http://127.0.0.1:8080/scheduler")
    written = files.scheduler_config(Place(tmp_path, PORTS, spec), "secret")
    assert written["extenders"] == [
        {"urlPrefix": "http://gpuyard:secret@127.0.0.1:8080/scheduler", "filterVerb": "filter", "weight": 2}
    ]


def test_an_extender_address_without_extenders_is_refused(tmp_path: Path) -> None:
    spec = Spec(scheduler_config=config(tmp_path / "own.yaml"), extender_url="http://127.0.0.1:8080")
    with pytest.raises(SandboxError, match=r"own\.yaml has no extenders") as refusal:
        files.scheduler_config(Place(tmp_path, PORTS, spec), "secret")
    assert "leave --extender-url out" in refusal.value.remedy


def test_a_record_outlives_the_files_it_was_made_from(tmp_path: Path) -> None:
    source = config(tmp_path / "own.yaml")
    written = record(Spec(scheduler_config=source))
    write(tmp_path / "home", written)
    source.unlink()
    assert files.read(tmp_path / "home") == written


@pytest.mark.parametrize("text", [None, b"{a: [", b"\xff\xfe", b"a: 2020-13-45"])
def test_a_scheduler_configuration_that_cannot_be_read_is_named(tmp_path: Path, text: bytes | None) -> None:
    source = tmp_path / "own.yaml"
    if text:
        source.write_bytes(text)
    with pytest.raises(SandboxError, match=r"own\.yaml cannot be read") as refusal:
        files.scheduler_config(Place(tmp_path, PORTS, Spec(scheduler_config=source)), "secret")
    assert "--scheduler-config" in refusal.value.remedy


@pytest.mark.parametrize("text", ["kind: Pod", "[]", ""])
def test_a_file_that_is_no_scheduler_configuration_is_refused(tmp_path: Path, text: str) -> None:
    source = tmp_path / "own.yaml"
    source.write_text(text)
    with pytest.raises(SandboxError, match=r"own\.yaml is no KubeSchedulerConfiguration") as refusal:
        files.scheduler_config(Place(tmp_path, PORTS, Spec(scheduler_config=source)), "secret")
    assert "manifests/kube-scheduler/config.yaml" in refusal.value.remedy


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("clientConnection: []", "clientConnection that is no mapping"),
        ("extenders: {a: b}", "extenders that are no list of mappings"),
        ("extenders: [a]", "extenders that are no list of mappings"),
    ],
)
def test_a_scheduler_configuration_of_another_form_is_refused(tmp_path: Path, part: str, fault: str) -> None:
    source = tmp_path / "own.yaml"
    source.write_text(f"kind: KubeSchedulerConfiguration\n{part}")
    with pytest.raises(SandboxError, match=fault):
        files.scheduler_source(source)


def test_the_audit_log_leaves_out_reads_of_leases_and_no_writes() -> None:
    rules = yaml.safe_load((files.OURS / "audit-policy.yaml").read_text())["rules"]
    (leases,) = [rule for rule in rules if "leases" in str(rule.get("resources"))]
    assert (leases["level"], leases["verbs"]) == ("None", ["get", "list", "watch"])


def test_an_audit_policy_of_the_users_replaces_ours(tmp_path: Path) -> None:
    policy = tmp_path / "own.yaml"
    policy.write_text("kind: Policy")
    write(tmp_path / "one", record())
    write(tmp_path / "other", record(Spec(audit_policy=policy)))
    assert "omitStages" in (tmp_path / "one" / "audit-policy.yaml").read_text()
    assert (tmp_path / "other" / "audit-policy.yaml").read_text() == "kind: Policy"
