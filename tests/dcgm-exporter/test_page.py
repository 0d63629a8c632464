"""The page: what a scrape says, line by line."""

import pytest
from gpuyard.common.topology.reading import read
from gpuyard.dcgm_exporter.families import FAMILIES
from gpuyard.dcgm_exporter.labels import HostnameLabel, IdleLabels, Switches

from tests.common.topology.documents import G1, G2, SEED
from tests.mock.pages import names, nodes, page, samples, values

ALL = [family.name for family in FAMILIES]
USED = "[{id: GPU-1, metrics: {metadata: {namespace: ns, pod: p, container: c}, utilization: 50, fb-used: 5}}]"


@pytest.mark.row("M-38", case="a100")
def test_an_a100_has_all_families_once_and_in_order() -> None:
    text = page(nodes("[{}, {}]"))
    assert names(text) == ALL
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for family in FAMILIES for line in family.header.splitlines()
    ]


@pytest.mark.row("M-38", case="k80")
def test_a_k80_has_neither_profiling_nor_row_remapping_nor_a_memory_thermometer() -> None:
    missing = set(ALL) - set(names(page(nodes("[{}]", "Tesla-K80", 11441))))
    assert {name for name in missing if "PROF" in name} == {name for name in ALL if "PROF" in name}
    assert missing - {name for name in ALL if "PROF" in name} == {
        "DCGM_FI_DEV_MEMORY_TEMP",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    }


def test_the_seeds_metrics_are_served_with_every_label() -> None:
    found = samples(page(read(SEED).nodes))
    assert [value for _, value in found["DCGM_FI_DEV_GPU_UTIL"]] == [10, 100]
    assert [value for _, value in found["DCGM_FI_DEV_FB_USED"]] == [5000, 10000]
    assert [value for _, value in found["DCGM_FI_DEV_FB_FREE"]] == [6441, 1441]
    assert [labels for labels, _ in found["DCGM_FI_DEV_GPU_UTIL"]] == [
        {
            "gpu": str(index),
            "UUID": uuid,
            "pci_bus_id": f"00000000:0{7 + index}:00.0",
            "device": f"nvidia{index}",
            "modelName": "Tesla-K80",
            "Hostname": "node-a",
            "DCGM_FI_DRIVER_VERSION": "470.57.02",
            "container": "container",
            "namespace": "runai-project-a",
            "pod": "pod",
        }
        for index, uuid in enumerate((G1, G2))
    ]


