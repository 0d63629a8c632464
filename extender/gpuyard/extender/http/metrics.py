"""How the verbs answered: how often, how fast, and why pods were refused."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2)


class VerbMetrics:
    """What the verbs count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "gpuyard_verb_seconds",
            "Time to answer a call of kube-scheduler.",
            ["verb"],
            registry=registry,
            buckets=_SECONDS,
        )
        self.calls = Counter("gpuyard_verb_calls_total", "Calls by outcome.", ["verb", "outcome"], registry=registry)
        self.refusals = Counter("gpuyard_refusals_total", "Refused pods by reason.", ["reason"], registry=registry)
