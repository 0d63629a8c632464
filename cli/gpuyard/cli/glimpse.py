"""How a pod stands for who may look at its namespace only: what it says itself, and what its Events say.

That is the reason with the numbers of when it was told, and that time. It is history once it is not told again, and
kube-scheduler names what is missing without a word of ours. What would help needs a look at the whole cluster.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from gpuyard.cli.asked import meant
from gpuyard.cli.situation import Heard, Situation, Word, last_word, part_without_effect
from gpuyard.common.kube.client import Client, Json, Selector
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.events import reporter
from gpuyard.common.kube.resources import PODS, Resource
from gpuyard.engine.explain.sentences import is_ours
from gpuyard.engine.kube.objects import Object
from gpuyard.engine.kube.times import moment
from gpuyard.engine.kube.verdicts import evictions_may_help
from gpuyard.engine.kube.workloads import QUEUE, RUNAI_QUEUE
from gpuyard.engine.model.results import Reason

EVENTS = Resource("v1", "events", "Event")
"""In the older API: that is the one which Kubernetes' own role `view` reads."""

TELLER = reporter("extender")

TOLD_AGAIN = 35 * 60
"""Within so many seconds who still waits is told again: the planner does it every half an hour."""

_REASONS = frozenset(Reason)


async def glimpse(client: Client, namespace: str, name: str, now: int) -> Situation:
    """How the pod of this name stands, or of several the first one that waits; raises `Unknown` where there is none."""
    items = await client.items(PODS.within(namespace))
    pods = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in items}
    [team] = meant([msgspec.convert(pod, Object) for pod in items], [name]).values()
    waiting = [key for key in team if not pods[key]["spec"].get("nodeName")]
    key = (waiting or team)[0]
    said = _last(await _events(client, pods[key])) if key in waiting else {}
    return _situation(key, pods[key], said, now)


async def _events(client: Client, pod: Json) -> list[Json]:
    about = f"involvedObject.uid={pod['metadata']['uid']}"
    try:
        return await client.items(EVENTS.within(pod["metadata"]["namespace"]), Selector(fields=about))
    except ApiError as error:
        if not error.forbidden:
            raise
        return []


def _last(events: Iterable[Json]) -> Json:
    """The last Event by which the extender says why the pod waits; empty: there is none, they are kept for an hour."""
    told = [one for one in events if one.get("reportingComponent") == TELLER and one.get("reason") in _REASONS]
    return max(filter(_at, told), key=_at, default={})


def _at(event: Json) -> str:
    moment: Any = (event.get("series") or {}).get("lastObservedTime") or event.get("eventTime")
    return str(moment or "")


def _heard(said: Json) -> Heard | None:
    return Heard(reason=said["reason"], message=said.get("message") or "", at=_at(said)) if said else None


def _is_over(heard: Heard, word: Word | None, now: int) -> bool:
    """Whether it is past: we have not told it again, and kube-scheduler says that something of its own lacks.

    Its word alone does not tell: where its own filters leave no node we are not asked, and our reason holds as well.
    """
    if now - moment(heard.at) <= TOLD_AGAIN:
        return False
    if word is None or is_ours(word.message) or heard.reason == Reason.REFUSED_BY_SCHEDULER:
        return False
    return not evictions_may_help(word.message)


def _situation(key: str, pod: Json, said: Json, now: int) -> Situation:
    labels, word, heard = pod["metadata"].get("labels") or {}, last_word(pod), _heard(said)
    holds = heard if heard and not _is_over(heard, word, now) else None
    return Situation(
        pod=key,
        queue=labels.get(QUEUE) or labels.get(RUNAI_QUEUE) or "",
        state="Gated" if pod["spec"].get("schedulingGates") else (pod.get("status") or {}).get("phase") or "Pending",
        node=pod["spec"].get("nodeName") or "",
        since=word.since if word else pod["metadata"].get("creationTimestamp") or "",
        reason=holds.reason if holds else "",
        message=holds.message if holds else "",
        without_effect=part_without_effect(pod),
        waits_for=[],
        kube_scheduler=word,
        heard=heard,
        queues=[],
        nodes=[],
        advice=[],
    )
