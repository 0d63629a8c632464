"""The fullest node in which a request fits comes first."""

from gpuyard.engine.placing.packing import fitting, points


def test_the_fullest_that_fits_comes_first_by_what_will_be_free() -> None:
    assert fitting([(8, 8), (0, 4), (1, 1), (4, 4)], 2) == [(0, 4), (4, 4), (8, 8)]


def test_to_spread_the_emptiest_comes_first() -> None:
    assert fitting([(0, 4), (8, 8), (4, 4)], 1, spread=True) == [(8, 8), (0, 4), (4, 4)]


def test_points_fall_from_nine_to_none_with_the_free_gpus() -> None:
    assert points({"full": 0, "half": 4, "empty": 8}) == {"full": 9, "half": 5, "empty": 0}


def test_equals_have_all_points_and_who_is_not_known_none() -> None:
    assert points({"a": 4, "b": 4, "new": None}) == {"a": 9, "b": 9, "new": 0}
    assert points({}) == {}
