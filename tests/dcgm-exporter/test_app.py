"""The port: what a client of NVIDIA's exporter sees, and no gap while the topology changes."""

import gc

import pytest
from aiohttp.test_utils import TestClient, TestServer
from gpuyard.common.http import listening
from gpuyard.dcgm_exporter.app import Exporter, exporter_app
from gpuyard.dcgm_exporter.labels import Switches
from structlog.testing import capture_logs

from tests.common.strangers import FINE, MALFORMED, sent
from tests.mock.pages import nodes, values


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def get(exporter: Exporter, path: str) -> tuple[int, str, str]:
    async with TestClient(TestServer(exporter_app(exporter))) as client:
        response = await client.get(path)
        return response.status, await response.text(), response.headers["X-Content-Type-Options"]


async def test_metrics_and_health_are_served_as_by_nvidias_exporter() -> None:
    exporter = Exporter()
    exporter.show(nodes("[{}]"))
    assert await get(exporter, "/health") == (200, "OK", "nosniff")
    status, text, nosniff = await get(exporter, "/metrics")
    assert (status, nosniff) == (200, "nosniff")
    assert text.startswith("# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n")


async def test_before_the_topology_is_known_a_scrape_fails_instead_of_saying_there_is_no_gpu() -> None:
    assert (await get(Exporter(), "/metrics"))[0] == 503


def energy(exporter: Exporter) -> float:
    return values(exporter.text())["DEV_TOTAL_ENERGY_CONSUMPTION"][0]


def test_what_was_used_before_a_change_counts_at_the_old_power() -> None:
    clock = Clock()
    exporter = Exporter(clock)
    exporter.show(nodes("[{id: a}]"))
    clock.now += 10
    exporter.show(nodes("[{id: a, metrics: {utilization: 100}}]"))
    assert energy(exporter) == pytest.approx(45.999 * 10 * 1000, abs=2)
    clock.now += 10
    assert energy(exporter) == pytest.approx((45.999 + 400) * 10 * 1000, abs=2)


def test_a_switch_changes_the_spelling_and_not_the_counters() -> None:
    clock = Clock()
    exporter = Exporter(clock)
    exporter.show(nodes("[{id: a}]"))
    clock.now += 10
    before = energy(exporter)
    exporter.switch(Switches(old_names=True))
    assert 'uuid="a"' in exporter.text()
    assert energy(exporter) == before


def test_a_node_that_leaves_and_comes_back_starts_its_counters_anew() -> None:
    clock = Clock()
    exporter = Exporter(clock)
    exporter.show(nodes("[{id: a}]"))
    clock.now += 10
    exporter.show({})
    assert exporter.text() == ""
    exporter.show(nodes("[{id: a}]"))
    assert energy(exporter) == 0


@pytest.mark.row("X-90", case="gpu-metrics")
@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_requests_are_refused_and_not_logged(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = Exporter()
    exporter.show(nodes("[{}]"))
    with capture_logs() as logs:
        async with listening(exporter_app(exporter), 0, "127.0.0.1") as port:
            assert not (await sent(port, request_bytes)).startswith(b"HTTP/1.1 200 ")
            assert b"DCGM_FI_DEV_SM_CLOCK" in await sent(port, FINE)
        gc.collect()
    assert (logs, caplog.records) == ([], [])
