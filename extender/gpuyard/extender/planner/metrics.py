"""What the planner counts."""

from itertools import product
from typing import get_args

from gpuyard.common.plans.plan import State
from gpuyard.engine.model.settings import Phase
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2, 10, 60)


class PlannerMetrics:
    """Plans, evictions, moves, and how long deciding takes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.cycles = Histogram(
            "gpuyard_cycle_seconds", "Time to decide once, with pauses.", registry=registry, buckets=_SECONDS
        )
        self.running = Gauge("gpuyard_plans_running", "Plans under way.", registry=registry)
        self.ended = Counter(
            "gpuyard_plans_total", "Plans that ended, by phase and state.", ["phase", "state"], registry=registry
        )
        # What Prometheus sees for the first time has not increased for it.
        for phase, state in product(get_args(Phase), State):
            self.ended.labels(phase, state.value)
        self.evictions = Counter(
            "gpuyard_evictions_total", "Evictions asked for.", ["phase", "outcome"], registry=registry
        )
        self.blocked = Gauge(
            "gpuyard_blocked_pods",
            "Pods that wait and for which nobody is evicted: it would not help.",
            registry=registry,
        )
        self.moves = Counter("gpuyard_moved_pods_total", "Bare pods made anew.", registry=registry)
        self.fair_share = Gauge(
            "gpuyard_queue_fair_share_gpus", "GPUs that a queue may take back.", ["queue"], registry=registry
        )
