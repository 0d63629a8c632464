"""How a command prints what it found: a text for people, JSON or YAML for programs."""

from collections.abc import Callable
from typing import Any

import click
import msgspec
import yaml

MACHINES = ("json", "yaml")


def formatted(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `-o table|json|yaml`."""
    choice = click.Choice(["table", *MACHINES])
    return click.option(
        "-o", "--output", type=choice, default="table", show_default=True, help="The form of the answer."
    )(command)


def for_programs(found: object, output: str) -> str:
    """What a command found, as JSON or YAML; ends with a line end."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    plain = msgspec.to_builtins(found)
    text: str = yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def show(found: object, output: str, told: Callable[[], str]) -> None:
    """Print what was found; `told` makes the text for people, which ends with a line end."""
    click.echo(told() if output == "table" else for_programs(found, output), nl=False)
