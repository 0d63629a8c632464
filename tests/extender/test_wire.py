"""The messages of the extender protocol: read in any case, written in Go's."""

import json
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import pytest
from gpuyard.engine.explain.sentences import LONGEST_SENTENCE, LONGEST_TEXT
from gpuyard.extender.http import wire
from gpuyard.extender.http.wire import (
    BINDING,
    CANDIDATES,
    MAX_BODY,
    MOST_NAMES,
    PREEMPTION,
    FilterAnswer,
    HostPriority,
    MetaPod,
    MetaVictims,
    WireError,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extender import builders
from tests.extender.builders import Bench, node


def pod(name: str = "p", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": []},
    }


def whole(*names: str) -> dict[str, Any]:
    return {"metadata": {}, "items": [{"metadata": {"name": name}, "status": {"phase": "x"}} for name in names]}


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def written(answer: wire.Answer) -> Any:  # noqa: ANN401 - JSON
    return json.loads(wire.write(answer))


def test_nodes_by_name_are_read() -> None:
    request = CANDIDATES.read(body(Pod=pod(), Nodes=None, NodeNames=["n1", "n2"]))
    assert request.pod.key == "ns/p"
    assert list(request.by_name()) == ["n1", "n2"]
    assert not request.whole


def test_whole_nodes_are_read_by_their_names() -> None:
    request = CANDIDATES.read(body(Pod=pod(), Nodes=whole("n1", "n2"), NodeNames=None))
    assert list(request.by_name()) == ["n1", "n2"]
    assert request.whole


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase])
def test_the_names_of_a_filter_call_are_read_in_any_case(spell: Callable[[str], str]) -> None:
    call = {spell(key): value for key, value in {"Pod": pod(), "NodeNames": ["n1"]}.items()}
    assert list(CANDIDATES.read(body(**call)).by_name()) == ["n1"]


def test_names_spelt_right_beside_names_spelt_wrong_are_all_read() -> None:
    assert list(CANDIDATES.read(body(Pod=pod(), nodenames=["n1"])).by_name()) == ["n1"]


def test_the_names_of_a_preempt_call_are_read_in_any_case_at_every_depth() -> None:
    victims = {"pod": {"pods": [{"uid": "u1"}], "numpdbviolations": 2}}
    request = PREEMPTION.read(body(pod=pod(), nodenametometavictims=victims))
    assert request.node_name_to_meta_victims == {"pod": MetaVictims(pods=[MetaPod("u1")], num_pdb_violations=2)}


def test_the_names_of_a_bind_call_are_read_in_any_case() -> None:
    request = BINDING.read(body(podname="p", podnamespace="ns", poduid="u", node="n1"))
    assert (request.pod_name, request.pod_namespace, request.pod_uid, request.node) == ("p", "ns", "u", "n1")


@pytest.mark.row("X-02", case="pod")
@pytest.mark.parametrize("part", ["labels", "annotations", "ownerReferences", "spec", "status"])
def test_nothing_of_a_pod_is_read_but_its_name_and_version(part: str) -> None:
    said = pod() | {part: "nonsense"}
    said["metadata"][part] = ["nonsense"]
    request = CANDIDATES.read(body(Pod=said, NodeNames=["n1"]))
    assert (request.pod.key, request.pod.metadata.uid) == ("ns/p", pod()["metadata"].get("uid", ""))


@pytest.mark.parametrize("version", ["9" * 4300, "१२", "-1", "1e3", ""])
def test_a_version_that_no_api_server_gives_is_none(version: str) -> None:
    said = pod()
    said["metadata"]["resourceVersion"] = version
    assert CANDIDATES.read(body(Pod=said, NodeNames=["n1"])).pod.version == 0


def test_a_call_without_any_nodes_has_none() -> None:
    assert CANDIDATES.read(body(Pod=pod())).by_name() == {}
    assert CANDIDATES.read(body(Pod=pod(), Nodes=None, NodeNames=None)).by_name() == {}


