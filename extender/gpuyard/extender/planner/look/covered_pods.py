"""The pods that each disruption budget is about, kept current as pods and budgets change."""

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from gpuyard.common.cluster.budget_index import BudgetIndex
from gpuyard.engine.model import Budget, Pod
from gpuyard.engine.model.persistent import PersistentMap
from gpuyard.engine.stepwise import at_once, paused

if TYPE_CHECKING:
    from gpuyard.engine.kube.others import Rule

Pods = PersistentMap[str, Pod]
Steps = Generator[None, None, None]


class CoveredPods:
    """Looks at the pods and budgets that have changed since the last time, and at all pods for a budget that is new."""

    def __init__(self, index: BudgetIndex) -> None:
        self._index = index
        self._forget()
        self._is_whole = True

    def _forget(self) -> None:
        self._pods = Pods()
        self._rules: dict[str, Rule] = {}
        self._covered: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._made: dict[str, Budget] = {}

    def now(self, pods: Pods) -> tuple[Budget, ...]:
        """The budgets that are about some of the pods: at once, for the price of what has changed since `renew`."""
        at_once(self.renew(pods))
        return tuple(budget for budget in self._made.values() if budget.pods)

    def renew(self, pods: Pods) -> Steps:
        """Bring all up to date, in steps."""
        yield from self._index.renew()
        news = self._index.take_news()
        if not self._is_whole:
            # The last time it was given up half-way: nobody knows which changes were counted.
            self._forget()
            news = sorted(self._index.rules)
        self._is_whole = False
        yield from self._follow(pods)
        yield from self._read((yield from self._sort(news)), pods)
        for name in paused(sorted(self._changed)):
            if name is None:
                yield
            else:
                self._made[name] = self._index.budget(name, self._covered[name])
        self._changed.clear()
        self._is_whole = True

    def _follow(self, pods: Pods) -> Steps:
        """Count the pods that have come, gone or changed."""
        for change in paused(pods.changes_since(self._pods)):
            if change is None:
                yield
                continue
            before, after = change
            if before and after and before.labels == after.labels:
                continue
            if before is not None:
                for name in self._index.about(before):
                    self._covered_by(name).discard(before.key)
            if after is not None:
                for name in self._index.about(after):
                    self._covered_by(name).add(after.key)
        self._pods = pods

    def _covered_by(self, name: str) -> set[str]:
        self._changed.add(name)
        return self._covered.setdefault(name, set())

    def _sort(self, news: Iterable[str]) -> Generator[None, None, set[str]]:
        """The budgets that are new, or about other pods than before; those that are gone are forgotten."""
        new = set[str]()
        for name in paused(news):
            if name is None:
                yield
                continue
            rule = self._index.rules.get(name)
            if rule is not None and rule is self._rules.get(name):
                self._changed.add(name)
                continue
            self._drop(name)
            if rule is not None:
                self._rules[name] = rule
                self._covered_by(name)
                new.add(name)
        return new

    def _read(self, new: set[str], pods: Pods) -> Steps:
        """Look at all pods for budgets that are new."""
        for pod in paused(pods.values() if new else ()):
            if pod is None:
                yield
                continue
            for name in new.intersection(self._index.about(pod)):
                self._covered[name].add(pod.key)

    def _drop(self, name: str) -> None:
        self._changed.discard(name)
        for table in (self._rules, self._covered, self._made):
            table.pop(name, None)
