"""Every cause has a sentence of its own that stays the same while it lasts; `told` adds the numbers of the moment."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from gpuyard.engine.explain.sentences import (
    LONGEST_NAME,
    LONGEST_SENTENCE,
    LONGEST_TEXT,
    amount,
    amounts,
    cause_in_words,
    eviction,
    is_ours,
    nodes_by_cause,
    sentence,
    shortened,
    thousandths,
    told,
)
from gpuyard.engine.model import UNLIMITED, Amounts
from gpuyard.engine.model.results import (
    Account,
    Bound,
    Clearing,
    Evict,
    Foreign,
    Gap,
    Kept,
    NodeCounts,
    NoQueue,
    Protected,
    Reason,
    Share,
    Standing,
    Until,
    Verdict,
    Waiting,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NINE = 1_767_258_000
"""2026-01-01, nine o'clock."""

LIMIT = Bound(queue="a", resource="gpu", kind="limit", bound=8000, used=7500, asked=1000)
SHARE = Share(queue="a", resource="gpu", fair_share=4000, quota=2000, allocated=4000, asked=1000)
BUSY = NodeCounts(causes={"gpus": 2, "taint": 5, "cordoned": 2}, free=4000, largest=2500, asked=3000)


@dataclass
class Case:
    """A cause, its constant sentence, and the numbers that `told` adds."""

    reason: Reason
    facts: Any
    says: str
    numbers: str = ""


