"""The generated code is what its source says."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "device-plugin"
PROTOS = ("api", "podresources")


@pytest.mark.parametrize("name", PROTOS)
def test_generating_again_gives_the_committed_code(name: str, tmp_path: Path) -> None:
    source = f"gpuyard/device_plugin/{name}.proto"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", source],
        cwd=FOLDER,
        check=True,
    )
    for suffix in ("_pb2.py", "_pb2.pyi"):
        generated = (tmp_path / f"gpuyard/device_plugin/{name}{suffix}").read_text()
        assert generated == (FOLDER / f"gpuyard/device_plugin/{name}{suffix}").read_text()
