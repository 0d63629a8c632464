"""What may be told of a pod by who may look at its namespace only; with real rights: tests/cluster/test_ask.py."""

import asyncio
from typing import Any, cast

import pytest
from gpuyard.cli.asked import Unknown
from gpuyard.cli.glimpse import EVENTS, TOLD_AGAIN, glimpse
from gpuyard.cli.situation import Situation, glimpse_of
from gpuyard.common.kube.client import Client, Selector
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import Address
from gpuyard.engine.kube.times import moment
from gpuyard.extender.planner.tell.wait_reasons import AGAIN

from tests.cli.test_situation import PLAIN, refused
from tests.engine.kube.written import Json, meta, pod, with_meta

WAITS = with_meta(pod("b", namespace="ns"), uid="b", ownerReferences=[{"kind": "Job", "name": "train"}])
RUNS = with_meta(pod("a", on="n", namespace="ns"), uid="a", ownerReferences=[{"kind": "Job", "name": "train"}])


def event(reason: str, at: str, of: str = "gpuyard.io/extender", **more: object) -> Json:
    return {"reason": reason, "message": f"{reason} at {at}", "eventTime": at, "reportingComponent": of} | more


class Api:
    """Pods of one namespace, and the Events on each of them."""

    def __init__(self, pods: list[Json], *events: Json, forbidden: bool = False) -> None:
        self.pods, self.events, self.forbidden = pods, list(events), forbidden

    async def items(self, address: Address, selector: Selector = Selector()) -> list[Json]:  # noqa: B008 - as the client
        if address != EVENTS.within("ns"):
            return self.pods
        if self.forbidden:
            raise ApiError("events", 403, "Forbidden", "you may not")
        assert selector.fields == "involvedObject.uid=b"
        return self.events


LATER = "2026-01-01T00:55:02Z"


def seen(
    name: str,
    *events: Json,
    pods: tuple[Json, ...] = (RUNS, WAITS),
    now: str = LATER,
    **more: Any,  # noqa: ANN401
) -> Situation:
    return asyncio.run(glimpse(cast("Client", Api([*pods], *events, **more)), "ns", name, moment(now)))


def test_a_pod_that_waits_says_its_queue_and_what_the_extender_told_last() -> None:
    found = seen("ns/b", event("OverLimit", "2026-01-01T00:00:00Z"), event("Outranked", "2026-01-01T00:01:00Z"))
    assert (found.pod, found.queue, found.state) == ("ns/b", "team-a", "Pending")
    assert (found.reason, found.message) == ("Outranked", "Outranked at 2026-01-01T00:01:00Z")


def test_an_event_that_was_told_again_counts_from_then() -> None:
    again = event("OverLimit", "2026-01-01T00:00:00Z", series={"lastObservedTime": "2026-01-01T01:00:00Z"})
    assert seen("ns/b", again, event("Outranked", "2026-01-01T00:01:00Z")).reason == "OverLimit"


AN_EVENT = event("OverLimit", "2026-01-01T00:00:02.000000Z")
AN_HOUR = 3600
NO_VOLUME = '0/4 nodes are available: persistentvolumeclaim "data" not found. not found'


def page_after(word: str, said: Json = AN_EVENT, now: str = LATER) -> str:
    """What is printed, as a rule 55 minutes after the Event, while this is kube-scheduler's last word."""
    waits = refused(WAITS, message=word) if word else WAITS
    return glimpse_of(seen("ns/b", said, pods=(waits,), now=now), moment(now), PLAIN)


@pytest.mark.parametrize(
    "word",
    [
        "",
        "0/4 nodes are available: 4 queue team-a has a limit of 2 GPUs.",
        "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
    ],
    ids=["none", "ours", "short of GPUs"],
)
def test_what_holds_is_printed_with_the_time_since_it_was_told(word: str) -> None:
    assert f"it waits: OverLimit: {AN_EVENT['message']}, as told 55 min 0 s ago\n" in page_after(word)


def test_what_kube_scheduler_no_longer_says_is_printed_as_history() -> None:
    page = page_after(NO_VOLUME)
    assert f"  55 min 0 s ago it waited: OverLimit: {AN_EVENT['message']}\n" in page
    assert "it waits" not in page


NOT_CHOSEN = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize("word", [NO_VOLUME, NOT_CHOSEN], ids=["no volume", "no node chosen"])
def test_what_was_told_just_now_holds_whatever_kube_scheduler_says(word: str) -> None:
    page = page_after(word, now="2026-01-01T00:00:05Z")
    assert f"it waits: OverLimit: {AN_EVENT['message']}, as told 3 s ago\n" in page
    found = seen("ns/b", AN_EVENT, pods=(refused(WAITS, message=word),), now="2026-01-01T00:00:05Z")
    assert (found.reason, found.message) == ("OverLimit", AN_EVENT["message"])


def test_who_still_waits_is_told_again_before_the_last_word_becomes_history() -> None:
    assert AGAIN < TOLD_AGAIN < AN_HOUR, "the API server keeps an Event for an hour"


def test_history_is_no_reason_for_programs_either() -> None:
    found = seen("ns/b", AN_EVENT, pods=(refused(WAITS, message=NO_VOLUME),))
    assert (found.reason, found.message) == ("", "")
    assert found.heard is not None
    assert (found.heard.reason, found.heard.at) == ("OverLimit", AN_EVENT["eventTime"])


def test_that_no_eviction_helps_by_kube_schedulers_own_word_holds_while_it_says_so() -> None:
    assert "it waits: RefusedByScheduler" in page_after(NO_VOLUME, AN_EVENT | {"reason": "RefusedByScheduler"})


@pytest.mark.parametrize(
    "other", [event("FailedScheduling", "2026", of="default-scheduler"), event("Evicted", "2026"), {}]
)
def test_what_others_tell_and_what_is_over_is_no_reason(other: Json) -> None:
    assert seen("ns/b", other).reason == ""


def test_without_the_right_to_read_events_the_rest_is_told() -> None:
    assert (found := seen("ns/b", forbidden=True)).reason == ""
    assert found.queue == "team-a"


def test_of_a_job_it_is_the_pod_that_waits() -> None:
    assert seen("ns/job/train").pod == "ns/b"


def test_a_pod_that_runs_or_is_gated_says_so() -> None:
    gated = with_meta(pod("g", namespace="ns", schedulingGates=[{"name": "x"}]), uid="b")
    assert (seen("ns/a").state, seen("ns/a").node) == ("Running", "n")
    assert seen("ns/g", pods=(gated,)).state == "Gated"


def test_where_there_is_no_such_pod_that_is_told() -> None:
    with pytest.raises(Unknown):
        seen("ns/pod/c", pods=(with_meta(WAITS, **meta("d", "ns")),))


@pytest.mark.row("X-64", case="told")
def test_whoever_may_look_at_one_namespace_only_is_told_that_an_annotation_has_no_effect() -> None:
    found = seen("ns/b", pods=(with_meta(pod("b", 0, namespace="ns", notes={"gpu-memory": "1"}), uid="b"),))
    assert found.without_effect.startswith("the annotation gpu-memory has no effect")
    assert found.without_effect in glimpse_of(found, moment(LATER), PLAIN)
