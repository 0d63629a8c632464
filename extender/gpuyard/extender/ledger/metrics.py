"""What the ledger holds, and what the watches cannot read, as metrics."""

from collections import Counter as Counted
from collections.abc import Callable, Iterator, Mapping

from gpuyard.extender.ledger import Ledger, Phase
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class LedgerCollector(Collector):
    """Reads the ledger at each scrape."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def collect(self) -> Iterator[Metric]:
        """Pods by phase, why they wait, for how many room is kept, and the GPUs that each queue uses.

        Each metric is given away as soon as it is made: between two of them the verbs may answer.
        """
        pods = GaugeMetricFamily("gpuyard_ledger_pods", "Pods in the ledger by phase.", labels=["phase"])
        phases = [entry.phase for entry in self._ledger.entries.values()]
        for phase in Phase:
            pods.add_metric([phase.value], phases.count(phase))
        yield pods
        refused = GaugeMetricFamily(
            "gpuyard_refused_pods", "Pods that wait after a refusal, by reason.", labels=["reason"]
        )
        for reason, count in sorted(Counted(self._ledger.asleep.values()).items()):
            refused.add_metric([reason], count)
        yield refused
        yield GaugeMetricFamily("gpuyard_promises", "Pods for which plans keep room.", len(self._ledger.promises.all))
        use = self._ledger.snapshot.use
        used = GaugeMetricFamily("gpuyard_queue_allocated_gpus", "GPUs held by a queue.", labels=["queue"])
        for name, amounts in use.items():
            used.add_metric([name], amounts.allocated.gpu / 1000)
        yield used
        asked = GaugeMetricFamily("gpuyard_queue_requested_gpus", "GPUs held and waited for.", labels=["queue"])
        for name, amounts in use.items():
            asked.add_metric([name], amounts.requested.gpu / 1000)
        yield asked


class UnreadableCollector(Collector):
    """Asks at each scrape what is not read as it is written."""

    def __init__(self, unreadable: Callable[[], Mapping[str, int]]) -> None:
        self._unreadable = unreadable

    def collect(self) -> Iterator[Metric]:
        """Objects by kind: what is put right counts no longer."""
        now = GaugeMetricFamily(
            "gpuyard_unreadable_objects", "Objects not read or used as they are written.", labels=["resource"]
        )
        for resource, count in sorted(self._unreadable().items()):
            now.add_metric([resource], count)
        yield now
