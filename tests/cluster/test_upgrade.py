"""From the last version to this one: CRDs first, then the rest; both extenders run side by side, and nothing is lost.

What the last version leaves is recorded in tests/last_version. In `make test` its extender is this one over the CRDs of
then, which keep only what the last version wrote; in `make soak` it is that of the commit itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from gpuyard.sandbox import Spec, ports, processes
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, manifests, start_extender

from tests.cluster.contenders import Contender, Route
from tests.cluster.holding import hold_back, is_held_back, let_go
from tests.cluster.planner import HEAD, evicted, plans_for, states_of
from tests.cluster.test_planner_faults import times_made, victims_for
from tests.documents.blocks import DOCS, typed_in
from tests.last_version.record import INSTALL, PLAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import MakeSandbox
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

ROOT = Path(__file__).parents[2]
LAST = "620f998"
"""The commit of the last version, of which tests/last_version is a record."""

NODES = [f"node-{number}" for number in range(1, 5)]
SETTINGS = f"{HEAD}moveBarePods: true\nverdict: {{ttl: 45s}}\n"


def recorded_crds() -> str:
    """The CRDs as the last version had them."""
    crds = [one for one in yaml.safe_load_all(INSTALL.read_text()) if one["kind"] == "CustomResourceDefinition"]
    return yaml.safe_dump_all(crds)


def apply_crds(yard: Yard) -> None:
    """The first step of an upgrade."""
    yard.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(manifests() / "crds"))


class Upgrade:
    """An old extender that leads, and later a new one beside it."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._settings = yard.cluster.folder / "extender.yaml"
        self._settings.write_text(SETTINGS)
        self._route: Route | None = None
        self.contenders: list[Contender] = []

    def _start(self, name: str, **more: str) -> Contender:
        # The pod stands for that of the extender: it carries the leader's label.
        self._yard.submit(name, gpus=0)
        made = Contender(self._yard.cluster, name, self._yard.namespace, f"--config={self._settings}", **more)
        self.contenders.append(made)
        return made

    @property
    def old(self) -> Contender:
        """The one of the last version."""
        return self.contenders[0]

    def begin_old(self, path: str) -> None:
        """Start the old one, which lies on a path; returns when it leads."""
        self._start("old", path=path)
        self._yard.until(self.old.serves, 60, "the old one leads")
        self.lead_calls()

    def begin(self) -> Contender:
        """Start the new one; returns when it stands by."""
        new = self._start("new", module="tests.cluster.next_version", path=str(ROOT))
        self._yard.until(lambda: _says(new) == "not leader", 60, "the new one stands by")
        self.lead_calls()
        return new

    def lead_calls(self) -> None:
        """Let kube-scheduler's calls go to whoever leads."""
        self.end_calls()
        self._route = Route(extender_port(self._yard.cluster), tuple(self.contenders))

    def end_calls(self) -> None:
        """Let kube-scheduler's calls go nowhere."""
        if self._route is not None:
            self._route.close()
            port = extender_port(self._yard.cluster)
            self._yard.until(lambda: not ports.taken(port), 10, "the port is free again")


def _says(one: Contender) -> str:
    try:
        return str(one.ask()[0]["Error"])
    except OSError:
        return ""


@contextmanager
def upgrading(yard: Yard, path: str) -> Iterator[Upgrade]:
    """A cluster with the last version; afterwards all is as it was."""
    yard.cluster.stop(EXTENDER)
    yard.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=recorded_crds())
    upgrade = Upgrade(yard)
    try:
        upgrade.begin_old(path)
        yield upgrade
    finally:
        for one in upgrade.contenders:
            processes.end(one.process, grace=0)
        upgrade.end_calls()
        apply_crds(yard)
        start_extender(yard.cluster)


def crowded(yard: Yard, team: str) -> None:
    """Two pods of a queue fill a node, for which two others have room; of the first node two GPUs are free."""
    yard.submit("rock-1", gpus=6, nodeName="node-1")
    for number in (2, 3):
        yard.submit(f"rock-{number}", f"guest-{number}", gpus=4, nodeName=f"node-{number}")
    yard.submit("one", "two", queue=team, gpus=4)
    yard.until(lambda: {"one", "two"} <= yard.placed(), 30, "both are on the fourth node")
    yard.delete("guest-2", "guest-3")


