"""Port 9400: `/metrics` and `/health`, as NVIDIA's exporter serves them."""

import time
from collections.abc import Callable, Mapping

from aiohttp import web
from gpuyard.common.http import application
from gpuyard.common.topology.model import Node
from gpuyard.dcgm_exporter.labels import Switches
from gpuyard.dcgm_exporter.page import Page
from gpuyard.dcgm_exporter.readings import Meters

PORT = 9400
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exporter:
    """The page that is served. A scrape sees one topology, never half of two."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.nodes: Mapping[str, Node] = {}
        self.switches = Switches()
        self.ready = False
        self._clock = clock
        self._meters = Meters()
        self._page = Page({}, self.switches)

    def show(self, nodes: Mapping[str, Node]) -> None:
        """From now on these nodes."""
        self.ready = True
        self._lay_out(nodes, self.switches)

    def switch(self, switches: Switches) -> None:
        """From now on in this spelling."""
        self._lay_out(self.nodes, switches)

    def _lay_out(self, nodes: Mapping[str, Node], switches: Switches) -> None:
        if (nodes, switches) == (self.nodes, self.switches):
            return
        # What the old readings consumed until now belongs to the counters.
        self._page.settle(self._clock(), self._meters)
        self.nodes, self.switches = nodes, switches
        self._page = Page(nodes, switches)
        self._page.settle(self._clock(), self._meters)
        self._meters.keep({device.key for device in self._page.devices})

    def text(self) -> str:
        """All samples as they are now."""
        return self._page.text(self._clock(), self._meters)


def exporter_app(exporter: Exporter) -> web.Application:
    """The HTTP side of it."""

    async def metrics(_request: web.Request) -> web.Response:
        if not exporter.ready:
            # An empty page would say that all GPUs are gone.
            return web.Response(status=503, text="the topology has not been read yet\n")
        return web.Response(body=exporter.text().encode(), headers={"Content-Type": CONTENT_TYPE})

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="OK")

    app = application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/health", health)
    return app
