"""What was really done in a cluster between two looks at it, told as `gpuyard plan -o story` tells what would be done.

Who was submitted and where each pod is are read from the pods; who was moved or evicted, and for whom, from the Plan
objects that were carried out. Nothing is decided here, and nothing is told that did not happen.
"""

from collections.abc import Iterable, Iterator, Sequence

from gpuyard.cli.live import bare, document, standing
from gpuyard.cli.reading import read
from gpuyard.cli.story import story
from gpuyard.common.effects.move import MOVED_FROM
from gpuyard.common.kube.client import Json
from gpuyard.common.plans.plan import ELASTIC
from gpuyard.engine.model.results import Action, Bind, Cycle, Evict, Nominate, Outcome
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.settle import settle


def happened(before: Sequence[Json], after: Sequence[Json]) -> str:
    """The story between two looks at a cluster, each the objects that decide about pods."""
    new = _newcomers(before, after)
    at_first = _snapshot([*before, *map(_waiting, new)])
    plans = _carried_out(before, after)
    actions = (*_started(new, plans), *(action for plan in plans for action in _done(plan)))
    pending = settle(_snapshot(after), Settings()).pending
    return story(at_first, Outcome(settled=True, cycles=(Cycle(actions),), final={}, pending=pending, queues={}))


def _snapshot(things: Iterable[Json]) -> Snapshot:
    return read((), Settings(), None, ("the cluster", document(map(bare, standing(things))))).snapshot


def _newcomers(before: Iterable[Json], after: Iterable[Json]) -> list[Json]:
    """The pods that were submitted in between, in that order."""
    known = {thing["metadata"].get("uid") or _key(thing) for thing in _all("Pod", before)}
    new = [pod for pod in _all("Pod", after) if (pod["metadata"].get("uid") or _key(pod)) not in known]
    # Nobody submitted what was made anew after it had to leave its place.
    return [pod for pod in new if MOVED_FROM not in (pod["metadata"].get("annotations") or {})]


def _waiting(pod: Json) -> Json:
    """A pod as it was submitted."""
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return pod | {"spec": spec, "status": {"phase": "Pending"}}


def _carried_out(before: Iterable[Json], after: Iterable[Json]) -> list[Json]:
    """The plans that were made in between, as they followed one another."""
    known = {_key(plan) for plan in _all("Plan", before)}
    new = [plan for plan in _all("Plan", after) if _key(plan) not in known and plan["spec"]["phase"] != ELASTIC]
    return sorted(new, key=lambda plan: (plan["metadata"].get("creationTimestamp") or "", _key(plan)))


def _started(new: Iterable[Json], plans: Iterable[Json]) -> Iterator[Bind]:
    """Who went where without anybody making room for it."""
    kept = {(place["pod"], place["node"]) for plan in plans for place in plan["spec"].get("promises") or ()}
    for pod in new:
        node = pod["spec"].get("nodeName") or ""
        if node and (_key(pod), node) not in kept:
            yield Bind(pod=_key(pod), node=node)


def _done(plan: Json) -> Iterator[Action]:
    spec, told = plan["spec"], (plan.get("status") or {}).get("evicted") or ()
    chosen = spec.get("evictions") or ()
    victims = [victim for victim in chosen if victim["uid"] in told]
    if chosen and not victims:
        # It came to nothing.
        return
    places, leaving = spec.get("promises") or (), {victim["pod"] for victim in victims}
    claimant = next((place["pod"] for place in places if place["pod"] not in leaving), "")
    for victim in victims:
        yield Evict(pod=victim["pod"], node=victim["node"], phase=spec["phase"], claimant=claimant)
    for place in places:
        yield Nominate(pod=place["pod"], node=place["node"], phase=spec["phase"])


def _all(kind: str, things: Iterable[Json]) -> list[Json]:
    return [thing for thing in things if thing["kind"] == kind]


def _key(thing: Json) -> str:
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
