"""The rights in the extender's manifest: all of them are used, and no other is missed.

It runs under its own account and goes through a story in which each right is needed. Whoever takes one away finds it
refused here; whoever gives one more finds it unused.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from gpuyard.common.kube.resources import PLANS
from gpuyard.sandbox import down, files, ports, processes
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, manifests, set_up

from tests.cluster.crowd import Call, send
from tests.cluster.owners import definitions
from tests.cluster.planner import HEAD, evicted
from tests.cluster.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.common.kube.client import Client

    from tests.cluster.yard import Json

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

ACCOUNT = "gpuyard-extender"
HOME = "gpuyard"
USER = f"system:serviceaccount:{HOME}:{ACCOUNT}"
RIGHTS = manifests() / "base" / "extender" / "rbac.yaml"
LAYERS = {name: manifests() / "overlays" / name / "rbac.yaml" for name in ("move-bare-pods", "ignore-budgets")}
SOON = 90
A_FEW = 3
BUDGETS_DO_NOT_HOLD = "moveBarePods: true\nhonorDisruptionBudgets: false\n"
BARE_PODS_MOVE = "moveBarePods: true\n"

# The sandbox's audit log leaves reads of leases out: that they are needed shows in that the extender leads at all.
UNSEEN = {("get", "leases")}


class Use(NamedTuple):
    """What the extender asked the API server, and what came of it."""

    verb: str
    resource: str
    code: int


def granted() -> set[tuple[str, str]]:
    """Every right that the manifest gives."""
    roles = [one for one in yaml.safe_load_all(RIGHTS.read_text()) if one and "rules" in one]
    return {
        (verb, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def uses(yard: Yard) -> Iterator[Use]:
    for line in yard.cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if about and event["user"]["username"] == USER:
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            yield Use(event["verb"], resource, event.get("responseStatus", {}).get("code", 0))


class Stage:
    """A sandbox whose extender has its own account, and nothing but the rights of the manifest."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.kubectl = yard.cluster.kubectl
        self.settings = yard.cluster.folder / "extender.yaml"

    def prepare(self) -> None:
        """The account and its rights, a pod that it takes itself for, and as many old plans as are kept."""
        self.yard.cluster.stop(EXTENDER)
        self.kubectl("create", "namespace", HOME)
        self.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s", "--namespace", HOME)
        self.kubectl("apply", "--namespace", HOME, "-f", str(RIGHTS))
        self.yard.apply(*definitions())
        self.yard.apply(self.yard.pod("it", gpus=0) | {"metadata": {"name": "it", "namespace": HOME}})
        send(self.yard.cluster.kubeconfig, [one_that_ended(f"old-{number}") for number in range(A_FEW)])

    def start(self) -> processes.Process:
        """The extender, where kube-scheduler asks it."""
        self.settings.write_text(HEAD)
        config = yaml.safe_load(self.yard.cluster.kubeconfig.read_text())
        token = self.kubectl("create", "token", ACCOUNT, "--namespace", HOME, "--duration=6h").strip()
        config["users"][0]["user"] = {"token": token}
        access = self.yard.cluster.folder / "its.kubeconfig"
        access.write_text(yaml.safe_dump(config))
        port = extender_port(self.yard.cluster)
        self.yard.until(lambda: not ports.taken(port) and not ports.taken(port + 1), SOON, "its ports are free")
        options = ["--host=127.0.0.1", f"--port={port}", f"--ops-port={port + 1}", f"--config={self.settings}"]
        options.append(f"--token={self.yard.cluster.folder / files.EXTENDER_TOKEN}")
        election = [f"--lease-namespace={HOME}", "--pod=it"]
        command = [sys.executable, "-m", "gpuyard.extender", f"--kubeconfig={access}", *options, *election]
        folder = self.yard.cluster.folder
        return processes.start(command, folder, EXTENDER, "", self.yard.cluster.log("it"))

    def serves(self) -> bool:
        try:
            return not self.yard.filter(self.yard.pod("nobody", gpus=0))["Error"]
        except OSError:
            return False

    # --- the story ---

    def scatter(self) -> None:
        """A pod needs a whole node, and two bare pods that could share a node stand on two."""
        team = self.yard.queue("team")
        self.yard.submit("rock-1", "rock-2", gpus=8)
        self.yard.submit("one", "guest", queue=team, gpus=4)
        self.yard.until(lambda: len(self.yard.placed()) == 4, SOON, "three nodes are full")
        self.yard.submit("two", queue=team, gpus=4)
        self.yard.until(lambda: "two" in self.yard.placed(), SOON, "the last one is in use")
        self.yard.delete("guest")
        self.yard.submit("large", queue=team, gpus=8)

    def stays_as_it_is(self) -> None:
        """Bare pods are not moved, as set by default; nothing is tried that takes a right."""
        self.yard.until(lambda: self.reason("large") == "Fragmented", SOON, "it is told why it waits")
        self.yard.rests(lambda: "large" not in self.yard.placed(), 5, "nobody moves")
        assert evicted(self.yard) == []
        assert self.refused() == []

    def move(self) -> None:
        """A bare pod is moved and made anew; the oldest plan goes for this one."""
        self.bind("move-bare-pods")
        self.settings.write_text(HEAD + BARE_PODS_MOVE)
        self.yard.delete("large")
        time.sleep(3)  # it looks every second
        self.yard.submit("large", queue=self.yard.queue("team"), gpus=8)
        self.yard.until(lambda: {"one", "two", "large"} <= self.yard.placed(), SOON, "all stand")
        self.yard.until(lambda: ("delete", "plans") in self.done(), SOON, "the oldest plan has gone")

    def take_back(self) -> None:
        """Who has to leave is deleted, since the settings say that budgets do not hold."""
        self.bind("ignore-budgets")
        self.settings.write_text(HEAD + BUDGETS_DO_NOT_HOLD)
        time.sleep(3)  # it looks every second
        owner = self.yard.queue("owner", quota=8)
        self.yard.queue("team", quota=0)
        self.yard.submit("own", queue=owner, gpus=8)
        self.yard.until(lambda: "own" in self.yard.placed(), SOON, "the owner has its node")

    def tell(self) -> None:
        """The reason why a pod waits changes and changes back, so that an Event becomes a series."""
        self.yard.submit("flip", queue=self.yard.queue("flip", limit=0), gpus=64)
        for limit in (0, -1, 0):
            self.yard.queue("flip", limit=limit)
            self.yard.until(lambda limit=limit: self.reason("flip") == REASONS[limit], SOON, f"{REASONS[limit]}")  # type: ignore[misc]
        self.yard.until(lambda: ("patch", "events") in self.done(), SOON, "the same Event again is one of a series")

    def bind(self, layer: str) -> None:
        """Give the account one more layer of rights."""
        self.kubectl("apply", "-f", str(LAYERS[layer]))

    def refused(self) -> list[Use]:
        """What it tried without having the right."""
        return [use for use in uses(self.yard) if use.code == 403]

    def reason(self, pod: str) -> str:
        """The reason that a pod was told last."""
        found = json.loads(self.kubectl("get", "events.events.k8s.io", "-n", self.yard.namespace, "-o", "json"))
        told = [one for one in found["items"] if one["regarding"].get("name") == pod and one["reason"] in TOLD]
        return str(max(told, key=latest)["reason"]) if told else ""

    def done(self) -> set[tuple[str, str]]:
        """What it did and was let do."""
        return {(use.verb, use.resource) for use in uses(self.yard) if use.code < 400}


