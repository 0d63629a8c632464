"""The command itself: its help, its parts, and that neither costs what it does not use."""

import subprocess
import sys

import click
import pytest
from gpuyard.cli.main import PARTS, LazyGroup, Part, gpuyard
from gpuyard.common.version import __version__

from tests.cli.shell import run


def test_help_lists_every_part_with_a_line() -> None:
    out = run("--help").out
    for name, part in PARTS.items():
        assert name in out
        assert part.help.split()[0] in out


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_there_and_says_the_same_of_itself(name: str) -> None:
    result = run(name, "--help")
    assert result.code == 0
    assert name in result.out


def test_version() -> None:
    assert run("version").out == f"{__version__}\n"
    assert run("version", "-o", "json").answer == {"version": __version__}


def test_an_unknown_part_is_bad_usage() -> None:
    assert run("dance").code == 2


def test_a_part_must_be_a_command() -> None:
    group = LazyGroup(parts={"x": Part("gpuyard.cli.main:PARTS", "nothing")}, help="")
    with pytest.raises(TypeError, match=r"gpuyard\.cli\.main:PARTS is not a command"):
        group.get_command(click.Context(group), "x")


def test_completion_knows_the_parts() -> None:
    assert gpuyard.list_commands(click.Context(gpuyard)) == list(PARTS)


def test_the_help_of_plan_imports_neither_the_engine_nor_yaml() -> None:
    code = (
        "import sys; from gpuyard.cli.main import gpuyard; gpuyard(['plan', '--help'], standalone_mode=False);"
        "print(*(m for m in sys.modules if m.startswith(('gpuyard.engine', 'msgspec', 'yaml'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "gpuyard.cli", "version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{__version__}\n"
