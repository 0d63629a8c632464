"""The order in which queues have their turns, and where somebody would have his whose queue has none, or none left.

    the turns by rank        a b a b c        a workload of queue d goes before the first whose queue ranks after d
    one more of a            · · · ↑ ·        and one that is the last of a likewise, of the turns after a's last

Queues are compared where their ways from the root part, as in the engine's line.
"""

from bisect import bisect_right
from itertools import islice

from gpuyard.engine.model import Amounts
from gpuyard.engine.rules.accounts import Account, Accounts
from gpuyard.engine.rules.order import Rank, before, rank
from msgspec.structs import replace

FAR = 200
"""So many turns are looked at; who goes before none of them goes last: in a long line more would take too long."""


class Course:
    """Made with a line; `accounts` count everybody in it, and whoever joins it."""

    def __init__(self, accounts: Accounts, total: Amounts) -> None:
        """`total` is what there is of each resource."""
        self._accounts = accounts
        self._total = total
        self._ranks: dict[int, tuple[Rank, ...]] = {}
        """By turn, the queue's own last."""
        self._turns: dict[str, list[int]] = {}
        """Of a queue and all below it; of all under no name."""

    def add(self, turn: int, queue: str, ranks: tuple[Rank, ...]) -> None:
        """The next turn is this queue's, by the ranks of itself and of those above it."""
        self._ranks[turn] = ranks[::-1]
        for name in ("", *(account.name for account in self._accounts.path(queue))):
            self._turns.setdefault(name, []).append(turn)

    def join(self, queue: str, need: Amounts, *, fixed: bool) -> None:
        """Count somebody who has come."""
        self._accounts.add(queue, need, fixed=fixed)

    def turn_after(self, queue: str, need: Amounts, now: Accounts) -> int | None:
        """The first turn that goes after one more of this queue, by shares as they are `now`; None: all go before."""
        path = now.path(queue)
        for depth, account in zip(range(len(path) - 1, -1, -1), path, strict=True):
            own = rank(self._counted(account), need, self._total)
            others, mine = self._turns.get(account.parent, ()), self._turns.get(account.name)
            begin = bisect_right(others, mine[-1]) if mine else 0
            for turn in islice(others, begin, begin + FAR):
                ranks = self._ranks[turn]
                # The turn of a queue that had none below it when the line was made stands beside none of these.
                if depth < len(ranks) and before(own, ranks[depth]):
                    return turn
        return None

    def _counted(self, account: Account) -> Account:
        """A queue with those who are in line; the share of one of which nobody was is told by who has come."""
        known = self._accounts.by_name.get(account.name)
        if known is None or account.name in self._turns:
            return known or account
        return replace(account, allocated=known.allocated, fixed=known.fixed)
