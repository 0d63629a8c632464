"""A snapshot's objects as a sandbox plays them: what decides stays, what only another cluster could fill in goes."""

import json

import pytest
from gpuyard.cli.playing import documents, flat, playable

from tests.engine.kube.written import Json, container, node, pod, pod_group, queue, with_meta

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team"},
    "spec": {"finalizers": ["kubernetes"]},
}


def only(thing: Json) -> Json:
    [made] = playable([thing]).wanted
    return made.body


def names(*given: Json) -> list[str]:
    return [each.about for each in playable(given).wanted]


def test_what_is_needed_comes_before_what_needs_it() -> None:
    given = (pod("p", namespace="team"), pod_group(namespace="team"), node(), queue(), NAMESPACE)
    assert names(*given) == ["Namespace team", "Queue team-a", "Node node-1", "PodGroup team/gang", "Pod team/p"]


def test_of_one_kind_the_oldest_come_first() -> None:
    def born(name: str, at: str) -> Json:
        return with_meta(pod(name), creationTimestamp=at)

    given = (born("b", "2026-03-02T00:00:00Z"), born("a", "2026-03-02T00:00:00Z"), born("c", "2026-03-01T00:00:00Z"))
    assert names(*given) == ["Pod default/c", "Pod default/a", "Pod default/b"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_left_out_and_counted(phase: str) -> None:
    found = playable([pod(status={"phase": phase}), with_meta(pod("q"), deletionTimestamp="2026-03-01T00:00:00Z")])
    assert (found.wanted, found.left_out) == ([], {"Pod": 2})


def test_what_is_not_played_is_counted_by_kind() -> None:
    system = {"kind": "PriorityClass", "metadata": {"name": "system-node-critical"}, "value": 1}
    found = playable([{"kind": "Plan", "metadata": {"name": "x"}}, {"kind": "Service"}, system])
    assert (found.wanted, found.left_out) == ([], {"Plan": 1, "Service": 1, "PriorityClass": 1})


def test_a_pod_keeps_what_decides_about_it() -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    given = pod("p", 2, on="node-1", labels={"app": "x"}, notes={"gpu-fraction": "0.5"}, tolerations=tolerations)
    made = only(with_meta(given, uid="u"))
    assert made["metadata"] == {
        "name": "p",
        "namespace": "default",
        "labels": {"kai.scheduler/queue": "team-a", "app": "x"},
        "annotations": {"gpu-fraction": "0.5"},
    }
    assert (made["spec"]["nodeName"], made["spec"]["tolerations"]) == ("node-1", tolerations)
    assert made["spec"]["containers"][0]["resources"] == container(2)["resources"]


def sharing(**more: object) -> Json:
    """A pod with the annotation for a part of a GPU alone."""
    return with_meta(pod("p", 0, notes={"gpu-fraction": "0.5"}), **more)


@pytest.mark.row("X-64", case="draft")
def test_a_draft_with_an_annotation_for_a_part_of_a_gpu_requests_it_as_plan_counts_it() -> None:
    asked = {"gpuyard.io/shared-gpu": "1"}
    assert only(sharing())["spec"]["containers"][0]["resources"] == {"limits": asked, "requests": asked}
    assert "containers" not in only(sharing() | {"spec": {}})["spec"]


def test_a_pod_of_a_cluster_requests_what_it_requested_there() -> None:
    assert only(sharing(uid="u"))["spec"]["containers"][0]["resources"] == container(0)["resources"]


def test_a_pod_loses_what_only_its_own_cluster_could_fill_in() -> None:
    owner = {"kind": "Job", "name": "j", "uid": "1"}
    given = with_meta(
        pod("p", serviceAccountName="robot", priority=50, volumes=[{"name": "v"}]),
        ownerReferences=[owner], uid="2", resourceVersion="3",
    )  # fmt: skip
    made = only(given)
    assert made["metadata"].keys() == {"name", "namespace", "labels"}
    assert made["spec"].keys() == {"containers", "automountServiceAccountToken"}
    assert made["spec"]["containers"][0]["image"] == "played"
    assert "status" not in made


def test_a_gate_holds_a_pod_back_only_while_it_waits() -> None:
    gates = [{"name": "later"}]
    assert only(pod(schedulingGates=gates))["spec"]["schedulingGates"] == gates
    assert "schedulingGates" not in only(pod(on="node-1", schedulingGates=gates))["spec"]


def test_a_node_keeps_labels_own_taints_and_what_it_offers() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    given = node("n", labels={"zone": "a"}, taints=taints, unschedulable=True, podCIDR="10.0.0.0/24")
    [made] = playable([given]).wanted
    assert made.body["metadata"] == {"name": "n", "labels": {"zone": "a"}}
    assert made.body["spec"] == {"taints": taints[:1], "unschedulable": True}
    assert made.status == {"allocatable": given["status"]["allocatable"], "capacity": given["status"]["allocatable"]}


def test_queues_and_groups_keep_what_is_wanted_of_them_and_not_what_was_told() -> None:
    told = {"status": {"allocated": {"nvidia.com/gpu": "4"}}}
    assert only(queue("q", 4) | told) == queue("q", 4)
    assert only(pod_group("g", 2) | told)["spec"] == {"minMember": 2}
    assert "spec" not in only(NAMESPACE)


def test_a_namespace_asks_nothing_of_pods_that_never_run() -> None:
    given = with_meta(NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "restricted", "team": "a"})
    assert only(given)["metadata"] == {"name": "team", "labels": {"team": "a"}}


def test_a_priority_class_keeps_its_value() -> None:
    given = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "train"},
        "value": 50,
        "preemptionPolicy": "Never",
    }
    assert only(given) == given


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "List", "items": [queue(), node()]}),
        json.dumps([queue(), node()]),
        "\n---\n".join(json.dumps(each) for each in (queue(), node())),
    ],
    ids=["list", "array", "documents"],
)
def test_objects_may_come_as_a_list_or_as_documents(text: str) -> None:
    assert [each for one in documents(text.encode()) for each in flat(one)] == [queue(), node()]


def test_items_of_a_list_of_one_kind_need_not_say_theirs() -> None:
    bare = {"metadata": {"name": "a"}}
    assert [*flat({"apiVersion": "v1", "kind": "PodList", "items": [bare]})] == [
        {"apiVersion": "v1", "kind": "Pod", **bare}
    ]


def test_a_time_in_yaml_is_text_as_in_json() -> None:
    [found] = documents(b"at: 2026-03-01T00:00:00Z")
    assert found == {"at": "2026-03-01T00:00:00Z"}


@pytest.mark.parametrize("text", [b"a: [", b"a: !!timestamp soon"])
def test_a_file_that_is_neither_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="neither JSON nor YAML"):
        documents(text)