@pytest.mark.parametrize("pods", [[], None])
def test_an_empty_list_of_victims_is_read_as_it_may_come(pods: object) -> None:
    request = PREEMPTION.read(body(Pod=pod(), NodeNameToMetaVictims={"n1": {"Pods": pods, "NumPDBViolations": 0}}))
    victims = request.node_name_to_meta_victims
    assert victims
    assert not victims["n1"].pods


def test_whole_victims_are_read_as_pods() -> None:
    request = PREEMPTION.read(body(Pod=pod(), NodeNameToVictims={"n1": {"Pods": [pod("v")], "NumPDBViolations": 1}}))
    victims = request.node_name_to_victims
    assert victims
    assert [v.metadata.uid for v in victims["n1"].pods or ()] == ["uid-v"]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"17",
        b"{}",
        b'{"Pod":null,"NodeNames":["n"]}',
        b'{"Pod":[],"NodeNames":[]}',
        b"[" * 99_999,
        b'{"a":"\xff"}',
        b"\x00" * 64,
    ],
)
def test_junk_is_refused_with_a_reason(junk: bytes) -> None:
    for reader in (CANDIDATES, PREEMPTION, BINDING):
        with pytest.raises(WireError, match=r"\w"):
            reader.read(junk)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(WireError, match="Pod"):
        CANDIDATES.read(body(NodeNames=["n1"]))
    with pytest.raises(WireError, match="PodUID"):
        BINDING.read(body(PodName="p", PodNamespace="ns", Node="n"))


def test_a_filter_answer_is_written_in_the_case_of_go_with_every_field() -> None:
    assert written(FilterAnswer(node_names=["n1"])) == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_whole_nodes_go_back_byte_for_byte() -> None:
    nodes = b'{"items":[{"metadata":{"name":"n1"},"x": 1.50},{"metadata":{"name":"n2"}}]}'
    text = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":%b}' % nodes
    request = CANDIDATES.read(text)
    answer = wire.write(wire.survivors(request, request.by_name(), ["n1"]))
    assert b'{"metadata":{},"items":[{"metadata":{"name":"n1"},"x": 1.50}]}' in answer
    assert json.loads(answer)["NodeNames"] is None


def test_a_refusal_marks_every_node_as_beyond_help_with_one_sentence() -> None:
    for call in (body(Pod=pod(), NodeNames=["n1", "n2"]), body(Pod=pod(), Nodes=whole("n1", "n2"))):
        request = CANDIDATES.read(call)
        answer = written(wire.refusal(request, request.by_name(), "the queue is full"))
        assert answer["FailedAndUnresolvableNodes"] == {"n1": "the queue is full", "n2": "the queue is full"}
        assert answer["FailedNodes"] == {}
        assert not answer["NodeNames"]
        assert not (answer["Nodes"] or {}).get("items")


@pytest.mark.parametrize(
    "names",
    [[], ["n1"], ["a", "b"], ['quoted "', "b"], ['",', "b"], ["back\\", "b"], [","], ["a", ",", "b"], ["ü\n", ""]],
)
@pytest.mark.parametrize("sentence", ["full", 'of "team" \\ 8 GPUs\n'])
def test_one_cause_for_all_is_written_as_any_mapping_would_be(names: list[str], sentence: str) -> None:
    answer = FilterAnswer(node_names=[], failed_and_unresolvable_nodes=wire.OneCause(names, sentence))
    assert written(answer)["FailedAndUnresolvableNodes"] == dict.fromkeys(names, sentence)
    assert answer.failed_and_unresolvable_nodes == dict.fromkeys(names, sentence)


def test_nothing_else_that_msgspec_cannot_write_is_written() -> None:
    with pytest.raises(NotImplementedError, match="a complex in an answer"):
        wire.write(FilterAnswer(failed_nodes={"n1": 1j}))  # type: ignore[dict-item]


