"""The usage part of a topology: read from each form's own spelling, and given back as plain data to be written."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gpuyard.common.topology.document import Element
from gpuyard.common.topology.model import FREE, Gpu, Owner, Share, Usage
from gpuyard.common.topology.spelling import METRICS, Spelling
from gpuyard.common.topology.utilization import FULL, IDLE, Script, Span, Utilization, UtilizationError, parse

MAX_MEMORY = 64 * 1024 * 1024
_OWNER = frozenset({"namespace", "pod", "container"})
_OWN_SHARE = frozenset({"utilization", "started"})
_OLD_SHARE = frozenset({"is-inference-pod", "isInferencePod"})
"""What fake-gpu-operator once wrote; it means nothing here."""

Plain = dict[str, object]


def read_usage(element: Element, spelling: Spelling) -> Usage:
    """The usage of a device as this form writes it."""
    if element.empty:
        return FREE
    return _read_metrics(element) if spelling is METRICS else _read_status(element, spelling)


def read_instances(element: Element | None, spelling: Spelling) -> dict[str, Usage]:
    """The usage of each MIG instance by its id."""
    if element is None or element.empty:
        return {}
    found = element.mapping(_known(spelling)).get("instances")
    return {} if found is None else {name: read_usage(child, spelling) for name, child in found.entries()}


def _known(spelling: Spelling) -> frozenset[str]:
    if spelling is METRICS:
        return frozenset({"metadata", "utilization", "fb-used", "uid", "started", "shares", "instances"})
    return frozenset({spelling.owner, spelling.shares, "instances"})


def _read_metrics(element: Element) -> Usage:
    found = element.mapping(_known(METRICS))
    owner = read_owner(found.get("metadata"))
    if "shares" in found:
        return Usage(owner, _read_shares(found["shares"], METRICS))
    if not found.keys() & {"metadata", "utilization", "fb-used"}:
        return FREE
    uid = found["uid"].text() if "uid" in found else ""
    return Usage(owner, (_read_share(uid, found, METRICS),))


def _read_status(element: Element, spelling: Spelling) -> Usage:
    found = element.mapping(_known(spelling))
    shares = found.get(spelling.shares)
    return Usage(
        read_owner(found.get(spelling.owner)),
        () if shares is None or shares.empty else _read_shares(shares, spelling),
    )


def read_owner(element: Element | None) -> Owner | None:
    """The named container; none when nothing or only empty names are written."""
    if element is None or element.empty:
        return None
    found = element.mapping(_OWNER)
    names = [found[key].text() if key in found else "" for key in ("namespace", "pod", "container")]
    return Owner(*names) if any(names) else None


def _read_shares(element: Element, spelling: Spelling) -> tuple[Share, ...]:
    allowed = _OWN_SHARE | _OLD_SHARE | {spelling.fb_used, spelling.knative} - {""}
    return tuple(_read_share(uid, child.mapping(allowed), spelling) for uid, child in element.entries())


def _read_share(uid: str, found: Mapping[str, Element], spelling: Spelling) -> Share:
    return Share(
        uid,
        read_utilization(found["utilization"]) if "utilization" in found else IDLE,
        found[spelling.fb_used].number(0, MAX_MEMORY) if spelling.fb_used in found else 0,
        _read_time(found["started"]) if "started" in found else 0.0,
    )


def _read_time(element: Element) -> float:
    try:
        return datetime.fromisoformat(element.text()).timestamp()
    except ValueError:
        element.fail(f"is {element.text()!r}; write a time like 2026-01-31T08:00:00Z")


def read_utilization(element: Element) -> Utilization:
    """A number, a range, a script, or the pair `min`, `max`."""
    if element.is_mapping:
        found = element.mapping({"min", "max"})
        low = found["min"].number(0, FULL) if "min" in found else 0
        high = found["max"].number(low, FULL) if "max" in found else low
        return Span(low, high)
    try:
        return parse(element.text())
    except UtilizationError as error:
        element.fail(str(error))


def plain_usage(gpu: Gpu, spelling: Spelling) -> Plain:
    """What stands under a GPU's usage key; empty when nobody uses the GPU or a slice of it."""
    plain = _plain(gpu.usage, spelling)
    slices = {instance.id: _plain(instance.usage, spelling) for instance in gpu.mig or ()}
    if used := {device: written for device, written in slices.items() if written}:
        plain["instances"] = used
    return plain


def _plain(usage: Usage, spelling: Spelling) -> Plain:
    if usage.idle:
        return {}
    return _plain_metrics(usage) if spelling is METRICS else _plain_status(usage, spelling)


def _plain_metrics(usage: Usage) -> Plain:
    plain: Plain = {}
    if usage.owner is not None:
        plain["metadata"] = _plain_owner(usage.owner)
    if len(usage.shares) == 1 and not _constant(usage.shares[0].utilization):
        return plain | _plain_share(usage.shares[0], METRICS) | {"uid": usage.shares[0].uid}
    if (total := _sum([share.utilization for share in usage.shares])) is not None:
        plain["utilization"] = _plain_utilization(total, METRICS)
    plain["fb-used"] = sum(share.fb_used for share in usage.shares)
    if len(usage.shares) == 1:
        return plain
    # The sums are for those who read; an updater that starts anew needs to know who the others are.
    return plain | {"shares": {share.uid: _plain_share(share, METRICS) for share in usage.shares}}


def _sum(utilizations: Sequence[Utilization]) -> Span | None:
    """All pods together, at most 100 %; None where one follows a script: nothing short says what they come to."""
    spans = [each for each in utilizations if isinstance(each, Span)]
    if len(spans) < len(utilizations):
        return None
    return Span(min(sum(each.low for each in spans), FULL), min(sum(each.high for each in spans), FULL))


def _plain_status(usage: Usage, spelling: Spelling) -> Plain:
    plain: Plain = {}
    if usage.owner is not None:
        plain[spelling.owner] = _plain_owner(usage.owner)
    plain[spelling.shares] = {share.uid: _plain_share(share, spelling) for share in usage.shares}
    return plain


def _plain_owner(owner: Owner) -> Plain:
    return {"namespace": owner.namespace, "pod": owner.pod, "container": owner.container}


def _plain_share(share: Share, spelling: Spelling) -> Plain:
    plain: Plain = {"utilization": _plain_utilization(share.utilization, spelling), spelling.fb_used: share.fb_used}
    if isinstance(share.utilization, Script):
        plain["started"] = datetime.fromtimestamp(share.started, UTC).isoformat().replace("+00:00", "Z")
    if spelling.knative:
        plain[spelling.knative] = False
    return plain


def _plain_utilization(utilization: Utilization, spelling: Spelling) -> object:
    if isinstance(utilization, Span) and spelling is not METRICS:
        return {"min": utilization.low, "max": utilization.high}
    return utilization.low if _constant(utilization) and isinstance(utilization, Span) else str(utilization)


def _constant(utilization: Utilization) -> bool:
    return isinstance(utilization, Span) and utilization.constant