CASES = {
    "a limit": Case(Reason.OVER_LIMIT, LIMIT, "queue a has a limit of 8 GPUs", "7.5 GPUs in use, 1 GPU asked for"),
    "a limit nobody set": Case(
        Reason.OVER_LIMIT,
        msgspec.structs.replace(LIMIT, bound=0, used=0, unset=True),
        "queue a: its gpu limit is not set, which counts as 0; set spec.resources.gpu.limit, -1 for unlimited",
        "0 GPUs in use, 1 GPU asked for",
    ),
    "a quota": Case(
        Reason.NON_PREEMPTIBLE_OVER_QUOTA,
        Bound(queue="a", resource="cpu", kind="quota", bound=500, used=400, asked=200),
        "queue a has a quota of 500m CPU, which what is not preemptible cannot pass;"
        " a preemptible priority class (below 100) may",
        "400m CPU in use, 200m CPU asked for",
    ),
    "no label": Case(
        Reason.QUEUE_MISSING,
        NoQueue(label="", why="absent"),
        "it names no queue and is not governed: set the label kai.scheduler/queue",
    ),
    "a queue above others": Case(
        Reason.QUEUE_DOES_NOT_EXIST,
        NoQueue(label="d", why="not a leaf"),
        "queue d has queues below it: pods go into one of those",
    ),
    "an orphan": Case(
        Reason.QUEUE_DOES_NOT_EXIST,
        NoQueue(label="a", why="orphan", parent="d"),
        "queue a hangs below d, which does not exist",
    ),
    "a queue in a circle": Case(
        Reason.QUEUE_DOES_NOT_EXIST,
        NoQueue(label="a", why="circle", parent="b"),
        "queue a hangs on no root: by its parents queue b is its own ancestor",
    ),
    "a queue at the bottom of a well": Case(
        Reason.QUEUE_DOES_NOT_EXIST,
        NoQueue(label="a", why="too deep"),
        "queue a hangs too deep: more than 32 queues one below the other",
    ),
    "a name that is almost right": Case(
        Reason.QUEUE_DOES_NOT_EXIST,
        NoQueue(label="tema", why="unknown", nearest="team"),
        "there is no queue tema; did you mean team?",
    ),
    "a name like no other": Case(
        Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="xyz", why="unknown"), "there is no queue xyz"
    ),
    "another scheduler": Case(
        Reason.OTHER_SCHEDULER,
        Foreign(found="volcano"),
        "schedulerName is volcano, which is not served here; use default-scheduler or kai-scheduler",
    ),
    "a namespace of another queue": Case(
        Reason.NAMESPACE_MISMATCH,
        Foreign(found="a", wanted="b"),
        "the pod names queue a, but its namespace belongs to queue b",
    ),
    "a namespace of no queue": Case(
        Reason.NAMESPACE_MISMATCH,
        Foreign(found="a"),
        "the pod names queue a, but its namespace belongs to no queue",
    ),
    "a gang that is not whole": Case(
        Reason.GANG_INCOMPLETE,
        Gap(found=2, needed=4),
        "the gang needs 4 pods to start, and not so many exist",
        "found 2 of 4",
    ),
    "a part of a gang that is not whole": Case(
        Reason.GANG_INCOMPLETE,
        Gap(found=0, needed=1, part="leader"),
        "the gang needs 1 pod in part leader to start, and not so many exist",
        "found 0 of 1",
    ),
    "a gang without room": Case(
        Reason.GANG_DOES_NOT_FIT,
        Gap(found=3, needed=4),
        "the gang needs room for 4 pods at once",
        "found 3 of 4",
    ),
    "a gang without room for any of its pods": Case(
        Reason.GANG_DOES_NOT_FIT,
        Gap(found=0, needed=4, causes={"gpus": 2, "taint": 1}),
        "the gang needs room for 4 pods at once",
        "found 0 of 4; nodes: 2 too few free GPUs, 1 a taint that the pod does not tolerate",
    ),
    "a gang without room for one of its parts": Case(
        Reason.GANG_DOES_NOT_FIT,
        Gap(found=3, needed=4, part="worker"),
        "the gang needs room for 4 pods at once, and part worker does not find it",
        "found 3 of 4",
    ),
    "no node": Case(
        Reason.NO_NODE_FITS,
        BUSY,
        "no node fits",
        "3 GPUs asked for; 4 free in sum, at most 2.5 on one node;"
        " nodes: 5 a taint that the pod does not tolerate, 2 cordoned, 2 too few free GPUs",
    ),
    "no node at all": Case(Reason.NO_NODE_FITS, NodeCounts(), "no node fits"),
    "no hole": Case(
        Reason.FRAGMENTED,
        NodeCounts(free=4000, largest=2000, asked=3000),
        "enough GPUs are free in sum, but not on one node",
        "3 GPUs asked for; 4 free in sum, at most 2 on one node",
    ),
    "the fair share": Case(
        Reason.RECLAIM_NOT_ALLOWED,
        SHARE,
        "queue a has a quota of 2 GPUs and may not take more than its fair share from others",
        "fair share 4 GPUs, 4 GPUs in use, 1 GPU asked for",
    ),
    "a delay": Case(
        Reason.PREEMPTION_DELAY,
        Until(until=NINE, who="ns/a-1"),
        "its preemption delay has not passed: nobody is evicted for it before 2026-01-01T09:00:00Z",
    ),
    "a minimum runtime": Case(
        Reason.PROTECTED_BY_MIN_RUNTIME,
        Until(until=NINE, who="b", victim="ns/b-1"),
        "those that it could replace are protected by the minimum runtime of queue b until 2026-01-01T09:00:00Z",
    ),
    "a minimum runtime of no queue": Case(
        Reason.PROTECTED_BY_MIN_RUNTIME,
        Until(until=NINE),
        "those that it could replace are protected by the minimum runtime until 2026-01-01T09:00:00Z",
    ),
    "budgets": Case(
        Reason.PROTECTED_BY_BUDGET,
        Protected(budgets=("ns/one", "ns/two")),
        "those that it could replace are protected by a disruption budget: ns/one, ns/two",
    ),
    "room promised to a workload": Case(
        Reason.PROMISED_TO_OTHER, Kept(node="node-1", workload="ns/b-1"), "the room is promised to ns/b-1"
    ),
    "room promised to a queue": Case(Reason.PROMISED_TO_OTHER, Kept(queue="b"), "the room is promised to queue b"),
    "room promised to somebody": Case(Reason.PROMISED_TO_OTHER, Kept(), "the room is promised to others"),
    "a queue before it": Case(Reason.OUTRANKED, Kept(queue="b"), "queue b ranks before it"),
    "somebody before it": Case(Reason.OUTRANKED, Kept(), "others rank before it"),
    "a node that is not offered": Case(
        Reason.REFUSED_BY_SCHEDULER,
        Kept(node="node-1", since=NINE),
        "kube-scheduler does not offer node-1, the node that it was promised; see the pod's own events",
    ),
    "kube-scheduler's word": Case(
        Reason.REFUSED_BY_SCHEDULER,
        Verdict(said="0/2 nodes are available: 2 node(s) didn't match pod affinity rules."),
        "kube-scheduler offers it no node, and no eviction would change that",
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules",
    ),
    "room being made": Case(
        Reason.RECLAIM_IN_PROGRESS,
        Clearing(node="node-1", left=3),
        "room is being made for it on node-1",
        "3 pods still to go",
    ),
    "room being made by a plan": Case(
        Reason.RECLAIM_IN_PROGRESS,
        Clearing(node="node-1", left=1, plan="plan-7"),
        "room is being made for it on node-1 by plan plan-7",
        "1 pod still to go",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_cause_has_its_sentence(case: Case) -> None:
    assert sentence(Waiting(case.reason, case.facts)) == case.says


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_numbers_of_the_moment_are_told_after_the_sentence(case: Case) -> None:
    wanted = f"{case.says} ({case.numbers})" if case.numbers else case.says
    assert told(Waiting(case.reason, case.facts)) == wanted


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_sentence_is_known_again_in_a_word_of_kube_scheduler(case: Case) -> None:
    for says in (case.says, sentence(Waiting(case.reason))):
        assert is_ours(f"0/2 nodes are available: 2 {says}. preemption: 0/2 nodes are available: 2 too bad.")


@pytest.mark.parametrize("says", ["gpuyard cannot read the pod: x", 'running filter on extender "a": it is away'])
def test_what_is_said_without_a_reason_and_that_there_is_no_answer_are_ours_as_well(says: str) -> None:
    assert is_ours(says)


@pytest.mark.parametrize(
    "says",
    [
        "2 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a: b}.",
        "3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
        "3 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        'persistentvolumeclaim "gpuyard-data" not found. not found',
        "3 node(s) didn't match pod anti-affinity rules.",
    ],
)
def test_what_kube_scheduler_says_of_its_own_is_not_ours(says: str) -> None:
    assert not is_ours(f"0/3 nodes are available: {says}")


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_without_facts_has_a_sentence_of_its_own(reason: Reason) -> None:
    mine = sentence(Waiting(reason))
    assert mine == told(Waiting(reason))
    assert [other for other in Reason if sentence(Waiting(other)) == mine] == [reason]


@pytest.mark.parametrize(
    ("now", "later"),
    [
        (Waiting(Reason.OVER_LIMIT, LIMIT), msgspec.structs.replace(LIMIT, used=8000, asked=2000)),
        (Waiting(Reason.RECLAIM_NOT_ALLOWED, SHARE), msgspec.structs.replace(SHARE, fair_share=1000, allocated=0)),
        (Waiting(Reason.NO_NODE_FITS, BUSY), NodeCounts(causes={"cpu": 1}, free=1000)),
        (Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=1, needed=4)), Gap(found=3, needed=4)),
        (Waiting(Reason.RECLAIM_IN_PROGRESS, Clearing(node="n", left=3)), Clearing(node="n", left=1)),
    ],
    ids=["limit", "share", "nodes", "gang", "clearing"],
)
def test_the_sentence_stays_the_same_while_only_numbers_change(now: Waiting, later: Any) -> None:  # noqa: ANN401 - facts
    after = Waiting(now.reason, later)
    assert sentence(after) == sentence(now)
    assert told(after) != told(now)


