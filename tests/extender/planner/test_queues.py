"""What a Queue object says of itself, and that only changes are written."""

from typing import TYPE_CHECKING, cast

import pytest
from gpuyard.common.kube.errors import ApiError
from gpuyard.engine.model import SCALE, Amounts
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.extender.planner.tell.queue_status import QueueWriter, quantities, statuses

from tests.extender.builders import Bench, node, pod, queue
from tests.extender.planner.builders import Api, Json, error

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

TEAM = "/apis/scheduling.run.ai/v2/queues/team"


def said(*things: Json) -> dict[str, Json]:
    snapshot = Bench(*things).ledger.snapshot
    return statuses(snapshot, Accounts.of(snapshot, SCALE))


def condition(of: Json, name: str) -> str:
    return next(str(one["status"]) for one in of["conditions"] if one["type"] == name)


def test_amounts_are_written_as_kubernetes_writes_them() -> None:
    assert quantities(Amounts(1500, 250, 64)) == {"nvidia.com/gpu": "1500m", "cpu": "250m", "memory": "64"}
    assert quantities(Amounts(2000, -1, -1)) == {"nvidia.com/gpu": "2"}


def test_a_queue_says_what_it_holds_asks_for_and_is_due() -> None:
    pods = [pod("a", "team", 2, on="n1"), pod("b", "team", 1, on="n1", fixed=True), pod("c", "team", 9)]
    team = said(node("n1"), queue("team", quota=4), *pods)["team"]
    gpus = {name: team[name]["nvidia.com/gpu"] for name in ("allocated", "allocatedNonPreemptible", "requested")}
    assert gpus == {"allocated": "3", "allocatedNonPreemptible": "1", "requested": "12"}
    assert team["fairShare"]["nvidia.com/gpu"] == "8"
    assert (condition(team, "OverQuota"), condition(team, "Orphan")) == ("False", "False")


def test_a_department_sums_its_teams_and_names_them() -> None:
    things = [queue("dept", quota=1), queue("team", parent="dept"), queue("alone", parent="dept")]
    found = said(node("n1"), *things, pod("a", "team", 2, on="n1"))
    assert found["dept"]["childQueues"] == ["alone", "team"]
    assert found["dept"]["allocated"]["nvidia.com/gpu"] == "2"
    assert condition(found["dept"], "OverQuota") == "True"


def test_an_orphan_is_due_nothing() -> None:
    team = said(node("n1"), queue("team", parent="nowhere"))["team"]
    assert (condition(team, "Orphan"), team["fairShare"]) == ("True", {})


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put(TEAM, {"metadata": {"name": "team"}})
    return made


async def test_only_what_has_changed_is_written(api: Api) -> None:
    writer = QueueWriter(cast("Client", api))
    for held in ("1", "1", "2"):
        await writer.write({"team": {"allocated": {"nvidia.com/gpu": held}}})
    assert len(api.calls) == 2
    assert api.objects[TEAM]["status"]["allocated"] == {"nvidia.com/gpu": "2"}


async def test_a_queue_that_is_gone_is_passed_over(api: Api) -> None:
    await QueueWriter(cast("Client", api)).write({"gone": {}, "team": {"childQueues": []}})
    assert "status" in api.objects[TEAM]


async def test_what_could_not_be_written_is_tried_again(api: Api) -> None:
    writer = QueueWriter(cast("Client", api))
    api.errors["patch", f"{TEAM}/status"] = error(403, "Forbidden")
    with pytest.raises(ApiError):
        await writer.write({"team": {"childQueues": []}})
    api.errors.clear()
    await writer.write({"team": {"childQueues": []}})
    assert "status" in api.objects[TEAM]
