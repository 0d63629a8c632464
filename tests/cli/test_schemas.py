"""`gpuyard doctor`: what becomes of what we write where somebody else's CRDs are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import Patient
from gpuyard.cli.schemas import there
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.client import Client

Json = dict[str, Any]
CRDS = Path(__file__).parents[2] / "manifests" / "crds"


def shipped() -> dict[str, Json]:
    """Our CRDs by their names."""
    documents = (one for path in sorted(CRDS.glob("*.*.yaml")) for one in yaml.safe_load_all(path.read_text()) if one)
    return {one["metadata"]["name"]: one for one in documents}


async def findings(monkeypatch: pytest.MonkeyPatch, crds: dict[str, Json]) -> list[Finding]:
    """What is found where these CRDs are installed."""

    async def get(_: Patient, address: Any) -> Json | None:  # noqa: ANN401 - that of a CRD
        return next((crd for name, crd in crds.items() if address.path.endswith(f"/{name}")), None)

    monkeypatch.setattr(Patient, "get", get)
    return await there(Patient(Client(Access("http://127.0.0.1:9")), extender="http://127.0.0.1:9"))


def status_of(crds: dict[str, Json]) -> Json:
    [version] = crds["queues.scheduling.run.ai"]["spec"]["versions"]
    fields: Json = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return fields


async def test_our_own_crds_keep_all_that_we_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.status for one in await findings(monkeypatch, shipped())] == [Status.OK]


@pytest.mark.parametrize(("field", "status"), [("fairShare", Status.WARN), ("allocated", Status.FAIL)])
async def test_a_crd_that_drops_what_we_write_is_found(
    monkeypatch: pytest.MonkeyPatch, field: str, status: Status
) -> None:
    crds = shipped()
    del status_of(crds)[field]
    [found] = await findings(monkeypatch, crds)
    assert (found.status, f"status.{field}" in found.seen) == (status, True)
    assert found.remedy


def phase_of(crds: dict[str, Json]) -> Json:
    [version] = crds["plans.gpuyard.io"]["spec"]["versions"]
    fields: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields["phase"]  # type: ignore[no-any-return]


@pytest.mark.row("B-76")
async def test_a_crd_of_plans_of_an_earlier_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    crds = shipped()
    phase_of(crds)["enum"].remove("elastic")
    [found] = await findings(monkeypatch, crds)
    assert found.status is Status.FAIL
    assert "plans.gpuyard.io is of an earlier version" in found.seen
    assert found.remedy.startswith("apply the CRDs of this version first")


@pytest.mark.row("B-76")
async def test_a_crd_of_plans_that_takes_any_phase_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    crds = shipped()
    del phase_of(crds)["enum"]
    assert [one.status for one in await findings(monkeypatch, crds)] == [Status.OK]
    [version] = crds["plans.gpuyard.io"]["spec"]["versions"]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert [one.status for one in await findings(monkeypatch, crds)] == [Status.OK]
