"""The rights that the manifests give: all of them are used, no other is missed, and the loss of each one shows.

Each component runs under its own account on a real API server. What a right is for stands in the table `LOSSES`.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import SandboxError, Spec, down, up

from tests.mock.daemons import NAMESPACE, RIGHTS, Mock, a_pod, eventually, topology
from tests.mock.rights import FORBIDDEN, USER, Audit, Right, Use, granted, policy, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

COMPONENTS = {
    f"gpuyard-{name.replace('_', '-')}": name for name in ("status_updater", "gfd", "dcgm_exporter", "device_plugin")
}
PLUGIN, EXPORTER, GFD, UPDATER = (
    "gpuyard-device-plugin",
    "gpuyard-dcgm-exporter",
    "gpuyard-gfd",
    "gpuyard-status-updater",
)
READERS = (PLUGIN, EXPORTER, GFD, UPDATER)


class Stage:
    """The mock with a plugin, a topology of a size that no test before had, and what shows of it."""

    def __init__(self, mock: Mock) -> None:
        self.mock = mock
        self.audit = Audit(mock.cluster)
        self.round = 0
        self._sizes = count(1)
        self.size = 0

    def grow(self) -> None:
        """Name one node more GPUs than ever; the other follows a pool."""
        self.size = next(self._sizes)
        self.mock.put(topology({"node-1": self.size}))

    def pool(self) -> None:
        self.mock.cluster.kubectl("label", "--overwrite", "node", "node-3", "pool=a")
        self.mock.put("nodePools: {a: {gpu: {profile: t4}}}\nnodePoolLabelKey: pool\n")

    def pool_and_back(self) -> None:
        self.pool()
        eventually(self.has_map)
        self.mock.put(topology({"node-1": 1}))

    def pod(self) -> None:
        """A pod that runs on a node with GPUs."""
        self.grow()
        self.mock.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(a_pod("p", node="node-1")))

    def mistake(self) -> None:
        """A topology that cannot be read, after one that can."""
        self.grow()
        self.mock.put(f"nodes: {{node-1: {{colour-{self.round}: red}}}}\n")

    def mistakes(self) -> None:
        """The same mistake again."""
        self.mistake()
        eventually(self.told)
        self.mistake()

    # ---- what shows of it

    def capacity(self) -> bool:
        return self.mock.gpus_of("node-1") == (str(self.size), str(self.size))

    def labelled(self) -> bool:
        return bool(self._labels().get("nvidia.com/gpu.count") == str(self.size))

    def marked(self) -> bool:
        return "gpuyard.io/mock" in self._labels()

    def _labels(self) -> dict[str, str]:
        found: dict[str, str] = self.mock.get("node", "node-1")["metadata"]["labels"]
        return found

    def series(self) -> bool:
        with contextlib.suppress(OSError):
            return len(self.mock.series()) == self.size
        return False

    def read(self) -> bool:
        """The plugin knows the topology; that it finds no kubelet here is another matter."""
        return "has not been read" not in self.mock.daemons["device_plugin"].problem()

    def has_map(self) -> bool:
        return "topology-node-3" in self._maps()

    def has_no_map(self) -> bool:
        return not self.has_map()

    def _maps(self) -> set[str]:
        return {found["metadata"]["name"] for found in self.mock.get("configmaps", "-n", NAMESPACE)["items"]}

    def used(self) -> bool:
        return "node-1/0" in self.mock.usage()

    def told(self) -> bool:
        return bool(self._events())

    def told_again(self) -> bool:
        return any(event.get("series") for event in self._events())

    def _events(self) -> list[dict[str, Any]]:
        found = self.mock.get("events.events.k8s.io", "-n", NAMESPACE)["items"]
        return [event for event in found if event["reason"] == "TopologyRefused"]


@dataclass(frozen=True)
class Loss:
    """What no longer happens, for whom, once something gave reason for it; some only ask when they begin."""

    gives_reason: Callable[[Stage], None]
    shows: Mapping[str, Callable[[Stage], bool]]
    at_the_start: bool = False


FOLLOWED = {PLUGIN: Stage.read, EXPORTER: Stage.series, GFD: Stage.labelled, UPDATER: Stage.capacity}
LEADS = {GFD: Stage.labelled, UPDATER: Stage.capacity}
KNOWS_NODES = {EXPORTER: Stage.series, GFD: Stage.labelled, UPDATER: Stage.capacity}
LOSSES = {
    Right("list", "configmaps"): Loss(Stage.grow, FOLLOWED, at_the_start=True),
    Right("create", "configmaps"): Loss(Stage.pool, {UPDATER: Stage.has_map}),
    Right("patch", "configmaps"): Loss(Stage.pod, {UPDATER: Stage.used}),
    Right("delete", "configmaps"): Loss(Stage.pool_and_back, {UPDATER: Stage.has_no_map}),
    Right("create", "leases"): Loss(Stage.grow, LEADS, at_the_start=True),
    Right("get", "leases"): Loss(Stage.grow, LEADS, at_the_start=True),
    Right("update", "leases"): Loss(Stage.grow, LEADS, at_the_start=True),
    Right("list", "pods"): Loss(Stage.pod, {UPDATER: Stage.used}, at_the_start=True),
    Right("list", "nodes"): Loss(Stage.grow, KNOWS_NODES, at_the_start=True),
    Right("patch", "nodes"): Loss(Stage.grow, {GFD: Stage.labelled, UPDATER: Stage.marked}),
    Right("patch", "nodes/status"): Loss(Stage.grow, {UPDATER: Stage.capacity}),
    Right("create", "events"): Loss(Stage.mistake, {UPDATER: Stage.told}),
    Right("patch", "events"): Loss(Stage.mistakes, {UPDATER: Stage.told_again}),
}
WATCHED = {
    Right("watch", "configmaps"): READERS,
    Right("watch", "pods"): (UPDATER,),
    Right("watch", "nodes"): (EXPORTER, GFD, UPDATER),
}  # fmt: skip
NAMED = {"leases": {UPDATER, GFD}}


@pytest.fixture(scope="module")
def stage(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The mock, each component under its own account, and an audit log of what these accounts did."""
    folder = tmp_path_factory.mktemp("rights")
    cluster = up(Spec(name=next(sandbox_names), nodes=3, gpus=0, audit_policy=policy(folder)))
    try:
        mock = Mock(cluster, folder)
        away = ["--folder", str(folder), "--pod-resources", str(folder / "none")]
        mock.arguments["device_plugin"] = ["--node", "node-1", *away]
        mock.daemons["device_plugin"] = mock.start("device_plugin")
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        yield Stage(mock)
        mock.stop()
    finally:
        down(cluster.name)


