"""Writing: usage in the form the document came in; not one other byte changes."""

import json

import pytest
import yaml
from gpuyard.common.topology import reading, writing
from gpuyard.common.topology.document import Element, TopologyError, compose
from gpuyard.common.topology.model import Owner, Share, Usage
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.utilization import BUSY, Span, Utilization, parse
from gpuyard.common.topology.writing import Usages, per_node_document, write
from hypothesis import given
from hypothesis import strategies as st

from tests.common.topology.documents import BLOCK_POOLS, CLUSTER_STATUS, G1, G2, NODE, SEED


def used(utilization: Utilization = BUSY, uid: str = "uid-1", memory: int = 11441) -> Usage:
    return Usage(Owner("team", "p", "c"), (Share(uid, utilization, memory, started=1_700_000_000.0),))


def first(text: str, key: str) -> object:
    return yaml.safe_load(text)["nodes"]["node-a"]["gpus"][0].get(key)


def test_a_busy_gpu_is_written_in_the_seeds_form_and_the_idle_one_has_no_metrics() -> None:
    written = yaml.safe_load(write(SEED, {"node-a": {G1: used()}}))
    gpus = written["nodes"]["node-a"]["gpus"]
    assert gpus[0]["metrics"] == {
        "metadata": {"namespace": "team", "pod": "p", "container": "c"},
        "utilization": 100,
        "fb-used": 11441,
    }
    assert gpus[1] == {"id": G2}


def test_when_all_is_idle_only_what_the_user_wrote_is_left() -> None:
    lines = write(SEED, {}).splitlines()
    assert lines == [line for line in SEED.splitlines() if not line.startswith(" " * 10) and "metrics:" not in line]


def test_comments_order_and_quotes_stay_byte_for_byte() -> None:
    text = (
        "# Größe: über alles\nnodes:\n  n:   # the node\n    gpus:\n    - id: \"a\"  # first\n    - 'id': b\n\n"
        "    # below\n    gpu-product: 'X'\n    gpu-memory: 0x10\nmig-strategy: none # end"
    )
    busy = write(text, {"n": {"a": used(), "b": used()}})
    assert [line for line in busy.splitlines() if line in text.splitlines()] == text.splitlines()
    assert write(busy, {}) == text


def test_a_new_section_stands_below_the_comment_that_announces_it() -> None:
    busy = write(write(SEED, {}), {"node-a": {G1: used()}})
    lines = busy.splitlines()
    assert "filled by the status updater" in lines[lines.index("        metrics:") - 1]


@pytest.mark.parametrize(
    "gpus",
    [
        "[{}, {}]",
        "[{id: a}, {id: b}]",
        '[{"id": "a"}, {"id": "b", "health": "healthy"}]',
        "\n    - id: a\n    - {}\n",
        "\n      - metrics:\n        id: a\n      - id: b\n",
        "\n      - metrics: {}\n      - id: b\n        xid: 0",
        "\n      - id: a\n        xid: &x 0\n      - id: b\n        xid: *x\n",
        "\n      -\n        id: a\n        # a word\n      - id: b # another\n",
        "\n      - metrics: {utilization: 5}\n        id: a\n      - id: b\n",
        "\n      - metrics:\n          fb-used: 4 # MiB\n        id: a\n      - id: b\n",
    ],
)
@pytest.mark.parametrize("utilization", ["80", "10-30", '{"steps":[{"time":"1h","utilization":80}]}'])
def test_usage_is_read_back_as_written_whatever_the_style(gpus: str, utilization: str) -> None:
    text = f"nodes:\n  n:\n    gpu-memory: 9\n    gpu-product: x\n    gpus: {gpus}\n# the end\n"
    devices = [gpu.id for gpu in read(text).nodes["n"].gpus]
    for wanted in (
        {},
        {devices[0]: used(parse(utilization))},
        {d: used(parse(utilization), memory=3) for d in devices},
    ):
        text = write(text, {"n": wanted})
        assert yaml.safe_load(text)
        for gpu in read(text).nodes["n"].gpus:
            usage = wanted.get(gpu.id, Usage())
            assert gpu.usage.owner == usage.owner
            assert gpu.usage.fb_used(100) == usage.fb_used(100)
            assert gpu.usage.utilization(1_700_000_100.5) == usage.utilization(1_700_000_100.5)
        assert write(text, {"n": wanted}) == text
        assert text.endswith("# the end\n")


