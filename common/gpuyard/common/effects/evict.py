"""Asks the API server to evict one pod, through the Eviction API: disruption budgets hold."""

from enum import StrEnum

from gpuyard.common.effects.move import stays
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import PODS
from gpuyard.common.plans.plan import Victim

MANY_BUDGETS = "more than one PodDisruptionBudget"
"""What the API server says of a pod that nobody can ever evict."""


class Outcome(StrEnum):
    """What came of it."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """It had left before."""
    LATER = "later"
    """A disruption budget does not allow it now, or the server cannot do it, or does not know whether it did."""
    NEVER = "never"


async def evict(client: Client, victim: Victim, *, honor_budgets: bool) -> tuple[Outcome, ApiError | None]:
    """Evict a pod, if it still is that very one; without budgets it is deleted."""
    namespace, _, name = victim.pod.partition("/")
    try:
        if honor_budgets:
            await client.create(PODS.named(name, namespace).sub("eviction"), _body(name, namespace, victim.uid))
        else:
            await client.delete(PODS.named(name, namespace), uid=victim.uid)
    except ApiError as error:
        if error.conflict and await _may_stay(client, victim):
            # It was not another pod that the server minded: it lost a race for the budget, say.
            return Outcome.LATER, error
        return _outcome(error), error
    return Outcome.ACCEPTED, None


async def _may_stay(client: Client, victim: Victim) -> bool:
    try:
        return await stays(client, victim.pod, victim.uid)
    except ApiError:
        # Who cannot be asked about may be there.
        return True


def _body(name: str, namespace: str, uid: str) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }


def _outcome(error: ApiError) -> Outcome:
    if error.not_found or error.conflict:
        return Outcome.GONE
    return Outcome.NEVER if MANY_BUDGETS in error.message else Outcome.LATER
