"""Which disruption budgets are about a pod: an index of the budgets by namespace and label.

Decided in docs/decisions.md: "Disruption budgets are matched when a pod or a budget changes".
"""

from collections.abc import Generator, Iterable, Iterator, Mapping

from gpuyard.common.cluster.objects import PodDisruptionBudget
from gpuyard.engine.kube.faults import ignore
from gpuyard.engine.kube.others import Rule, budget, rule
from gpuyard.engine.model import Budget, Pod
from gpuyard.engine.model.constraints import Hook, hooks
from gpuyard.engine.stepwise import paused


class BudgetIndex:
    """The budgets as they are in `budgets`, which others change; `renew` reads what has changed."""

    def __init__(self, budgets: Mapping[str, PodDisruptionBudget]) -> None:
        self._budgets = budgets
        self._read: dict[str, PodDisruptionBudget] = {}
        self._by_label: dict[tuple[str, Hook], dict[str, Rule]] = {}
        self.rules: dict[str, Rule] = {}
        """By budget; a rule that stays the same stays the same object."""
        self._news: set[str] = set()

    def take_news(self) -> list[str]:
        """The budgets that were read, or are gone, since the last time."""
        news, self._news = self._news, set()
        return sorted(news)

    def renew(self) -> Generator[None, None, None]:
        """Read the budgets that have changed, in steps."""
        for gone in self._read.keys() - self._budgets.keys():
            del self._read[gone]
            self._news.add(gone)
            self._drop(gone)
        for key in paused(list(self._budgets)):
            if key is None:
                yield
                continue
            # Looked up now, not before the pause: others renew meanwhile, and must not be undone.
            seen = self._budgets.get(key)
            if seen is not None and self._read.get(key) is not seen:
                self._put(key, seen)

    def about(self, pod: Pod) -> list[str]:
        """The budgets that are about a pod."""
        found = self._hooked(pod.namespace, (None, *pod.labels.items()))
        return [key for key, rule in found if rule.covers(pod)]

    def budget(self, key: str, pods: Iterable[str]) -> Budget:
        """A budget with the pods that it is about; without a status it allows nothing."""
        seen = self._read.get(key)
        return budget(seen, pods) if seen else Budget(key, frozenset(pods), 0)

    def _hooked(self, namespace: str, labels: Iterable[Hook]) -> Iterator[tuple[str, Rule]]:
        for label in labels:
            yield from self._by_label.get((namespace, label), _NONE).items()

    def _put(self, key: str, seen: PodDisruptionBudget) -> None:
        about = rule(seen, ignore)
        self._read[key] = seen
        self._news.add(key)
        if self.rules.get(key) != about:
            self._drop(key)
            self.rules[key] = about
            for hook in hooks(about.selector):
                self._by_label.setdefault((about.namespace, hook), {})[key] = about

    def _drop(self, key: str) -> None:
        about = self.rules.pop(key, None)
        if about is not None:
            for hook in set(hooks(about.selector)):
                entries = self._by_label[about.namespace, hook]
                del entries[key]
                if not entries:
                    del self._by_label[about.namespace, hook]


_NONE: Mapping[str, Rule] = {}