def in_the_middle(yard: Yard, team: str) -> list[str]:
    """A plan that has to move two bare pods has moved the first of them; the names of both, in their order."""
    kubectl = yard.cluster.kubectl
    hold_back(kubectl, "one", "two")
    yard.until(lambda: is_held_back(kubectl, "one", yard.namespace), 30, "nobody can be evicted")
    yard.submit("large", queue=team, gpus=8)
    yard.until(lambda: len(victims_for(yard, team)) == 2, 60, "both have to move")
    first, second = victims_for(yard, team)
    hold_back(kubectl, second)
    yard.until(lambda: evicted(yard) == [first] and first in yard.placed(), 60, "the first has moved")
    return [first, second]


def hands_over(yard: Yard, path: str) -> Json:
    """The old leader hands over to the new one; the Plan as the old one left it."""
    team, small = yard.queue("team"), yard.queue("small", limit=2)
    with upgrading(yard, path) as upgrade:
        crowded(yard, team)
        first, second = in_the_middle(yard, team)
        try:
            apply_crds(yard)
            new = upgrade.begin()
            yard.submit("before", queue=small)
            yard.until(lambda: "before" in yard.placed(), 30, "side by side, pods are bound")
            yard.cluster.pause("kube-scheduler")
            yard.submit("granted", queue=small)
            yard.until(lambda: _lets_through(upgrade.old, yard.one("granted")), 30, "the old one has let it through")
            (left,) = plans_for(yard, team)
            processes.end(upgrade.old.process, grace=20)
            yard.until(new.serves, 30, "the new one leads")
            yard.submit("over", queue=small)
            assert "limit of 2" in json.dumps(new.filter(yard.one("over"), *NODES)[0]), "the reservation still counts"
        finally:
            yard.cluster.resume("kube-scheduler")
            let_go(yard.cluster.kubectl)
        yard.until(lambda: {"one", "two", "large", "granted"} <= yard.placed(), 90, "all have their places")
        yard.until(lambda: states_of(yard, team) == ["Kept"], 30, "the plan is kept")
        assert evicted(yard) == [first, second], "nobody is evicted twice, and nobody else"
        assert [times_made(yard, name) for name in (first, second, "before", "granted")] == [2, 2, 1, 1]
        assert "over" not in yard.placed()
        assert "verdict.ttl: removed, without effect; nothing is needed" in new.log.read_text()
    return left


def _lets_through(one: Contender, pod: Json) -> bool:
    return "node-1" in (one.filter(pod, *NODES)[0]["NodeNames"] or [])


@pytest.mark.row("B-85", case="applied")
def test_this_version_is_applied_over_the_last_one_as_the_document_says(make_sandbox: MakeSandbox) -> None:
    kubectl = make_sandbox(Spec(nodes=2, gpus=0)).kubectl
    kubectl("apply", "-f", str(INSTALL))
    kubectl("wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
    plan = json.loads(PLAN.read_text())
    plan["metadata"] = {"name": plan["metadata"]["name"]}
    kubectl("create", "-f", "-", stdin=json.dumps(plan))
    for line in typed_in(DOCS / "install.md", "Upgrade"):
        kubectl(*line.replace("manifests/", f"{manifests()}/").split()[1:])
    kept = json.loads(kubectl("get", "plans.gpuyard.io", "-o", "json"))["items"]
    assert [one["spec"] for one in kept] == [plan["spec"]]
    status = json.dumps({"status": plan["status"]})
    kubectl("patch", "plan", plan["metadata"]["name"], "--subresource=status", "--type=merge", "--patch", status)
    assert left_over() <= set(re.findall(r"`([^`]+)`", (ROOT / "CHANGELOG.md").read_text()))


def left_over() -> set[str]:
    """The names of the objects of the last version that this one no longer has."""
    before, now = (yaml.safe_load_all(file.read_text()) for file in (INSTALL, manifests() / "install.yaml"))
    names = {(one["kind"], one["metadata"]["name"]) for one in before}
    return {name for _, name in names - {(one["kind"], one["metadata"]["name"]) for one in now}}


@pytest.mark.row("B-84", case="side-by-side")
def test_a_new_extender_goes_on_with_what_the_old_one_has_begun(yard: Yard) -> None:
    hands_over(yard, "")


@pytest.mark.soak
def test_a_new_extender_goes_on_with_what_that_of_the_last_version_has_begun(yard: Yard, tmp_path: Path) -> None:
    archive = tmp_path / "last.tar"
    git = ["git", "-C", str(ROOT), "archive", f"--output={archive}", LAST]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    assert not done.returncode, f"the history is needed, as by `git fetch --unshallow`: {done.stderr}"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    path = ":".join(str(tmp_path / part) for part in ("engine", "common", "extender"))
    left = hands_over(yard, path)
    print(json.dumps(left, indent=1))  # noqa: T201 - what tests/last_version keeps of it
    assert left["spec"].keys() == json.loads(PLAN.read_text())["spec"].keys()
