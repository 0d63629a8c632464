"""Reading looks for no garbage, and leaves none behind."""

import gc
import json
import weakref
from pathlib import Path

from gpuyard.cli.reading import read
from gpuyard.engine.model.settings import Settings

from tests.engine.kube.written import node


class Circle:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_left_of_one_snapshot_is_gone_when_the_next_has_been_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(json.dumps(node()).encode())
    read([str(path)], Settings(), None)
    left = weakref.ref(Circle())
    read([str(path)], Settings(), None)
    assert left() is None


def test_the_collector_is_on_again_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(json.dumps(node()).encode())
    assert gc.isenabled()
    read([str(path)], Settings(), None)
    assert gc.isenabled()
