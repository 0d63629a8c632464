"""How many pods start together, where their owner says it: also when a pod is seen before its owner."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.common.cluster.objects import PodOwner
from gpuyard.common.cluster.owners import KINDS, PATIENCE
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.client import Client
from gpuyard.engine.kube.gangs import LWS
from gpuyard.extender.ledger import Phase

from tests.extender.builders import Bench, Json, group, meta, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.common.kube.reflector import Reflector


def owned(name: str, by: str = "train", kind: str = "PyTorchJob", **more: object) -> Json:
    made = pod(name, "team", 8, **more)  # type: ignore[arg-type]
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": by, "uid": f"uid-{by}", "controller": True}]
    return made


def training(master: int = 1, workers: int = 1, **annotations: str) -> Json:
    """A PyTorchJob of so many pods."""
    replicas = {"Master": {"replicas": master}, "Worker": {"replicas": workers}}
    return {"metadata": meta("train", "ns", annotations=annotations), "spec": {"pytorchReplicaSpecs": replicas}}


def owner(thing: Json) -> PodOwner:
    return msgspec.json.decode(msgspec.json.encode(thing), type=PodOwner)


def bench(*things: Json) -> Bench:
    """Two nodes, and the watches of owners begun."""
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.feed.reflectors(Client.__new__(Client))
    of.put(*things)
    return of


def show(of: Bench, thing: Json | None, kind: str = "PyTorchJob", *, old: Json | None = None) -> None:
    """The watch shows an owner, new, changed or gone."""
    change: Change[Any] = Change(owner(old) if old else None, owner(thing) if thing else None)
    of.feed.owners(kind, Batch([change]))


def sentences(of: Bench, thing: Json) -> set[str]:
    return set(of.filter(thing).failed_and_unresolvable_nodes.values())


A, B = owned("a"), owned("b")
UNSEEN = {"gpuyard has not seen its owner yet: PyTorchJob ns/train"}


def test_the_pods_of_a_training_job_start_together() -> None:
    of = bench()
    show(of, training())
    of.put(A)
    assert not of.passes(A)
    assert of.refusals == ["GangIncomplete"]
    of.put(B)
    assert not of.passes(A), "b has not been offered its node yet"
    assert of.passes(B)
    assert of.passes(A)


def test_a_pod_that_is_seen_before_its_owner_waits_for_it() -> None:
    of = bench(A, B)
    assert sentences(of, A) == UNSEEN
    assert of.refusals == ["OwnerAwaited"]
    assert sentences(of, B) == UNSEEN
    show(of, training())
    assert of.ledger.take_called() == {"ns/a", "ns/b"}
    assert of.passes(A), "both have been offered nodes meanwhile"
    assert set(of.ledger.kept) == {"ns/a", "ns/b"}


def member(name: str, group: int = 0) -> Json:
    """A pod of a LeaderWorkerSet, which belongs to one of the StatefulSets that this has made."""
    marks = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": str(group)}
    return owned(name, by="serve", kind="StatefulSet", labels=marks)


def test_each_group_of_a_leader_worker_set_starts_whole() -> None:
    first, second, other = member("serve-0"), member("serve-0-1"), member("serve-1", group=1)
    of = bench(first, other)
    assert sentences(of, first) == {"gpuyard has not seen its owner yet: LeaderWorkerSet ns/serve"}
    serve = {"metadata": meta("serve", "ns"), "spec": {"leaderWorkerTemplate": {"size": 2}}}
    show(of, serve, "LeaderWorkerSet")
    assert not of.passes(first)
    assert not of.passes(other)
    of.put(second)
    assert of.passes(second)
    assert of.passes(first)
    assert not of.passes(other)
    assert set(of.refusals) == {"OwnerAwaited", "GangIncomplete"}


class Heard:
    """A watch that is complete; `age` seconds ago it last said something."""

    synced = True

    def __init__(self) -> None:
        self.seconds = 0.0

    def age(self) -> float:
        return self.seconds

    def hurry(self) -> None:
        """There is nothing to hurry."""


def watched(*things: Json) -> tuple[Bench, Heard]:
    """LeaderWorkerSets are followed; nobody has given up on any yet."""
    of, heard = bench(*things), Heard()
    of.feed._owners[LWS] = cast("Reflector[PodOwner]", heard)
    of.feed.look_for_owners(0)
    return of, heard


def test_whoever_names_by_a_label_a_leader_worker_set_that_does_not_come_is_alone() -> None:
    of, _ = watched(labelled := member("plain-0"))
    assert not of.passes(labelled)
    of.feed.look_for_owners(PATIENCE - 1)
    assert not of.passes(labelled)
    of.feed.look_for_owners(PATIENCE)
    assert of.ledger.take_called() == {"ns/plain-0"}
    assert of.passes(labelled)
    of.put(later := member("plain-1", group=1))
    of.feed.look_for_owners(PATIENCE + 1)
    assert of.passes(later), "the next ones do not wait as long"


def test_nobody_gives_up_on_a_leader_worker_set_of_which_nothing_can_have_been_heard() -> None:
    of, heard = watched(first := member("serve-0"))
    heard.seconds = 60
    of.feed.look_for_owners(60)
    assert not of.passes(first)
    of.feed.look_for_owners(61)
    assert of.passes(first)


def test_a_leader_worker_set_that_comes_late_has_its_groups_all_the_same() -> None:
    of, _ = watched(first := member("serve-0"))
    of.feed.look_for_owners(PATIENCE)
    serve = {"metadata": meta("serve", "ns"), "spec": {"leaderWorkerTemplate": {"size": 2}}}
    show(of, serve, LWS)
    assert not of.passes(first)
    assert of.refusals == ["GangIncomplete"]


def test_an_owner_that_a_pod_names_as_such_is_awaited_however_long_it_takes() -> None:
    of, _ = watched(A)
    of.feed.look_for_owners(1_000_000)
    assert sentences(of, A) == UNSEEN


@pytest.mark.parametrize("kind", ["ReplicaSet", ""])
@pytest.mark.parametrize("seen", ["never", "before", "after"])
def test_a_label_counts_only_on_pods_of_stateful_sets(kind: str, seen: str) -> None:
    marks = {"leaderworkerset.sigs.k8s.io/name": "serve"}
    labelled = owned("a", kind=kind, labels=marks) if kind else pod("a", "team", labels=marks)
    serve = {"metadata": meta("serve", "ns"), "spec": {"leaderWorkerTemplate": {"size": 4}}}
    of = bench(*([labelled] if seen != "before" else []))
    if seen != "never":
        show(of, serve, LWS)
    of.put(labelled)
    assert of.passes(labelled)


def test_the_label_does_not_hide_the_owner() -> None:
    of = bench(labelled := owned("a", labels={"leaderworkerset.sigs.k8s.io/name": "nobody"}))
    assert sentences(of, labelled) == UNSEEN


async def test_whose_owner_does_not_come_is_looked_at_again_and_again() -> None:
    of, _ = watched(first := member("serve-0"))
    clock = iter(range(1, 1_000_000))
    looking = asyncio.create_task(of.feed.wait_for_owners(lambda: next(clock), 0))
    async with asyncio.timeout(30):
        while not of.passes(first):
            await asyncio.sleep(0)
    looking.cancel()


def test_the_planner_does_not_plan_for_who_waits_for_its_owner() -> None:
    of = bench(A)
    assert of.ledger.snapshot.pods["ns/a"].gated
    show(of, training(workers=0))
    assert not of.ledger.snapshot.pods["ns/a"].gated


def test_where_the_api_server_has_no_such_kind_each_pod_is_alone() -> None:
    of = bench(A)
    assert sentences(of, A) == UNSEEN
    of.feed._go_without("PyTorchJob")
    assert of.ledger.take_called() == {"ns/a"}
    assert of.passes(A)
    of.put(A)
    assert of.passes(A), "news of it change nothing"
    of.put(later := owned("later"))
    assert sentences(of, later) == UNSEEN, "the kind may have come meanwhile: it is looked at once more"


def test_a_pod_that_says_itself_how_many_start_waits_for_no_owner() -> None:
    note = {"kai.scheduler/batch-min-member": "1"}
    member = {"pod-group-name": "g"}
    of = bench(noted := owned("a", annotations=note), group("g", 1, "team"), grouped := owned("b", annotations=member))
    assert of.passes(noted)
    assert of.passes(grouped)


def test_a_job_may_say_by_an_annotation_how_many_start() -> None:
    first, second = (owned(name, "job", "Job") for name in "ab")
    of = bench(first, second)
    assert not of.passes(first)
    job = {"metadata": meta("job", "ns", annotations={"kai.scheduler/batch-min-member": "2"}), "spec": {}}
    show(of, job, "Job")
    assert not of.passes(first)
    assert of.passes(second)


def test_the_pods_of_a_plain_job_start_one_by_one() -> None:
    of = bench()
    show(of, {"metadata": meta("job", "ns"), "spec": {"parallelism": 3}}, "Job")
    of.put(alone := owned("a", "job", "Job"))
    assert of.passes(alone)


def test_an_owner_that_changes_its_size_changes_the_gang() -> None:
    of = bench(A, B)
    show(of, training(workers=2))
    assert not of.passes(A)
    assert not of.passes(B)
    assert "GangIncomplete" in of.refusals
    show(of, training(workers=1))
    assert of.passes(A)
    assert of.passes(B)


def test_a_change_of_something_else_changes_nothing() -> None:
    of = bench(A)
    show(of, training())
    before = of.ledger.snapshot
    show(of, training() | {"status": {"active": 1}})
    assert of.ledger.snapshot is before


def test_what_an_owner_said_holds_as_long_as_it_has_pods() -> None:
    of = bench(*(running := [owned(name, on=node) for name, node in (("a", "n1"), ("b", "n2"))]))
    show(of, training())
    show(of, None, old=training())
    assert of.ledger.snapshot.workloads["ns/train"].gang.minimum == 2
    of.drop(*running)
    assert not of.translator.owners.known
    of.put(A)
    assert sentences(of, A) == UNSEEN


def test_an_owner_without_pods_is_forgotten_when_it_goes() -> None:
    of = bench()
    show(of, training())
    show(of, None, old=training())
    assert not of.translator.owners.known


def test_pods_that_run_are_counted_whether_their_owner_is_seen_or_not() -> None:
    of = bench(owned("a", on="n1"))
    assert of.used("team") == 8
    assert of.ledger.entries["ns/a"].phase is Phase.BOUND
    assert not of.ledger.snapshot.pods["ns/a"].gated


def test_a_job_of_another_api_is_none_of_ours() -> None:
    theirs, ours = owned("a", "job", "Job"), owned("b", "job", "Job")
    theirs["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    ours["metadata"]["ownerReferences"][0]["apiVersion"] = "batch/v1"
    of = bench(theirs, ours)
    assert of.passes(theirs)
    assert not of.passes(ours)
    assert of.refusals == ["OwnerAwaited"]


def test_pods_of_owners_that_nobody_asks_are_alone() -> None:
    of = bench(plain := owned("a", "set", "ReplicaSet"))
    assert of.passes(plain)
    assert "ReplicaSet" not in KINDS


def test_an_owner_that_a_pod_no_longer_names_has_nothing_to_do_with_it() -> None:
    of = bench()
    show(of, training())
    of.put(changed := owned("a", by="other"), A)
    of.put(owned("a", by="other"))
    of.drop(changed)
    show(of, training(workers=3))
    assert not of.ledger.entries
