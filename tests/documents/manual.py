"""Writes docs/commands.md and docs/settings.md from the code: `python -m tests.documents.manual`."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import click
from gpuyard.cli.main import gpuyard
from gpuyard.common import arguments
from gpuyard.engine.model.settings import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SAMPLE = ROOT / "manifests" / "samples" / "extender-config.yaml"
PROCESSES = ("extender", "device_plugin", "status_updater", "dcgm_exporter", "gfd")
BY = "This page is made from the code by `python -m tests.documents.manual`; a test compares."

SAYS_THE_SAME = """\
`gpuyard COMMAND --help` says the same. Each is also `kubectl gpuyard COMMAND`. Exit codes: 0 done, 1 the answer is no,
2 bad input or usage, 3 the cluster cannot be reached."""
WHERE_SETTINGS_ARE = """\
They stand in a file of kind `ExtenderConfig` ([the whole of it](../manifests/samples/extender-config.yaml)), in the
cluster in ConfigMap `gpuyard-extender`. Where a row says so, `gpuyard plan --set KEY=VALUE` takes the same key."""

# --- commands ---


def commands() -> str:
    """Make the page of all commands and processes."""
    parts = [
        "# Every command and option",
        BY,
        SAYS_THE_SAME,
        *(part for name, command in every(gpuyard) for part in _command(name, command)),
        "## Processes",
        "What runs in the cluster. The extender's settings are in [settings.md](settings.md).",
        *(part for name in PROCESSES for part in _process(name)),
    ]
    return "\n\n".join(parts) + "\n"


def every(group: click.Group, above: str = "gpuyard ") -> Iterator[tuple[str, click.Command]]:
    """Give each command with its whole name, groups before what is in them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield above + name, command
        if isinstance(command, click.Group):
            yield from every(command, f"{above}{name} ")


def _command(name: str, command: click.Command) -> Iterator[str]:
    words = [_argument(each) for each in command.params if isinstance(each, click.Argument)]
    yield f"## `{' '.join([name, *words])}`"
    yield _paragraphs(command.help or "")
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        yield _table(("option", "what"), [(_option(each), _meaning(each)) for each in options])


def _argument(given: click.Argument) -> str:
    name = given.metavar or (given.name or "").upper()
    many = "..." if given.nargs == -1 and not name.endswith("...") else ""
    if isinstance(given.type, click.Choice):
        name = "|".join(map(str, given.type.choices))
    return f"{name}{many}" if given.required or name.startswith("[") else f"[{name}]{many}"


def _option(given: click.Option) -> str:
    names = ", ".join([*given.opts, *given.secondary_opts])
    if given.is_flag:
        return f"`{names}`"
    kind = "\\|".join(map(str, given.type.choices)) if isinstance(given.type, click.Choice) else given.metavar
    return f"`{names} {kind or given.type.name.split()[0].upper()}`"


def _meaning(given: click.Option) -> str:
    told = given.help or ""
    if given.show_default and not given.is_flag and given.default not in (None, ""):
        told = f"{told} Default: `{given.default}`.".strip()
    return f"{told} Repeatable.".strip() if given.multiple and "epeatable" not in told else told


def _paragraphs(text: str) -> str:
    """Give help as Markdown; what click leaves as it is becomes a block."""
    made = []
    for part in re.split(r"\n\s*\n", cleandoc(text)):
        if part.strip().startswith("\b"):
            made.append("```text\n" + part.strip().removeprefix("\b").strip("\n") + "\n```")
        else:
            made.append(" ".join(part.split()))
    return "\n\n".join(made)


class _Captured(Exception):  # noqa: N818 - no error, but the parser
    """The parser that a process reads its command line with."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _process(name: str) -> Iterator[str]:
    parser = parser_of(name)
    yield f"### `{parser.prog}`"
    yield parser.description or ""
    actions = [each for each in parser._actions if each.help is not argparse.SUPPRESS]
    yield _table(("option", "what"), [(_action(each), _help(each)) for each in actions])


def parser_of(name: str) -> argparse.ArgumentParser:
    """Give the parser of a process, as it is made when the process starts."""

    def capture(parser: argparse.ArgumentParser, *_: object) -> None:
        raise _Captured(parser)

    with mock.patch.object(arguments, "parse", capture), mock.patch.dict("os.environ", NODE_NAME="", POD_NAME=""):
        try:
            import_module(f"gpuyard.{name}.__main__").main([])
        except _Captured as captured:
            return captured.parser
    raise AssertionError(f"{name} reads no command line")


def _action(given: argparse.Action) -> str:
    names = ", ".join(given.option_strings)
    if given.nargs == 0:
        return f"`{names}`"
    kind = "\\|".join(map(str, given.choices)) if given.choices else given.metavar
    return f"`{names} {kind or given.dest.upper()}`"


def _help(given: argparse.Action) -> str:
    return (given.help or "").replace("%(default)s", str(given.default))


# --- settings ---


def settings() -> str:
    """Make the page of the extender's settings, from the sample that has them all."""
    rows = [(f"`{key}`", f"`{value}`", "yes" if key in KEYS else "", told) for key, value, told in known()]
    parts = [
        "# Every setting of the extender",
        BY,
        WHERE_SETTINGS_ARE,
        _table(("key", "default", "`plan --set`", "what"), rows),
    ]
    return "\n\n".join(parts) + "\n"


_LINE = re.compile(r"^( *)(\w+):(?: +([^#]*?))?(?: +# (.*))?$")


def known() -> Iterator[tuple[str, str, str]]:
    """Give each key of the sample with its default and its comment."""
    above: list[str] = []
    for line in SAMPLE.read_text().splitlines():
        found = _LINE.match(line)
        if found is None or found[2] in ("apiVersion", "kind"):
            continue
        indent, name, value, told = found.groups()
        above[len(indent) // 2 :] = [name]
        if value:
            yield ".".join(above), value, SELF_TOLD.get(name) or told or ""


SELF_TOLD = {
    "honorDisruptionBudgets": "whether disruption budgets protect pods that would have to give way",
    "k": "how much past use counts in the shares, where a history of use is known; the extender keeps none yet",
    "moveBarePods": "whether pods without an owner are moved; it needs the right to create pods",
    "placement": "which of the nodes and GPUs with room a pod gets: pack the fullest, spread the emptiest",
    "podsWithoutQueue": "what becomes of pods that name no queue: pass, or refuse",
    "saturationMultiplier": "how much fuller than its victim, by fair share, a queue may become by taking back",
}
"""What the sample says too briefly for a page of its own."""

# --- both ---


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


PAGES = {"commands.md": commands, "settings.md": settings}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make())
