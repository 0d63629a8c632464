"""The five processes of a sandbox: how each is started, what it reads, and when it is ready.

etcd --> kube-apiserver --> kube-controller-manager, kube-scheduler (unmodified), kwok
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuyard.sandbox.spec import Spec


# Seconds, five times kubelet's: KWOK renews the leases of all nodes, and a busy machine must not make nodes look dead.
LEASE = 200


@dataclass(frozen=True)
class Place:
    """Where a sandbox lives: its folder and its ports."""

    folder: Path
    ports: Mapping[str, int]
    spec: Spec

    def path(self, name: str) -> str:
        """A file of the sandbox."""
        return str(self.folder / name)


@dataclass(frozen=True)
class Component:
    """A process of the sandbox; its name is its program's."""

    name: str
    flags: Callable[[Place], list[str]]
    health: str
    reads: tuple[str, ...] = ()

    def command(self, program: Path, place: Place) -> list[str]:
        """The command line."""
        return [str(program), *self.flags(place)]

    def health_url(self, place: Place) -> str:
        """The page that answers 200 once the component is ready."""
        return self.health.format(port=place.ports[self.name])

    def digest(self, program: Path, place: Place) -> str:
        """Changes whenever the component would have to be started anew."""
        content = "\0".join(self.command(program, place)).encode()
        files = [(place.folder / name).read_bytes() for name in self.reads]
        return hashlib.sha256(b"\0".join([content, *files])).hexdigest()[:16]


def _etcd(place: Place) -> list[str]:
    url = f"http://127.0.0.1:{place.ports['etcd']}"
    return [
        f"--data-dir={place.path('etcd')}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",  # a single member has no peers
        "--unsafe-no-fsync",  # a sandbox need not survive a power cut; a kill it does survive
        "--log-level=warn",
    ]


def _api_server(place: Place) -> list[str]:
    key = place.path("pki/apiserver.key")
    return [
        f"--etcd-servers=http://127.0.0.1:{place.ports['etcd']}",
        "--bind-address=127.0.0.1",
        f"--secure-port={place.ports['kube-apiserver']}",
        f"--cert-dir={place.path('pki')}",  # it makes its own certificate and key there
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",  # nothing in the cluster could reach a loopback address
        f"--token-auth-file={place.path('tokens.csv')}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--audit-policy-file={place.path('audit-policy.yaml')}",
        f"--audit-log-path={place.path('audit.log')}",
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=1",
        *place.spec.api_server_flags,
    ]


def _controller_manager(place: Place) -> list[str]:
    kubeconfig = place.path("controller-manager.kubeconfig")
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",  # there are no client certificates here to look up an authority for
        "--bind-address=127.0.0.1",
        f"--secure-port={place.ports['kube-controller-manager']}",
        "--leader-elect=false",  # there is one, and a restarted one need not wait for its own lease
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={place.path('pki/apiserver.key')}",
        f"--root-ca-file={place.path('pki/apiserver.crt')}",
        f"--node-monitor-grace-period={LEASE}s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _scheduler(place: Place) -> list[str]:
    kubeconfig = place.path("scheduler.kubeconfig")
    return [
        f"--config={place.path('scheduler.yaml')}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",  # there are no client certificates here to look up an authority for
        "--bind-address=127.0.0.1",
        f"--secure-port={place.ports['kube-scheduler']}",
    ]


def _kwok(place: Place) -> list[str]:
    return [
        f"--kubeconfig={place.path('kwok.kubeconfig')}",
        f"--config={place.path('stages.yaml')}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={LEASE}",
        "--node-ip=10.0.0.1",
        "--cidr=10.128.0.0/9",
        f"--server-address=127.0.0.1:{place.ports['kwok']}",
    ]


ETCD = Component("etcd", _etcd, "http://127.0.0.1:{port}/health")
API_SERVER = Component(
    "kube-apiserver", _api_server, "https://127.0.0.1:{port}/readyz", reads=("tokens.csv", "audit-policy.yaml")
)
CONTROLLER_MANAGER = Component(
    "kube-controller-manager",
    _controller_manager,
    "https://127.0.0.1:{port}/healthz",
    reads=("controller-manager.kubeconfig",),
)
SCHEDULER = Component(
    "kube-scheduler",
    _scheduler,
    "https://127.0.0.1:{port}/readyz",
    reads=("scheduler.kubeconfig", "scheduler.yaml"),
)
KWOK = Component("kwok", _kwok, "http://127.0.0.1:{port}/healthz", reads=("kwok.kubeconfig", "stages.yaml"))

# Each group needs the one before it; within a group all start at once.
GROUPS = ((ETCD,), (API_SERVER,), (CONTROLLER_MANAGER, SCHEDULER, KWOK))
COMPONENTS = {component.name: component for group in GROUPS for component in group}
PROGRAMS = (*COMPONENTS, "etcdctl", "kubectl")
