"""The leader's label: on this pod, and on no other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.kube.resources import Address
from gpuyard.extender.leadership import LABEL, take_label

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client, Selector


class Api:
    """Pods that carry the label, and the patches that were sent."""

    def __init__(self, *carriers: str) -> None:
        self.carriers = carriers
        self.patches: list[tuple[str, object]] = []
        self.selector = ""
        self.away = False

    async def items(self, address: Address, selector: "Selector") -> list[Any]:
        assert address.path == "/api/v1/namespaces/gpuyard/pods"
        self.selector = selector.labels
        return [{"metadata": {"name": name}} for name in self.carriers]

    async def patch(self, address: Address, body: Mapping[str, Any]) -> None:
        if self.away:
            raise UnreachableError("away")
        self.patches.append((address.path.rsplit("/", 1)[-1], body["metadata"]["labels"][LABEL]))


async def take(api: Api, pod: str = "me") -> None:
    await take_label(cast("Client", api), "gpuyard", pod)


async def test_others_lose_it_before_this_one_gets_it() -> None:
    api = Api("old", "older")
    await take(api)
    assert api.patches == [("old", None), ("older", None), ("me", "true")]
    assert api.selector == "gpuyard.io/leader=true"


async def test_who_has_it_keeps_it() -> None:
    api = Api("me")
    await take(api)
    assert api.patches == [("me", "true")]


async def test_outside_of_a_pod_there_is_nothing_to_label() -> None:
    api = Api("old")
    await take(api, pod="")
    assert not api.patches


async def test_who_cannot_get_it_does_not_lead() -> None:
    api = Api()
    api.away = True
    with pytest.raises(UnreachableError):
        await take(api)
