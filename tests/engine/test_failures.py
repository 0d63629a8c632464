"""What has failed is not tried again in another dress, and what is easier is."""

from gpuyard.engine.failures import Equals, Harder, chunk_key
from gpuyard.engine.model import PodTerm, Shape

from tests.engine.builders import Yard, yard


def lined_up(**sizes: int) -> Yard:
    """Gangs of queue `a` by name, each of so many pods of one GPU."""
    some = yard().queue("a")
    for name, size in sizes.items():
        some.gang("a", size, name=name)
    return some


class Case:
    """What failed in one phase, asked by workloads' names."""

    def __init__(self, some: Yard) -> None:
        self._scratch = some.cycle(phases=()).scratch
        self._harder = Harder(self._scratch)

    def fails(self, name: str, scope: str = "") -> None:
        self._harder.remember(self._scratch.team(f"ns/{name}"), scope)

    def hopeless(self, name: str, scope: str = "") -> bool:
        return self._harder.hopeless(self._scratch.team(f"ns/{name}"), scope)


def test_the_like_of_one_that_failed_is_hopeless() -> None:
    case = Case(lined_up(one=2, other=2))
    assert not case.hopeless("other")
    case.fails("one")
    assert case.hopeless("other")


def test_a_larger_gang_than_one_that_failed_is_hopeless_and_a_smaller_one_is_not() -> None:
    case = Case(lined_up(larger=3, failed=2, smaller=1))
    case.fails("failed")
    assert case.hopeless("larger")
    assert not case.hopeless("smaller")


def test_smaller_pods_than_those_that_failed_are_not_hopeless() -> None:
    case = Case(yard().queue("a").pending("a", name="large", gpus=4).pending("a", name="small", gpus=2))
    case.fails("large")
    assert not case.hopeless("small")


def test_the_easiest_failure_is_the_one_that_is_remembered() -> None:
    case = Case(lined_up(small=1, large=3, middle=2))
    case.fails("small")
    case.fails("large")
    assert case.hopeless("middle")


def test_what_failed_in_one_queue_says_nothing_of_another() -> None:
    case = Case(lined_up(one=1, other=1))
    case.fails("one", "a")
    assert not case.hopeless("other", "b")


def test_who_may_stand_elsewhere_is_not_hopeless() -> None:
    some = yard().queue("a").pending("a", name="bound", shape=Shape(gpus=1, selector=(("zone", "east"),)))
    case = Case(some.pending("a", name="free"))
    case.fails("bound")
    assert not case.hopeless("free")


def test_a_chunk_of_the_same_shapes_fails_as_the_first_did() -> None:
    scratch = lined_up(one=2, other=2, third=1).cycle(phases=()).scratch
    one, other, third = (scratch.team(f"ns/{name}") for name in ("one", "other", "third"))
    equals = Equals()
    equals.remember(chunk_key(one, one.pods), 1)
    assert equals.reached(chunk_key(other, other.pods)) == 1
    assert equals.reached(chunk_key(third, third.pods)) is None


def test_a_chunk_that_looks_at_its_company_is_like_no_other() -> None:
    shape = Shape(gpus=1, pod_affinity=(PodTerm("zone"),))
    team = yard().queue("a").pending("a", shape=shape).cycle(phases=()).scratch.team("ns/a-1")
    assert chunk_key(team, team.pods) is None
    equals = Equals()
    equals.remember(None, 0)
    assert equals.reached(None) is None
