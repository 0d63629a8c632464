"""What a run of `gpuyard certificates` leaves in the cluster and in a folder."""

from __future__ import annotations

import base64
import datetime as dt
import stat
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.cli import issuing, keeping
from gpuyard.cli.issuing import UnreadableError
from gpuyard.cli.keeping import AUTHORITY, EXTENDER, SCHEDULER, Keeper
from gpuyard.common.kube.errors import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.resources import Address

Json = dict[str, Any]
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Secrets:
    """The Secrets of a namespace; `before_write` may do what somebody else does at that moment."""

    def __init__(self) -> None:
        self.held: dict[str, Json] = {}
        self.before_write: list[Json] = []
        self._versions = count(1)

    async def get(self, address: Address) -> Json:
        name = address.path.rpartition("/")[2]
        if name not in self.held:
            raise ApiError(address.about, 404, "NotFound", "not there")
        return self.held[name]

    async def create(self, address: Address, body: Json) -> Json:
        self._somebody()
        if body["metadata"]["name"] in self.held:
            raise ApiError(address.about, 409, "AlreadyExists", "it is there")
        return self.put(body)

    async def update(self, address: Address, body: Json) -> Json:
        self._somebody()
        if self.held[body["metadata"]["name"]]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(address.about, 409, "Conflict", "somebody wrote")
        return self.put(body)

    def put(self, body: Json) -> Json:
        meta = body["metadata"] | {"resourceVersion": str(next(self._versions))}
        self.held[meta["name"]] = body | {"metadata": meta}
        return self.held[meta["name"]]

    def _somebody(self) -> None:
        if self.before_write:
            self.put(self.before_write.pop(0))

    def pem(self, name: str, key: str = "tls.crt") -> bytes:
        return base64.b64decode(self.held[name]["data"][key])

    def all(self) -> dict[str, bytes]:
        return {name: self.pem(name) for name in self.held}


@pytest.fixture
def cluster() -> Secrets:
    return Secrets()


async def run(cluster: Secrets, now: dt.datetime = NOW, *, renew: bool = False) -> list[str]:
    said: list[str] = []
    await Keeper(cast("Client", cluster), "gpuyard", said.append, now).keep(renew=renew)
    return said


async def test_the_first_run_makes_all_three(cluster: Secrets) -> None:
    said = await run(cluster)
    assert set(cluster.held) == {AUTHORITY, EXTENDER, SCHEDULER}
    assert [line.split(":")[0] for line in said] == [
        f"secret gpuyard/{name}" for name in (AUTHORITY, EXTENDER, SCHEDULER)
    ]
    assert all("made, there is none; good until 20" in line for line in said)
    assert cluster.pem(EXTENDER, "ca.crt") == cluster.pem(SCHEDULER, "ca.crt") == cluster.pem(AUTHORITY)


async def test_the_key_of_the_authority_is_in_its_own_secret_alone(cluster: Secrets) -> None:
    await run(cluster)
    secret = cluster.held[AUTHORITY]["data"]["tls.key"]
    assert all(secret not in held["data"].values() for name, held in cluster.held.items() if name != AUTHORITY)


async def test_they_carry_the_labels_by_which_uninstall_finds_them(cluster: Secrets) -> None:
    await run(cluster)
    for held in cluster.held.values():
        labels = held["metadata"]["labels"]
        assert (labels["app.kubernetes.io/part-of"], labels["app.kubernetes.io/instance"]) == ("gpuyard", "extender")
        assert held["type"] == "kubernetes.io/tls"


async def test_a_second_run_changes_nothing(cluster: Secrets) -> None:
    await run(cluster)
    before = cluster.all()
    said = await run(cluster)
    assert cluster.all() == before
    assert all(": good until " in line for line in said)


async def test_a_run_two_months_later_renews_both_ends_and_keeps_the_authority(cluster: Secrets) -> None:
    await run(cluster)
    before = cluster.all()
    await run(cluster, NOW + dt.timedelta(days=61))
    after = cluster.all()
    assert after[AUTHORITY] == before[AUTHORITY]
    assert after[EXTENDER] != before[EXTENDER]
    assert after[SCHEDULER] != before[SCHEDULER]


async def test_both_ends_are_renewed_when_that_is_asked(cluster: Secrets) -> None:
    await run(cluster)
    before = cluster.all()
    said = await run(cluster, renew=True)
    assert {name for name, pem in cluster.all().items() if pem != before[name]} == {EXTENDER, SCHEDULER}
    assert all("so it was asked" in line for line in said)


async def test_an_authority_that_runs_out_is_made_anew_with_all_it_signed(cluster: Secrets) -> None:
    await run(cluster)
    before = cluster.all()
    await run(cluster, NOW + issuing.AUTHORITY_LIFE - dt.timedelta(days=50))
    assert all(cluster.all()[name] != before[name] for name in before)


async def test_of_two_runs_at_once_one_yields(cluster: Secrets) -> None:
    other = Secrets()
    await run(other)
    cluster.before_write = list(other.held.values())
    await run(cluster)
    assert cluster.pem(AUTHORITY) == other.pem(AUTHORITY)
    assert cluster.pem(EXTENDER, "ca.crt") == cluster.pem(AUTHORITY)


async def test_an_authority_that_cannot_be_read_is_somebodys_and_stays(cluster: Secrets) -> None:
    cluster.put({"metadata": {"name": AUTHORITY}, "data": {}})
    with pytest.raises(UnreadableError):
        await run(cluster)
    assert set(cluster.held) == {AUTHORITY}


# --- files ---


def test_saved_files_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    keeping.save(tmp_path / "new", {"tls.key": b"secret"})
    file = tmp_path / "new" / "tls.key"
    assert file.read_bytes() == b"secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_saving_again_replaces_all_at_once_and_leaves_nothing_old(tmp_path: Path) -> None:
    for number in (b"1", b"2", b"3"):
        keeping.save(tmp_path, {"tls.crt": number, "tls.key": number})
        assert {name: (tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key")} == {
            "tls.crt": number,
            "tls.key": number,
        }
    assert len(list(tmp_path.iterdir())) == 4, "two names, the link, and the folder behind it"


def test_plain_files_of_before_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text("by hand")
    keeping.save(tmp_path, {"tls.key": b"ours"})
    assert (tmp_path / "tls.key").read_bytes() == b"ours"
