"""The strategies of placing, by the names that the setting `placement` has for them.

A new strategy: a module beside these, its line in the table, and its name in `Placement` (`model/settings.py`).

Decided in docs/decisions.md: "A strategy of placing is a value that everybody asks".
"""

from collections.abc import Mapping

from gpuyard.engine.model.settings import Placement
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD
from gpuyard.engine.placing.strategies.strategy import MOST_POINTS, Slot, Strategy

__all__ = ["MOST_POINTS", "STRATEGIES", "Slot", "Strategy"]

STRATEGIES: Mapping[Placement, Strategy] = {"pack": PACK, "spread": SPREAD}
