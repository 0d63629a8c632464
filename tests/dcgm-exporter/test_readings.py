"""Readings: the values of one card fit together, at any load."""

import pytest
from gpuyard.common.topology.profiles import PROFILES
from gpuyard.dcgm_exporter.labels import Switches
from gpuyard.dcgm_exporter.page import Page
from gpuyard.dcgm_exporter.readings import Meters
from hypothesis import given
from hypothesis import strategies as st

from tests.mock.pages import nodes, page, values


def busy(percent: int, memory: int = 5, product: str = "NVIDIA-A100-SXM4-40GB") -> dict[str, list[float]]:
    return values(page(nodes(f"[{{metrics: {{utilization: {percent}, fb-used: {memory}}}}}]", product)))


@pytest.mark.row("M-39")
@given(st.sampled_from(sorted(PROFILES)), st.integers(0, 100), st.integers(0, 500_000), st.integers(0, 1000))
def test_memory_adds_up_and_an_idle_card_idles(name: str, percent: int, memory: int, reserved: int) -> None:
    profile = PROFILES[name]
    usage = f"[{{metrics: {{utilization: {percent}, fb-used: {memory}}}}}]"
    found = values(page(nodes(usage, profile.product, profile.memory, extra=f", fbReserved: {reserved}")))
    assert found["DEV_FB_FREE"][0] + found["DEV_FB_USED"][0] + found["DEV_FB_RESERVED"][0] == profile.memory
    assert min(found["DEV_FB_FREE"][0], found["DEV_FB_USED"][0]) >= 0
    for clock, swing in (("SM", profile.sm_clock), ("MEM", profile.memory_clock)):
        assert found[f"DEV_{clock}_CLOCK"] == [swing.busy if percent else swing.idle]
    assert profile.power.idle <= found["DEV_POWER_USAGE"][0] <= profile.power.busy


@pytest.mark.row("M-39")
@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 100)), min_size=2, max_size=8))
def test_energy_never_falls_and_is_the_integral_of_the_power_shown(history: list[tuple[int, float]]) -> None:
    meters, now, joules, shown = Meters(), 1000.0, 0.0, 0.0
    for percent, pause in history:
        now += pause
        joules += shown * pause
        text = Page(nodes(f"[{{metrics: {{utilization: {percent}}}}}]"), Switches()).text(now, meters)
        found = values(text)
        assert found["DEV_TOTAL_ENERGY_CONSUMPTION"][0] == pytest.approx(joules * 1000, abs=2)
        shown = found["DEV_POWER_USAGE"][0]


def test_a_clock_that_is_set_back_does_not_take_energy_away() -> None:
    meters = Meters()
    shown = Page(nodes("[{}]"), Switches())
    before = [values(shown.text(now, meters))["DEV_TOTAL_ENERGY_CONSUMPTION"][0] for now in (100, 110, 50, 111)]
    assert before == sorted(before)


def test_a_busy_card_is_warmer_hungrier_and_faster() -> None:
    idle, full = busy(0), busy(100)
    for name in ("DEV_SM_CLOCK", "DEV_GPU_TEMP", "DEV_MEMORY_TEMP", "DEV_POWER_USAGE", "DEV_MEM_COPY_UTIL"):
        assert idle[name] < full[name]
    assert full["PROF_GR_ENGINE_ACTIVE"] == [1.0]


def test_temperatures_stay_where_real_cards_have_them() -> None:
    for profile in PROFILES.values():
        text = page(nodes("[{}, {}, {}, {}, {}]", profile.product, profile.memory))
        assert all(25 <= value <= 40 for value in values(text)["DEV_GPU_TEMP"])
        assert 55 <= busy(100, product=profile.product)["DEV_GPU_TEMP"][0] <= 85


def test_nvlink_traffic_rises_only_where_there_is_nvlink() -> None:
    for product, rises in (("NVIDIA-A100-SXM4-40GB", True), ("Tesla-K80", False)):
        meters = Meters()
        shown = Page(nodes("[{metrics: {utilization: 100}}]", product), Switches())
        traffic = [values(shown.text(now, meters))["DEV_NVLINK_BANDWIDTH_TOTAL"][0] for now in (0, 10)]
        assert (traffic[1] > traffic[0]) == rises


def test_the_engine_of_a_slice_is_its_utilization() -> None:
    text = "[{id: G, mig: [{profile: 1g.5gb}]}]"
    shown = nodes(text)
    device = (shown["n"].gpus[0].mig or ())[0].id
    used = f"[{{id: G, mig: [{{profile: 1g.5gb}}], metrics: {{instances: {{{device}: {{utilization: 100}}}}}}}}]"
    assert values(page(shown))["PROF_GR_ENGINE_ACTIVE"] == [0.000062]
    assert values(page(nodes(used)))["PROF_GR_ENGINE_ACTIVE"] == [0.999917]


def test_counters_of_a_card_that_is_gone_are_forgotten() -> None:
    meters = Meters()
    Page(nodes("[{id: a}, {id: b}]"), Switches()).text(0, meters)
    meters.keep({("n", "a")})
    assert set(meters.cards) == {("n", "a")}
