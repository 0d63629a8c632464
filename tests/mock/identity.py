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
    from collections.abc import Iterable

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


def longest_difference(words: Iterable[Word], devices: Iterable[str]) -> tuple[float, str]:
    """For how long two said the same two different things about a device, and what; whoever spoke last counts."""
    latest: dict[str, Owners] = {}
    since: dict[tuple[str, ...], float] = {}
    longest = (0.0, "no difference")
    for word in sorted(words, key=lambda word: word.at):
        latest[word.by] = word.owners
        now = set(_differences(latest, devices))
        since = {each: since.get(each, word.at) for each in now}
        longest = max([longest, *((word.at - began, " ".join(each)) for each, began in since.items())])
    return longest


def _differences(latest: dict[str, Owners], devices: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for device in devices:
        said = {by: owners.get(device, "nobody") for by, owners in latest.items()}
        for by, owner in said.items():
            if owner != said.get("kubelet", owner):
                yield device, by, owner, "kubelet", said["kubelet"]
