"""Real clusters for tests. A test that needs one fails, with the cause, where none can be had: nothing is skipped."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import pytest
from gpuyard.sandbox import Cluster, SandboxError, Spec, down, up
from gpuyard.sandbox.demo.stage import set_up

from tests.cluster.admitting import set_up as set_up_admission
from tests.cluster.yard import Yard
from tests.grounds import PREFIX, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MakeSandbox = Callable[[Spec], Cluster]
"""Brings up one more sandbox like this, under a name of its own; it is removed when the test is over."""


@pytest.fixture(scope="session")
def sandbox_names() -> Iterator[str]:
    """Names that no other test run uses; they tell whose they are, so that the next run removes what was left over."""
    sweep()
    return (f"{PREFIX}-{os.getpid()}-{number}" for number in itertools.count(1))


@pytest.fixture(scope="session")
def sandbox(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """The sandbox that all tests of this run share: 4 nodes with 8 GPUs each, kube-scheduler as it comes.

    Leave it as you found it: work in a namespace of your own.
    """
    cluster = _up(Spec(name=next(sandbox_names)))
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def kubeconfig(sandbox: Cluster) -> Path:
    """The administrator's kubeconfig of the shared sandbox."""
    return sandbox.kubeconfig


@pytest.fixture
def namespace(sandbox: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the shared sandbox for one test, in which pods can be created at once."""
    name = f"t-{abs(hash(request.node.nodeid)):x}"
    sandbox.kubectl("create", "namespace", name)
    sandbox.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s", "--namespace", name)
    yield name
    sandbox.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--namespace", name)
    sandbox.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def make_sandbox(sandbox_names: Iterator[str]) -> Iterator[MakeSandbox]:
    """More sandboxes, for a test that breaks things or needs settings of its own."""
    made: list[str] = []

    def make(spec: Spec) -> Cluster:
        made.append(next(sandbox_names))
        return _up(msgspec.structs.replace(spec, name=made[-1]))

    yield make
    for name in made:
        down(name)


@pytest.fixture(scope="session")
def extended(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """One more sandbox that tests share: its kube-scheduler asks the extender, which runs as one of its processes."""
    name = next(sandbox_names)
    try:
        cluster = set_up(name, print)
    except SandboxError as error:
        down(name)
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    yield cluster
    cluster.down()


@pytest.fixture
def yard(extended: Cluster, request: pytest.FixtureRequest) -> Iterator[Yard]:
    """The shared sandbox with the extender, from a namespace of this test's own; its pods are gone afterwards."""
    name = f"t-{abs(hash(request.node.nodeid)):x}"
    extended.kubectl("create", "namespace", name)
    extended.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s", "--namespace", name)
    yield Yard(extended, name)
    with extended.api() as api:
        api.delete_all(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
    extended.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def unscheduled(yard: Yard) -> Iterator[Yard]:
    """A yard whose pods wait: kube-scheduler is paused, and what it would ask the test asks."""
    yard.cluster.pause("kube-scheduler")
    yield yard
    yard.cluster.resume("kube-scheduler")


@pytest.fixture(scope="session")
def admitting(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """One more sandbox that tests share: with the overlay `admission`, and users with few rights."""
    name = next(sandbox_names)
    try:
        yield set_up_admission(name)
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


def _up(spec: Spec) -> Cluster:
    try:
        return up(spec)
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
