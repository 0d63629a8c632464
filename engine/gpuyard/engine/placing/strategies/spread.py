"""`spread`: the emptiest node and the emptiest GPU, so that pods disturb each other least."""

from gpuyard.engine.placing.strategies.strategy import Strategy

SPREAD = Strategy(fullest_first=False, joins_first=False)
