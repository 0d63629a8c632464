"""`gpuyard plan` on objects written to files."""

import json
from pathlib import Path
from typing import NamedTuple

import yaml
from click.testing import CliRunner
from gpuyard.cli.main import gpuyard

from tests.engine.kube.written import Json

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples" / "consolidation"


class Run(NamedTuple):
    """What a run of the command said."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Json:
        """The output as JSON."""
        found: Json = json.loads(self.out)
        return found


def run(*args: str | Path, stdin: str = "") -> Run:
    """Run `gpuyard` with these arguments; what it raises beside its exit code is raised here."""
    result = CliRunner().invoke(gpuyard, [str(a) for a in args], input=stdin, catch_exceptions=False)
    return Run(result.exit_code, result.stdout, result.stderr)


def plan(folder: Path, *given: Json, args: tuple[str, ...] = ()) -> Run:
    """Run `gpuyard plan` on these objects."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": given}), encoding="utf-8")
    return run("plan", "-f", path, *args)


def sample(name: str) -> list[Json]:
    """The objects of one of the consolidation demo's files."""
    return list(yaml.safe_load_all((SAMPLES / name).read_text(encoding="utf-8")))