# --- evictions


def side(queue: str, allocated: int) -> Standing:
    return Standing(queue, Amounts(allocated), Amounts(4000), Amounts(UNLIMITED), 100)


def evicted(*, claimant: str = "ns/a-1", account: Account | None = None) -> Evict:
    return Evict(pod="ns/b-1", node="node-1", phase="reclaim", claimant=claimant, account=account)


def test_an_eviction_tells_for_whom_and_how_both_queues_stand() -> None:
    assert eviction(evicted(account=Account(side("a", 1000), side("b", 6500)))) == (
        "reclaim for ns/a-1"
        "; queue a: allocated 1 GPU, quota 4 GPUs, fair share unlimited, priority 100"
        "; queue b: allocated 6.5 GPUs, quota 4 GPUs, fair share unlimited, priority 100"
    )


def test_an_eviction_within_one_queue_tells_how_it_stands_once() -> None:
    text = eviction(evicted(account=Account(side("b", 1000), side("b", 1000))))
    assert text.count("queue b") == 1


def test_an_eviction_without_accounts_tells_for_whom_alone() -> None:
    assert eviction(evicted()) == "reclaim for ns/a-1"


def test_a_pod_that_goes_for_its_own_sake_goes_for_its_torn_gang() -> None:
    text = eviction(evicted(claimant="", account=Account(None, side("b", 2000))))
    assert text.startswith("evict-stale: its gang has been below its minimum for too long; queue b: allocated 2 GPUs")


