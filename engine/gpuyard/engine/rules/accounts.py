"""Each queue's numbers during a cycle: what it is due, and what it holds as decisions are tried and undone."""

from collections.abc import Iterable, Mapping

import msgspec
from gpuyard.engine.model import NOTHING, Amounts, Queue
from gpuyard.engine.model.amounts import allocatable
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules.fair_share import fair_shares, levels


class Account(msgspec.Struct, kw_only=True, gc=False):
    """One queue. `allocated` and `fixed` (not preemptible) change during a cycle, `version` with each change."""

    name: str
    parent: str = ""
    priority: int = 100
    created: int = 0
    quota: Amounts = NOTHING
    limit: Amounts = NOTHING
    fair_share: Amounts = NOTHING
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    fixed: Amounts = NOTHING
    version: int = 0

    def add(self, amounts: Amounts, *, fixed: bool) -> None:
        """Count more as held, or less with negative amounts."""
        self.allocated = self.allocated.plus(amounts)
        if fixed:
            self.fixed = self.fixed.plus(amounts)
        self.version += 1


class Accounts:
    """All queues' accounts, and the way from each up to its root."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self.by_name = accounts
        parents = {a.parent for a in accounts.values()}
        self.leaves = frozenset(name for name in accounts if name not in parents)
        self.changes = 0
        """How often amounts have changed."""
        self._paths: dict[str, tuple[Account, ...]] = {}

    @classmethod
    def of(cls, snapshot: Snapshot, k: int) -> "Accounts":
        """The accounts at the start of a cycle; queues that hang on no root, or too deep, have none."""
        shares = fair_shares(snapshot, k)
        return cls({name: _account(snapshot, snapshot.queues[name], share) for name, share in shares.items()})

    @classmethod
    def without_shares(cls, snapshot: Snapshot) -> "Accounts":
        """The same accounts with nothing in them but what is configured, for who needs no fair shares."""
        rooted = (queue for level in levels(snapshot) for queue in level)
        return cls({q.name: Account(name=q.name, parent=q.parent, quota=q.quota, limit=q.limit) for q in rooted})

    def path(self, queue: str) -> tuple[Account, ...]:
        """The queue and its ancestors, itself first; empty when there is no such queue."""
        path = self._paths.get(queue)
        if path is None:
            account = self.by_name.get(queue)
            path = self._paths[queue] = (account, *self.path(account.parent)) if account else ()
        return path

    def add(self, queue: str, amounts: Amounts, *, fixed: bool) -> None:
        """Count more as held in the queue and all its ancestors."""
        self.changes += 1
        for account in self.path(queue):
            account.add(amounts, fixed=fixed)

    def copy_of(self, queues: Iterable[str]) -> "Accounts":
        """These queues and their ancestors as they are now."""
        return Accounts({a.name: msgspec.structs.replace(a) for queue in queues for a in self.path(queue)})

    def levelled(self, taker: str, holder: str) -> tuple[Account, Account]:
        """The first pair that differs on the ways from the roots down to both queues (the last one if none does)."""
        pair = None
        for pair in zip(reversed(self.path(taker)), reversed(self.path(holder)), strict=False):
            if pair[0] is not pair[1]:
                break
        assert pair is not None, "both queues exist"  # noqa: S101 - gates let no other workload get here
        return pair


def _account(snapshot: Snapshot, queue: Queue, share: Amounts) -> Account:
    use = snapshot.use.get(queue.name, UNUSED)
    return Account(
        name=queue.name,
        parent=queue.parent,
        priority=queue.priority,
        created=queue.created,
        quota=queue.quota,
        limit=queue.limit,
        fair_share=share,
        allocatable=allocatable(queue.quota, queue.limit, share),
        allocated=use.allocated,
        fixed=use.fixed,
    )
