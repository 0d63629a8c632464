"""Finding the objects in a document."""

import msgspec
import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.decode import Harvest
from gpuyard.engine.kube.meta import namespace_of

from tests.engine.kube.written import Json, harvest, meta, node, pod, queue, with_meta


def listed(*items: Json, kind: str = "List") -> Json:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def names(found: Harvest) -> list[str]:
    return [f"{one.kind} {one.object.metadata.name}" for one in found.found if one.object.metadata]


def test_lists_are_opened_also_lists_of_lists() -> None:
    assert names(harvest(node("a"), listed(node("b"), listed(queue("c"), pod("d"))))) == [
        "Node a",
        "Node b",
        "Queue c",
        "Pod d",
    ]


def test_the_items_of_a_list_of_one_kind_need_not_say_their_kind() -> None:
    bare = {key: value for key, value in pod("a").items() if key not in {"kind", "apiVersion"}}
    assert names(harvest(listed(bare, kind="PodList"))) == ["Pod a"]


def test_kinds_may_alternate_in_a_list() -> None:
    given = [pod("a"), node("b"), pod("c"), queue("d"), queue("e"), pod("f")]
    assert len(harvest(listed(*given)).found) == 6


def test_unknown_kinds_and_versions_are_noted_once_with_their_number() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta("s")}
    other = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta("g")}
    found = harvest(listed(service, service, other))
    assert not found.found
    assert found.notes() == [
        "skipped 1 of PodGroup (scheduling.volcano.sh/v1beta1): gpuyard reads scheduling.run.ai/v2alpha2",
        "skipped 2 of Service (v1): gpuyard does not read these",
    ]


def test_an_object_of_a_known_kind_may_leave_its_version_out() -> None:
    assert names(harvest({"kind": "Queue", "metadata": meta("q")})) == ["Queue q"]


def test_nothing_is_nothing_to_take() -> None:
    found = Harvest()
    for text in (b"", b" \n", b"null"):
        found.take("x", text)
    assert not found.found
    assert not found.faults


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            pod("p", namespace="default") | {"spec": {"nodeName": 3}},
            "f: Pod default/p: spec.nodeName: expected str | null, got int",
        ),
        (node("n") | {"status": []}, "f: Node n: status: expected object | null, got array"),
        (
            {"kind": "PriorityClass", "metadata": {"name": "x"}},
            "f: PriorityClass x: object missing required field value",
        ),
        ({"metadata": {"name": "x"}}, "f: x: kind: missing; is this a Kubernetes object?"),
        ({"kind": "Pod", "metadata": 3}, "f: Pod: metadata: expected object | null, got int"),
        ({"kind": 3}, "f: kind: expected str | null, got int"),
    ],
    ids=["field", "status", "required", "no-kind", "metadata", "kind"],
)
def test_what_cannot_be_decoded_is_told_by_object_and_field(given: Json, line: str) -> None:
    assert [str(f) for f in harvest(given, source="f").faults] == [line]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"spec": {}}, "f: document 2: kind: missing; is this a Kubernetes object?"),
        ({"kind": "Node", "spec": 3}, "f: Node document 2: spec: expected object | null, got int"),
        ([], "f: document 2: expected object, got array"),
        (listed(node("n"), {"spec": {}}), "f: document 2 items[1]: kind: missing; is this a Kubernetes object?"),
    ],
    ids=["no-kind", "field", "no-object", "in-a-list"],
)
def test_what_has_no_name_is_told_by_its_place_in_the_file(given: object, line: str) -> None:
    found = Harvest()
    found.take("f", msgspec.json.encode(node("n")))
    found.take("f", msgspec.json.encode(given))
    assert [str(f) for f in found.faults] == [line]


def test_one_broken_object_does_not_hide_the_others() -> None:
    broken = pod("bad") | {"spec": {"containers": {}}}
    found = harvest(listed(pod("a"), broken, pod("b")))
    assert names(found) == ["Pod a", "Pod b"]
    assert len(found.faults) == 1


def test_lists_within_lists_have_an_end() -> None:
    deep = pod("a")
    for _ in range(12):
        deep = listed(deep)
    assert [f.field for f in harvest(deep).faults] == ["items"]


def test_what_is_no_json_is_the_callers_to_tell() -> None:
    with pytest.raises(msgspec.DecodeError):
        Harvest().take("x", b"{")


def test_owners_of_pods_are_known_by_their_kind() -> None:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta("j")}
    (found,) = harvest(job).found
    assert isinstance(found.object, objects.PodOwner)
    assert found.object.kind == "PyTorchJob"


def test_what_names_no_namespace_gets_the_one_that_is_said() -> None:
    found = Harvest("ns")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("j")}
    for one in (pod("p", namespace=""), pod("q", namespace="own"), job):
        found.take("x", msgspec.json.encode(one))
    assert [namespace_of(one.object) for one in found.found] == ["ns", "own", "ns"]
    assert found.submitted[0].name == ("ns", "Job", "j")


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_what_the_api_server_would_name_gets_a_name_that_can_be_told_beforehand(kind: str) -> None:
    version = {"Job": "batch/v1", "Deployment": "apps/v1"}[kind]
    new = {"apiVersion": version, "kind": kind, "metadata": {"generateName": "j-"}}
    bare = pod() | {"metadata": {"generateName": "p-"}}
    found = harvest(new, new, listed(bare, bare, bare | {"metadata": {"generateName": "q-"}}))
    assert [each.name[2] for each in found.submitted] == ["j-x", "j-x2"]
    owners = ["Job j-x", "Job j-x2"] if kind == "Job" else []
    assert names(found) == [*owners, "Pod p-x", "Pod p-x2", "Pod q-x"]


@pytest.mark.parametrize("more", [{"metadata": {}}, {"metadata": None}, {"metadata": {"generateName": 1}}])
def test_without_the_beginning_of_a_name_there_is_none(more: Json) -> None:
    found = harvest(listed(pod("a"), pod() | more))
    assert ([each.object.metadata and each.object.metadata.name for each in found.found][1] or "") == ""


NAMES_ITS_NODE = {key: value for key, value in pod("p", on="node-1").items() if key != "status"}


@pytest.mark.parametrize(
    "draft", [NAMES_ITS_NODE, NAMES_ITS_NODE | {"status": {}}], ids=["without a status", "as kubectl writes it"]
)
def test_a_submitted_pod_that_names_its_node_is_told_to_go_past_its_queue(draft: Json) -> None:
    [told] = harvest(draft).warnings
    assert told.startswith(
        "cluster.yaml: Pod default/p: spec.nodeName: with it the pod starts there at once, past its queue"
    )


@pytest.mark.parametrize(
    "other",
    [
        pod("p"),
        {key: value for key, value in pod("p").items() if key != "status"},
        NAMES_ITS_NODE | {"status": {"phase": "Pending"}},
        NAMES_ITS_NODE | {"status": {"startTime": "2026-01-01T00:00:00Z"}},
        NAMES_ITS_NODE | {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
        NAMES_ITS_NODE | {"spec": NAMES_ITS_NODE["spec"] | {"containers": [{"name": "main"}]}},
        with_meta(NAMES_ITS_NODE, uid="u-1"),
        with_meta(NAMES_ITS_NODE, ownerReferences=[{"kind": "DaemonSet", "name": "d"}]),
    ],
    ids=[
        "waits",
        "is submitted",
        "has a phase",
        "has started",
        "is bound",
        "asks for no GPU",
        "is there",
        "has an owner",
    ],
)
def test_no_other_pod_is_told_to_go_past_its_queue(other: Json) -> None:
    assert harvest(other).warnings == []
