"""The rows of `gpuyard gpu list`."""

import pytest
from gpuyard.cli.gpus import name_lines, rows, table_lines
from gpuyard.common.topology.reading import read

from tests.mock.cluster import running

USED = "metrics: {metadata: {namespace: ns, pod: p, container: c}, utilization: 30, fb-used: 5}"
TEXT = f"nodes: {{n: {{gpu-product: Tesla-K80, gpu-memory: 11441, gpus: [{{id: a, {USED}}}, {{id: b, xid: 79}}]}}}}"
NODES = read(TEXT).nodes


def pod(*devices: str) -> dict[str, object]:
    return {
        "metadata": {"namespace": "ns", "name": "p"},
        "status": {"containerStatuses": [running("c", *devices)]},
    }


def test_a_row_says_where_what_who_and_how_much() -> None:
    first, second = rows(NODES, [pod("a")], now=0)
    assert (first.node, first.index, first.id, first.pod, first.utilization) == ("n", 0, "a", "p", 30)
    assert (first.memory_used, first.memory, first.exact) == (5, 11441, True)
    assert (second.pod, second.xid, second.exact) == ("", 79, None)


@pytest.mark.parametrize(("devices", "exact"), [(["a"], True), (["a::3"], True), (["b"], False), ([], False)])
def test_exact_is_what_kubelet_said_of_this_very_device(devices: list[str], exact: bool) -> None:
    assert rows(NODES, [pod(*devices)], now=0)[0].exact is exact


def test_slices_have_rows_of_their_own() -> None:
    gpus = "[{mig: [{profile: 1g.5gb, count: 2}]}]"
    text = f"nodes: {{n: {{gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960, gpus: {gpus}}}}}"
    assert [(row.index, row.profile, row.memory) for row in rows(read(text).nodes, [])] == [(0, "1g.5gb", 4864)] * 2


def test_the_table_is_for_people() -> None:
    assert table_lines(rows(NODES, [pod("a")], now=0), wide=False, headers=True) == (
        "NODE  GPU  PRODUCT    HEALTH   POD   EXACT  UTIL  MEMORY\n"
        "n     0    Tesla-K80  healthy  ns/p  yes    30%   5/11441 MiB\n"
        "n     1    Tesla-K80  healthy  -     -      0%    0/11441 MiB\n"
    )


def test_wide_adds_the_id_the_container_and_the_error() -> None:
    wide = table_lines(rows(NODES, [], now=0), wide=True, headers=False).splitlines()
    assert [line.split()[-3:] for line in wide] == [["a", "c", "0"], ["b", "-", "79"]]


def test_nothing_to_show_is_nothing() -> None:
    assert table_lines([], wide=False, headers=False) == ""


def test_names_are_places_for_the_other_commands() -> None:
    assert name_lines(rows(NODES, [])) == "n/0\nn/1\n"
