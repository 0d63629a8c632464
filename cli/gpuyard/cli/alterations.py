"""`gpuyard doctor`: do running pods still say what they are counted with?"""

import msgspec
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import Patient
from gpuyard.common.cluster.changed_pods import PAGE, ChangedPods

COUNTED = "running pods are counted as they say"
_NAMED = 5
"""So many pods are named; what goes beyond is counted."""

_REMEDY = "give them their old keys back, or delete them; manifests/overlays/admission refuses such changes"


async def counted(patient: Patient) -> list[Finding]:
    """The running pods whose keys were changed after they got their nodes; nothing if the extender has no such page."""
    page = await patient.page(PAGE) if patient.has_extender else ""
    try:
        return [found(msgspec.json.decode(page, type=ChangedPods))] if page else []
    except msgspec.MsgspecError:
        seen = f"page /{PAGE} of the extender cannot be read"
        return [Finding(COUNTED, Status.WARN, seen, "use the `gpuyard` of the extender's version")]


def found(told: ChangedPods) -> Finding:
    """What the extender tells, in a sentence."""
    if not told.count:
        return Finding(COUNTED, Status.OK, "no running pod has other keys than those it is counted with")
    named = [f"{pod} ({', '.join(keys)})" for pod, keys in list(told.named.items())[:_NAMED]]
    rest = f" and {told.count - len(named)} more" if told.count > len(named) else ""
    seen = f"pods that changed after they got their nodes, and are counted as before: {', '.join(named)}{rest}"
    return Finding(COUNTED, Status.WARN, seen, _REMEDY)
