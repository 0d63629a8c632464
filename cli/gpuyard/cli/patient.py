"""The cluster that `gpuyard doctor` looks over: what its checks ask it, each question once."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

import aiohttp
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.scheduler_config import GPU, PART
from gpuyard.common.kube.client import EVERYTHING, Client, Json, Selector
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.resources import PODS, Address, Resource
from gpuyard.engine.kube.workloads import SCHEDULERS

Check = Callable[["Patient"], Awaitable[list[Finding]]]

MANAGED = {GPU, PART}
NAMESPACE = "gpuyard"
ACCOUNT = "gpuyard-extender"
LEADER = "gpuyard.io/leader"
METRICS = "metrics"
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
DOCS = "see docs/install.md"
_PATIENCE = aiohttp.ClientTimeout(total=10)


class Patient:
    """A cluster, and the addresses that only its owner knows."""

    def __init__(self, client: Client, extender: str = "", prometheus: str = "") -> None:
        self.client = client
        self.extender = extender.rstrip("/")
        """Probes and metrics of an extender that runs as no pod; empty: it is one."""
        self.prometheus = prometheus.rstrip("/")
        self._pods: list[Json] = []
        self._account: Json | None = None

    async def look(self) -> None:
        """Read what several checks need."""
        self._pods = await self.client.items(PODS.within())
        self._account = await self.get(SERVICE_ACCOUNTS.named(ACCOUNT, NAMESPACE))

    # --- questions to the API server ---

    async def items(self, resource: Resource, namespace: str = "", selector: Selector = EVERYTHING) -> list[Json]:
        """All objects of a kind; none if the cluster does not know the kind."""
        try:
            return await self.client.items(resource.within(namespace), selector)
        except ApiError as error:
            if not error.not_found:
                raise
            return []

    async def get(self, address: Address) -> Json | None:
        """One object; None if it is not there."""
        try:
            return await self.client.get(address)
        except ApiError as error:
            if not error.not_found:
                raise
            return None

    # --- who runs there ---

    @property
    def extenders(self) -> list[Json]:
        """The pods in which an extender runs."""
        return self.running("gpuyard.extender", "gpuyard-extender")

    @property
    def schedulers(self) -> list[Json]:
        """The pods in which a kube-scheduler runs."""
        return self.running("kube-scheduler")

    def within(self, namespace: str) -> list[Json]:
        """The pods of a namespace that have not ended."""
        return [pod for pod in self._pods if pod["metadata"]["namespace"] == namespace and not _ended(pod)]

    def running(self, *programs: str) -> list[Json]:
        """The pods that run one of these programs or Python modules and have not ended."""
        return [pod for pod in self._pods if not _ended(pod) and command_of(pod, *programs) is not None]

    @property
    def has_extender(self) -> bool:
        """Whether an extender is meant to be at work here."""
        return bool(self.extender or self.extenders or self._account)

    @property
    def has_account(self) -> bool:
        """Whether the extender was installed with an account of its own."""
        return self._account is not None

    @property
    def with_gpus(self) -> list[Json]:
        """The pods that ask for GPUs and are kube-scheduler's to place."""
        served = (pod for pod in self._pods if not _ended(pod) and wants_gpus(pod))
        return [pod for pod in served if pod["spec"].get("schedulerName", SCHEDULERS[0]) in SCHEDULERS]

    # --- the extender's own pages ---

    async def page(self, name: str = METRICS) -> str:
        """A page of the extender that leads, its metrics if no other is named; empty if it cannot be asked."""
        if self.extender:
            return await fetched(f"{self.extender}/{name}")
        leaders = [pod for pod in self.extenders if leads(pod)]
        return await self._proxied(leaders[0], name) if leaders else ""

    async def _proxied(self, pod: Json, name: str) -> str:
        meta = pod["metadata"]
        path = f"{PODS.named(meta['name'], meta['namespace']).path}:{_port(pod)}/proxy/{name}"
        try:
            return (await self.client.call("GET", Address(path, f"{name} of pod {meta['name']}"))).decode()
        except ApiError:
            return ""  # we may not, or nobody answers there: other checks tell of that


def leads(pod: Json) -> bool:
    """Whether the Service leads to this extender."""
    return (pod["metadata"].get("labels") or {}).get(LEADER) == "true"


def wants_gpus(pod: Json) -> bool:
    """Whether kube-scheduler asks the extender about this pod."""
    containers = [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]
    asked = ((one.get("resources") or {}).get(kind) or {} for one in containers for kind in ("limits", "requests"))
    return any(not MANAGED.isdisjoint(each) for each in asked)


def condition(pod: Json, kind: str) -> Json:
    """One condition of a pod; empty if it has none of this kind."""
    conditions: list[Json] = (pod.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), {})


def key_of(pod: Json) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def command_of(pod: Json, *programs: str) -> list[str] | None:
    """Command and arguments of the container that runs one of these programs; None if none does."""
    for container in pod["spec"].get("containers") or ():
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        if any(word.rpartition("/")[2] in programs for word in words[:3]):
            return words
    return None


def option(words: Sequence[str], name: str) -> str:
    """The value of an option, written `--name=value` or `--name value`; empty if it is not there."""
    for at, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and at + 1 < len(words):
            return words[at + 1]
    return ""


async def fetched(url: str) -> str:
    """What a page of ours or of Prometheus's says; empty if nobody answers well."""
    try:
        async with aiohttp.ClientSession(timeout=_PATIENCE) as session, session.get(url) as answer:
            return await answer.text() if answer.status == HTTPStatus.OK else ""
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return ""


async def examined(patient: Patient, name: str, check: Check) -> list[Finding]:
    """What a check finds; that it could not look if it was not allowed to, or met what nobody had thought of."""
    try:
        return await check(patient)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return [Finding(name, Status.WARN, f"could not be looked at: {error}", "ask for the right to read that")]
    except KubeError:
        raise
    except Exception as error:  # noqa: BLE001 - one check must not keep back what the others found
        seen = f"could not be looked at: {type(error).__name__}: {error}"
        return [Finding(name, Status.WARN, seen, "that is a fault of gpuyard; the other checks have looked")]


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _port(pod: Json) -> int:
    ports = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == METRICS), 8081)
