"""Reads a KubeSchedulerConfiguration and says what of it would keep gpuyard's queues from being held.

First kube-scheduler's own rules, so that it starts at all; then what only shows later: pods that pass without a
quota, or wait for ever.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import yaml
from gpuyard.cli.findings import Finding, Status
from gpuyard.common.shallow import ShallowLoader
from gpuyard.common.tokens import masked
from gpuyard.engine.kube.workloads import SCHEDULERS

Json = Mapping[str, Any]

KIND = "KubeSchedulerConfiguration"
API_VERSION = "kubescheduler.config.k8s.io/v1"
GPU, PART = "nvidia.com/gpu", "gpuyard.io/shared-gpu"
PATH = "scheduler"
"""The last part of our own urlPrefix."""

VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
WEIGHT = 10
SHORTEST, LONGEST = 1.0, 5.0
"""Seconds that an answer may take: a call that is given up waits for nothing, a hung one holds all GPU pods up."""

KEYS = frozenset(
    {*VERBS, "urlPrefix", "bindVerb", "weight", "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"}
    | {"enableHTTPS", "tlsConfig"}
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")


_TEXT, _YES_OR_NO, _NUMBER, _LIST = "text", "true or false", "a number", "a list"
_PYTHON = {_TEXT: str, _YES_OR_NO: bool, _NUMBER: int, _LIST: list}
_CONFIGURATION = {"percentageOfNodesToScore": _NUMBER, "profiles": _LIST}
_CONNECTION, _PROFILE = {"kubeconfig": _TEXT}, {"schedulerName": _TEXT, "percentageOfNodesToScore": _NUMBER}
_EXTENDER = {
    **dict.fromkeys((*VERBS, "urlPrefix", "bindVerb"), _TEXT),
    **dict.fromkeys(("nodeCacheCapable", "ignorable", "enableHTTPS"), _YES_OR_NO),
    "weight": _NUMBER,
    "managedResources": _LIST,
}
_TLS = {
    **dict.fromkeys(("serverName", "caFile", "caData", "certFile", "certData", "keyFile", "keyData"), _TEXT),
    "insecure": _YES_OR_NO,
}
_RESOURCE = {"name": _TEXT, "ignoredByScheduler": _YES_OR_NO}
_LARGEST = 2**31 - 1
_WIDTH = 60


PLACEHOLDER = "TOKEN"
"""What the shipped configuration has in the place of the token."""

_WITH_TOKEN = "`gpuyard certificates token --save FOLDER` writes it into the config.yaml of that folder"  # noqa: S105


class Flaw(NamedTuple):
    """What is wrong with a field."""

    field: str
    seen: str
    remedy: str
    status: Status = Status.FAIL


class NoConfiguration(Exception):  # noqa: N818 - reads as what it says of the file
    """The text holds no configuration of kube-scheduler; the text says what it is instead."""


def read(text: bytes) -> Json:
    """The configuration in a file, which may also be a ConfigMap that holds it; raises `NoConfiguration`."""
    try:
        documents = [each for each in yaml.load_all(text, ShallowLoader) if isinstance(each, dict)]
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, RecursionError) as error:
        raise NoConfiguration(f"it is not YAML: {masked(' '.join(str(error).split()))}") from None
    for document in documents:
        if document.get("kind") == KIND:
            return document
        if document.get("kind") == "ConfigMap" and (held := _held(document)):
            return held
    kinds = ", ".join(str(each.get("kind")) for each in documents) or "nothing"
    raise NoConfiguration(f"there is no {KIND} in it, but {kinds}")


def _held(config_map: Json) -> Json | None:
    data = config_map.get("data")
    for value in data.values() if isinstance(data, dict) else ():
        if isinstance(value, str) and KIND in value:
            return read(value.encode(errors="replace"))
    return None


def lint(config: Json, check: str, *, in_pod: bool = False, with_token: bool = True) -> list[Finding]:
    """All that is wrong with a configuration; one finding that all is well if nothing is. No finding shows a token.

    `in_pod`: it is known to be that of a pod, which needs no kubeconfig. `with_token`: unless the extender is known to
    ask for none.
    """
    flaws = list(_mistyped(config)) or list(_flaws(config, in_pod=in_pod, with_token=with_token))
    if not flaws:
        return [Finding(check, Status.OK, "kube-scheduler asks gpuyard about every pod that wants GPUs")]
    return [Finding(check, flaw.status, f"{flaw.field}: {masked(flaw.seen)}", flaw.remedy) for flaw in flaws]


# --- types: kube-scheduler does not start with others, and what is looked at below relies on them ---


def _mistyped(config: Json) -> Iterator[Flaw]:
    yield from _within("", config, _CONFIGURATION)
    yield from _within("clientConnection", config.get("clientConnection"), _CONNECTION)
    for field, profile in _each("profiles", config.get("profiles")):
        yield from _within(field, profile, _PROFILE)
    for field, extender in _each("extenders", config.get("extenders")):
        if isinstance(extender, dict):
            yield from _of_extender(field, extender)


def _of_extender(field: str, extender: Json) -> Iterator[Flaw]:
    yield from _within(field, extender, _EXTENDER)
    yield from _within(f"{field}.tlsConfig", extender.get("tlsConfig"), _TLS)
    for inner, resource in _each(f"{field}.managedResources", extender.get("managedResources")):
        yield from _within(inner, resource, _RESOURCE)


def _each(field: str, given: object) -> Iterator[tuple[str, object]]:
    for index, one in enumerate(given if isinstance(given, list) else ()):
        yield f"{field}[{index}]", one


def _within(field: str, given: object, types: Mapping[str, str]) -> Iterator[Flaw]:
    if isinstance(given, dict):
        for key, wanted in types.items():
            if not _is(given.get(key), wanted):
                yield _other_type(f"{field}.{key}".lstrip("."), given[key], wanted)
    elif given is not None:
        yield _other_type(field, given, "fields with their values")


def _is(value: object, wanted: str) -> bool:
    # A truth value is an int to Python, but not to kube-scheduler.
    fits = type(value) is _PYTHON[wanted]
    return value is None or (fits and not (isinstance(value, int) and abs(value) > _LARGEST))


def _other_type(field: str, value: object, wanted: str) -> Flaw:
    return Flaw(field, f"is {_shown(value)}: kube-scheduler does not start", f"write {wanted}")


def _shown(value: object) -> str:
    """As it is written, as far as that is short."""
    try:
        text = repr(value)
    except ValueError:
        text = "a very large number"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def _flaws(config: Json, *, in_pod: bool, with_token: bool) -> Iterator[Flaw]:
    if (found := config.get("apiVersion")) != API_VERSION:
        yield Flaw("apiVersion", f"is {found if isinstance(found, str) else _shown(found)}", f"write {API_VERSION}")
    yield from _profiles(config)
    given = config.get("extenders") or []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        yield Flaw("extenders", "is no list of extenders", "write it as in manifests/kube-scheduler/config.yaml")
        return
    for index, extender in enumerate(given):
        yield from _of_any(f"extenders[{index}]", extender)
    yield from _between(given)
    ours = _ours(given)
    if not ours:
        yield Flaw("extenders", "none of them is gpuyard", "add the extender of manifests/kube-scheduler/config.yaml")
    for index in ours:
        yield from _of_ours(f"extenders[{index}]", given[index], with_token=with_token)
        # In a pod of its own, which needs no kubeconfig, kube-scheduler asks the cluster's DNS.
        if (config.get("clientConnection") or {}).get("kubeconfig"):
            yield from _name(f"extenders[{index}]", given[index])
        elif not in_pod and _is_elsewhere(_parts(given[index]).hostname or ""):
            yield Flaw(
                "clientConnection.kubeconfig",
                "is not set: only a kube-scheduler in a pod needs none",
                "write its path, such as /etc/kubernetes/scheduler.conf; --kubeconfig does not count beside --config",
                Status.WARN,
            )


# --- profiles ---


def _profiles(config: Json) -> Iterator[Flaw]:
    profiles = [each for each in config.get("profiles") or [{}] if isinstance(each, dict)]
    names = Counter(each.get("schedulerName") or SCHEDULERS[0] for each in profiles)
    for name, times in names.items():
        if times > 1:
            yield Flaw("profiles", f"{name} is there {times} times", "kube-scheduler refuses that: keep one of them")
    if names.keys().isdisjoint(SCHEDULERS):
        found, served = ", ".join(map(str, names)), " or ".join(SCHEDULERS)
        yield Flaw("profiles", f"pods of {found} are not governed by queues", f"name one of the profiles {served}")
    yield from _samples(config.get("percentageOfNodesToScore"), profiles)


def _samples(of_all: object, profiles: Sequence[Json]) -> Iterator[Flaw]:
    """The share of nodes that each profile whose pods are governed looks at: its own, or else that of all."""
    key = "percentageOfNodesToScore"
    found: dict[str, object] = {}
    for index, profile in enumerate(profiles):
        if (profile.get("schedulerName") or SCHEDULERS[0]) in SCHEDULERS:
            own = profile.get(key)
            found |= {key: of_all} if own is None else {f"profiles[{index}].{key}": own}
    for field, share in found.items():
        if share != 100:  # noqa: PLR2004 - per cent
            yield Flaw(
                field,
                f"is {share or 'not set'}: from 100 nodes on, gpuyard is asked about a sample of them only",
                "write 100, or a pod may wait although a node that was not in the sample has room",
                Status.WARN,
            )


# --- what kube-scheduler itself checks when it starts, of every extender ---


def _of_any(field: str, extender: Json) -> Iterator[Flaw]:
    for key in sorted(extender.keys() - KEYS, key=str):
        near = next((known for known in KEYS if known.lower() == str(key).lower()), "")
        remedy = (
            f"write {near}" if near else "take it away: kube-scheduler does not start with a key that it does not know"
        )
        yield Flaw(f"{field}.{key}", "there is no such key", remedy)
    if extender.get("prioritizeVerb") and not _number(extender.get("weight")) > 0:
        yield Flaw(
            f"{field}.weight",
            f"is {extender.get('weight', 'not set')}, and prioritizeVerb is set: kube-scheduler does not start",
            f"write {WEIGHT}",
        )
    for index, name in enumerate(_managed(extender)):
        if not _is_extended(name):
            yield Flaw(
                f"{field}.managedResources[{index}].name",
                f"{name or 'nothing'} is no extended resource: kube-scheduler does not start",
                f"name {GPU}, or another resource of a device plugin",
            )
    yield from _tls(field, extender)


def _between(extenders: Iterable[Json]) -> Iterator[Flaw]:
    given = list(extenders)
    binders = [f"extenders[{index}]" for index, each in enumerate(given) if each.get("bindVerb")]
    if len(binders) > 1:
        yield Flaw(
            f"{binders[-1]}.bindVerb",
            f"{' and '.join(binders)} have a bindVerb: kube-scheduler does not start",
            "only one extender may bind: take it away from the others",
        )
    for name, times in Counter(name for each in given for name in _managed(each)).items():
        if times > 1:
            yield Flaw(
                "extenders.managedResources",
                f"{name} is listed {times} times: kube-scheduler does not start",
                "let one extender list it, once",
            )


def _tls(field: str, extender: Json) -> Iterator[Flaw]:
    tls = extender.get("tlsConfig") or {}
    authority = bool(tls.get("caFile") or tls.get("caData"))
    secure = _parts(extender).scheme == "https"
    if (secure or extender.get("enableHTTPS")) and not authority:
        yield Flaw(
            f"{field}.tlsConfig",
            "there is no certificate authority: kube-scheduler then trusts whoever answers",
            "name it in caFile or caData",
        )
    if extender.get("enableHTTPS") and not secure:
        yield Flaw(
            f"{field}.enableHTTPS", "is true, but urlPrefix is not https: nothing is encrypted", "write https://"
        )
    if authority and tls.get("insecure"):
        yield Flaw(f"{field}.tlsConfig.insecure", "is true beside a certificate authority", "take insecure away")
    if bool(tls.get("certFile") or tls.get("certData")) != bool(tls.get("keyFile") or tls.get("keyData")):
        yield Flaw(f"{field}.tlsConfig", "certificate and key do not come together", "name both, or none")


# --- what our extender needs ---


def _of_ours(field: str, extender: Json, *, with_token: bool) -> Iterator[Flaw]:
    yield from _address(field, extender)
    yield from _token(f"{field}.urlPrefix", extender) if with_token else ()
    yield from _verbs(field, extender)
    yield from _manages(field, extender)
    if extender.get("ignorable"):
        yield Flaw(
            f"{field}.ignorable",
            "is true: whenever gpuyard does not answer, pods get GPUs without any quota",
            "write false: pods that ask for GPUs then wait, and no others",
        )
    if not extender.get("nodeCacheCapable"):
        yield Flaw(
            f"{field}.nodeCacheCapable",
            "is not true: whole nodes are sent with every question, which is slow",
            "write true: gpuyard knows the nodes by name",
            Status.WARN,
        )
    yield from _timeout(f"{field}.httpTimeout", extender.get("httpTimeout"))


def _address(field: str, extender: Json) -> Iterator[Flaw]:
    prefix = str(extender.get("urlPrefix") or "")
    parts = _parts(extender)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
        yield Flaw(f"{field}.urlPrefix", f"{prefix or 'nothing'} is no address", f"write http://ADDRESS:8080/{PATH}")
        return
    if not parts.path.rstrip("/").endswith(f"/{PATH}"):
        yield Flaw(f"{field}.urlPrefix", f"{prefix} does not end with /{PATH}", f"gpuyard answers below /{PATH} only")


def _token(field: str, extender: Json) -> Iterator[Flaw]:
    """What our extender is to know kube-scheduler by, where it is asked over plain HTTP."""
    parts = _parts(extender)
    host = parts.hostname or ""
    if parts.scheme != "http" or not host or _is_loopback(host):
        return
    if parts.password == PLACEHOLDER:
        yield Flaw(field, f"{PLACEHOLDER} stands for the token, so that gpuyard answers nothing", _WITH_TOKEN)
    elif not parts.password:
        seen = "carries no token: unless its `authentication` is none, gpuyard answers nothing"
        yield Flaw(field, seen, _WITH_TOKEN, Status.WARN)


def _name(field: str, extender: Json) -> Iterator[Flaw]:
    host = _parts(extender).hostname or ""
    if host.endswith((".svc", ".svc.cluster.local")):
        yield Flaw(
            f"{field}.urlPrefix",
            f"{host} is a name of the cluster's DNS, which kube-scheduler on a control plane does not ask",
            "write the address of the Service; it stays the same as long as the Service does",
            Status.WARN,
        )


def _verbs(field: str, extender: Json) -> Iterator[Flaw]:
    harm = {
        "filterVerb": "no quota is held",
        "prioritizeVerb": "kube-scheduler chooses among the nodes by its own scores, whatever `placement` says",
        "preemptVerb": "kube-scheduler evicts pods whom queues protect",
    }
    for key, verb in VERBS.items():
        if (found := extender.get(key)) != verb:
            status = Status.WARN if key == "prioritizeVerb" and not found else Status.FAIL
            yield Flaw(f"{field}.{key}", f"is {found or 'not set'}: {harm[key]}", f"write {verb}", status)
    if extender.get("bindVerb") not in (None, "", "bind"):
        yield Flaw(f"{field}.bindVerb", f"is {extender['bindVerb']}: no pod is bound", "write bind, or take it away")
    if extender.get("prioritizeVerb") and 0 < _number(extender.get("weight")) < WEIGHT:
        seen = f"is {extender['weight']}: kube-scheduler's own scores outweigh those of gpuyard"
        yield Flaw(f"{field}.weight", seen, f"write {WEIGHT}", Status.WARN)


def _manages(field: str, extender: Json) -> Iterator[Flaw]:
    field = f"{field}.managedResources"
    managed = {each.get("name"): bool(each.get("ignoredByScheduler")) for each in _resources(extender)}
    if not managed:
        seen = "is empty: every pod of the cluster waits for gpuyard, its own included"
        yield Flaw(field, seen, f"name {GPU} and {PART}")
        return
    if GPU not in managed:
        yield Flaw(field, f"{GPU} is not in it: pods get GPUs without any quota", f"add {GPU}")
    if managed.get(GPU):
        yield Flaw(
            field,
            f"{GPU} has ignoredByScheduler: kube-scheduler no longer counts GPUs, nor preempts for them",
            "write ignoredByScheduler: false",
        )
    if PART not in managed:
        yield Flaw(
            field,
            f"{PART} is not in it: of pods that ask for part of a GPU by annotation gpuyard never hears",
            f"add {PART} with ignoredByScheduler: true",
            Status.WARN,
        )
    elif not managed[PART]:
        seen = f"{PART} lacks ignoredByScheduler: no node has this resource, so its pods fit nowhere"
        yield Flaw(field, seen, "write ignoredByScheduler: true")


def _timeout(field: str, written: object) -> Iterator[Flaw]:
    if written is None:
        yield Flaw(
            field, "is not set, which counts as 5s", "write 2s: as long a hung call holds all GPU pods up", Status.WARN
        )
        return
    seconds = _seconds(written)
    if seconds is None:
        yield Flaw(field, f"{_shown(written)} is no duration: kube-scheduler does not start", "write 2s")
    elif not SHORTEST <= seconds <= LONGEST:
        harm = "answers are given up too soon" if seconds < SHORTEST else "a hung call holds all GPU pods up"
        yield Flaw(field, f"is {written}: {harm}", "write 2s", Status.WARN)


# --- parts ---


def _ours(extenders: Sequence[Json]) -> list[int]:
    """Which of them are gpuyard: by the address; where none has ours, by what they are asked about."""
    paths = [_parts(each).path.rstrip("/") for each in extenders]
    named = [index for index, path in enumerate(paths) if path.endswith(f"/{PATH}")]
    return named or [index for index, each in enumerate(extenders) if not {GPU, PART}.isdisjoint(_managed(each))]


def _parts(extender: Json) -> SplitResult:
    """Its address; one without scheme or host where it cannot be read."""
    prefix = str(extender.get("urlPrefix") or "")
    try:
        return urlsplit(prefix)
    except ValueError:
        return SplitResult("", "", prefix, "", "")


def _has_port(parts: SplitResult) -> bool:
    """Whether its port is one, or the usual one is meant."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    """Whether nobody but what runs there reaches it: in a pod, what runs in the pod."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_elsewhere(host: str) -> bool:
    """Whether it is the address of another machine, as one writes it on a control plane; pods ask by a name."""
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return False


def _resources(extender: Json) -> list[Json]:
    given = extender.get("managedResources")
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _managed(extender: Json) -> list[str]:
    return [str(each.get("name") or "") for each in _resources(extender)]


def _is_extended(name: str) -> bool:
    domain, slash, rest = name.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash and rest and not native and not name.startswith("requests."))


def _number(written: object) -> int:
    return written if isinstance(written, int) else 0


def _seconds(written: object) -> float | None:
    """A duration as Go writes it; None if it is none."""
    if not isinstance(written, str):
        return None
    parts = _DURATION.findall(written)
    if not parts or "".join(map("".join, parts)) != written:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
