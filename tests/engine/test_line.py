"""Who is next, and who goes first."""

from gpuyard.engine.model import Amounts
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.search.lines import Backlog, Pools, VictimLine, WaitingLine

from tests.engine.builders import Yard, yard


def scratch(some: Yard) -> Scratch:
    return some.cycle(phases=()).scratch


def called(line: WaitingLine | VictimLine) -> list[str]:
    """The workloads in the order of the line, by name."""
    out = []
    while (team := line.pop()) is not None:
        out.append(team.workload.key.removeprefix("ns/"))
    return out


def backlog(of: Scratch) -> Backlog:
    waiting = Backlog(of)
    for key in sorted(of.snapshot.workloads):
        waiting.update(of.team(key))
    return waiting


def pools(of: Scratch) -> Pools:
    return Pools(of, lambda team: team.workload.preemptible)


def test_workloads_of_a_queue_stand_by_priority_then_age_then_name() -> None:
    some = yard().queue("a").pending("a", name="late").pending("a", name="urgent", priority=75)
    some.pending("a", name="b", created=5).pending("a", name="a", created=5)
    assert called(WaitingLine.of(scratch(some), backlog(scratch(some)))) == ["urgent", "a", "b", "late"]


def test_below_its_minimum_goes_before_exactly_at_it_before_above_it() -> None:
    some = yard().nodes(1).queue("a").gang("a", 4, minimum=1, running=2, name="above")
    some.gang("a", 3, minimum=1, running=1, name="exact").gang("a", 2, minimum=2, running=1, name="below")
    assert called(WaitingLine.of(scratch(some), backlog(scratch(some)))) == ["below", "exact", "above"]


def test_those_who_are_not_called_keep_their_places_in_line_all_the_same() -> None:
    """`a-3` is reached only after the smaller and the larger one before it: its queue's rank depends on them."""
    some = yard().queue("a").pending("a", gpus=1).pending("a", gpus=2).pending("a", gpus=1)
    tried = scratch(some)
    line = WaitingLine(tried, backlog=backlog(tried))
    line.push(tried.team("ns/a-3"))
    assert called(line) == ["a-3"]


def test_a_row_of_workloads_that_ask_for_the_same_is_passed_at_once() -> None:
    some = yard().queue("a").pending("a", 2, gpus=1).pending("a", 2, gpus=2)
    waiting = backlog(scratch(some))
    assert [waiting.alike("a", at) for at in range(4)] == [2, 2, 4, 4]
    assert backlog(scratch(yard().queue("a").pending("a", 3))).alike("a", 0) == 3


def test_who_has_found_a_place_is_in_the_backlog_no_more() -> None:
    tried = scratch(yard().nodes(1).queue("a").pending("a", 2))
    waiting = backlog(tried)
    tried.bind(tried.snapshot.pods["ns/a-1"], "node-1", ())
    waiting.update(tried.team("ns/a-1"))
    assert [key[3] for key, _ in waiting.by_queue["a"]] == ["ns/a-2"]
    assert [need for _, need in waiting.by_queue["a"]] == [Amounts(gpu=1000)]


def victims(some: Yard, *queues: str) -> list[str]:
    tried = scratch(some)
    return called(VictimLine(tried, pools(tried), queues, lambda _: True))


def test_victims_stand_the_other_way_round() -> None:
    some = yard().nodes(1).queue("a").running("a", name="old").running("a", name="urgent", priority=75)
    assert victims(some.running("a", name="new"), "a") == ["new", "old", "urgent"]


def test_the_queue_that_is_furthest_above_its_share_loses_first() -> None:
    some = yard().nodes(1).queue("a", quota=2).queue("b", quota=4).running("a", 4).running("b", 4)
    assert victims(some, "a", "b")[:2] == ["a-4", "a-3"]


def test_who_cannot_be_preempted_and_whose_queue_is_gone_are_no_victims() -> None:
    some = yard().nodes(1).queue("a").running("a", name="soft").running("a", name="hard", preemptible=False)
    tried = scratch(some.running("gone", name="orphan"))
    found = pools(tried)
    assert set(found.queues()) == {"a"}
    assert called(VictimLine(tried, found, ["a"], lambda _: True)) == ["soft"]


def test_the_lowest_priority_that_could_lose_is_known_without_sorting() -> None:
    some = yard().nodes(1).queue("a").running("a", priority=75).running("a", priority=50)
    assert pools(scratch(some)).lowest("a") == 50
    assert pools(scratch(some)).lowest("b") is None


def test_a_line_can_be_made_of_workloads_at_once() -> None:
    tried = scratch(yard().queue("a").pending("a", 2).queue("b").pending("b"))
    teams = [tried.team(f"ns/{name}") for name in ("b-1", "a-2", "a-1")]
    assert called(WaitingLine(tried, teams)) == ["a-1", "a-2", "b-1"]
