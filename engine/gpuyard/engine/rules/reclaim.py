"""Who may take from whom across queues: quota protects at the level where two queues' ways from the root part.

    may_take          the taker's queue may grow by this much at the cost of others
    may_lose          a first look at a queue: is it worth trying its workloads as victims?
    fair_to_all       a whole set of victims, chunk by chunk, then the balance between the queues afterwards

X is the taker's side of the levelled pair (`Accounts.levelled`), Y the holder's:

    starved(X)        allocated + need <= quota            in all resources
    over_fair(Y)      not (what remains <= allocatable)    allocatable: quota or fair share, within the limit
    over_quota(Y)     not (what remains <= quota)
    a chunk may go    over_fair(Y)  or  starved(X) and over_quota(Y)      before it is taken away
"""

from collections.abc import Generator, Iterable, Mapping, Sequence

from gpuyard.engine.model import SCALE, UNLIMITED, Amounts
from gpuyard.engine.model.amounts import at_most, plus_at_most
from gpuyard.engine.rules.accounts import Account, Accounts


def may_take(accounts: Accounts, queue: str, need: Amounts, *, preemptible: bool) -> bool:
    """Whether the queue stays within its fair share (and, for what is not preemptible, its quota) with `need` more."""
    mine = accounts.by_name[queue]
    return plus_at_most(mine.allocated, need, mine.fair_share) and (
        preemptible or plus_at_most(mine.fixed, need, mine.quota)
    )


def may_lose(accounts: Accounts, taker: str, need: Amounts, holder: str) -> bool:
    """Whether workloads of the queue `holder` can be victims at all."""
    x, y = accounts.levelled(taker, holder)
    if not starved(x, need):
        return not at_most(y.allocated, y.allocatable)
    bounded = [n for n in range(3) if need[n] > 0 and y.quota[n] != UNLIMITED]
    above = any(y.allocated[n] > y.quota[n] for n in bounded)
    return above or not any(y.allocated[n] < y.quota[n] for n in bounded)


def starved(queue: Account, need: Amounts) -> bool:
    """Whether the queue stays within its quota with `need` more."""
    return plus_at_most(queue.allocated, need, queue.quota)


def fair_to_all(  # noqa: PLR0913 - both sides, and the two settings of the rule
    accounts: Accounts,
    taker: str,
    need: Amounts,
    losses: Mapping[str, Sequence[Amounts]],
    *,
    preemptible: bool,
    multiplier: int = SCALE,
) -> Generator[None, None, bool]:
    """Whether these losses, per queue a list of chunks in order, may be suffered for the taker's need.

    `accounts` are as before the losses. Pauses after each chunk.
    """
    remaining: dict[str, Amounts] = {}
    touched: dict[str, set[int]] = {}
    for holder, chunks in losses.items():
        x, y = accounts.levelled(taker, holder)
        for chunk in chunks:
            rest = remaining.get(y.name, y.allocated)
            over_fair = not at_most(rest, y.allocatable)
            if not over_fair and not (starved(x, need) and not at_most(rest, y.quota)):
                return False
            for account in accounts.path(holder):
                remaining[account.name] = remaining.get(account.name, account.allocated).minus(chunk)
            yield
        asked = _asked(chunks)
        for account in accounts.path(holder):
            touched.setdefault(account.name, set()).update(asked)
    return _balanced(accounts, taker, need, remaining, touched, preemptible=preemptible, multiplier=multiplier)


def _asked(amounts: Iterable[Amounts]) -> set[int]:
    return {n for a in amounts for n in range(3) if a[n] > 0}


def _balanced(  # noqa: PLR0913 - the running totals of `fair_to_all`
    accounts: Accounts,
    taker: str,
    need: Amounts,
    remaining: Mapping[str, Amounts],
    touched: Mapping[str, set[int]],
    *,
    preemptible: bool,
    multiplier: int,
) -> bool:
    for mine in accounts.path(taker):
        after = remaining.get(mine.name, mine.allocated).plus(need)
        for name in remaining:
            sibling = accounts.by_name[name]
            if sibling.parent != mine.parent or sibling is mine:
                continue
            for n in touched[name] | _asked([need]):
                ratios = (after[n], mine.fair_share[n]), (remaining[name][n], sibling.fair_share[n])
                if sibling.fair_share[n] > 0 and _fuller(*ratios, multiplier):
                    return False
        if not preemptible and not plus_at_most(mine.fixed, need, mine.quota):
            return False
    return True


def _fuller(mine: tuple[int, int], sibling: tuple[int, int], multiplier: int) -> bool:
    """Whether a queue passes its fair share and is then at least as full as a sibling whose share is above 0."""
    amount, share = mine
    if share == UNLIMITED or amount <= share:
        return False
    if share == 0:
        return True
    return amount * multiplier * sibling[1] >= sibling[0] * SCALE * share
