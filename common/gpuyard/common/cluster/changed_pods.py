"""Running pods whose keys were changed behind the ledger's back: how many there are, and which."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PAGE = "changed-pods"
"""The page of the probes' port that names them: metrics never have a pod in a label."""

NAMED = 100
"""So many pods are named, the first by key; all of them are counted."""


class ChangedPods(msgspec.Struct, frozen=True):
    """The page: all are counted, some are named."""

    count: int
    named: dict[str, tuple[str, ...]]
    """The keys that differ, by pod."""


class ChangedPodsCollector(Collector):
    """Looks at each request; `altered` gives the keys by which pods with a node say something else than what counts."""

    def __init__(self, altered: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._altered = altered

    def collect(self) -> Iterator[Metric]:
        """How many pods there are."""
        meaning = "Running pods whose keys say something else than what they are counted with."
        yield GaugeMetricFamily("gpuyard_changed_pods", meaning, len(self._altered()))

    def page(self) -> bytes:
        """The page as JSON."""
        altered = self._altered()
        named = {pod: tuple(altered[pod]) for pod in sorted(altered)[:NAMED]}
        return msgspec.json.encode(ChangedPods(len(altered), named))
