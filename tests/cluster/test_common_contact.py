"""Contact with the real API server: it is kept while the cluster is quiet, and lost when the network fails."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from gpuyard.common.kube import contact as module
from gpuyard.common.kube.contact import Contact, read_little
from gpuyard.sandbox import Cluster

from tests.cluster.network import background
from tests.cluster.share import others_share
from tests.cluster.test_common_reflector import watching

pytestmark = pytest.mark.ground("processes")

LOST, QUIET = 4.0, 1.0


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds instead of minutes, but enough for a busy machine."""
    for name, seconds in {"LOST": LOST * others_share(), "QUIET": QUIET, "PAUSE": 0.2, "_PATIENCE": 1.0}.items():
        monkeypatch.setattr(module, name, seconds)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.05)


@pytest.mark.row("B-34", case="cut-off")
async def test_contact_is_kept_on_a_quiet_cluster_and_lost_in_each_way_of_being_cut_off(sandbox: Cluster) -> None:
    async with watching(sandbox) as watched:
        contact = Contact([watched.cache], watched.cache, partial(read_little, watched.client))
        async with background(contact.run()):
            await until(lambda: watched.cache.age() > module.LOST + QUIET)
            assert not contact.is_lost(), "nothing has come on the watch, but small reads are answered"
            watched.link.hush()
            await until(contact.is_lost)
            await watched.link.join()
            await until(lambda: not contact.is_lost())
            await watched.link.cut()
            await until(contact.is_lost)
            await watched.link.join()
            await until(lambda: not contact.is_lost())
