"""Turns one watched object at a time into the engine's values, with what is known of the objects that it refers to.

A pod's meaning depends on its PodGroup, on the pods beside it and on priority classes: those are remembered here. What
cannot be read is complained of, and counts as far as it can be read: a running pod holds its room, whatever its labels
say.

What counts of a pod is fixed when filter lets it through, and with its first such pod the queue, the priority and the
preemptibility of a workload: what pods or a PodGroup say later counts again once none of its pods has or is granted a
node. Who is let through, and who after all is not, the ledger says (`grant`, `release`).
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpuyard.engine.kube import gangs, placed, pods, workloads
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import created, labels_of, read
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import Budget, Gang, State, Workload
from gpuyard.engine.model import Pod as EnginePod
from gpuyard.engine.settings import Settings
from gpuyard.engine.stepwise import at_once
from gpuyard.extender.budget_index import BudgetIndex
from gpuyard.extender.ledger import Sighting
from gpuyard.extender.objects import Pod, PodDisruptionBudget, PodGroup, PodOwner, PriorityClass
from gpuyard.extender.owners import Owners
from msgspec.structs import replace

LONGEST = 300
"""Characters of what is wrong with a pod: it becomes part of a condition, once per cause."""


_NO_PODS: AbstractSet[str] = frozenset()

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases of a pod that holds nothing any more."""


class Complaints(list[str]):
    """What is wrong with one object, a line each."""

    def __call__(self, field: str, why: str) -> None:
        """Take down one complaint."""
        self.append(f"{field}: {why}")


class Said(NamedTuple):
    """What a pod says of its workload, and since when it does."""

    claim: workloads.Claim
    created: int


