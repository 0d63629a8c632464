"""`gpuyard doctor`: is kube-scheduler told to ask the extender, does it ask, and does one extender answer?"""

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from gpuyard.cli import callers, scheduler_config
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import ACCOUNT, DOCS, NAMESPACE, Patient, command_of, condition, fetched, key_of, leads, option
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.resources import CONFIG_MAPS, LEASES, QUEUES
from gpuyard.engine.kube.times import moment

TOLD = "kube-scheduler is told to ask"
ASKS = "kube-scheduler asks"
ANSWERS = "an extender answers"

_CALLS = re.compile(r'^gpuyard_verb_calls_total\{(?!.*"rejected").*verb="filter".*\} (\S+)$', re.MULTILINE)
_START = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)
_STARTING = 10
"""Seconds after its start in which an extender may not know the cluster yet."""

_MISSED = 3
"""So many times its duration may a lease be old before its holder is taken for gone."""


async def told(patient: Patient) -> list[Finding]:
    """What is known of the configuration of each kube-scheduler."""
    if not patient.has_extender:
        return []
    each = [(pod, await _of_scheduler(patient, pod)) for pod in patient.schedulers]
    if not each:
        seen = "none runs as a pod here, so that nothing is known of its configuration"
        return [Finding(TOLD, Status.OK, f"{seen}; `gpuyard doctor scheduler-config FILE` reads it")]
    # Of several schedulers only those that are to serve GPU pods have to be told.
    configured = [found for pod, found in each if _config_of(pod)]
    return [finding for found in configured or [found for _, found in each] for finding in found]


_CONFIGURE = f"give it manifests/kube-scheduler/config.yaml as --config, {DOCS}"


def _config_of(pod: Json) -> str:
    return option(command_of(pod, "kube-scheduler") or (), "--config")


async def _of_scheduler(patient: Patient, pod: Json) -> list[Finding]:
    name, file = pod["metadata"]["name"], _config_of(pod)
    if not file:
        return [Finding(TOLD, Status.FAIL, f"pod {name} has no --config, so that it asks nobody", _CONFIGURE)]
    source = _mounted(pod, file)
    if source is None:
        seen = f"pod {name} reads {file} of node {pod['spec'].get('nodeName', '')}"
        return [Finding(TOLD, Status.OK, f"{seen}; there `gpuyard doctor scheduler-config {file}` looks it through")]
    held = await patient.get(CONFIG_MAPS.named(source, pod["metadata"]["namespace"])) or {}
    # Of an extender that runs as no pod it is not known what it asks for.
    asked = not patient.extenders or await callers.authentication(patient) == "token"
    return _linted(
        f"ConfigMap {pod['metadata']['namespace']}/{source}", held, file.rpartition("/")[2], with_token=asked
    )


def _linted(about: str, held: Json, file: str, *, with_token: bool) -> list[Finding]:
    text = (held.get("data") or {}).get(file, "")
    try:
        config = scheduler_config.read(text.encode())
        flaws = scheduler_config.lint(config, TOLD, in_pod=True, with_token=with_token)
    except scheduler_config.NoConfiguration as error:
        return [Finding(TOLD, Status.FAIL, f"{about}, {file}: {error}", _CONFIGURE)]
    return [Finding(TOLD, each.status, f"{about}: {each.seen}", each.remedy) for each in flaws]


def _mounted(pod: Json, file: str) -> str | None:
    """The ConfigMap in which a file of a pod stands."""
    mounts = [mount for one in pod["spec"]["containers"] for mount in one.get("volumeMounts") or ()]
    names = {mount["name"] for mount in mounts if file.startswith(mount["mountPath"].rstrip("/") + "/")}
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] in names and "configMap" in volume:
            name: str = volume["configMap"]["name"]
            return name
    return None


async def asks(patient: Patient) -> list[Finding]:
    """Whether the extender is asked, and whether kube-scheduler gets its answers."""
    if not patient.has_extender:
        return []
    failed = [Finding(ASKS, Status.FAIL, f"pod {name} waits: {why}", _BROKEN) for name, why in _errors(patient)]
    page = "" if failed else await patient.page()
    if failed or not page:
        return failed or [Finding(ASKS, Status.WARN, "the metrics of the extender that leads cannot be read", _UNREAD)]
    calls = sum(map(float, _CALLS.findall(page)))
    passed = [] if calls else list(_placed_since(patient, max(map(float, _START.findall(page)), default=0)))
    if passed:
        seen = f"pod {passed[0]} got its node, and gpuyard was not asked about it"
        return [Finding(ASKS, Status.FAIL, seen, _CONFIGURE)]
    return [Finding(ASKS, Status.OK, f"it has asked {calls:.0f} times about pods since the extender started")]


