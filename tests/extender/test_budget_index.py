"""Which disruption budgets are about a pod."""

from random import Random

import pytest
from gpuyard.common.cluster.budget_index import BudgetIndex
from gpuyard.common.cluster.objects import PodDisruptionBudget
from gpuyard.engine.kube.others import rule
from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.stepwise import at_once

from tests.extender.builders import Json, typed

WEB = {"matchLabels": {"app": "web"}}
SELECTORS: list[Json | None] = [
    WEB,
    {"matchLabels": {"app": "web", "tier": "1"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db", "web"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["0"]}]},
    {},
    None,
]


def budget(name: str = "keep", selector: Json | None = WEB, allowed: int | None = 1, space: str = "ns") -> Json:
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed}}
    meta = {"name": name, "namespace": space, "uid": name, "resourceVersion": "1"}
    spec = {} if selector is None else {"selector": selector}
    return {"kind": "PodDisruptionBudget", "metadata": meta, "spec": spec} | status


def pod(name: str, space: str = "ns", **labels: str) -> Pod:
    return Pod(key=f"{space}/{name}", shape=Shape(), labels=labels)


class Shelf(dict[str, PodDisruptionBudget]):
    """The budgets as the watch shows them."""

    def show(self, of: Json) -> None:
        self[f"{of['metadata']['namespace']}/{of['metadata']['name']}"] = typed(of)


def index(*budgets: Json) -> tuple[Shelf, BudgetIndex]:
    shelf = Shelf()
    for one in budgets:
        shelf.show(one)
    made = BudgetIndex(shelf)
    at_once(made.renew())
    return shelf, made


@pytest.mark.row("B-27")
@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_the_budgets_that_reading_each_of_them_finds(seed: int) -> None:
    chance = Random(seed)
    some = [budget(f"b{n}", chance.choice(SELECTORS), space=chance.choice(["ns", "other"])) for n in range(12)]
    shelf, found = index(*some)
    for _ in range(20):
        labels = {key: chance.choice(["web", "db", "1"]) for key in ("app", "tier") if chance.random() < 0.7}
        one = pod("p", chance.choice(["ns", "other", "third"]), **labels)
        read_off = {key for key, seen in shelf.items() if rule(seen, lambda *_: None).covers(one)}
        assert set(found.about(one)) == read_off
        assert len(found.about(one)) == len(read_off), "each budget once"


def test_a_budget_that_changes_or_goes_is_about_other_pods() -> None:
    shelf, found = index(budget())
    shelf.show(budget(selector={"matchLabels": {"app": "db"}}))
    at_once(found.renew())
    assert (found.about(pod("p", app="web")), found.about(pod("p", app="db"))) == ([], ["ns/keep"])
    shelf.clear()
    at_once(found.renew())
    assert found.about(pod("p", app="db")) == []


def test_a_rule_that_stays_the_same_stays_the_same_object() -> None:
    shelf, found = index(budget(allowed=1))
    rule = found.rules["ns/keep"]
    shelf.show(budget(allowed=0))
    at_once(found.renew())
    assert found.rules["ns/keep"] is rule
    assert found.budget("ns/keep", ()).allowed == 0


@pytest.mark.parametrize(("allowed", "counts"), [(3, 3), (-1, 0), (None, 0)])
def test_a_budget_allows_what_its_status_says_and_nothing_without_one(allowed: int | None, counts: int) -> None:
    _, found = index(budget(allowed=allowed))
    assert found.budget("ns/keep", ["ns/p"]).allowed == counts


def test_a_budget_that_goes_while_others_are_read_is_not_read_again() -> None:
    shelf, found = index(*(budget(f"b{n:02}") for n in range(20)))
    for n in range(20):
        shelf.show(budget(f"b{n:02}", {"matchLabels": {"app": "db"}}))
    steps = found.renew()
    next(steps)
    del shelf["ns/b19"]
    shelf.show(budget("b18"))
    at_once(found.renew())
    list(steps)
    assert found.about(pod("p", app="web")) == ["ns/b18"]
    assert "ns/b19" not in found.about(pod("p", app="db"))
    assert found.budget("ns/b19", ()).allowed == 0