@pytest.fixture(autouse=True)
def clean(stage: Stage) -> Iterator[None]:
    """Each test makes mistakes of its own, and leaves all rights and nothing that shows."""
    stage.round += 1
    yield
    kubectl = stage.mock.cluster.kubectl
    kubectl("apply", "-n", NAMESPACE, "-f", str(RIGHTS))
    kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    kubectl("delete", "configmaps,events", "--all", "-n", NAMESPACE)
    kubectl("label", "node", "node-3", "pool-")
    eventually(lambda: not (stage.marked() or stage.has_map() or stage.mock.gpus_of("node-1")[0]))


def test_every_right_has_its_loss_in_the_table() -> None:
    used = {(account, right) for right, loss in LOSSES.items() for account in loss.shows}
    watched = {(account, right) for right, accounts in WATCHED.items() for account in accounts}
    assert granted() == used | watched


def test_the_audit_log_shows_every_verb_of_the_roles_and_no_other(stage: Stage) -> None:
    for loss in LOSSES.values():
        loss.gives_reason(stage)
        for shows in loss.shows.values():
            eventually(partial(shows, stage), within=30)
    done = stage.audit.news()
    assert {(use.account, use.right) for use in done} == granted()
    assert [use for use in done if use.code == FORBIDDEN] == []
    assert {use.name for use in done if use.right.resource == "leases" and use.name} == NAMED["leases"]