class Translator:
    """What pods mean at present."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups: dict[str, PodGroup] = {}
        self._classes: dict[str, int] = {}
        self._known = workloads.CLASSES
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self.budget_index = BudgetIndex(self._budgets)
        self.budget_news = 0
        """How often a disruption budget has changed."""
        self._pods: dict[str, Pod] = {}
        self._teams: dict[str, dict[str, Pod]] = {}
        self._said: dict[str, dict[str, Said]] = {}
        self._team_of: dict[str, str] = {}
        self._least: dict[str, int] = {}
        """The minimum of the workload of each pod, as far as no PodGroup says it."""
        self._placed: dict[str, set[str]] = {}
        """The pods of each workload that have a node."""
        self._fixed: dict[str, workloads.Claim] = {}
        """What those workloads said when the first of their pods got its node."""
        self._granted: set[str] = set()
        """The pods that were let through, and have no node yet for all we know."""
        self._unfixed: dict[str, Pod] = {}
        """What the watch shows of the pods of which something else counts."""
        self._is_settled = False
        self.altered: dict[str, tuple[str, ...]] = {}
        """By which keys pods that have a node say something else than what counts, by pod."""
        self._evicted: dict[str, int] = {}
        """When a pod of a workload was last told to leave."""
        self.owners = Owners()
        """Who says how many pods start together."""

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The pods as they were last shown."""
        return self._pods

    def settle(self) -> None:
        """All objects have been seen once: from now on what counts of workloads with placed pods is fixed."""
        self._is_settled = True
        for team in self._placed:
            self._fixed[team] = self._claim(team, self._said[team], Complaints())

    def _fix(self, team: str) -> None:
        """Fix what counts of a workload while some of its pods have a node: what it says when the first one gets it."""
        if not self._placed.get(team):
            self._fixed.pop(team, None)
        elif self._is_settled and team not in self._fixed:
            self._fixed[team] = workloads.merged(self._claims(team, self._said[team], Complaints()))

    def grant(self, key: str) -> None:
        """Filter lets this pod through: what counts of it from now on is what its gates were asked about."""
        team = self._team_of.get(key)
        if team is not None:
            self._granted.add(key)
            self._placed.setdefault(team, set()).add(key)
            self._fix(team)

    def release(self, key: str) -> list[Sighting]:
        """A grant has ended: what the pods of its workload mean, where it has not become a binding."""
        self._granted.discard(key)
        seen = self._pods.get(key)
        if seen is None or _holds(seen):
            return []
        self._pods[key] = seen = self._unfixed.pop(key, seen)
        self.altered.pop(key, None)
        left = self._team_of[key]
        self._placed.get(left, set()).discard(key)
        self._change_team(seen)
        return self._all({**self._teams.get(left, {}), **self._teams[self._team_of[key]]}.values())

    def set_settings(self, settings: Settings) -> Iterator[Sighting]:
        """Other settings: what the pods mean now that may mean something else, one after the other."""
        changed = settings.default_queue != self._settings.default_queue
        self._settings = settings
        for key in list(self._pods) if changed else ():
            if (pod := self._pods.get(key)) is not None:
                yield self.sight(pod)

    def put_classes(self, seen: Mapping[str, PriorityClass | None]) -> list[Sighting]:
        """Priority classes are new, changed or gone (None): what the pods mean that may name one of them."""
        for name, one in seen.items():
            if one is None:
                self._classes.pop(name, None)
            else:
                self._classes[name] = one.value
        self._known = {**workloads.CLASSES, **self._classes}
        concerned = [pod for pod in self._pods.values() if self._may_name(pod, seen)]
        for pod in concerned:
            key = pod.metadata.key
            self._said[self._team_of[key]][key] = self._says(pod, Complaints())
        return self._all(concerned)

    def put_group(self, key: str, seen: PodGroup | None) -> list[Sighting]:
        """A PodGroup is new, changed or gone (None): what the pods mean that name it."""
        if seen is None:
            self._groups.pop(key, None)
            self._forget_eviction(key)
        else:
            self._groups[key] = seen
        return self._all(self._teams.get(key, {}).values())

    def put_owner(self, kind: str, key: str, seen: PodOwner | None) -> list[Sighting]:
        """An owner of pods is new, changed or gone (None): what its pods mean."""
        return self._anew(self.owners.put(kind, key, seen))

    def go_without(self, kind: str) -> list[Sighting]:
        """There are no owners of this kind: what the pods mean that were waiting for theirs."""
        return self._anew(self.owners.go_without(kind))

    def give_up_on_owners(self, now: float, heard: float) -> list[Sighting]:
        """Some owners do not come: what the pods mean that were waiting for them."""
        return self._anew(self.owners.give_up(now, heard))

    def _anew(self, keys: Iterable[str]) -> list[Sighting]:
        found = [self._pods[key] for key in keys]
        for pod in found:
            self._change_team(pod)
        return self._all(found)

    def put_pod(self, seen: Pod) -> Sighting:
        """A pod is new or changed: what it means."""
        key = seen.metadata.key
        before = self._pods.get(key)
        if before is not None and before.metadata.uid == seen.metadata.uid:
            seen = self._as_placed(seen, before)
        else:
            self.drop_pod(key)
        self._pods[key] = seen
        self.owners.add(seen)
        self._change_team(seen)
        self._note_eviction(seen)
        return self.sight(seen)

    def _as_placed(self, seen: Pod, before: Pod) -> Pod:
        """The pod with what counted when it was let through, or got its node, if it was or has."""
        key = seen.metadata.key
        if not (placed.has_node(before) or key in self._granted):
            return seen
        kept, changed = placed.as_placed(seen, before)
        if changed:
            self._unfixed[key] = seen
        else:
            self._unfixed.pop(key, None)
        if changed and _holds(seen):
            self.altered[key] = changed
        else:
            self.altered.pop(key, None)
        return kept

    def _note_eviction(self, seen: Pod) -> None:
        """Remember when a workload last lost a pod; it may not have others evicted for it at once."""
        if seen.evicted is not None:
            team = self._team_of[seen.metadata.key]
            at = read(moment, seen.evicted, "status.conditions", Complaints(), 0)
            self._evicted[team] = max(at, self._evicted.get(team, 0))

    def _change_team(self, seen: Pod) -> None:
        """Count a pod among those of its workload, which may be another one by now."""
        team, least = self._team(seen, Complaints())
        left = self._leave(seen.metadata.key)
        self._join(seen, team, least)
        self._fix(left)

    def _join(self, seen: Pod, team: str, least: int) -> None:
        key = seen.metadata.key
        self._teams.setdefault(team, {})[key] = seen
        self._said.setdefault(team, {})[key] = self._says(seen, Complaints())
        self._team_of[key], self._least[key] = team, least
        if _holds(seen) or key in self._granted:
            self._placed.setdefault(team, set()).add(key)
        self._fix(team)

    def put_budget(self, key: str, seen: PodDisruptionBudget | None) -> None:
        """A disruption budget is new, changed or gone (None)."""
        self.budget_news += 1
        if seen is None:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = seen

    def budgets_of(self, of: Iterable[EnginePod]) -> list[Budget]:
        """The disruption budgets that are about some of these pods, with those pods."""
        if not self._budgets:
            return []
        at_once(self.budget_index.renew())
        covered: dict[str, set[str]] = {}
        for pod in of:
            for name in self.budget_index.about(pod):
                covered.setdefault(name, set()).add(pod.key)
        return [self.budget_index.budget(name, pods) for name, pods in covered.items()]

    def drop_pod(self, key: str) -> None:
        """A pod is gone."""
        seen = self._pods.pop(key, None)
        if seen is not None:
            self.owners.drop(seen)
        self.altered.pop(key, None)
        self._granted.discard(key)
        self._unfixed.pop(key, None)
        self._fix(self._leave(key))

    def _leave(self, key: str) -> str:
        team = self._team_of.pop(key, "")
        self._least.pop(key, None)
        for by_team in (self._teams, self._said):
            members = by_team.get(team, {})
            members.pop(key, None)
            if not members:
                by_team.pop(team, None)
        self._placed.get(team, set()).discard(key)
        if not self._placed.get(team):
            self._placed.pop(team, None)
        self._forget_eviction(team)
        return team

    def _forget_eviction(self, team: str) -> None:
        """Without a PodGroup, and with all its pods gone, a workload begins anew."""
        if team not in self._teams and team not in self._groups:
            self._evicted.pop(team, None)

    def sight(self, seen: Pod) -> Sighting:
        """What a pod means that the watch shows."""
        complain = Complaints()
        team, least = self._team(seen, complain)
        pod = pods.pod(seen, team, 0, complain)
        workload = self._workload(team, least, seen, complain)
        if pod.group or workload.gang.parts:
            group = gangs.part_of(pod.group, team, gangs.parts_of(workload.gang), complain)
            pod = replace(pod, group=group)
        concerns_us = pod.shape.wants_gpu or workload.queue is not None
        awaits = self.owners.awaited(seen) if concerns_us and pod.state is State.PENDING else ""
        if awaits:
            # As if it did not exist yet: nobody knows how many start with it.
            pod = replace(pod, gated=True)
        return Sighting(
            pod=pod if concerns_us else replace(pod, workload=""),
            awaits=awaits,
            workload=workload if concerns_us else None,
            version=seen.metadata.version,
            verdict=seen.verdict,
            claims_volumes=seen.claims_volumes,
            fault=_shortened("; ".join(complain)),
        )

    def _all(self, seen: Iterable[Pod]) -> list[Sighting]:
        return [self.sight(pod) for pod in list(seen)]

    def _may_name(self, seen: Pod, classes: Mapping[str, object]) -> bool:
        own = labels_of(seen).get(workloads.PRIORITY_CLASS) or (seen.spec.priority_class_name if seen.spec else None)
        return own in classes or self._team_of[seen.metadata.key] in self._groups

    def _team(self, seen: Pod, complain: Complaints) -> tuple[str, int]:
        """The workload of a pod, with its minimum; a pod that has a node stays in the one in which it was started."""
        key = seen.metadata.key
        team, least = workloads.workload_key(seen, self.owners.known, self._groups, complain)
        known = self._team_of.get(key, team)
        if self._is_settled and known != team and key in self._placed.get(known, _NO_PODS):
            return known, self._least[key]
        return team, least

    def _workload(self, key: str, least: int, seen: Pod, complain: Complaints) -> Workload:
        group, own = self._groups.get(key), seen.metadata.key
        said = self._said.get(key, {}) | {own: self._says(seen, complain)}
        ages = [one.created for one in said.values()] if group is None else [created(group, 0, complain)]
        claim = self._claim(key, said, complain)
        if key in self._fixed and own not in self._placed.get(key, _NO_PODS):
            self._compare(key, said[own].claim, complain)
        made = workloads.workload(
            key,
            [claim],
            gangs.gang(group, complain) if group is not None else Gang(minimum=least),
            default_queue=self._settings.default_queue,
            created=min(ages),
        )
        return replace(made, last_evicted=self._evicted[key]) if key in self._evicted else made

    def _claim(self, key: str, said: Mapping[str, Said], complain: Complaints) -> workloads.Claim:
        """What a workload says, with what is fixed of it."""
        claims = self._claims(key, said, complain)
        if key in self._fixed:
            return workloads.fixed(workloads.merged(claims), self._fixed[key])
        placed_ones = len(self._placed.get(key, _NO_PODS))
        return workloads.together(claims, placed_ones + (key in self._groups) if placed_ones else 0)

    def _compare(self, key: str, own: workloads.Claim, complain: Complaints) -> None:
        """Complain of a waiting pod that says another queue than the one in which pods of its workload run."""
        group = self._groups.get(key)
        said = [workloads.group_claim(group, self._known, Complaints()), own] if group is not None else [own]
        queue, runs_in = workloads.merged(said).named_queue, self._fixed[key].named_queue
        if queue and runs_in and queue != runs_in:
            why = f"pods of {key} run in queue {runs_in}; one in queue {queue} starts when none of them has a node"
            complain(f"metadata.labels.{workloads.QUEUE}", why)

    def _claims(self, key: str, said: Mapping[str, Said], complain: Complain) -> list[workloads.Claim]:
        """What the PodGroup of a workload, if there is one, and its pods say: those first that have a node."""
        first = self._placed.get(key, _NO_PODS)
        names = sorted(said, key=lambda name: (name not in first, name))
        group, claims = self._groups.get(key), [said[name].claim for name in names]
        return claims if group is None else [workloads.group_claim(group, self._known, complain), *claims]

    def _says(self, seen: Pod, complain: Complaints) -> Said:
        return Said(workloads.pod_claim(seen, self._known, complain), created(seen, 0, complain))


def _holds(seen: Pod) -> bool:
    """Whether a pod has a node and has not ended."""
    return placed.has_node(seen) and (seen.status is None or seen.status.phase not in ENDED)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
