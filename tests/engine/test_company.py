"""Pods that seek or avoid each other."""

from gpuyard.engine.model import PodTerm, Requirement, Shape, State
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.placing.pod_affinity import Company
from gpuyard.engine.search.settle import settle
from gpuyard.engine.stepwise import at_once

from tests.engine.builders import NOW, Told, Yard, yard

WEB = (Requirement("app", "In", ("web",)),)
LABELLED = {"labels": {"app": "web"}}


def beside(key: str = "host", **also: object) -> PodTerm:
    return PodTerm(key, WEB, **also)  # type: ignore[arg-type]


def two_hosts() -> Yard:
    some = yard().node("node-1", gpus=4, labels={"host": "1", "zone": "z"})
    return some.node("node-2", gpus=8, labels={"host": "2", "zone": "z"}).queue("a", quota=8)


def test_a_pod_that_nobody_seeks_or_avoids_may_stand_anywhere() -> None:
    scratch = two_hosts().running("a", on="node-1", pod=LABELLED).pending("a").cycle(phases=()).scratch
    assert at_once(Company(scratch).of(scratch.snapshot.pods["ns/a-2"])) is None


def test_a_pod_goes_where_its_company_is() -> None:
    some = two_hosts().running("a", on="node-2", pod=LABELLED)
    told = some.pending("a", name="seeker", shape=Shape(gpus=1, pod_affinity=(beside(),))).plan()
    assert told.node("seeker") == "node-2"


def test_a_pod_stays_away_from_those_it_avoids() -> None:
    some = two_hosts().running("a", on="node-1", pod=LABELLED)
    told = some.pending("a", name="loner", shape=Shape(gpus=1, pod_anti_affinity=(beside(),))).plan()
    assert told.node("loner") == "node-2"


def test_who_is_avoided_stays_away_too() -> None:
    some = two_hosts().running("a", on="node-1", shape=Shape(gpus=1, pod_anti_affinity=(beside(),)))
    told = some.pending("a", name="web", pod=LABELLED).plan()
    assert told.node("web") == "node-2"


def test_who_is_not_meant_may_stand_beside_one_that_avoids_others() -> None:
    some = two_hosts().running("a", on="node-1", shape=Shape(gpus=1, pod_anti_affinity=(beside(),)))
    assert some.pending("a", name="other").plan().node("other") == "node-1"


def test_a_wish_to_be_alone_keeps_nobody_away() -> None:
    some = two_hosts().running("a", on="node-1", shape=Shape(gpus=1, pod_anti_affinity=(beside(weight=5),)))
    assert some.pending("a", name="web", pod=LABELLED).plan().node("web") == "node-1"


def test_a_wish_against_company_outweighs_the_fuller_node() -> None:
    some = two_hosts().running("a", on="node-1", pod=LABELLED)
    far = Shape(gpus=1, pod_anti_affinity=(beside(weight=5),))
    assert some.pending("a", name="far", shape=far).plan().node("far") == "node-2"


def test_two_that_avoid_each_other_do_not_start_together() -> None:
    avoids = Shape(gpus=1, pod_anti_affinity=(beside("zone"),))
    some = two_hosts().pending("a", shape=avoids, pod=LABELLED).pending("a", shape=avoids, pod=LABELLED)
    assert some.plan().placed() == ["a-1"]


def test_the_first_of_those_who_seek_their_own_kind_may_start() -> None:
    seeks = Shape(gpus=1, pod_affinity=(beside(),))
    told = two_hosts().pending("a", shape=seeks, pod=LABELLED).pending("a", shape=seeks, pod=LABELLED).plan()
    assert told.node("a-1") == told.node("a-2") != ""


def test_company_that_is_not_there_is_waited_for() -> None:
    told = two_hosts().pending("a", shape=Shape(gpus=1, pod_affinity=(beside(),))).plan()
    assert told.placed() == []


def test_company_in_another_namespace_counts_only_where_that_is_named() -> None:
    elsewhere = Shape(gpus=1, pod_affinity=(beside(namespaces=("other",)),))
    anywhere = Shape(gpus=1, pod_affinity=(beside(namespaces=("*",)),))
    some = two_hosts().running("a", on="node-2", pod=LABELLED)
    told = some.pending("a", name="picky", shape=elsewhere).pending("a", name="easy", shape=anywhere).plan()
    assert told.waits() == ["picky"]
    assert told.node("easy") == "node-2"


def test_a_domain_without_the_label_is_no_domain() -> None:
    some = yard().nodes(1).queue("a", quota=8).running("a", pod=LABELLED)
    told = some.pending("a", name="seeker", shape=Shape(gpus=1, pod_affinity=(beside(),))).plan()
    assert told.waits() == ["seeker"]


def test_wishes_for_company_and_against_it_rank_the_nodes() -> None:
    some = two_hosts().running("a", on="node-2", pod=LABELLED)
    near = Shape(gpus=1, pod_affinity=(beside(weight=5),))
    far = Shape(gpus=1, pod_anti_affinity=(beside(weight=5),))
    told = some.pending("a", name="near", shape=near).pending("a", name="far", shape=far).plan()
    assert (told.node("near"), told.node("far")) == ("node-2", "node-1")


def test_nobody_is_bound_beside_a_leaving_pod_that_he_must_not_meet() -> None:
    some = yard().node("node-1", labels={"host": "1"}).queue("a", quota=8)
    some.running("a", pod=LABELLED).pod("a-1", state=State.TERMINATING, deleted_at=NOW)
    some.pending("a", name="loner", shape=Shape(gpus=1, pod_anti_affinity=(beside(),)))
    told = some.plan(cycles=1)
    assert told.started == {}
    assert told.nominated == {"loner": "node-1"}


def test_company_whose_node_is_gone_is_nowhere() -> None:
    some = two_hosts().running("a", on="node-2", pod=LABELLED)
    some.pending("a", name="loner", shape=Shape(gpus=1, pod_anti_affinity=(beside("zone"),)))
    assert some.plan().waits() == ["loner"]
    assert Told(settle(some.snapshot().draft().drop_node("node-2").done(), Settings())).node("loner") == "node-1"
