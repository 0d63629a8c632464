"""What counts of a pod that has a node stays; all else of it is as it says now."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.placed import FIXED_LABELS, as_placed, has_node

QUEUE = "kai.scheduler/queue"


def pod(labels: dict[str, str] | None = None, owner: str = "", node: str = "n1", **notes: str) -> objects.Pod:
    meta = objects.Meta(
        name="p",
        labels=labels,
        annotations=objects.Notes(**notes) if notes else None,
        owner_references=[objects.Owner(kind="Job", name=owner)] if owner else None,
    )
    return objects.Pod(metadata=meta, spec=objects.PodSpec(node_name=node or None))


def kept(seen: objects.Pod, before: objects.Pod) -> tuple[object, object, object, tuple[str, ...]]:
    found, changed = as_placed(seen, before)
    assert found.metadata
    return found.metadata.labels, found.metadata.annotations, found.metadata.owner_references, changed


def test_a_pod_has_a_node_or_not() -> None:
    assert has_node(pod())
    assert not has_node(pod(node=""))
    assert not has_node(objects.Pod())


def test_what_says_the_same_is_the_same() -> None:
    seen = pod({QUEUE: "team"}, "job", gpu_fraction="0.5")
    assert as_placed(seen, pod({QUEUE: "team"}, "job", gpu_fraction="0.5")) == (seen, ())


@pytest.mark.parametrize("key", sorted(FIXED_LABELS))
def test_a_label_that_counts_is_kept_changed_removed_or_added(key: str) -> None:
    assert kept(pod({key: "b"}), pod({key: "a"})) == ({key: "a"}, objects.Notes(), None, (key,))
    assert kept(pod({"app": "x"}), pod({key: "a"}))[0] == {"app": "x", key: "a"}
    assert kept(pod({key: "b"}), pod())[0] == {}


def test_an_annotation_that_counts_is_kept_and_others_are_as_they_are() -> None:
    _, notes, _, changed = kept(pod(gpu_fraction="0.001", display="new"), pod(gpu_fraction="0.5", display="old"))
    assert notes == objects.Notes(gpu_fraction="0.5", display="new")
    assert changed == ("gpu-fraction",)


@pytest.mark.parametrize("now", ["other", ""])
def test_owners_are_kept_and_not_named_since_controllers_adopt_and_release_pods(now: str) -> None:
    assert kept(pod(owner=now), pod(owner="job"))[2:] == ([objects.Owner(kind="Job", name="job")], ())


def test_other_labels_are_as_they_are() -> None:
    seen = pod({"app": "b"})
    assert as_placed(seen, pod({"app": "a"})) == (seen, ())


def test_a_shared_gpu_may_be_named_later_and_then_stays() -> None:
    named = pod({"runai-gpu-group": "g1"})
    assert as_placed(named, pod()) == (named, ())
    assert kept(pod({"runai-gpu-group/g2": "g2"}), named)[0] == {"runai-gpu-group": "g1"}
