"""Extenders of which one leads, and a proxy in the place of the Service that leads kube-scheduler's calls to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

from gpuyard.sandbox import files, ports, processes

from tests.cluster.yard import headers

if TYPE_CHECKING:
    from gpuyard.sandbox import Cluster
    from gpuyard.sandbox.processes import Process

    from tests.cluster.yard import Json


class Contender:
    """An extender that takes part in the election of a namespace; it ends with the sandbox at the latest."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        namespace: str,
        *options: str,
        module: str = "gpuyard.extender",
        path: str = "",
    ) -> None:
        """With more options, a module that runs an extender, and a path on which another version of it lies."""
        self.port, ops = ports.free(ports.candidates()), ports.free(ports.candidates())
        self.name = name
        addresses = ["--host=127.0.0.1", f"--port={self.port}", f"--ops-port={ops}"]
        election = [f"--lease-namespace={namespace}", f"--pod={name}"]
        token = f"--token={cluster.folder / files.EXTENDER_TOKEN}"
        python = ["/usr/bin/env", f"PYTHONPATH={path}", sys.executable] if path else [sys.executable]
        command = [*python, "-m", module, f"--kubeconfig={cluster.kubeconfig}", token]
        self._headers = headers(cluster)
        self.log = cluster.log(f"{namespace}-{name}")
        self.process: Process = processes.start(
            [*command, *addresses, *election, *options], cluster.folder, f"{namespace}-{name}", "", self.log
        )

    def ask(self) -> tuple[Any, bool]:
        """The answer to a filter call for a pod without GPU, and whether the connection was closed with it."""
        return self.filter({"metadata": {"name": "p"}}, "node-1")

    def filter(self, pod: Json, *nodes: str) -> tuple[Any, bool]:
        """The answer to a filter call, and whether the connection was closed with it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        body = json.dumps({"Pod": pod, "NodeNames": nodes})
        connection.request("POST", "/scheduler/filter", body, self._headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return answer, response.headers.get("Connection") == "close"

    def serves(self) -> bool:
        """Whether it decides at this moment."""
        try:
            return not self.ask()[0]["Error"]
        except OSError:
            return False


class Route:
    """Takes connections on one port and leads each to whoever of the contenders serves at that moment."""

    def __init__(self, port: int, contenders: tuple[Contender, ...]) -> None:
        self._contenders = contenders
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._lead, args=[caller], daemon=True).start()

    def _lead(self, caller: socket.socket) -> None:
        leader = next((one for one in self._contenders if one.serves()), None)
        with caller, contextlib.suppress(OSError):
            if leader is None:
                return
            with socket.create_connection(("127.0.0.1", leader.port)) as extender:
                back = threading.Thread(target=_pump, args=[extender, caller], daemon=True)
                back.start()
                _pump(caller, extender)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
