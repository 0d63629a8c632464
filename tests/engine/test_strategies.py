"""The strategies of placing: which of the nodes and GPUs with room comes first."""

from typing import cast, get_args

import pytest
from gpuyard.engine.model import Shape
from gpuyard.engine.model.settings import Placement, SettingError, Settings
from gpuyard.engine.placing.strategies import STRATEGIES, Strategy
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD

from tests.engine.builders import yard

HALF = Shape(fraction=500)


def test_pack_puts_the_fullest_first_by_what_will_be_free() -> None:
    assert PACK.fitting([(8, 8), (0, 4), (1, 1), (4, 4)], 2) == [(0, 4), (4, 4), (8, 8)]


def test_spread_puts_the_emptiest_first() -> None:
    assert SPREAD.fitting([(0, 4), (8, 8), (4, 4)], 1) == [(8, 8), (0, 4), (4, 4)]


def test_points_fall_from_nine_to_none_from_the_best_node_to_the_last() -> None:
    assert PACK.points({"full": 0, "half": 4, "empty": 8}) == {"full": 9, "half": 5, "empty": 0}
    assert SPREAD.points({"full": 0, "half": 4, "empty": 8}) == {"full": 0, "half": 5, "empty": 9}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_equal_nodes_get_all_points_and_unknown_ones_none(strategy: Strategy) -> None:
    assert strategy.points({"a": 4, "b": 4, "new": None}) == {"a": 9, "b": 9, "new": 0}
    assert strategy.points({}) == {}


@pytest.mark.row("B-80", case="table")
def test_each_value_of_the_setting_has_its_strategy() -> None:
    assert tuple(STRATEGIES) == get_args(Placement)


@pytest.mark.row("B-80", case="table")
def test_a_value_that_names_no_strategy_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingError, match="placement: 'dense' is none of pack, spread"):
        Settings().with_text("placement", "dense")


@pytest.mark.row("B-80", case="third")
def test_a_third_strategy_takes_one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """It packs nodes and GPUs, but lets a part of a GPU open another one on a fuller node rather than share."""
    apart = Strategy(fullest_first=True, joins_first=False)
    monkeypatch.setitem(cast("dict[str, Strategy]", STRATEGIES), "apart", apart)
    some = yard().node("wide").node("tight").queue("a", quota=24).running("a", gpus=6, on="tight")
    some.running("a", gpus="0.5", on="wide", pod={"gpu_groups": ("g",)}).pending("a", shape=HALF, name="p")
    assert some.plan().node("p") == "wide"
    assert some.plan(placement="apart").node("p") == "tight"
    assert some.plan(placement="spread").node("p") == "wide"
