"""Turns one watched object at a time into the engine's values, with what is known of the objects that it refers to.

A pod's meaning depends on its PodGroup, on the pods beside it and on priority classes: those are remembered here. What
cannot be read is complained of, and counts as far as it can be read: a running pod holds its room, whatever its labels
say.

What counts of a pod is fixed when filter lets it through, and with its first such pod the queue, the priority and the
preemptibility of a workload: what pods or a PodGroup say later counts again once none of its pods has or is granted a
node. Who is let through, and who after all is not, the ledger says (`grant`, `release`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpuyard.common.cluster.budget_index import BudgetIndex
from gpuyard.common.cluster.cards import Cards
from gpuyard.common.cluster.objects import Pod, PodDisruptionBudget, PodGroup, PodOwner, PriorityClass
from gpuyard.common.cluster.owners import Owners
from gpuyard.common.cluster.sighting import Sighting
from gpuyard.engine.kube import gangs, parts, placed, pods, workloads
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import created, read
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import Budget, State, Workload
from gpuyard.engine.model import Pod as EnginePod
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.stepwise import at_once
from msgspec.structs import replace

LONGEST = 300
"""Characters of what is wrong with a pod: it becomes part of a condition, once per cause."""


_NO_PODS: AbstractSet[str] = frozenset()


class Complaints(list[str]):
    """What is wrong with one object, a line each."""

    def __call__(self, field: str, why: str) -> None:
        """Take down one complaint."""
        self.append(f"{field}: {why}")


class Said(NamedTuple):
    """What a pod says of its workload, and since when it does."""

    claim: workloads.Claim
    created: int
    minimum: int
    """How many pods start together where no PodGroup says so."""


class Made(NamedTuple):
    """A workload, and what is wrong with its PodGroup."""

    workload: Workload
    faults: Complaints


class Translator:
    """What pods mean at present."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups: dict[str, PodGroup] = {}
        self._classes: dict[str, int] = {}
        self._known = workloads.CLASSES
        self._naming: dict[str, set[str]] = {}
        """The pods that name each priority class."""
        self._groups_naming: dict[str, set[str]] = {}
        """The PodGroups that name each priority class."""
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self.budget_index = BudgetIndex(self._budgets)
        self.budget_news = 0
        """How often a disruption budget has changed."""
        self._pods: dict[str, Pod] = {}
        self._teams: dict[str, dict[str, Pod]] = {}
        self._said: dict[str, dict[str, Said]] = {}
        self._team_of: dict[str, str] = {}
        self._stirred: dict[str, Workload | None] = {}
        """Workloads that may mean something else since one of their pods came, changed or went; None: not made yet."""
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
        self._cards = Cards()
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
            self._fixed[team] = workloads.merged(self._claims(team, self._said[team], Complaints())[0])

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
        counted, seen = seen, self._unfixed.pop(key, seen)
        self._pods[key] = seen
        self.owners.change(counted, seen)
        self.altered.pop(key, None)
        left = self._team_of[key]
        self._placed.get(left, set()).discard(key)
        self._stir(*self._change_team(seen))
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
        concerned = [self._pods[key] for key in self._named_by(seen)]
        for pod in concerned:
            key = pod.metadata.key
            team = self._team_of[key]
            self._said[team][key] = self._says(pod, self._said[team][key].minimum, Complaints())
            self._stir(team, team)
        return self._all(concerned)

    def put_group(self, key: str, seen: PodGroup | None) -> list[Sighting]:
        """A PodGroup is new, changed or gone (None): what the pods mean that name it."""
        came_or_went = (seen is None) == (key in self._groups)
        _index(self._groups_naming, key, _class_of(self._groups.get(key)), _class_of(seen))
        if seen is None:
            self._groups.pop(key, None)
            self._forget_eviction(key)
        else:
            self._groups[key] = seen
        if not came_or_went:
            return self._all(self._teams.get(key, {}).values())
        # Others that have the name of a PodGroup stay apart from it.
        alone = workloads.beside_group(key)
        return self._rename(key, alone) if seen else self._rename(alone, key)

    def _rename(self, old: str, new: str) -> list[Sighting]:
        """A PodGroup comes or goes: what its pods mean, and those of the workload that it gives another name to."""
        then = None if new in self._fixed else self._fixed.get(old)
        found = self._rejoin(sorted({**self._teams.get(old, {}), **self._teams.get(new, {})}))
        if then is not None and new in self._fixed:
            self._fixed[new] = then
        return self._all(found)

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
        return self._all(self._rejoin(keys))

    def _rejoin(self, keys: Iterable[str]) -> list[Pod]:
        """Count these pods among those of their workload, which may be another one by now."""
        found = [self._pods[key] for key in keys]
        for pod in found:
            self._stir(*self._change_team(pod))
        return found

    def put_pod(self, seen: Pod) -> Sighting:
        """A pod is new or changed: what it means."""
        key = seen.metadata.key
        before = self._pods.get(key)
        if before is not None and before.metadata.uid == seen.metadata.uid:
            seen = self._as_placed(seen, before)
            said = self._said[self._team_of[key]][key]
            self.owners.change(before, seen)
            left, joined = self._change_team(seen)
        else:
            said, left = None, self.drop_pod(key)
            self.owners.add(seen)
            joined = self._change_team(seen)[1]
        self._pods[key] = seen
        # Those with a node speak first for their workload, also where the pod itself is none of ours.
        moved = before is not None and _holds(before) != _holds(seen)
        if moved or joined != left or self._said[joined][key] != said:
            self._stir(left, joined)
        self._note_eviction(seen)
        sighting, workload = self._sight(seen)
        self._cards.put(seen, sighting.pod)
        if joined in self._stirred:
            self._stirred[joined] = workload
        return sighting

    def _as_placed(self, seen: Pod, before: Pod) -> Pod:
        """The pod with what counted when it was let through, or got its node, if it was or has."""
        key = seen.metadata.key
        if not (placed.has_node(before) or key in self._granted):
            return seen
        kept, changed = placed.as_placed(seen, before)
        if kept is seen:
            self._unfixed.pop(key, None)
        else:
            self._unfixed[key] = seen
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

    def _change_team(self, seen: Pod) -> tuple[str, str]:
        """Count a pod among those of its workload, which may be another one by now: which it was, and which it is."""
        team, least = self._team(seen, Complaints())
        left = self._leave(seen.metadata.key)
        self._join(seen, team, least)
        self._fix(left)
        return left, team

    def _join(self, seen: Pod, team: str, least: int) -> None:
        key = seen.metadata.key
        self._teams.setdefault(team, {})[key] = seen
        said = self._said.setdefault(team, {})[key] = self._says(seen, least, Complaints())
        self._team_of[key] = team
        _index(self._naming, key, "", said.claim.priority_class)
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

    def drop_pod(self, key: str) -> str:
        """A pod is gone: of which workload it was; empty: there was no such pod."""
        seen = self._pods.pop(key, None)
        if seen is not None:
            self.owners.drop(seen)
            self._cards.drop(key)
        self.altered.pop(key, None)
        self._granted.discard(key)
        self._unfixed.pop(key, None)
        left = self._leave(key)
        self._fix(left)
        self._stirred[left] = None
        return left

    def _leave(self, key: str) -> str:
        team = self._team_of.pop(key, "")
        if (said := self._said.get(team, {}).get(key)) is not None:
            _index(self._naming, key, said.claim.priority_class, "")
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

    def _stir(self, left: str, joined: str) -> None:
        """A pod has left one workload and joined another, or said something new in the same."""
        if left != joined:
            self._stirred[left] = None
        if len(self._teams[joined]) > 1:
            self._stirred[joined] = None

    def take_stirred(self) -> list[Workload]:
        """The workloads that may mean something else, to others than the pod that came, changed or went."""
        stirred, self._stirred = self._stirred, {}
        known = [(key, made) for key, made in sorted(stirred.items()) if key in self._teams]
        return [made or self._made(key, self._said[key]).workload for key, made in known]

    def take_sharing(self) -> list[Sighting]:
        """What pods of KAI mean whose GPUs were reserved, or are reserved no more, since the last call."""
        return self._all(self._pods[key] for key in self._cards.take_concerned())

    def team(self, key: str) -> list[Sighting]:
        """What all pods of a workload mean."""
        return self._all(self._teams[key].values())

    def sight(self, seen: Pod) -> Sighting:
        """What a pod means that the watch shows."""
        return self._sight(seen)[0]

    def _sight(self, seen: Pod, made: Made | None = None) -> tuple[Sighting, Workload]:
        """What a pod means, and its workload, also where that is none of ours; `made` earlier where that is known."""
        complain = Complaints()
        team, least = self._team(seen, complain)
        pod = pods.pod(seen, team, 0, complain)
        own = self._says(seen, least, complain)
        workload, faults = made or self._made(team, self._said.get(team, {}) | {seen.metadata.key: own})
        complain += faults
        if parts.of_kai(seen):
            pod = parts.beside(pod, self._cards)
        if (vain := parts.without_effect(seen, pod)) is not None:
            complain(f"metadata.annotations.{vain[0]}", vain[1])
        if team in self._fixed and seen.metadata.key not in self._placed.get(team, _NO_PODS):
            self._compare(team, own.claim, complain)
        if pod.group or workload.gang.parts:
            group = gangs.part_of(pod.group, team, gangs.parts_of(workload.gang), complain)
            pod = replace(pod, group=group)
        concerns_us = pod.shape.wants_gpu or workload.queue is not None
        awaits = self.owners.awaited(seen) if concerns_us and pod.state is State.PENDING else ""
        if awaits:
            # As if it did not exist yet: nobody knows how many start with it.
            pod = replace(pod, gated=True)
        sighting = Sighting(
            pod=pod if concerns_us else replace(pod, workload=""),
            awaits=awaits,
            workload=workload if concerns_us else None,
            version=seen.metadata.version,
            verdict=seen.verdict,
            claims_volumes=seen.claims_volumes,
            fault=_shortened("; ".join(complain)),
        )
        return sighting, workload

    def _all(self, seen: Iterable[Pod]) -> list[Sighting]:
        """What these pods mean that were shown earlier; each of their workloads is made once."""
        made: dict[str, Made] = {}
        sightings = []
        for pod in list(seen):
            team = self._team_of[pod.metadata.key]
            if team not in made:
                made[team] = self._made(team, self._said[team])
            sightings.append(self._sight(pod, made[team])[0])
        return sightings

    def _named_by(self, classes: Iterable[str]) -> list[str]:
        """The pods that name one of these priority classes, or whose PodGroup does."""
        found = set[str]()
        for name in classes:
            found |= self._naming.get(name, _NO_PODS)
            for group in self._groups_naming.get(name, ()):
                found.update(self._teams.get(group, ()))
        return sorted(found)

    def _team(self, seen: Pod, complain: Complaints) -> tuple[str, int]:
        """The workload of a pod, with its minimum; a pod that has a node stays in the one in which it was started."""
        key = seen.metadata.key
        team, least = workloads.workload_key(seen, self.owners.known, self._groups, complain)
        known = self._team_of.get(key, team)
        is_renamed = known == workloads.beside_group(team) or team == workloads.beside_group(known)
        if self._is_settled and not is_renamed and key in self._placed.get(known, _NO_PODS):
            return known, self._said[known][key].minimum
        return team, least

    def _made(self, key: str, said: Mapping[str, Said]) -> Made:
        """A workload of its PodGroup and of what its pods say."""
        complain, group = Complaints(), self._groups.get(key)
        made = workloads.workload(
            key,
            group,
            [self._claim(key, said, complain)],
            workloads.Birth(0) if group else _birth(said.values()),
            default_queue=self._settings.default_queue,
            complain=complain,
        )
        return Made(replace(made, last_evicted=self._evicted[key]) if key in self._evicted else made, complain)

    def _claim(self, key: str, said: Mapping[str, Said], complain: Complaints) -> workloads.Claim:
        """What a workload says, with what is fixed of it."""
        claims, standing = self._claims(key, said, complain)
        if key in self._fixed:
            return workloads.fixed(workloads.merged(claims), self._fixed[key])
        return workloads.together(claims, standing)

    def _compare(self, key: str, own: workloads.Claim, complain: Complaints) -> None:
        """Complain of a waiting pod that says another queue than the one in which pods of its workload run."""
        group = self._groups.get(key)
        said = [workloads.group_claim(group, self._known, Complaints()), own] if group is not None else [own]
        queue, runs_in = workloads.merged(said).named_queue, self._fixed[key].named_queue
        if queue and runs_in and queue != runs_in:
            why = f"pods of {key} run in queue {runs_in}; one in queue {queue} starts when none of them has a node"
            complain(f"metadata.labels.{workloads.QUEUE}", why)

    def _claims(self, key: str, said: Mapping[str, Said], complain: Complain) -> tuple[list[workloads.Claim], int]:
        """What the PodGroup of a workload, if there is one, and its pods say; and how many of these claims stand."""
        holding, group = self._placed.get(key, _NO_PODS), self._groups.get(key)
        members = (workloads.Member(said[name].claim, name in holding) for name in sorted(said))
        said_by_group = workloads.group_claim(group, self._known, complain) if group is not None else None
        return workloads.all_claims(said_by_group, members)

    def _says(self, seen: Pod, least: int, complain: Complaints) -> Said:
        return Said(workloads.pod_claim(seen, self._known, complain), created(seen, 0, complain), least)


def _holds(seen: Pod) -> bool:
    """Whether a pod takes up room on a node."""
    return placed.has_node(seen) and pods.holds(seen)


def _class_of(group: PodGroup | None) -> str:
    """The priority class that a PodGroup names; empty: none."""
    return workloads.group_class(group) if group is not None else ""


def _index(by_name: dict[str, set[str]], key: str, before: str, now: str) -> None:
    """Move a key from one name to another; the empty name stands for none."""
    if before:
        by_name[before].discard(key)
        if not by_name[before]:
            del by_name[before]
    if now:
        by_name.setdefault(now, set()).add(key)


def _birth(said: Collection[Said]) -> workloads.Birth:
    return workloads.Birth(min(one.created for one in said), max(one.minimum for one in said))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