@pytest.mark.row("P-02", case="mark")
def test_the_byte_order_mark_of_a_document_stays() -> None:
    busy = write(f"\ufeff{SEED}", {"node-a": {G1: used()}})
    assert busy == f"\ufeff{write(SEED, {'node-a': {G1: used()}})}"
    assert write(busy, {}) == f"\ufeff{write(SEED, {})}"


EXPLICIT = [
    "    - ? id\n      : a\n    - id: b\n",
    "    - ? id\n      : a\n      ? metrics\n      : {utilization: 5}\n    - id: b\n",
    "    - ? metrics\n      : {utilization: 5}\n      id: a\n    - id: b\n",
    "    - {? id : a, ? metrics : {utilization: 5}}\n    - id: b\n",
    "    - {? metrics : {utilization: 5}, ? id : a}\n    - id: b\n",
]


@pytest.mark.row("P-02", case="explicit-keys")
@pytest.mark.parametrize("gpus", EXPLICIT)
def test_keys_that_are_announced_by_a_question_mark_can_be_written(gpus: str) -> None:
    text = f"nodes:\n  node-a:\n    gpus:\n{gpus}    gpu-product: X\n    gpu-memory: 16384\n"
    busy = write(text, {"node-a": {"a": used()}})
    assert read(busy).nodes["node-a"].gpus[0].usage.shares
    assert not read(write(busy, {})).nodes["node-a"].gpus[0].usage.shares


@pytest.mark.row("P-02", case="once")
def test_a_write_reads_the_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_texts: list[str] = []

    def composed(text: str) -> Element:
        read_texts.append(text)
        return compose(text)

    monkeypatch.setattr(writing, "compose", composed)
    monkeypatch.setattr(reading, "compose", composed)
    write(SEED, {"node-a": {G1: used()}})
    assert read_texts == [SEED]


def test_a_document_in_json_stays_json() -> None:
    text = '{"nodes": {"n": {"gpu-memory": 9, "gpu-product": "x", "gpus": [{}, {"id": "b"}]}}}'
    busy = write(text, {"n": {"b": used()}})
    assert json.loads(busy)["nodes"]["n"]["gpus"][1]["metrics"]["utilization"] == 100
    assert write(busy, {}) == text


def test_the_older_form_gets_its_own_words() -> None:
    busy = write(CLUSTER_STATUS, {"node-a": {read(CLUSTER_STATUS).nodes["node-a"].gpus[0].id: used(Span(10, 30))}})
    assert first(busy, "status") == {
        "allocated-by": {"namespace": "team", "pod": "p", "container": "c"},
        "pod-gpu-usage-status": {
            "uid-1": {"utilization": {"min": 10, "max": 30}, "fb-used": 11441, "use-knative-utilization": False}
        },
    }


def test_the_per_node_form_keeps_every_pod_by_uid() -> None:
    both = Usage(Owner("team", "p", "c"), (Share("u1", Span(10, 10), 5), Share("u2", Span(20, 20), 6)))
    busy = write(NODE, {"n": {"GPU-b": both}}, "n")
    gpus = yaml.safe_load(busy)["gpus"]
    assert "status" not in gpus[0]
    assert set(gpus[1]["status"]["podGpuUsageStatus"]) == {"u1", "u2"}
    assert read(busy, "n").nodes["n"].gpus[1].usage == both


def test_an_idle_status_block_is_left_as_the_user_wrote_it() -> None:
    assert write(CLUSTER_STATUS, {}) == CLUSTER_STATUS


def test_in_the_seeds_form_several_constant_pods_are_one_sum_and_who_they_are() -> None:
    both = Usage(Owner("team", "p", "c"), (Share("u1", Span(70, 70), 5), Share("u2", Span(60, 60), 6)))
    busy = write(SEED, {"node-a": {G1: both}})
    metrics = first(busy, "metrics")
    assert isinstance(metrics, dict)
    assert (metrics["utilization"], metrics["fb-used"]) == (100, 11)
    assert read(busy).nodes["node-a"].gpus[0].usage == both


def test_in_the_seeds_form_several_pods_that_change_are_kept_apart() -> None:
    both = Usage(Owner("team", "p", "c"), (Share("u1", Span(10, 30), 5), Share("u2", Span(60, 60), 6)))
    busy = write(SEED, {"node-a": {G1: both}})
    assert read(busy).nodes["node-a"].gpus[0].usage == both


