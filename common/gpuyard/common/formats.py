"""How a command prints what it found: a text for people, JSON or YAML for programs."""

from collections.abc import Callable
from typing import Any

import click
import msgspec
import yaml

PEOPLE = "table"
MACHINES = ("json", "yaml")


def formatted(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `-o table|json|yaml`."""
    return _form(PEOPLE, *MACHINES)(command)


def listing(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that lists things, with what kubectl has for that: `-o wide|name` as well, and `--no-headers`."""
    headers = click.option("--no-headers", is_flag=True, help="Print rows without headers.")
    return _form(PEOPLE, "wide", *MACHINES, "name")(headers(command))


def _form(*choices: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind = click.Choice(choices)
    return click.option("-o", "--output", type=kind, default=PEOPLE, show_default=True, help="The output format.")


def for_programs(found: object, output: str) -> str:
    """What a command found, as JSON or YAML; ends with a line end."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    plain = msgspec.to_builtins(found)
    text: str = yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def show(found: object, output: str, told: Callable[[], str]) -> None:
    """Print what was found; `told` makes the text for people, which ends with a line end."""
    click.echo(told() if output == PEOPLE else for_programs(found, output), nl=False)


class Teller:
    """Tells as it goes on what is done: to people as the answer itself, else beside the one document for programs."""

    def __init__(self, output: str) -> None:
        self._beside = output != PEOPLE
        self.told: list[str] = []
        """All of it, for that document."""

    def __call__(self, line: str) -> None:
        """Tell one thing."""
        self.told.append(line)
        click.echo(line, err=self._beside)

    def end(self, found: object, output: str) -> None:
        """Print the document for programs; people have been told."""
        if self._beside:
            click.echo(for_programs(found, output), nl=False)