_BROKEN = f"see what `{ANSWERS}` says, and whether address and token in kube-scheduler's configuration are right"
_UNREAD = "ask for the right to get pods/proxy, or name the extender's probes with --extender"


def _errors(patient: Patient) -> Iterator[tuple[str, str]]:
    """The pods for which kube-scheduler got no answer, and what it says of that."""
    for pod in patient.with_gpus:
        said = condition(pod, "PodScheduled")
        if said.get("reason") == "SchedulerError":
            yield key_of(pod), said.get("message") or "SchedulerError"


def _placed_since(patient: Patient, start: float) -> Iterator[str]:
    """The pods that got a node when the extender could have been asked."""
    for pod in patient.with_gpus:
        said = condition(pod, "PodScheduled")
        if said.get("status") == "True" and moment(said["lastTransitionTime"]) > start + _STARTING:
            yield key_of(pod)


async def answers(patient: Patient) -> list[Finding]:
    """Whether there is an extender that decides, and only one."""
    if not patient.has_extender:
        return [await _missing(patient)]
    if patient.extender:
        return [await _outside(patient.extender)]
    if not patient.extenders:
        remedy = f"look at `kubectl get deployments,replicasets,events -n {NAMESPACE}`"
        return [Finding(ANSWERS, Status.FAIL, "no pod of it runs: pods that ask for GPUs wait", remedy)]
    beside = {key_of(pod) for pod in patient.schedulers}
    return [leading(patient.extenders, beside), *await lease(patient)]


async def _missing(patient: Patient) -> Finding:
    queues = len(await patient.items(QUEUES))
    if not queues:
        return Finding(ANSWERS, Status.OK, "it is not installed here, and no queue is held")
    remedy = (
        f"install it, {DOCS}; one that runs as no pod, as in `gpuyard demo`, is named by its probes: --extender URL"
    )
    return Finding(ANSWERS, Status.WARN, f"there are {queues} queues, and no extender runs as a pod here", remedy)


async def _outside(url: str) -> Finding:
    if await fetched(f"{url}/readyz"):
        return Finding(ANSWERS, Status.OK, f"{url}/readyz says that it is ready")
    remedy = "start it, or name its probes: those are on the port of its option --ops-port"
    return Finding(ANSWERS, Status.FAIL, f"{url}/readyz does not say that it is ready", remedy)


def leading(pods: list[Json], with_scheduler: Collection[str]) -> Finding:
    """Whether one of these pods leads and another stands by."""
    names = [pod["metadata"]["name"] for pod in pods if leads(pod)]
    ready = [pod["metadata"]["name"] for pod in pods if condition(pod, "Ready").get("status") == "True"]
    logs = f"look at `kubectl logs -n {pods[0]['metadata']['namespace']} {pods[0]['metadata']['name']}`"
    if len(names) != 1:
        seen = f"{', '.join(names)} are marked as leading" if names else "no pod is marked as leading"
        return Finding(ANSWERS, Status.FAIL, seen, logs)
    if names[0] not in ready:
        return Finding(ANSWERS, Status.FAIL, f"pod {names[0]} leads and is not ready", logs)
    if len(pods) == 1 and key_of(pods[0]) in with_scheduler:
        # Of those there are never two: manifests/overlays/one-pod.
        return Finding(ANSWERS, Status.OK, f"pod {names[0]} leads, in one pod with kube-scheduler")
    if len(ready) == 1:
        remedy = f"two take turns without a gap: `kubectl get pods -n {NAMESPACE}` shows what became of the other"
        return Finding(ANSWERS, Status.WARN, f"pod {names[0]} leads, and none stands by", remedy)
    return Finding(ANSWERS, Status.OK, f"pod {names[0]} leads, {len(ready) - 1} stand by")


async def lease(patient: Patient) -> list[Finding]:
    """Whether the Lease of the one that leads is kept."""
    held = await patient.get(LEASES.named(ACCOUNT, patient.extenders[0]["metadata"]["namespace"]))
    spec = (held or {}).get("spec") or {}
    if not spec.get("renewTime"):
        return []  # one alone has no lease
    age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
    if age <= timedelta(seconds=_MISSED * spec.get("leaseDurationSeconds", 15)):
        return []
    seen = f"Lease {ACCOUNT} was renewed {age.total_seconds():.0f} s ago: its holder is gone"
    return [Finding(ANSWERS, Status.FAIL, seen, "look whether its pods reach the API server")]
