"""The files of a sandbox's folder: tokens, kubeconfigs, and the settings its components read."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from gpuyard.common import tokens
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from gpuyard.sandbox.components import Place

OURS = Path(__file__).parent
RECORD = "sandbox.json"

# Kubeconfig file: (user, group). The scheduler and the controller manager get the rights that every cluster gives them.
ADMINISTRATOR = "gpuyard-admin"
USERS = {
    "kubeconfig": (ADMINISTRATOR, "system:masters"),
    "kwok.kubeconfig": ("kwok", "system:masters"),
    "scheduler.kubeconfig": ("system:kube-scheduler", ""),
    "controller-manager.kubeconfig": ("system:kube-controller-manager", ""),
}
EXTENDER = "gpuyard-extender"
"""Whose token kube-scheduler shows when it asks; the API server knows nothing of it."""

EXTENDER_TOKEN = "extender-token"  # noqa: S105 - a folder
"""Where the extender reads it: its option --token."""

DEFAULT_SCHEDULER: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Record(msgspec.Struct, frozen=True):
    """What a sandbox has to remember between commands; everything else can be told from it."""

    spec: Spec
    ports: dict[str, int]
    programs: dict[str, Path]
    tokens: dict[str, str]


def read(folder: Path) -> Record | None:
    """The record in a sandbox's folder; None if there is none, or none that can be read."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record, dec_hook=_construct)
    except (OSError, msgspec.DecodeError):
        return None


def _construct(kind: type, value: object) -> object:
    return kind(value)


def new_tokens() -> dict[str, str]:
    """A secret for each user, and the one by which the extender knows kube-scheduler."""
    return {user: secrets.token_hex(16) for user, _ in USERS.values()} | {EXTENDER: tokens.new()}


def write(place: Place, record: Record) -> None:
    """Write the record, and every file that the components read."""
    folder = place.folder
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "logs").mkdir(exist_ok=True)
    _write_record(folder, record)
    _private(folder / "tokens.csv", _token_table(record.tokens))
    for name, (user, _) in USERS.items():
        _private(folder / name, yaml.safe_dump(_kubeconfig(place, user, record.tokens[user]), sort_keys=False))
    policy = place.spec.audit_policy or OURS / "audit-policy.yaml"
    (folder / "audit-policy.yaml").write_bytes(policy.read_bytes())
    (folder / "stages.yaml").write_bytes((OURS / "stages.yaml").read_bytes())
    (folder / EXTENDER_TOKEN).mkdir(exist_ok=True, mode=0o700)
    _private(folder / EXTENDER_TOKEN / tokens.TOKEN, record.tokens[EXTENDER])
    config = scheduler_config(place, record.tokens[EXTENDER])
    _private(folder / "scheduler.yaml", yaml.safe_dump(config, sort_keys=False))


def scheduler_config(place: Place, token: str) -> dict[str, Any]:
    """The wanted KubeSchedulerConfiguration, pointed at this sandbox's API server and extender, with its token."""
    source = place.spec.scheduler_config
    config = scheduler_source(source, place.spec.extender_url) if source else dict(DEFAULT_SCHEDULER)
    config["leaderElection"] = {"leaderElect": False}
    config["clientConnection"] = {
        "qps": 500,
        "burst": 1000,
        **config.get("clientConnection", {}),
        "kubeconfig": place.path("scheduler.kubeconfig"),
    }
    if place.spec.extender_url:
        url = tokens.with_token(place.spec.extender_url, token)
        config["extenders"] = [{**one, "urlPrefix": url} for one in config["extenders"]]
    return config


def scheduler_source(source: Path, extender_url: str = "") -> dict[str, Any]:
    """Read a KubeSchedulerConfiguration; a file that is none, or lacks extenders to point, is a SandboxError."""
    try:
        config = yaml.safe_load(source.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise SandboxError(
            "scheduler configuration", f"{source} cannot be read: {error}",
            remedy="Name a YAML file that you can read with --scheduler-config.",
        ) from error  # fmt: skip
    if fault := _fault(config):
        raise SandboxError(
            "scheduler configuration", f"{source} {fault}",
            remedy="manifests/kube-scheduler/config.yaml is one to begin with.",
        )  # fmt: skip
    if extender_url and not config.get("extenders"):
        raise SandboxError(
            "scheduler configuration", f"{source} has no extenders for {extender_url}",
            remedy="Add `extenders:` as in manifests/kube-scheduler/config.yaml, or leave --extender-url out.",
        )  # fmt: skip
    return dict(config)


def _fault(config: object) -> str:
    """What is wrong with the parts of the configuration that we change; the rest is kube-scheduler's matter."""
    if not isinstance(config, dict) or config.get("kind") != DEFAULT_SCHEDULER["kind"]:
        return "is no KubeSchedulerConfiguration"
    if not isinstance(config.get("clientConnection", {}), dict):
        return "has a clientConnection that is no mapping"
    extenders = config.get("extenders", [])
    if not isinstance(extenders, list) or not all(isinstance(one, dict) for one in extenders):
        return "has extenders that are no list of mappings"
    return ""


def _write_record(folder: Path, record: Record) -> None:
    """Replace the record in one step: nobody ever reads half of it."""
    partial = folder / f"{RECORD}.partial"
    _private(partial, msgspec.json.format(msgspec.json.encode(record, enc_hook=str)).decode())
    partial.rename(folder / RECORD)


def _token_table(tokens: dict[str, str]) -> str:
    rows = [f'{tokens[user]},{user},{user},"{group}"' for user, group in USERS.values()]
    return "\n".join(rows) + "\n"


def _kubeconfig(place: Place, user: str, token: str) -> dict[str, Any]:
    name = f"gpuyard-{place.spec.name}"
    server = f"https://127.0.0.1:{place.ports['kube-apiserver']}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority": place.path("pki/apiserver.crt")}}
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)  # it may be there from an earlier version, for all to read
    path.write_text(text)
