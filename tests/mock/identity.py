"""Who has which GPU, by each that says so, second by second; and how long they disagreed."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tests.mock.pages import samples
from tests.mock.yard import HELD, Owners, Yard, owners_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SAMPLER = """
import sys, time, urllib.request

async def sample(url):
    while True:
        page = urllib.request.urlopen(url, timeout=5).read().decode()
        lines = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{{")]
        print(json.dumps([time.time(), await held(), "\\n".join(lines)]), flush=True)
        await asyncio.sleep(1)

async def main():
    try:
        await asyncio.wait_for(sample("http://{address}:9400/metrics"), {seconds})
    except TimeoutError:
        pass

asyncio.run(main())
"""


@dataclass(frozen=True)
class Word:
    """What one of them said at a time."""

    at: float
    by: str
    owners: Owners


class Listening:
    """Notes for a while what all say, each second. Use it in a `with` block; `words` is complete afterwards."""

    def __init__(self, yard: Yard, seconds: int) -> None:
        self.words: list[Word] = []
        self.scrapes: list[set[str]] = []
        """The devices that each scrape named."""
        self._yard = yard
        self._seconds = seconds
        self._parts = [threading.Thread(target=part) for part in (self._listen_to_the_api, self._listen_on_the_node)]

    def __enter__(self) -> Self:
        for part in self._parts:
            part.start()
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.join()

    def _listen_to_the_api(self) -> None:
        end = time.time() + self._seconds
        while (begin := time.time()) < end:
            self.words.append(Word(begin, "status", self._yard.stated()))
            self.words.append(Word(begin, "topology", self._yard.told()))
            time.sleep(max(0.0, begin + 1 - time.time()))

    def _listen_on_the_node(self) -> None:
        address = self._yard.of("dcgm-exporter")["status"]["podIP"]
        said = self._yard.inside("device-plugin", HELD + SAMPLER.format(address=address, seconds=self._seconds))
        for line in said.splitlines():
            at, held, page = json.loads(line)
            scraped = samples(page)
            self.scrapes.append({labels["UUID"] for labels, _ in scraped["DCGM_FI_DEV_GPU_UTIL"]})
            self.words += [Word(at, "kubelet", held), Word(at, "metrics", owners_of(scraped))]


def longest_difference(words: Iterable[Word], devices: Sequence[str]) -> tuple[float, str]:
    """How old the oldest word was that kubelet no longer said, and what; whoever spoke last counts.

    Owners may change faster than anybody follows. So a word is as old as kubelet's own last word that said the same,
    and one that kubelet never said as old as the speaker's last word that was right.
    """
    latest: dict[str, Owners] = {}
    said: dict[tuple[str, str], float] = {}
    right: dict[tuple[str, str], float] = {}
    longest = (0.0, "no difference")
    for word in sorted(words, key=lambda word: word.at):
        # What kubelet said stood until now, and what it says now begins.
        said |= dict.fromkeys(_owned(latest.get("kubelet"), devices), word.at)
        latest[word.by] = word.owners
        said |= dict.fromkeys(_owned(latest.get("kubelet"), devices), word.at)
        for device, by, owner, truth in _differences(latest, devices, right, word.at):
            right[device, by] = max(right[device, by], said.get((device, owner), 0.0))
            longest = max(longest, (word.at - right[device, by], f"{device} {by} {owner} kubelet {truth}"))
    return longest


def _owned(owners: Owners | None, devices: Iterable[str]) -> list[tuple[str, str]]:
    return [] if owners is None else [(device, owners.get(device, "nobody")) for device in devices]


def _differences(
    latest: dict[str, Owners], devices: Sequence[str], right: dict[tuple[str, str], float], now: float
) -> Iterator[tuple[str, str, str, str]]:
    """Who differs from kubelet about what; `right` notes who does not."""
    truth = dict(_owned(latest.get("kubelet"), devices))
    for by, owners in latest.items() if truth else ():
        for device, owner in _owned(owners, devices):
            if owner == truth[device]:
                right[device, by] = now
            else:
                right.setdefault((device, by), now)
                yield device, by, owner, truth[device]