@pytest.mark.parametrize(
    ("utilization", "total"),
    [("10-30", "70-90"), ("10-50", "70-100"), ('{"steps":[{"time":"1h","utilization":80}]}', None)],
)
def test_in_the_seeds_form_what_several_pods_come_to_stands_beside_them(utilization: str, total: str | None) -> None:
    started = 1_700_000_000.0 if utilization.startswith("{") else 0.0
    shares = (Share("u1", parse(utilization), 5, started), Share("u2", Span(60, 60), 6))
    busy = write(SEED, {"node-a": {G1: Usage(Owner("team", "p", "c"), shares)}})
    metrics = first(busy, "metrics")
    assert isinstance(metrics, dict)
    assert (metrics.get("utilization"), metrics["fb-used"]) == (total, 11)
    assert read(busy).nodes["node-a"].gpus[0].usage.shares == shares


def test_a_comment_on_the_key_behind_a_usage_that_goes_stays() -> None:
    text = (
        "nodes:\n  n:\n    gpu-memory: 9\n    gpu-product: x\n    gpus:\n"
        "      - metrics:\n          utilization: 5\n        # the good card\n        # of two\n        id: a\n"
    )
    idle = write(text, {})
    assert idle.endswith("\n      - # the good card\n        # of two\n        id: a\n")
    busy = write(idle, {"n": {"a": used()}})
    assert read(busy).nodes["n"].gpus[0].usage.owner == used().owner
    assert write(busy, {}) == idle


def test_slices_have_a_usage_each() -> None:
    text = (
        "nodes:\n  n:\n    gpu-memory: 40960\n    gpu-product: NVIDIA-A100-SXM4-40GB\n    gpus:\n"
        "      - id: a\n        mig: [{profile: 1g.5gb, count: 2}]\n"
    )
    second = (read(text).nodes["n"].gpus[0].mig or ())[1].id
    busy = write(text, {"n": {second: used()}})
    assert [(s.usage.idle) for s in read(busy).nodes["n"].gpus[0].mig or ()] == [True, False]
    assert write(busy, {}) == text


def test_a_pools_node_gets_a_document_of_its_own() -> None:
    [pool] = read(BLOCK_POOLS).pools
    document = yaml.safe_load(per_node_document(pool, "n"))
    assert document["gpuProduct"] == "Tesla-K80"
    assert document["otherDevices"] == [{"name": "example.com/x", "count": 3}]
    assert [set(gpu) for gpu in document["gpus"]] == [{"id"}, {"id"}]


def test_everything_a_pool_says_reaches_its_nodes_document() -> None:
    extra = "driverVersion: 1.2, cudaVersion: 3.4, fbReserved: 5, utilization: 1-2, faults: [crash, slow-allocate=3s]"
    sharing = "sharing: {strategy: mps, replicas: 2, rename: true}"
    text = f"nodePools: {{p: {{gpuProduct: x, gpuMemory: 50, gpuCount: 1, profile: h100, {extra}, {sharing}}}}}"
    [pool] = read(text).pools
    assert read(per_node_document(pool, "n"), "n").nodes["n"].hardware == pool.hardware


@pytest.mark.row("M-45")
def test_usage_that_would_outgrow_a_config_map_is_refused_before_the_api_does() -> None:
    nodes = "".join(f"  n{i}: {{gpu-memory: 1, gpu-product: x, gpus: [{'{}, ' * 8}]}}\n" for i in range(1300))
    text = "nodes:\n" + nodes
    everywhere: Usages = {name: {gpu.id: used() for gpu in node.gpus} for name, node in read(text).nodes.items()}
    with pytest.raises(TopologyError, match="ConfigMap topology-<node>"):
        write(text, everywhere)


@given(st.lists(st.booleans(), min_size=2, max_size=2), st.lists(st.booleans(), min_size=2, max_size=2))
def test_the_way_to_a_state_does_not_matter(one: list[bool], two: list[bool]) -> None:
    def usages(busy: list[bool]) -> Usages:
        return {"node-a": {device: used() for device, on in zip((G1, G2), busy, strict=True) if on}}

    by_way_of_one = write(write(SEED, usages(one)), usages(two))
    assert yaml.safe_load(by_way_of_one) == yaml.safe_load(write(SEED, usages(two)))


def test_a_pools_node_reserves_nothing_where_the_pool_says_so() -> None:
    text = "nodePools: {p: {gpu: {profile: t4}FB}}"
    [default], [none] = (read(text.replace("FB", more)).pools for more in ("", ", fbReserved: 0"))
    for pool, reserved in ((default, 447), (none, 0)):
        hardware = read(per_node_document(pool, "n"), "n").nodes["n"].hardware
        assert (pool.hardware.fb_reserved, hardware.fb_reserved) == (reserved, reserved)
