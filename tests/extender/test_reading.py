"""A pod is the same whether the API server wrote it in JSON or in protobuf."""

import sys
from time import gmtime, strftime
from typing import Any

import msgspec
import pytest
from gpuyard.common.cluster import pod_pb2 as wire
from gpuyard.common.cluster.objects import Pod, PodSpec
from gpuyard.common.cluster.reading import SHORT, JsonPods, read_pod
from gpuyard.common.kube.protobuf import parsed
from gpuyard.engine.kube.objects import NO_BYTES
from hypothesis import given
from hypothesis import strategies as st

from tests.extender.builders import pod
from tests.extender.protopods import in_protobuf

Json = dict[str, Any]
Made = st.SearchStrategy[Json]


def made(needed: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> Made:
    return st.fixed_dictionaries(needed, optional=optional)


def some(thing: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """What is empty the API server leaves out in both forms."""
    return st.lists(thing, min_size=1, max_size=3)


NAMES = st.sampled_from(["a", "b.example.com/c", "gpu-fraction", "pod-group-name", "nvidia.com/gpu"])
TEXTS = st.sampled_from(["a", "team-b", "<&>", "ü — ✓", "\u2028", 'say "no"\n'])
TIMES = st.integers(0, 2**33).map(lambda at: strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(at)))
AMOUNTS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "gpuyard.io/shared-gpu", "cpu", "memory", "ephemeral-storage"]),
    st.sampled_from(["0", "1", "100m", "1500u", "3Gi", "1e3", "128974848", "12500m"]),
    min_size=1,
)
LABELS = st.dictionaries(NAMES, st.just("") | TEXTS, min_size=1)

REQUIREMENT = made({"key": NAMES, "operator": st.sampled_from(["In", "Exists", "Gt"])}, values=some(TEXTS))
SELECTOR = made({}, matchLabels=LABELS, matchExpressions=some(REQUIREMENT))
NODE_TERM = made({}, matchExpressions=some(REQUIREMENT), matchFields=some(REQUIREMENT))
POD_TERM = made(
    {"topologyKey": NAMES},
    labelSelector=SELECTOR,
    namespaces=some(NAMES),
    namespaceSelector=SELECTOR,
    matchLabelKeys=some(NAMES),
    mismatchLabelKeys=some(NAMES),
)


def rules(required: st.SearchStrategy[Any], wish: str, term: Made) -> Made:
    """The two parts that each kind of affinity has."""
    return made(
        {},
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution=some(made({"weight": st.integers(1, 100), wish: term})),
    )


NEIGHBOURS = rules(some(POD_TERM), "podAffinityTerm", POD_TERM)
AFFINITY = made(
    {},
    nodeAffinity=rules(made({"nodeSelectorTerms": some(NODE_TERM)}), "preference", NODE_TERM),
    podAffinity=NEIGHBOURS,
    podAntiAffinity=NEIGHBOURS,
)
TOLERATION = made({}, key=NAMES, operator=NAMES, value=TEXTS, effect=NAMES, tolerationSeconds=st.integers(-1, 2**40))
CONTAINER = made(
    {"name": NAMES, "resources": made({}, limits=AMOUNTS, requests=AMOUNTS)}, restartPolicy=st.just("Always")
)
OWNER = made({"kind": NAMES, "name": NAMES, "uid": NAMES, "apiVersion": NAMES}, controller=st.booleans())
CLAIM = made({}, persistentVolumeClaim=st.just({"claimName": "c"}), ephemeral=st.just({}), emptyDir=st.just({}))
CONDITION = made({"type": NAMES, "status": NAMES, "lastTransitionTime": st.none() | TIMES}, message=TEXTS)
PODS = made(
    {
        "metadata": made(
            {"name": NAMES, "uid": NAMES, "resourceVersion": NAMES},
            namespace=NAMES,
            creationTimestamp=st.none() | TIMES,
            deletionTimestamp=TIMES,
            labels=LABELS,
            annotations=LABELS,
            ownerReferences=some(OWNER),
        ),
        "spec": made(
            {"containers": st.none() | some(CONTAINER)},
            volumes=some(CLAIM),
            initContainers=some(CONTAINER),
            nodeSelector=LABELS,
            nodeName=NAMES,
            affinity=AFFINITY,
            schedulerName=NAMES,
            tolerations=some(TOLERATION),
            priorityClassName=NAMES,
            priority=st.integers(-(2**31), 2**31 - 1),
            overhead=AMOUNTS,
            schedulingGates=some(made({"name": NAMES})),
        ),
        "status": made(
            {},
            phase=NAMES,
            startTime=TIMES,
            nominatedNodeName=NAMES,
            conditions=some(CONDITION),
            containerStatuses=some(made({"name": NAMES})),
        ),
    }
)


def in_json(thing: Json) -> Pod:
    return JsonPods().decode(msgspec.json.encode({"apiVersion": "v1", "kind": "Pod"} | thing))


def spec_of(seen: Pod) -> PodSpec:
    assert seen.spec is not None
    return seen.spec


def opened(seen: Pod) -> tuple[Pod, object, object]:
    """The pod, and beside it what it keeps as JSON, in which the order of fields says nothing."""
    spec = spec_of(seen)
    bare = msgspec.structs.replace(spec, affinity=NO_BYTES, tolerations=NO_BYTES)
    affinity, tolerations = bytes(spec.affinity) or b"null", bytes(spec.tolerations) or b"null"
    return msgspec.structs.replace(seen, spec=bare), msgspec.json.decode(affinity), msgspec.json.decode(tolerations)


