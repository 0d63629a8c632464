"""`gpuyard completion`: a script for each shell."""

import shutil
import subprocess

import pytest

from tests.cli.shell import run


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_asks_gpuyard_for_the_words(shell: str) -> None:
    told = run("completion", shell)
    assert (told.code, f"_GPUYARD_COMPLETE={shell}_complete" in told.out) == (0, True)


def test_bash_understands_its_script() -> None:
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n"], input=run("completion", "bash").out, text=True, check=True)


def test_another_shell_is_bad_usage() -> None:
    assert run("completion", "dos").code == 2
