"""`gpuyard doctor`: does Prometheus read the extender's metrics?"""

from urllib.parse import urlencode

import msgspec
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import Patient, fetched
from gpuyard.common.kube.resources import Resource

SCRAPED = "its metrics are scraped"
MONITORS = Resource("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor")
POD_MONITORS = Resource("monitoring.coreos.com/v1", "podmonitors", "PodMonitor")
QUERY = 'count(gpuyard_build_info{component="gpuyard-extender"})'
_MONITOR = "gpuyard-extender"
_APPLY = "`kubectl apply -k manifests/monitoring/extender`, where the Prometheus operator runs"


class _Series(msgspec.Struct, frozen=True):
    value: tuple[float, str]


class _Result(msgspec.Struct, frozen=True):
    result: tuple[_Series, ...]


class _Answer(msgspec.Struct, frozen=True):
    """What Prometheus answers to an instant query."""

    data: _Result


async def scraped(patient: Patient) -> list[Finding]:
    """What Prometheus says, or else whether it is told to look."""
    if not patient.has_extender:
        return []
    if patient.prometheus:
        return [await _asked(patient.prometheus)]
    monitors = [*await patient.items(MONITORS), *await patient.items(POD_MONITORS)]
    if any(each["metadata"]["name"] == _MONITOR for each in monitors):
        return [Finding(SCRAPED, Status.OK, f"{_MONITOR} tells the Prometheus operator to; --prometheus URL asks it")]
    if monitors:
        return [Finding(SCRAPED, Status.WARN, "the Prometheus operator is not told of the extender", _APPLY)]
    return [Finding(SCRAPED, Status.OK, "nothing is known of a Prometheus here; --prometheus URL asks one")]


async def _asked(prometheus: str) -> Finding:
    text = await fetched(f"{prometheus}/api/v1/query?{urlencode({'query': QUERY})}")
    if not text:
        return Finding(SCRAPED, Status.FAIL, f"{prometheus} does not answer", "name the address of Prometheus itself")
    try:
        found = msgspec.json.decode(text, type=_Answer).data.result
    except msgspec.MsgspecError:
        return Finding(SCRAPED, Status.FAIL, f"{prometheus} is no Prometheus", "name the address of Prometheus itself")
    if not found:
        return Finding(SCRAPED, Status.FAIL, f"{prometheus} has no metrics of an extender", _APPLY)
    return Finding(SCRAPED, Status.OK, f"{prometheus} has those of {found[0].value[1]} extenders")
