"""The generated code is what its source says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import tree

PROTOS = [path for path in tree.files() if path.suffix == ".proto"]


def test_there_are_sources() -> None:
    assert PROTOS


@pytest.mark.parametrize("source", PROTOS, ids=tree.named)
def test_generating_again_gives_the_committed_code(source: Path, tmp_path: Path) -> None:
    component = tree.ROOT / source.relative_to(tree.ROOT).parts[0]
    name = source.relative_to(component)
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", name],
        cwd=component,
        check=True,
    )
    for suffix in ("_pb2.py", "_pb2.pyi"):
        generated = (tmp_path / name).with_name(f"{name.stem}{suffix}")
        assert generated.read_text() == source.with_name(generated.name).read_text()