def test_points_are_a_bare_list_of_whole_numbers() -> None:
    assert wire.write([HostPriority("n1", 7)]) == b'[{"Host":"n1","Score":7}]'


def test_the_other_answers_are_written_in_the_case_of_go() -> None:
    granted = wire.PreemptAnswer({"n1": MetaVictims(pods=[MetaPod("u1")])})
    assert written(granted) == {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 0}}}
    assert written(wire.PreemptAnswer()) == {"NodeNameToMetaVictims": {}}
    assert written(wire.BindAnswer("no")) == {"Error": "no"}


def test_a_whole_node_without_a_name_is_refused_with_its_place() -> None:
    request = CANDIDATES.read(body(Pod=pod(), Nodes={"items": [{"metadata": {}}]}))
    with pytest.raises(WireError, match=r"Nodes\.items"):
        request.by_name()


MANY = [f"node-{number}" for number in range(100)]


def named(*names: str, text: bytes = b"") -> Mapping[str, object]:
    body = b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": %s}' % (text or json.dumps(names).encode())
    return CANDIDATES.read(body).by_name()


def test_of_many_names_each_is_found_however_many_are_asked_for() -> None:
    offered = named(*MANY)
    for others in (["node-100", "ode-1", 'node-1", "node-2'], ["node-200"]):
        assert [name for name in (*others, *MANY) if name in offered] == MANY
    assert (list(offered), len(offered)) == (MANY, 100)


THOUSANDS = [f"node-{number:04}" for number in range(2000)]
STRANGERS = ["node-2000", "ode-0001", "node-000", "", 'node-1500", "node-1501', 'node-1500"']


@pytest.mark.parametrize("name", THOUSANDS[::333])
def test_of_thousands_of_names_each_is_found_without_a_look_at_all(name: str) -> None:
    assert name in named(*THOUSANDS)


@pytest.mark.parametrize("name", STRANGERS)
def test_what_is_only_a_part_of_names_did_not_come(name: str) -> None:
    assert name not in named(*THOUSANDS)


def test_however_often_it_is_asked_the_answer_is_the_same() -> None:
    offered = named(*THOUSANDS)
    assert [name for name in (*STRANGERS, *THOUSANDS[::-1], *STRANGERS) if name in offered] == THOUSANDS[::-1]


def test_thousands_of_names_come_once_each_in_their_order_however_far_one_looks() -> None:
    offered = named(*THOUSANDS, *THOUSANDS[:5])
    assert list(islice(offered, 3)) == THOUSANDS[:3]
    assert (list(offered), len(offered)) == (THOUSANDS, 2000)


def test_thousands_of_names_with_something_else_among_them_are_an_error_once_all_are_asked_for() -> None:
    offered = named(text=json.dumps([*THOUSANDS, 5]).encode())
    with pytest.raises(WireError, match="NodeNames"):
        len(offered)


def test_names_that_are_written_with_escapes_are_read_as_what_they_mean() -> None:
    assert "node-1" in named(text=rb'["node\u002d1"]')


def test_what_came_only_as_a_name_has_no_more_to_it() -> None:
    offered = named("node-1")
    assert offered["node-1"] is None
    with pytest.raises(KeyError):
        offered["node-2"]


@pytest.mark.parametrize("text", [b"[1]", b'["a", null]', b'"a"', b"{}"])
def test_what_is_no_list_of_names_is_an_error(text: bytes) -> None:
    with pytest.raises(WireError, match="NodeNames"):
        named(text=text)


# --- the length of answers ---

names = st.lists(st.text(min_size=1, max_size=40), unique=True, max_size=50)
sentences = st.builds(lambda text, times: text * times, st.text(max_size=20), st.sampled_from([1, 30, 1000]))
A_NODE = 6 * LONGEST_SENTENCE + len('"":"",')
"""Bytes that an answer has at most for a node, beside its name: JSON writes a character in up to six."""
THE_REST = 200


