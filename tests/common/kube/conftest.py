from collections.abc import AsyncIterator

import pytest
from gpuyard.common.kube.client import Client

from tests.common.kube.wire import Wire, client_of, served


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with served() as server:
        yield server


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[Client]:
    async with client_of(wire) as made:
        yield made
