"""What can be set of the extender: the file `ExtenderConfig`, reloaded while it runs.

apiVersion: gpuyard.io/v1alpha1
kind: ExtenderConfig
defaultQueue: research
filter: {maxNodes: 32}
reservation: {ttl: 60s}

Decided in docs/decisions.md: "Moving bare pods is a setting with rights of its own".
"""

from typing import Annotated, Literal

import msgspec
from gpuyard.common.settings import Seconds, Span, Strict
from gpuyard.engine.model import SCALE
from gpuyard.engine.model.settings import REMOVED, Placement, Settings

VOLUME_TTL = 660
"""Seconds that kube-scheduler may wait for a pod's volumes before it binds the pod or gives up."""

Authentication = Literal["token", "mtls", "none"]
"""How callers of the verbs prove that they are kube-scheduler; with `--tls` it is `mtls` whatever is set.

With `none` on loopback callers count as known: only for a pod without `hostNetwork`, where no other process reaches it.
"""

MaxNodes = Annotated[int, msgspec.Meta(ge=10)]
Factor = Annotated[float, msgspec.Meta(ge=0, le=1000)]


class Filter(Strict, frozen=True):
    """How `filter` answers."""

    max_nodes: MaxNodes = 32
    """The longest answer."""


class Reservation(Strict, frozen=True):
    """How long a yes counts that nobody has confirmed."""

    ttl: Span = Span(60)


class Outrank(Strict, frozen=True):
    """How a better-ranked pod holds others back."""

    grace: Seconds = Seconds(10)
    """How long it does so while it is not offered nodes that fit."""


class Promise(Strict, frozen=True):
    """How long a plan keeps room for a pod."""

    ttl: Span = Span(300)
    """From when the room is free."""


class Keep(Strict, frozen=True):
    """Which of the Plan objects that have ended stay."""

    count: Annotated[int, msgspec.Meta(ge=0)] = 100
    """At most so many, the newest."""
    age: Span = Span(7 * 24 * 3600)
    """For so long."""


class Plans(Strict, frozen=True):
    """Plan objects."""

    keep: Keep = Keep()


class Capacity(Strict, frozen=True):
    """What counts for the shares of the queues."""

    grace: Seconds = Seconds(300)
    """How long a node that reports fewer GPUs counts as before."""


class Consolidation(Strict, frozen=True):
    """Moving small workloads together, so that large ones fit."""

    max_moved: Annotated[int, msgspec.Meta(ge=-1)] = 16
    """The most workloads of one plan; -1: no limit."""
    keep_nodes_empty: bool = False
    """Move before a node is opened of which no GPU is in use."""


class Staleness(Strict, frozen=True):
    """What happens to a gang that runs with too few pods."""

    grace_period: Seconds = Seconds(60)
    """After which time its pods are evicted; negative: never."""


class Planner(Strict, frozen=True):
    """When plans are made."""

    interval: Span = Span(1)
    """At most one cycle per interval, and only when something has changed."""


class Verdict(Strict, frozen=True):
    """What kube-scheduler offers a pod."""

    ttl: Span = Span(30)
    """How long that counts as fresh."""


class Fairshare(Strict, frozen=True):
    """How past use counts in the shares of the queues."""

    k: Factor = 1


class Reclaim(Strict, frozen=True):
    """When a queue may take back what it lent."""

    saturation_multiplier: Factor = 1


class ExtenderConfig(Strict, frozen=True):
    """The settings of the extender, with their defaults."""

    removed = REMOVED

    authentication: Authentication = "token"
    default_queue: str = ""
    pods_without_queue: Literal["pass", "refuse"] = "pass"
    namespace_match: Literal["off", "name", "label"] | bool = "off"
    filter: Filter = Filter()
    reservation: Reservation = Reservation()
    outrank: Outrank = Outrank()
    promise: Promise = Promise()
    plans: Plans = Plans()
    capacity: Capacity = Capacity()
    placement: Placement = "pack"
    consolidation: Consolidation = Consolidation()
    staleness: Staleness = Staleness()
    honor_disruption_budgets: bool = True
    move_bare_pods: bool = False
    planner: Planner = Planner()
    verdict: Verdict = Verdict()
    fairshare: Fairshare = Fairshare()
    reclaim: Reclaim = Reclaim()

    def __post_init__(self) -> None:
        """Refuse the one word that YAML reads as something else and that means nothing here."""
        if self.namespace_match is True:
            raise ValueError("namespaceMatch is off, name or label")

    @property
    def engine(self) -> Settings:
        """What the engine needs of it."""
        # YAML reads a bare `off` as false.
        match = "off" if isinstance(self.namespace_match, bool) else self.namespace_match
        return Settings(
            default_queue=self.default_queue,
            pods_without_queue=self.pods_without_queue,
            namespace_match=match,
            placement=self.placement,
            max_moved=self.consolidation.max_moved,
            keep_nodes_empty=self.consolidation.keep_nodes_empty,
            staleness_grace=self.staleness.grace_period,
            honor_disruption_budgets=self.honor_disruption_budgets,
            move_bare_pods=self.move_bare_pods,
            fairshare_k=round(self.fairshare.k * SCALE),
            saturation_multiplier=round(self.reclaim.saturation_multiplier * SCALE),
        )

    def ttl(self, *, claims_volumes: bool) -> float:
        """How long a pod's reservation counts."""
        return max(self.reservation.ttl, VOLUME_TTL) if claims_volumes else self.reservation.ttl