def line(text: str, name: str = "DCGM_FI_DEV_GPU_UTIL") -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{name}{{"))


HEAD = 'gpu="0",UUID="GPU-1",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA-A100-SXM4-40GB",'
TAIL = 'DCGM_FI_DRIVER_VERSION="550.163.01",container="c",namespace="ns",pod="p"'


def test_labels_stand_in_nvidias_order() -> None:
    assert line(page(nodes(USED))) == f'DCGM_FI_DEV_GPU_UTIL{{{HEAD}Hostname="n",{TAIL}}} 50'


@pytest.mark.parametrize(
    ("switch", "spelled"),
    [
        pytest.param(each, spelled, marks=pytest.mark.row("M-41", case=each.value))
        for each, spelled in (
            (HostnameLabel.UPPER, 'Hostname="n",'),
            (HostnameLabel.LOWER, 'hostname="n",'),
            (HostnameLabel.BOTH, 'Hostname="n",hostname="n",'),
        )
    ],
)
def test_the_hostname_label_is_spelled_as_switched(switch: HostnameLabel, spelled: str) -> None:
    text = page(nodes(USED), Switches(hostname_label=switch))
    assert line(text) == f"DCGM_FI_DEV_GPU_UTIL{{{HEAD}{spelled}{TAIL}}} 50"


@pytest.mark.row("M-41", case="idle-labels")
def test_an_idle_gpu_has_no_pod_labels_or_empty_ones() -> None:
    idle = nodes("[{id: GPU-1}]")
    driver = 'DCGM_FI_DRIVER_VERSION="550.163.01"'
    assert line(page(idle)) == f'DCGM_FI_DEV_GPU_UTIL{{{HEAD}Hostname="n",{driver}}} 0'
    empty = page(idle, Switches(idle_labels=IdleLabels.EMPTY))
    assert line(empty) == f'DCGM_FI_DEV_GPU_UTIL{{{HEAD}Hostname="n",{driver},container="",namespace="",pod=""}} 0'


@pytest.mark.row("M-41", case="old-names")
def test_old_names_replace_the_new_ones() -> None:
    text = page(nodes(USED), Switches(old_names=True))
    head = HEAD.replace("UUID", "uuid")
    tail = 'DCGM_FI_DRIVER_VERSION="550.163.01",container_name="c",pod_name="p",pod_namespace="ns"'
    assert line(text) == f'DCGM_FI_DEV_GPU_UTIL{{{head}Hostname="n",{tail}}} 50'


def test_a_hashed_hostname_looks_like_a_pods_name() -> None:
    text = page(nodes("[{}]", name="node-1"), Switches(hashed_hostname=True))
    assert 'Hostname="nvidia-dcgm-exporter-b36828"' in line(text)


@pytest.mark.row("M-19")
def test_an_xid_shows_on_its_own_gpu_with_code_and_text() -> None:
    found = samples(page(nodes("[{xid: 79}, {}, {xid: 900}]")))["DCGM_FI_DEV_XID_ERRORS"]
    assert [(labels["err_code"], labels["err_msg"], value) for labels, value in found] == [
        ("79", "GPU has fallen off the bus", 79),
        ("0", "No Error", 0),
        ("900", "Unknown Error", 900),
    ]


def test_error_labels_are_sorted_among_the_pods() -> None:
    xid = line(page(nodes(USED)), "DCGM_FI_DEV_XID_ERRORS")
    assert 'container="c",err_code="0",err_msg="No Error",namespace="ns",pod="p"} 0' in xid


def test_floats_have_six_decimals_and_counts_none() -> None:
    text = page(nodes("[{}]"))
    assert line(text, "DCGM_FI_DEV_POWER_USAGE").endswith(" 45.999000")
    assert line(text, "DCGM_FI_PROF_GR_ENGINE_ACTIVE").endswith(" 0.000000")
    assert line(text, "DCGM_FI_DEV_SM_CLOCK").endswith(" 210")


def test_names_with_quotes_percents_and_backslashes_survive() -> None:
    text = page(nodes("[{id: 'a\"%d\\b'}]"))
    [(labels, _)] = samples(text)["DCGM_FI_DEV_GPU_UTIL"]
    assert labels["UUID"] == 'a"%d\\b'


CUT = "[{id: GPU-1, mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}]"
NOT_PER_SLICE = ("GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "PCIE_REPLAY_COUNTER", "ROW")


def test_each_slice_has_series_of_its_own_under_its_cards_identity() -> None:
    text = page(nodes(CUT))
    found = samples(text)["DCGM_FI_DEV_FB_FREE"]
    assert [(labels["UUID"], labels["gpu"], labels["GPU_I_PROFILE"], labels["GPU_I_ID"]) for labels, _ in found] == [
        ("GPU-1", "0", "1g.5gb", "7"),
        ("GPU-1", "0", "1g.5gb", "8"),
        ("GPU-1", "0", "2g.10gb", "5"),
    ]
    assert not [name for name in names(text) if any(part in name for part in NOT_PER_SLICE)]


@pytest.mark.row("M-39")
def test_a_slices_memory_adds_up_to_the_slice() -> None:
    found = values(page(nodes(CUT)))
    sums = [sum(row) for row in zip(*(found[f"DEV_FB_{part}"] for part in ("FREE", "USED", "RESERVED")), strict=True)]
    assert sums == [4864, 4864, 9856]


def test_a_card_with_mig_on_and_no_slice_has_no_memory_series() -> None:
    assert not [name for name in names(page(nodes("[{mig: []}]"))) if "_FB_" in name]


def test_a_family_that_no_device_has_is_not_announced() -> None:
    assert page({}) == ""


def test_one_page_may_show_cards_of_several_models() -> None:
    both = {**nodes("[{}]", name="a"), **nodes("[{}]", "Tesla-K80", 11441, name="b")}
    found = samples(page(both))
    assert len(found["DCGM_FI_DEV_GPU_UTIL"]) == 2
    assert [labels["Hostname"] for labels, _ in found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]] == ["a"]
