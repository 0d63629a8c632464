"""`pack`: the fullest node and the fullest GPU that have room, so that large requests find whole ones."""

from gpuyard.engine.placing.strategies.strategy import Strategy

PACK = Strategy(fullest_first=True, joins_first=True)