@pytest.mark.row("X-70", case="filter")
@settings(max_examples=50)
@given(names=names, sentence=sentences)
def test_a_refusal_is_no_longer_than_its_request_and_a_fixed_length_for_each_node(
    names: list[str], sentence: str
) -> None:
    call = body(Pod=pod(), Nodes=None, NodeNames=names)
    request = CANDIDATES.read(call)
    answer = wire.write(wire.refusal(request, request.by_name(), sentence))
    assert len(answer) <= len(call) + len(names) * A_NODE + THE_REST
    assert set(json.loads(answer)["FailedAndUnresolvableNodes"]) == set(names), "every node is still listed"


@pytest.mark.row("X-70", case="filter")
def test_a_queue_with_a_name_of_a_megabyte_makes_no_long_answer() -> None:
    bench = Bench(*(node(f"n{number}") for number in range(100)))
    stray = builders.pod("a", "q" * 1_000_000)
    bench.put(stray)
    answer = wire.write(bench.filter(stray))
    assert json.loads(answer)["NodeNames"] == []
    assert len(answer) <= 100 * A_NODE


@pytest.mark.row("X-70", case="error")
@pytest.mark.parametrize("answer", [FilterAnswer(error="x" * 10**6), wire.BindAnswer("x" * 10**6)])
def test_what_went_wrong_is_told_in_a_bounded_text(answer: wire.Answer) -> None:
    assert len(written(answer)["Error"]) == LONGEST_TEXT


# --- what is refused before it is read --------------------------------------------------------------------------------

STEP = 0.005
"""Seconds of processor time that a step of the extender may take, by the design."""


def many(count: int) -> list[str]:
    return [f"node-{number:06}.example" for number in range(count)]


def processor_time(work: Callable[[], object]) -> float:
    """The least of some tries: what else the machine does is not counted."""
    tries = []
    for _ in range(5):
        begin = time.process_time()
        work()
        tries.append(time.process_time() - begin)
    return min(tries)


@pytest.mark.row("X-29", case="names")
def test_more_names_than_any_cluster_has_nodes_are_refused() -> None:
    offered = CANDIDATES.read(body(Pod=pod(), NodeNames=many(MOST_NAMES + 1))).by_name()
    with pytest.raises(WireError, match="more than the 20000 nodes"):
        len(offered)
    assert len(CANDIDATES.read(body(Pod=pod(), NodeNames=many(MOST_NAMES))).by_name()) == MOST_NAMES


@pytest.mark.row("X-29", case="names")
@pytest.mark.alone
def test_the_most_names_that_are_read_take_less_than_a_step() -> None:
    content = body(Pod=pod(), NodeNames=many(MOST_NAMES))
    assert processor_time(lambda: len(CANDIDATES.read(content).by_name())) < STEP


@pytest.mark.row("X-29", case="names")
@pytest.mark.alone
def test_a_million_names_are_refused_in_less_time_than_it_takes_to_read_them() -> None:
    content = body(Pod=pod(), NodeNames=many(1_000_000))

    def read() -> None:
        with pytest.raises(WireError, match="more than"):
            CANDIDATES.read(content).by_name()

    assert processor_time(read) < processor_time(lambda: json.loads(content)) / 4


@pytest.mark.row("X-29", case="nodes")
def test_a_list_of_nodes_that_are_none_is_refused_before_it_is_taken_apart() -> None:
    with pytest.raises(WireError, match="larger than gpuyard reads"):
        CANDIDATES.read(b'{"Pod":{},"Nodes":{"items":[' + b"1," * 2_000_001 + b"1]}}")


@pytest.mark.row("X-29", case="nodes")
def test_a_call_of_more_than_32_mib_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match="larger than gpuyard reads"):
        CANDIDATES.read(b" " * ((32 << 20) + 1))
    assert MAX_BODY == 32 << 20


