"""The forms in which commands answer: text for people, JSON and YAML for programs."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from gpuyard.cli.main import gpuyard

from tests.cli.cluster import cluster
from tests.cli.shell import run
from tests.engine.kube.written import node, pod, queue

WITHOUT_AN_ANSWER = {
    "completion",  # a program for a shell
}
"""Commands whose output is no answer."""


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be called, with its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{above}{name}", command


EVERY = dict(commands(gpuyard))


@pytest.mark.parametrize("name", sorted(EVERY.keys() - WITHOUT_AN_ANSWER))
def test_each_command_that_answers_can_answer_programs(name: str) -> None:
    [output] = [each for each in EVERY[name].params if "-o" in each.opts]
    assert isinstance(output.type, click.Choice)
    assert {"table", "json"} <= set(output.type.choices)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_each_command_and_each_of_its_options_says_what_it_is_for(name: str) -> None:
    told = run(*name.split(), "--help")
    assert (told.code, bool(EVERY[name].help)) == (0, True)
    options = [each for each in EVERY[name].params if isinstance(each, click.Option)]
    assert {option.name for option in options if not option.help} <= {"output", "ground"}


@pytest.mark.parametrize("command", [("explain", "pod/p"), ("top",)])
def test_yaml_says_what_json_says(tmp_path: Path, command: tuple[str, ...]) -> None:
    with cluster(tmp_path, node(), queue(limit=0), pod("p")) as kubeconfig:
        as_json = run(*command, "-o", "json", "--kubeconfig", kubeconfig)
        as_yaml = run(*command, "-o", "yaml", "--kubeconfig", kubeconfig)
    assert as_json.answer == yaml.safe_load(as_yaml.out)
    assert as_json.out.endswith("}\n") or as_json.out.endswith("]\n")


def test_the_version_is_there_for_programs_too() -> None:
    assert yaml.safe_load(run("version", "-o", "yaml").out) == run("version", "-o", "json").answer