@given(PODS)
def test_a_pod_reads_alike_in_both_forms(thing: Json) -> None:
    assert opened(read_pod(in_protobuf(thing))) == opened(in_json(thing))


@pytest.mark.parametrize(
    ("spec", "affinity", "tolerations"),
    [
        ({"affinity": {"podAffinity": {}}}, '{"podAffinity":{}}', ""),
        ({"affinity": {}}, "{}", ""),
        ({"tolerations": [{"tolerationSeconds": 0, "key": "k"}]}, "", '[{"key":"k","tolerationSeconds":0}]'),
        ({"tolerations": [{"key": "<&>\u2028ü"}]}, "", r'[{"key":"\u003c\u0026\u003e\u2028ü"}]'),
    ],
)
def test_what_stays_json_is_written_as_the_api_server_does(spec: Json, affinity: str, tolerations: str) -> None:
    read = spec_of(read_pod(in_protobuf(pod("p", **spec))))
    assert (bytes(read.affinity).decode(), bytes(read.tolerations).decode()) == (affinity, tolerations)


@pytest.mark.parametrize("read", [in_json, lambda thing: read_pod(in_protobuf(thing))])
def test_pods_share_what_they_have_in_common(read: Any) -> None:  # noqa: ANN401 - either way to read
    first, second = (spec_of(read(pod(name, tolerations=[{"key": "k"}]))) for name in ("a", "b"))
    assert first.tolerations is second.tolerations


@pytest.mark.parametrize("read", [in_json, lambda thing: read_pod(in_protobuf(thing))])
def test_what_is_long_is_not_kept_for_others(read: Any) -> None:  # noqa: ANN401 - either way to read
    long = [{"key": "k", "value": "v" * SHORT}]
    first, second = (spec_of(read(pod(name, tolerations=long))) for name in ("a", "b"))
    assert first.tolerations == second.tolerations
    assert first.tolerations is not second.tolerations
    assert first is not second


def any_bytes(text: str) -> Json:
    """A pod with a text where the API server takes any, and with others, long and short, beside it."""
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": [text, "ü"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 300, "preference": term}]}
    return {
        "metadata": {
            "name": "p",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"a": "b"},
            "annotations": {"gpu-fraction": text, "pod-group-name": text * 99, "other": text},
            "ownerReferences": [{"kind": text, "name": text, "uid": "u", "apiVersion": "v1", "controller": True}],
        },
        "spec": {"containers": None, "schedulerName": text, "priority": -1, "affinity": {"nodeAffinity": wish}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": text}]},
    }


def test_each_byte_that_is_part_of_no_text_is_what_the_api_server_makes_of_it_in_json() -> None:
    raw = in_protobuf(any_bytes("~~~~~~")).replace(b"~~~~~~", b"a\xff\xe2\x9c\xed\xa0")
    assert opened(read_pod(raw)) == opened(in_json(any_bytes("a" + 5 * "\ufffd")))


def test_what_is_not_known_stays_beside_what_is_no_text() -> None:
    fixed = b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x78\x96\x01" + b"\x7a\x01\xff"
    assert parsed(wire.Owner, fixed + b"\x1a\x01\xff" + fixed).name == "\ufffd"


@pytest.mark.parametrize("rest", [b"\x1a\x02a", b"\x1a", b"\x1b", b"\x79\0", b"\x80" * 100])
def test_what_is_cut_off_or_nonsense_beside_what_is_no_text_is_refused(rest: bytes) -> None:
    with pytest.raises(msgspec.DecodeError, match="no Owner in protobuf"):
        parsed(wire.Owner, b"\x1a\x01\xff" + rest)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1 - 62135596800, "0001-01-01T00:00:01Z"), (-1, "1969-12-31T23:59:59Z"), (253402300799, "9999-12-31T23:59:59Z")],
)
def test_a_time_is_written_as_in_json(seconds: int, text: str) -> None:
    assert read_pod(created(seconds)).metadata.creation_timestamp == text


@pytest.mark.parametrize("seconds", [2**60, -(2**63), 253402300800])
def test_a_time_without_a_date_is_refused(seconds: int) -> None:
    with pytest.raises(msgspec.DecodeError, match="no time that has a date"):
        read_pod(created(seconds))


def created(seconds: int) -> bytes:
    """A pod of that time."""
    meta = wire.Meta(name="p", creation_timestamp=wire.Time(seconds=seconds).SerializeToString())
    return b"k8s\0" + wire.Wrapped(pod=wire.Pod(metadata=meta)).SerializeToString()


def test_a_pod_does_not_keep_the_answer_in_memory() -> None:
    raw = msgspec.json.encode(pod("p", tolerations=[{"key": "k"}], affinity={"podAffinity": {}}))
    before = sys.getrefcount(raw)
    seen = JsonPods().decode(raw)
    assert seen.spec is not None
    assert sys.getrefcount(raw) == before


def test_what_is_no_pod_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError, match="no Wrapped in protobuf"):
        read_pod(b"k8s\0\xff")
    with pytest.raises(msgspec.DecodeError, match=r"begins with b'k8s\\x00', not with b'k9s'"):
        read_pod(b"k9s")
    with pytest.raises(msgspec.DecodeError):
        JsonPods().decode(b"\xff")
