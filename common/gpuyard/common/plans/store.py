"""Plan objects in the API server: what a restart goes on from, and what people look up."""

from http import HTTPStatus

import msgspec
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import PLANS
from gpuyard.common.logs import get_logger
from gpuyard.common.plans.plan import Plan

_PLAN = msgspec.json.Decoder(Plan)

log = get_logger()


class Store:
    """Reads and writes Plan objects."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.refused: list[Plan] = []
        """Of the plans that had ended when they were loaded, those whose places kube-scheduler did not offer."""

    async def load(self) -> list[Plan]:
        """Our own plans that are under way; one that cannot be read is passed over."""
        read_ones = [plan for item in await self._items() if (plan := _read(item)) is not None]
        found = [plan for plan in read_ones if not plan.elastic]
        self.refused = [plan for plan in found if not plan.runs and plan.status.refused]
        return [plan for plan in found if plan.runs]

    async def _items(self) -> list[msgspec.Raw]:
        try:
            return [item async for page in self._client.pages(PLANS.within()) for item in page.items or ()]
        except ApiError as error:
            if not error.not_found:
                raise
            log.warning("no-plans", reason=str(error), remedy="apply the CRDs (manifests/crds)")
            return []

    async def create(self, plan: Plan) -> Plan:
        """Write a new plan; as it is in the API server."""
        body = {
            "apiVersion": PLANS.api_version,
            "kind": PLANS.kind,
            "metadata": {"name": plan.name},
            "spec": plan.spec,
        }
        made = await self._client.create(PLANS.within(), body)
        return msgspec.structs.replace(plan, metadata=msgspec.convert(made["metadata"], type(plan.metadata)))

    async def write_status(self, plan: Plan) -> None:
        """Write how far a plan has come; one that was deleted is not missed."""
        try:
            await self._client.patch(PLANS.named(plan.name).sub("status"), {"status": plan.status})
        except ApiError as error:
            if not error.not_found:
                raise

    async def write_kept(self, plan: Plan) -> None:
        """Write what is kept of moved pods; raises `ApiError` unless the API server has it afterwards."""
        address = PLANS.named(plan.name).sub("status")
        written = msgspec.convert(await self._client.patch(address, {"status": plan.status}), Plan)
        if written.status.kept != plan.status.kept:
            # An API server drops silently what a CRD does not list.
            why = "the CRD of plans does not know status.kept; apply the CRDs of this version (manifests/crds)"
            raise ApiError(address.about, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", why)

    async def delete(self, plan: Plan) -> None:
        """Delete this very plan, unless it is gone already."""
        try:
            await self._client.delete(PLANS.named(plan.name), uid=plan.metadata.uid)
        except ApiError as error:
            if not error.not_found and not error.conflict:
                raise


def _read(item: msgspec.Raw) -> Plan | None:
    try:
        return _PLAN.decode(item)
    except msgspec.ValidationError as error:
        log.warning("plan-unreadable", reason=str(error))
        return None
