"""What in a namespace of ours is somebody else's."""

from collections.abc import Awaitable, Callable

import pytest
from gpuyard.cli.inventory import Thing, _patiently, is_strange
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.objects import Meta, OwnerReference
from gpuyard.common.kube.resources import CONFIG_MAPS


@pytest.mark.parametrize(
    "meta",
    [
        Meta(name="anything", labels={"app.kubernetes.io/part-of": "gpuyard"}),
        Meta(name="pod-of-a-deployment", owner_references=(OwnerReference(name="some"),)),
        Meta(name="kube-root-ca.crt"),
        Meta(name="default"),
        Meta(name="topology"),
        Meta(name="topology-node-1"),
        Meta(name="gpu-profile-mine"),
        Meta(name="gpuyard-status-updater"),
    ],
    ids=lambda meta: meta.name,
)
def test_what_gpuyard_makes_and_what_every_namespace_has_is_not(meta: Meta) -> None:
    assert not is_strange(meta)


@pytest.mark.parametrize("name", ["notes", "my-topology", "defaults"])
def test_everything_else_is(name: str) -> None:
    assert is_strange(Meta(name=name, labels={"app.kubernetes.io/part-of": "another"}))


def test_a_thing_is_told_by_kind_and_name() -> None:
    thing = Thing(CONFIG_MAPS, Meta(name="notes", namespace="gpuyard"))
    assert str(thing) == "ConfigMap notes"
    assert thing.address.path == "/api/v1/namespaces/gpuyard/configmaps/notes"


def answer(*outcomes: ApiError | list[Json]) -> Callable[[], Awaitable[list[Json]]]:
    """An API server that gives these answers in turn."""
    coming = iter(outcomes)

    async def ask() -> list[Json]:
        outcome = next(coming)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    return ask


BUSY = ApiError("GET plans", 429, "TooManyRequests", "storage is (re)initializing")
GONE = ApiError("GET plans", 404, "NotFound", "there is no such kind")
FORBIDDEN = ApiError("GET plans", 403, "Forbidden", "you may not")


@pytest.mark.looptime
async def test_a_kind_that_was_just_made_is_asked_again_until_it_can_be_listed() -> None:
    assert await _patiently(answer(BUSY, BUSY, [{"metadata": {"name": "a"}}])) == [{"metadata": {"name": "a"}}]


async def test_a_kind_that_has_just_gone_has_no_objects() -> None:
    assert await _patiently(answer(GONE)) == []


@pytest.mark.looptime
@pytest.mark.parametrize("problem", [[FORBIDDEN], [BUSY] * 99], ids=["forbidden", "busy for ever"])
async def test_anything_else_is_a_problem(problem: list[ApiError]) -> None:
    with pytest.raises(ApiError):
        await _patiently(answer(*problem))
