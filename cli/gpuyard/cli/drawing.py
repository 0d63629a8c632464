"""Sections of aligned columns, for terminals of any width and for files."""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import NamedTuple

MOST_ROWS = 40
"""Rows of one section, unless it says otherwise."""

GAP = "  "
_NARROWEST = 24
"""Columns that a wrapped last column gets at least."""

Style = Callable[[str, str], str]
"""Paints a text in a colour; paints nothing where there are no colours."""


class Section(NamedTuple):
    """A heading, the names of the columns and the rows."""

    title: str
    colour: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    most: int = MOST_ROWS
    """Rows that are shown; what goes beyond is counted."""


class Page(NamedTuple):
    """What is drawn on: the width of the terminal (None: no terminal, no wrapping) and its colours."""

    width: int | None
    style: Style
    headers: bool = True
    """Without them there are rows and nothing else, all of them, for those who cut them up."""


def drawn(section: Section, page: Page) -> str:
    """The section as lines. Its last column wraps where the terminal is too narrow for it."""
    if not page.headers:
        return _rows(section)
    shown = section.rows[: section.most]
    widths = [max(map(len, column)) for column in zip(section.columns, *shown, strict=True)]
    lines = [page.style(section.title, section.colour), _line(section.columns, widths)]
    lines += [line for row in shown for line in _wrapped(row, widths, page.width)]
    if len(section.rows) > section.most:
        lines.append(f"{GAP}… and {len(section.rows) - section.most} rows more; -o json has all of them")
    return "\n".join(lines)


def _rows(section: Section) -> str:
    widths = [max(map(len, column)) for column in zip(*section.rows, strict=True)]
    return "\n".join(_line(row, widths).removeprefix(GAP) for row in section.rows)


def listed(title: str, colour: str, lines: Sequence[str], page: Page) -> str:
    """A heading and a list of sentences."""
    parts = [GAP + line for line in lines]
    if page.width is not None:
        width = max(page.width, _NARROWEST)
        parts = [part for line in parts for part in wrap(line, width, subsequent_indent=GAP * 2)]
    return "\n".join([page.style(title, colour), *parts])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return (GAP + GAP.join(text.ljust(w) for text, w in zip(row, widths, strict=True))).rstrip()


def _wrapped(row: Sequence[str], widths: Sequence[int], width: int | None) -> list[str]:
    before = len(GAP) + sum(w + len(GAP) for w in widths[:-1])
    if width is None or before + len(row[-1]) <= width:
        return [_line(row, widths)]
    if width - before >= _NARROWEST:
        first, *rest = wrap(row[-1], width - before)
        return [_line((*row[:-1], first), widths), *(" " * before + line for line in rest)]
    return [_line((*row[:-1], ""), widths), *(GAP * 3 + line for line in wrap(row[-1], max(width - 6, _NARROWEST)))]