REASONS = {0: "OverLimit", -1: "PodSchedulingErrors"}
TOLD = frozenset({*REASONS.values(), "Fragmented"})


def latest(event: Json) -> str:
    """When an Event was last told."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event["eventTime"])


def one_that_ended(name: str) -> Call:
    """A call that makes a plan which ended long ago."""
    kind = {"apiVersion": PLANS.api_version, "kind": PLANS.kind}
    body = kind | {"metadata": {"name": name}, "spec": {"phase": "reclaim"}}
    ended = {"status": {"state": "Kept", "finished": "2026-01-01T00:00:00Z"}}

    async def call(client: Client) -> None:
        await client.create(PLANS.within(), body)
        await client.patch(PLANS.named(name).sub("status"), ended)

    return call


@pytest.fixture
def stage(sandbox_names: Iterator[str]) -> Iterator[Stage]:
    cluster = set_up(next(sandbox_names), print)
    try:
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield Stage(Yard(cluster, "default"))
    finally:
        down(cluster.name)


@pytest.mark.row("X-79")
def test_the_extender_uses_every_right_that_it_is_given_and_misses_none(stage: Stage) -> None:
    stage.prepare()
    process = stage.start()
    try:
        stage.yard.until(stage.serves, SOON, "it leads and serves")
        stage.scatter()
        stage.stays_as_it_is()
        stage.move()
        stage.take_back()
        stage.tell()
    finally:
        processes.end(process, grace=10)
    assert stage.done() | UNSEEN == granted() | UNSEEN
    assert stage.refused() == []