# --- amounts


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("gpu", 1000, "1 GPU"),
        ("gpu", 2000, "2 GPUs"),
        ("gpu", 250, "0.25 GPUs"),
        ("cpu", 500, "500m CPU"),
        ("memory", 64_000_000, "64 MB of memory"),
        ("memory", 1, "1 MB of memory"),
        ("cpu", UNLIMITED, "unlimited"),
    ],
)
def test_an_amount_has_its_unit(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text


def test_of_amounts_only_what_is_not_zero_is_told() -> None:
    assert amounts(Amounts(gpu=1500, memory=2_000_000)) == "1.5 GPUs, 2 MB of memory"
    assert amounts(Amounts()) == "nothing"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (10_000, "10"), (2500, "2.5"), (1, "0.001"), (1010, "1.01")])
def test_thousandths_are_written_without_needless_zeros(value: int, text: str) -> None:
    assert thousandths(value) == text


# --- nodes


def test_the_most_frequent_cause_of_the_nodes_is_told_first() -> None:
    assert nodes_by_cause({"cpu": 1, "gpus": 3}) == "3 too few free GPUs, 1 too little free CPU"


NODE_CAUSES = (
    "gpus",
    "cpu",
    "memory",
    "pods",
    "selector",
    "taint",
    "affinity",
    "not-ready",
    "cordoned",
    "dip",
    "gpu-memory",
)


@pytest.mark.parametrize("cause", NODE_CAUSES)
def test_every_cause_of_a_node_has_words_of_its_own(cause: str) -> None:
    words = cause_in_words(cause)
    assert [other for other in NODE_CAUSES if cause_in_words(other) == words] == [cause]


# --- long names ---


def named(facts: Any, name: str) -> Any:  # noqa: ANN401 - facts of any kind
    """The same facts, with this as every name in them."""
    texts = {field: name for field in facts.__struct_fields__ if isinstance(getattr(facts, field), str)}
    known = {field: getattr(facts, field) for field in ("why", "kind", "resource") if field in texts}
    budgets = {"budgets": (name,) * 50} if "budgets" in facts.__struct_fields__ else {}
    return msgspec.structs.replace(facts, **(texts | known | budgets))


names = st.one_of(
    st.text(max_size=300),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=10), st.integers(1, 1000)),
    st.just("q" * 1_000_000),
)


@pytest.mark.row("X-71")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=20)
@given(name=names)
def test_no_sentence_is_too_long_whatever_the_names_are(case: Case, name: str) -> None:
    waiting = Waiting(case.reason, named(case.facts, name))
    assert len(sentence(waiting)) <= LONGEST_SENTENCE
    assert len(told(waiting)) <= LONGEST_TEXT
    assert sentence(waiting) == sentence(waiting)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_sentence_with_long_names_still_says_all_the_rest(case: Case) -> None:
    if case.reason is not Reason.PROTECTED_BY_BUDGET:
        long = sentence(Waiting(case.reason, named(case.facts, "q" * 1000)))
        assert long == sentence(Waiting(case.reason, named(case.facts, shortened("q" * 1000))))
        assert len(long) < LONGEST_SENTENCE
        assert is_ours(long)


@pytest.mark.row("X-71")
@given(name=names)
def test_the_reason_of_an_eviction_is_not_too_long_either(name: str) -> None:
    account = Account(side(name, 1000), side(name + "2", 2000))
    assert len(eviction(evicted(claimant=name, account=account))) <= LONGEST_TEXT


def test_a_name_of_usual_length_is_left_as_it_is() -> None:
    assert shortened("q" * LONGEST_NAME) == "q" * LONGEST_NAME


def test_a_long_name_keeps_its_beginning_and_shows_that_it_is_cut() -> None:
    assert shortened("abcdefghij", 8) == "abcde..."
