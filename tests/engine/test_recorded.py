"""The single rules answer as KAI Scheduler did, asked with the numbers of `recorded`."""

from collections.abc import Iterable

import pytest
from gpuyard.engine.model import GPU, NO_BOUND, NOTHING, SCALE, Amounts
from gpuyard.engine.model.amounts import allocatable
from gpuyard.engine.rules.accounts import Account, Accounts
from gpuyard.engine.rules.fair_share import Claim, divide
from gpuyard.engine.rules.order import Rank, before, rank
from gpuyard.engine.rules.reclaim import fair_to_all, may_lose, may_take
from gpuyard.engine.stepwise import at_once

from tests.engine import recorded
from tests.engine.builders import milli


def lines(of: str) -> list[str]:
    return of.strip().splitlines()


def gpus(text: str) -> Amounts:
    return Amounts(gpu=milli(text))


def bound(text: str) -> Amounts:
    return NO_BOUND._replace(gpu=milli(text))


def claim(age: int, text: str) -> Claim:
    quota, limit, weight, asked, priority, past = text.split()
    return Claim(
        name=f"q{age}",
        created=age,
        quota=milli(quota),
        limit=milli(limit),
        weight=int(float(weight) * SCALE),
        request=milli(asked),
        priority=int(priority),
        usage=int(float(past) * SCALE),
    )


@pytest.mark.parametrize("case", lines(recorded.FAIR_SHARES))
def test_what_queues_are_due(case: str) -> None:
    head, _, body = case.partition(" : ")
    total, past = head.split()
    rows = [row.split(" = ") for row in body.split(", ")]
    claims = [claim(age, asked) for age, (asked, _) in enumerate(rows)]
    divide(milli(total), claims, int(past) * SCALE, GPU)
    assert [c.share for c in claims] == [milli(share) for _, share in rows]


def account(text: str) -> Account:
    name, parent, quota, fair, held, fixed = text.split()
    return Account(
        name=name,
        parent=parent.strip("-"),
        quota=bound(quota),
        limit=NO_BOUND,
        fair_share=bound(fair),
        allocatable=allocatable(bound(quota), NO_BOUND, bound(fair)),
        allocated=gpus(held),
        fixed=gpus(fixed),
    )


class Case:
    """Queues, one that takes, and what was answered."""

    def __init__(self, text: str) -> None:
        queues, _, asked = text.partition(" : ")
        question, _, answer = asked.partition(" = ")
        claim, _, self.rest = question.partition(" from ")
        self.taker, need, *hard = claim.split()
        self.need = gpus(need)
        self.preemptible = not hard
        self.answer = answer == "yes"
        self.accounts = Accounts({a.name: a for a in map(account, queues.split(", "))})

    def losses(self, of: Iterable[str]) -> dict[str, list[Amounts]]:
        return {holder: list(map(gpus, chunks)) for holder, *chunks in map(str.split, of)}


@pytest.mark.parametrize("text", lines(recorded.MAY_TAKE))
def test_whether_a_queue_may_take_at_all(text: str) -> None:
    case = Case(text)
    assert may_take(case.accounts, case.taker, case.need, preemptible=case.preemptible) is case.answer


@pytest.mark.parametrize("text", lines(recorded.MAY_LOSE))
def test_whether_a_queue_may_lose_at_all(text: str) -> None:
    case = Case(text)
    assert may_lose(case.accounts, case.taker, case.need, case.rest) is case.answer


@pytest.mark.parametrize("text", lines(recorded.FAIR_TO_ALL))
def test_whether_a_set_of_victims_is_fair_to_all(text: str) -> None:
    case = Case(text)
    holders, _, multiplier = case.rest.partition(" times ")
    answer = fair_to_all(
        case.accounts,
        case.taker,
        case.need,
        case.losses(holders.split(", ")),
        preemptible=case.preemptible,
        multiplier=int(float(multiplier) * SCALE),
    )
    assert at_once(answer) is case.answer


def ranked(age: int, text: str, total: Amounts) -> Rank:
    priority, quota, limit, fair, held, need, taken = text.split()
    queue = Account(
        name=f"q{age}",
        created=age,
        priority=int(priority),
        quota=bound(quota),
        limit=bound(limit),
        fair_share=bound(fair),
        allocatable=allocatable(bound(quota), bound(limit), bound(fair)),
        allocated=gpus(held),
    )
    return rank(queue, gpus(need), total, gpus(taken) if taken != "0" else NOTHING)


@pytest.mark.parametrize("case", lines(recorded.ORDER))
def test_which_of_two_queues_goes_first(case: str) -> None:
    total, _, body = case.partition(" : ")
    pair, _, first = body.partition(" = ")
    left, right = (ranked(age, text, gpus(total)) for age, text in enumerate(pair.split(", ")))
    assert before(left, right) is (first == "first")