@pytest.mark.parametrize("right", LOSSES, ids=" ".join)
def test_the_loss_of_a_right_shows_and_its_return_heals(stage: Stage, right: Right) -> None:
    loss = LOSSES[right]
    with begun_anew(stage, right, loss.shows if loss.at_the_start else ()):
        take_away(stage, right)
    loss.gives_reason(stage)
    eventually(refusals(stage, right, set(loss.shows)), within=30)
    assert {account for account, shows in loss.shows.items() if shows(stage)} == set()
    give_back(stage, right)
    loss.gives_reason(stage)
    for shows in loss.shows.values():
        eventually(partial(shows, stage), within=30)


def test_a_node_whose_status_may_not_be_written_still_says_whose_its_gpus_are(stage: Stage) -> None:
    stage.grow()
    eventually(lambda: stage.capacity() and stage.marked())
    right = Right("patch", "nodes/status")
    take_away(stage, right)
    stage.mock.cluster.kubectl("delete", "configmap", "topology", "-n", NAMESPACE)
    eventually(refusals(stage, right, {UPDATER}))
    assert (stage.capacity(), stage.marked()) == (True, True)
    give_back(stage, right)
    eventually(lambda: (stage.mock.gpus_of("node-1"), stage.marked()) == ((None, None), False))


@pytest.mark.parametrize("right", WATCHED, ids=" ".join)
def test_who_may_not_watch_asks_again_and_again(stage: Stage, right: Right) -> None:
    stage.grow()
    with begun_anew(stage, right, WATCHED[right]):
        take_away(stage, right)
    asked = Right("list", right.resource)
    heard: list[Use] = []

    def asks_again() -> bool:
        heard.extend(stage.audit.news())
        refused = {use.account for use in heard if use.right == right and use.code == FORBIDDEN}
        counts = [sum(use.account == account and use.right == asked for use in heard) for account in WATCHED[right]]
        return refused == set(WATCHED[right]) and min(counts) > 4  # the plugin asks for four maps at its start

    eventually(asks_again, within=30)
    give_back(stage, right)


def take_away(stage: Stage, right: Right) -> None:
    stage.mock.cluster.kubectl(
        "apply", "-n", NAMESPACE, "-f", "-", stdin="\n---\n".join(json.dumps(role) for role in without(right))
    )
    eventually(lambda: not may(stage, right))
    stage.audit.news()


def give_back(stage: Stage, right: Right) -> None:
    stage.mock.cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(RIGHTS))
    eventually(lambda: may(stage, right))


def may(stage: Stage, right: Right) -> bool:
    """What the API server says of the updater, who has each of these rights."""
    resource, _, part = right.resource.partition("/")
    asked = {"events": "events.events.k8s.io", "leases": f"leases/{UPDATER}"}.get(resource, resource)
    question = [right.verb, "leases" if right == Right("create", "leases") else asked, f"--subresource={part}"]
    with contextlib.suppress(SandboxError):  # "no" is a failure for kubectl
        return stage.mock.cluster.kubectl(
            "auth", "can-i", *question, f"--as={USER}{UPDATER}", "-n", NAMESPACE
        ).startswith("yes")
    return False


@contextlib.contextmanager
def begun_anew(stage: Stage, right: Right, accounts: Iterable[str]) -> Iterator[None]:
    """Between the end of these components and their new beginning."""
    names = [COMPONENTS[account] for account in accounts]
    for name in names:
        assert stage.mock.daemons[name].stop() == 0
    if right == Right("create", "leases"):
        stage.mock.cluster.kubectl("delete", "leases", "--all", "-n", NAMESPACE)
    yield
    for name in names:
        stage.mock.daemons[name] = stage.mock.start(name)


def refusals(stage: Stage, right: Right, accounts: set[str]) -> Callable[[], bool]:
    """Whether each of these accounts tried in vain."""
    refused: set[str] = set()

    def look() -> bool:
        refused.update(use.account for use in stage.audit.news() if use.right == right and use.code == FORBIDDEN)
        return refused == accounts

    return look
