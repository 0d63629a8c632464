"""The pods that each disruption budget is about, as pods and budgets change."""

from random import Random

import pytest
from gpuyard.common.cluster.budget_index import BudgetIndex
from gpuyard.engine.kube.others import budget as read
from gpuyard.engine.kube.others import rule
from gpuyard.engine.model import Budget, Pod, State
from gpuyard.engine.model.persistent import PersistentMap
from gpuyard.extender.planner.look.covered_pods import CoveredPods
from msgspec.structs import replace

from tests.engine.work import most_calls
from tests.extender.test_budget_index import SELECTORS, WEB, Shelf, budget, pod

Pods = PersistentMap[str, Pod]
NONE = Pods()


def covered(shelf: Shelf) -> CoveredPods:
    return CoveredPods(BudgetIndex(shelf))


def shelf_with(*names: str) -> Shelf:
    shelf = Shelf()
    for name in names:
        shelf.show(budget(name))
    return shelf


def webs(count: int, budgets: int) -> Pods:
    """So many pods, which as many budgets are about in turn."""
    return NONE.changed({f"ns/p{n}": pod(f"p{n}", app=f"web-{n % budgets}") for n in range(count)})


def read_off(shelf: Shelf, pods: Pods) -> dict[str, Budget]:
    """The same from every pod for every budget."""
    by_budget = {
        key: read(seen, [one.key for one in pods.values() if rule(seen, lambda *_: None).covers(one)])
        for key, seen in shelf.items()
    }
    return {key: found for key, found in by_budget.items() if found.pods}


@pytest.mark.row("B-27")
@pytest.mark.parametrize("seed", range(30))
def test_after_any_changes_of_pods_and_budgets_the_cover_is_that_of_a_fresh_look(seed: int) -> None:
    chance, shelf, pods = Random(seed), Shelf(), NONE
    kept = covered(shelf)
    for _ in range(40):
        name, space = f"b{chance.randrange(4)}", chance.choice(["ns", "other"])
        if chance.random() < 0.2:
            shelf.pop(f"{space}/{name}", None)
        elif chance.random() < 0.5:
            shelf.show(budget(name, chance.choice(SELECTORS), chance.randrange(3), space))
        key = f"{chance.choice(['ns', 'other'])}/p{chance.randrange(9)}"
        labels = {"app": chance.choice(["web", "db"]), "tier": chance.choice(["0", "1"])}
        there = replace(pod("x"), key=key, labels=labels, state=chance.choice([State.PENDING, State.RUNNING]))
        pods = pods.changed({key: chance.choice([there, there, None])})
        steps = kept.renew(pods)
        if chance.random() < 0.3:
            # Given up half-way, as when the API server cannot be reached.
            for _ in range(chance.randrange(3)):
                next(steps, None)
            steps.close()
        if chance.random() < 0.5:
            assert {one.name: one for one in kept.now(pods)} == read_off(shelf, pods)


def test_what_a_budget_allows_is_news_even_if_its_pods_are_the_same() -> None:
    shelf, pods = shelf_with("keep"), NONE.changed({"ns/p": pod("p", app="web")})
    kept = covered(shelf)
    assert [one.allowed for one in kept.now(pods)] == [1]
    shelf.show(budget("keep", WEB, allowed=0))
    assert [one.allowed for one in kept.now(pods)] == [0]


@pytest.mark.row("B-28")
@pytest.mark.parametrize(("budgets", "count"), [(20, 300), (200, 3_000)])
def test_no_step_looks_at_more_than_a_few_pods_and_budgets(budgets: int, count: int) -> None:
    shelf = Shelf()
    for n in range(budgets):
        shelf.show(budget(f"b{n}", {"matchLabels": {"app": f"web-{n}"}}))
    assert most_calls(covered(shelf).renew(webs(count, budgets))) < 700


@pytest.mark.row("B-28")
def test_a_changed_pod_costs_a_look_at_that_pod_and_not_at_the_others() -> None:
    shelf, pods = shelf_with("keep"), webs(3_000, 200)
    kept = covered(shelf)
    kept.now(pods)
    later = pods.changed({"ns/p7": pod("p7", app="web")})
    assert most_calls(iter(lambda: kept.now(later), kept.now(later))) < 300
