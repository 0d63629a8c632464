"""What a Queue object says of itself: what it holds, what it asks for, what it is due."""

from collections.abc import Mapping
from types import MappingProxyType

from gpuyard.common.cluster.queue_faults import QueueFault
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import QUEUES
from gpuyard.engine.kube.pods import GPU_RESOURCE
from gpuyard.engine.model import UNLIMITED, Amounts, Queue
from gpuyard.engine.model.counting import UNUSED, QueueUse
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search.settle import published


def statuses(
    snapshot: Snapshot, accounts: Accounts, faults: Mapping[str, QueueFault] = MappingProxyType({})
) -> dict[str, Json]:
    """The status of every queue, with the faults of those that are not used as they are written."""
    children: dict[str, list[str]] = {}
    for queue in snapshot.queues.values():
        children.setdefault(queue.parent, []).append(queue.name)
    found = {
        name: _status(snapshot, accounts, queue, sorted(children.get(name, ())))
        for name, queue in snapshot.queues.items()
    }
    for name in found.keys() & faults.keys():
        found[name]["conditions"].append(faults[name].condition)
    return found


def _status(snapshot: Snapshot, accounts: Accounts, queue: Queue, children: list[str]) -> Json:
    use = snapshot.use.get(queue.name, UNUSED)
    account = accounts.by_name.get(queue.name)
    orphan = bool(queue.parent) and queue.parent not in snapshot.queues
    return {
        "conditions": [_condition("Orphan", holds=orphan), _condition("OverQuota", holds=_over(queue, use))],
        "childQueues": children,
        "allocated": quantities(use.allocated),
        "allocatedNonPreemptible": quantities(use.fixed),
        "requested": quantities(use.requested),
        "fairShare": quantities(published(account.fair_share)) if account else {},
    }


def quantities(amounts: Amounts) -> dict[str, str]:
    """Amounts as Kubernetes writes them; what has no bound is left out."""
    named = zip((GPU_RESOURCE, "cpu", "memory"), amounts, strict=True)
    return {name: _quantity(name, value) for name, value in named if value != UNLIMITED}


def _quantity(name: str, value: int) -> str:
    if name == "memory":
        return str(value)
    return str(value // 1000) if value % 1000 == 0 else f"{value}m"


def _over(queue: Queue, use: QueueUse) -> bool:
    return any(quota != UNLIMITED and held > quota for held, quota in zip(use.allocated, queue.quota, strict=True))


def _condition(name: str, *, holds: bool) -> Json:
    return {"type": name, "status": str(holds)}


class QueueWriter:
    """Writes the statuses that have changed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written: Mapping[str, Json] = {}

    def news(self, wanted: Mapping[str, Json]) -> int:
        """How many statuses of these are not written."""
        return sum(self._written.get(name) != status for name, status in wanted.items())

    async def write(self, wanted: Mapping[str, Json]) -> None:
        """Let the Queue objects say this; one that is gone is passed over."""
        written = {name: status for name, status in self._written.items() if name in wanted}
        for name, status in wanted.items():
            if written.get(name) == status:
                continue
            try:
                await self._client.patch(QUEUES.named(name).sub("status"), {"status": status})
            except ApiError as error:
                if not error.not_found:
                    raise
            written[name] = status
            self._written = written
