"""The text of a scrape. What changes seldom (names, labels) is laid out once; a scrape only fills in numbers.

A page is one format string with a hole per sample, so a scrape is one pass over the readings and one formatting call:
every GPU is in it, and no family is ever half written. Each change of the topology makes a new page, which the first
scrape lays out: between two scrapes a thousand nodes may change many times.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter

from gpuyard.common.topology.model import Node
from gpuyard.dcgm_exporter.families import FAMILIES, XID
from gpuyard.dcgm_exporter.labels import Switches, labels_of
from gpuyard.dcgm_exporter.readings import Device, Meters, Reading, devices, reading

_VALUES = tuple(family.value for family in FAMILIES)


class Page:
    """The metrics of some nodes."""

    def __init__(self, nodes: Mapping[str, Node], switches: Switches) -> None:
        self.devices = tuple(devices(nodes))
        self._switches = switches

    def text(self, now: float, meters: Meters) -> str:
        """All samples as they are now."""
        return self.filled(self.settle(now, meters))

    def settle(self, now: float, meters: Meters) -> list[Reading]:
        """The readings as they are now; the counters have risen until now."""
        return [reading(device, now, meters) for device in self.devices]

    def filled(self, readings: Sequence[Reading]) -> str:
        """All samples of these readings, one per device."""
        text, pick = self._laid_out
        values = list(chain.from_iterable([value(each) for value in _VALUES] for each in readings))
        return text % pick(values)

    @cached_property
    def _laid_out(self) -> tuple[str, Callable[[list[float]], tuple[float, ...]]]:
        text, order = _layout(self.devices, self._switches)
        return text, _picker(order)


def _layout(shown: Sequence[Device], switches: Switches) -> tuple[str, list[int]]:
    """The format string, and which value goes into each of its holes: family by family, device by device."""
    plain = [labels_of(device, switches, with_xid=False).replace("%", "%%") for device in shown]
    with_xid = [labels_of(device, switches, with_xid=True).replace("%", "%%") for device in shown]
    lines: list[str] = []
    order: list[int] = []
    for column, family in enumerate(FAMILIES):
        labels = with_xid if family.name == XID else plain
        rows = [row for row, device in enumerate(shown) if family.when(device)]
        if rows:
            lines.append(family.header.replace("%", "%%"))
        lines.extend(f"{family.name}{{{labels[row]}}} {family.form}\n" for row in rows)
        order.extend(row * len(FAMILIES) + column for row in rows)
    return "".join(lines), order


def _picker(order: list[int]) -> Callable[[list[float]], tuple[float, ...]]:
    if not order:
        return lambda _: ()
    picked = itemgetter(*order)
    return picked if len(order) > 1 else lambda values: (values[order[0]],)