@pytest.mark.row("X-29", case="nodes")
@pytest.mark.alone
def test_the_largest_list_of_whole_nodes_takes_less_than_twenty_steps() -> None:
    padding = "x" * 6_000
    items = [one | {"padding": padding} for one in whole(*many(5_200))["items"]]
    content = body(Pod=pod(), Nodes={"items": items})
    assert 30 << 20 < len(content) < 32 << 20
    assert processor_time(lambda: CANDIDATES.read(content).by_name()) < 20 * STEP


@pytest.mark.row("X-29", case="nodes")
def test_more_whole_nodes_than_any_cluster_has_are_refused() -> None:
    names = many(MOST_NAMES + 1)
    with pytest.raises(WireError, match="more than the 20000 nodes"):
        CANDIDATES.read(body(Pod=pod(), Nodes=whole(*names))).by_name()
    assert len(CANDIDATES.read(body(Pod=pod(), Nodes=whole(*names[1:]))).by_name()) == MOST_NAMES


@pytest.mark.row("X-29", case="victims")
def test_more_victims_than_are_ever_proposed_are_refused() -> None:
    victims = {f"node-{node}": {"Pods": [{"UID": f"{node}-{n}"} for n in range(110)]} for node in range(500)}
    with pytest.raises(WireError, match="larger than gpuyard reads"):
        PREEMPTION.read(body(Pod=pod(), NodeNameToMetaVictims=victims))
    few = {node: {"Pods": each["Pods"][:80]} for node, each in victims.items()}
    assert len(PREEMPTION.read(body(Pod=pod(), NodeNameToMetaVictims=few)).victims()) == 500


@pytest.mark.row("X-29", case="victims")
@pytest.mark.parametrize(("reader", "longest"), [(PREEMPTION, 8 << 20), (BINDING, 64 << 10)])
def test_each_verb_has_a_longest_body(reader: wire.Reader[Any], longest: int) -> None:
    with pytest.raises(WireError, match="larger than gpuyard reads"):
        reader.read(b" " * (longest + 1))


@pytest.mark.row("X-29", case="other-spelling")
def test_only_short_bodies_may_be_spelt_in_another_case() -> None:
    assert len(CANDIDATES.read(body(pod=pod(), nodenames=many(2_000))).by_name()) == 2_000
    with pytest.raises(WireError):
        CANDIDATES.read(body(pod=pod(), nodenames=many(10_000)))


# --- odd values -------------------------------------------------------------------------------------------------------


@pytest.mark.row("X-32", case="utf-8")
@pytest.mark.parametrize("part", ["tolerations", "affinity", "schedulerName"])
def test_what_is_no_utf_8_in_a_part_that_is_not_read_makes_no_difference(part: str) -> None:
    odd = pod()
    odd["spec"][part] = "@" if part == "schedulerName" else [{"key": "@"}]
    assert CANDIDATES.read(body(Pod=odd, NodeNames=["n"]).replace(b"@", b"\xff\xfe")).pod.key == "ns/p"


@pytest.mark.row("X-32", case="utf-8")
def test_a_whole_node_with_what_is_no_utf_8_is_refused_since_it_would_go_back_so() -> None:
    nodes = whole("n1")
    nodes["items"][0]["spec"] = "@"
    with pytest.raises(WireError):
        CANDIDATES.read(body(Pod=pod(), Nodes=nodes).replace(b"@", b"\xff\xfe"))
    assert CANDIDATES.read(body(Pod=pod(), Nodes=nodes).replace(b"@", "ü".encode())).by_name()


@pytest.mark.row("X-32", case="nul")
@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "Node"])
@pytest.mark.parametrize("name", ["a\0b", "x/exec?command=id", "..", "", "A", "x" * 254, "a\n"])
def test_a_binding_with_what_is_no_name_is_refused(field: str, name: str) -> None:
    given = {"PodName": "p.1", "PodNamespace": "ns", "PodUID": "u", "Node": "n-1.example"}
    assert BINDING.read(body(**given)).node == "n-1.example"
    with pytest.raises(WireError, match=field):
        BINDING.read(body(**given | {field: name}))
