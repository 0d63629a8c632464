"""Profiles: each model's constants agree with each other."""

import pytest
from gpuyard.common.topology.profiles import (
    GENERIC,
    MIG_SLICES,
    PROFILES,
    Profile,
    of_compute,
    of_product,
    product_label,
)

every = pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)


def test_the_profiles_are_those_of_the_reference() -> None:
    assert set(PROFILES) == {"k80", "t4", "a100", "a100-80gb", "h100", "l40s", "b200", "gb200", "gb300"}


@every
def test_readings_are_higher_under_load(profile: Profile) -> None:
    for swing in (profile.sm_clock, profile.power, profile.temperature):
        assert swing.at(0) == swing.idle < swing.at(0.5) < swing.at(1) == swing.busy
    assert profile.memory_clock.idle <= profile.memory_clock.busy


@every
def test_a_slice_is_smaller_than_its_card(profile: Profile) -> None:
    for slice_ in profile.mig.values():
        assert slice_.memory < profile.memory
        assert slice_.slices <= MIG_SLICES
        assert slice_.name.startswith(f"{slice_.slices}g.")


@every
def test_a_profile_is_found_by_its_products_name(profile: Profile) -> None:
    assert of_product(profile.product) is profile
    assert of_product(profile.product.replace("-", " ")) is profile


def test_a_generation_is_found_by_its_compute_capability() -> None:
    assert [of_compute(compute).name for compute in ((9, 0), (8, 0), (1, 1))] == ["h100", "a100", "generic"]


def test_counters_follow_the_generation() -> None:
    assert not PROFILES["k80"].profiling
    assert PROFILES["t4"].profiling
    assert not PROFILES["t4"].row_remapping
    assert PROFILES["a100"].row_remapping


def test_an_unknown_product_gets_generic_values() -> None:
    assert of_product("Potato 9000") is GENERIC


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("some(thing)else", "somethingelse"),
        ("some ( thing )else", "some-thing-else"),
        ("NVIDIA-TITAN-X-(Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("some / thing /else", "some-thing-else"),
        ("  A100/SXM4  ", "A100SXM4"),
    ],
)
def test_product_names_are_cleaned_as_nvidia_does(name: str, label: str) -> None:
    assert product_label(name) == label
