"""Plans in one line each, and an API server in memory that takes what the planner writes."""

from collections.abc import Sequence
from typing import Any

import msgspec
from gpuyard.common.kube.client import Patch
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.resources import Address
from gpuyard.common.plans.plan import Place, Plan, Spec, Status, Victim
from gpuyard.engine.model import Shape

Json = dict[str, Any]


def victim(name: str, node: str = "n1") -> Victim:
    return Victim(pod=f"ns/{name}", uid=f"uid-{name}", node=node, reason="reclaim for ns/a")


def place(name: str, node: str = "n1", *, gpus: int = 1, owner: str = "", groups: tuple[str, ...] = ()) -> Place:
    return Place(
        pod=f"ns/{name}", node=node, shape=Shape(gpus=gpus), owner=owner, workload=f"ns/{name}", gpu_groups=groups
    )


def known(place: Place) -> Place:
    """The place with the UID of its pod."""
    return msgspec.structs.replace(place, uid=f"uid-{place.pod.removeprefix('ns/')}")


def plan(*victims: Victim, places: Sequence[Place] = (), evicted: Sequence[str] = (), name: str = "reclaim-1") -> Plan:
    spec = Spec(phase="reclaim", workload="ns/a", queue="team", evictions=victims, promises=tuple(places))
    return Plan(metadata=Meta(name=name), spec=spec, status=Status(evicted=tuple(f"uid-{one}" for one in evicted)))


def error(status: int, reason: str, message: str = "no", retry_after: float = 0) -> ApiError:
    return ApiError("a call", status, reason, message, retry_after)


NOT_FOUND = error(404, "NotFound")
EXISTS = error(409, "AlreadyExists")
CONFLICT = error(409, "Conflict")
BUSY = error(429, "TooManyRequests", "a disruption budget holds")
TWO_BUDGETS = error(500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported")


class Api:
    """Objects by path; what is to fail is said in `errors`, by verb and path."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.errors: dict[tuple[str, str], KubeError] = {}
        self.created = ""
        """The time by its clock, for what is created from now on."""

    def put(self, path: str, body: Json) -> None:
        self.objects[path] = body

    def wrote(self, *verbs: str) -> list[str]:
        """The paths of the calls with these verbs, in order."""
        return [path for verb, path in self.calls if verb in verbs]

    def _note(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        if (verb, path) in self.errors:
            raise self.errors[verb, path]

    async def get(self, address: Address) -> Json:
        self._note("get", address.path)
        if address.path not in self.objects:
            raise NOT_FOUND
        return self.objects[address.path]

    async def create(self, address: Address, body: Any) -> Json:  # noqa: ANN401 - any object
        made: Json = msgspec.json.decode(msgspec.json.encode(body))
        path = address.path
        if not path.endswith("/eviction"):
            path = f"{path}/{made['metadata']['name']}"
        self._note("create", path)
        if path.endswith("/eviction"):
            return made
        if path in self.objects:
            raise EXISTS
        made["metadata"].setdefault("uid", f"uid-of-{made['metadata']['name']}-{len(self.calls)}")
        if self.created:
            made["metadata"]["creationTimestamp"] = self.created
        self.objects[path] = made
        return made

    async def patch(self, address: Address, body: Any, form: Patch = Patch.MERGE) -> Json:  # noqa: ANN401
        assert form is Patch.MERGE
        self._note("patch", address.path)
        path = address.path.removesuffix("/status")
        if path not in self.objects:
            raise NOT_FOUND
        self.objects[path] |= msgspec.json.decode(msgspec.json.encode(body))
        return self.objects[path]

    async def delete(self, address: Address, *, uid: str = "") -> Json:
        self._note("delete", address.path)
        if address.path not in self.objects:
            raise NOT_FOUND
        if uid and self.objects[address.path]["metadata"]["uid"] != uid:
            raise CONFLICT
        return self.objects.pop(address.path)

    async def pages(self, address: Address) -> Any:  # noqa: ANN401 - pages of raw items
        self._note("list", address.path)
        found = [one for path, one in self.objects.items() if path.startswith(f"{address.path}/")]
        for half in (found[: len(found) // 2], found[len(found) // 2 :]):
            yield msgspec.convert({"items": None}, _Page) if not half else _Page([_raw(one) for one in half])


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


def _raw(thing: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(thing))
