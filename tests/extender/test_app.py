"""How the extender is put together: when it begins to answer, and what new settings change."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD
from gpuyard.extender import app
from gpuyard.extender.app import CUT_OFF, STARTING, Extender, Options
from gpuyard.extender.ledger import Phase
from prometheus_client import CollectorRegistry

from tests.extender.builders import node, pod, typed
from tests.extender.planner.builders import Api

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.contact import Contact
    from gpuyard.common.lease import Elector
    from gpuyard.common.process import Process

CONFIG = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


class Parts:
    """Stands in for the process: takes what is spawned and runs none of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.spawned: list[str] = []
        self.dumps: dict[str, Callable[[], object]] = {}
        self.pages: dict[str, Callable[[], bytes]] = {}
        self.ready: dict[str, Callable[[], str]] = {}

    def ready_if(self, name: str, problem: Callable[[], str]) -> None:
        self.ready[name] = problem

    def dump_with(self, name: str, state: Callable[[], object]) -> None:
        self.dumps[name] = state

    def publish(self, name: str, page: Callable[[], bytes]) -> None:
        self.pages[name] = page

    def spawn(self, name: str, part: Coroutine[Any, Any, object]) -> None:
        part.close()
        self.spawned.append(name)


def extender(config: Path | None = None) -> Extender:
    return Extender(cast("Process", Parts()), config)


OPTIONS = Options(config=None, kubeconfig="", context="", host=None, port=0, lease="", pod="")


class Lease:
    """An election whose outcome a test chooses."""

    def __init__(self) -> None:
        self.leading = False


async def test_it_serves_once_bindings_from_before_have_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SETTLE", 0.05)
    made = extender()
    made.ledger.see(made.translator.put_pod(typed(pod("p", "team"))))
    leading = asyncio.create_task(made.lead(cast("Client", Api()), OPTIONS))
    await asyncio.sleep(0.01)
    assert str(made.unavailable()) == STARTING
    assert len(made.ledger.granted) == 0
    await asyncio.sleep(0.1)
    assert made.unavailable() is None
    assert made.ledger.entries["ns/p"].phase is Phase.RESERVED
    leading.cancel()
    await asyncio.wait([leading])
    assert str(made.unavailable()) == STARTING
    assert len(made.ledger.granted) == 0


class Heard:
    """Contact with the API server as a test says that it is."""

    def __init__(self, *, lost: bool) -> None:
        self.lost = lost

    def age(self) -> float:
        return 1.23

    def is_lost(self) -> bool:
        return self.lost


@pytest.mark.row("B-34", case="verbs-and-readyz")
@pytest.mark.parametrize("lost", [True, False])
def test_the_verbs_decide_nothing_exactly_while_the_probe_says_that_the_api_server_is_out_of_reach(lost: bool) -> None:
    made = extender()
    made.serving = True
    made.contact = cast("Contact", Heard(lost=lost))
    assert (str(made.unavailable() or ""), made.cut_off()) == ((CUT_OFF, CUT_OFF) if lost else ("", ""))


async def test_without_a_lease_there_is_no_label_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SETTLE", 0)
    made = extender()
    leading = asyncio.create_task(made.lead(cast("Client", Api()), replace(OPTIONS, pod="gpuyard-extender-0")))
    await asyncio.sleep(0.01)
    assert made.unavailable() is None
    leading.cancel()
    await asyncio.wait([leading])


async def test_who_leads_looks_for_owners_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SETTLE", 0)
    monkeypatch.setattr(app, "WAKER_INTERVAL", 0.01)
    made, looked = extender(), asyncio.Event()
    monkeypatch.setattr(made.feed, "look_for_owners", lambda _: looked.set())
    leading = asyncio.create_task(made.lead(cast("Client", Api()), OPTIONS))
    await asyncio.wait_for(looked.wait(), 30)
    leading.cancel()
    await asyncio.wait([leading])


def test_who_does_not_lead_sends_the_caller_away() -> None:
    made, lease = extender(), Lease()
    made.elector = cast("Elector", lease)
    made.serving = True
    found = made.unavailable()
    assert found
    assert (str(found), found.away) == ("not leader", True)
    lease.leading = True
    assert made.unavailable() is None


class Slow:
    """An API server that takes its time."""

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def create(self, _address: object, _body: object) -> None:
        self.asked.set()
        await self.go_on.wait()


async def unfinished(begun: asyncio.Event) -> AsyncIterator[bytes]:
    """A body that does not come to an end."""
    yield b"{"
    begun.set()
    await asyncio.Event().wait()


async def answered(client: aiohttp.ClientSession, verb: str, body: bytes | AsyncIterator[bytes]) -> object:
    response = await client.post(f"/scheduler/{verb}", data=body)
    return await response.json()


async def test_the_planner_gives_way_to_a_filter_that_has_begun_but_not_to_a_bind_that_waits_for_the_api() -> None:
    made, api = extender(), Slow()
    made.gate.by_certificate = True
    made.serving = True
    made.binder.client = cast("Client", api)
    made.ledger.see(made.translator.put_pod(typed(pod("p"))))
    made.feed.nodes(Batch([Change(None, typed(node("n1")))]))
    body = b'{"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"}'
    served = made.server.listening(0, "127.0.0.1")
    async with served as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        binding = asyncio.create_task(answered(client, "bind", body))
        await asyncio.wait_for(api.asked.wait(), 30)
        assert made._calls() == 0
        filtering = asyncio.create_task(answered(client, "filter", unfinished(begun := asyncio.Event())))
        await asyncio.wait_for(begun.wait(), 30)
        async with asyncio.timeout(30):
            while made._calls() != 1:
                await asyncio.sleep(0.01)
        filtering.cancel()
        api.go_on.set()
        assert await binding == {"Error": ""}


def test_who_asks_the_process_is_told_what_counts() -> None:
    parts = Parts()
    made = Extender(cast("Process", parts), None)
    made.contact = cast("Contact", Heard(lost=False))
    assert parts.dumps["extender"]() == {"unavailable": STARTING, "age": 1.2, "pods": 0, "reserved": [], "kept": {}}


def test_without_a_file_the_defaults_are_in_force() -> None:
    assert extender().config() == ExtenderConfig()


async def test_new_settings_change_what_pods_mean(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG)
    made = extender(file)
    made.ledger.see(made.translator.put_pod(typed(pod("p"))))
    assert made.ledger.snapshot.workloads["ns/p"].queue is None
    file.write_text(CONFIG + "defaultQueue: rest\n")
    assert made._followed
    made._followed.poll()
    assert made.config().default_queue == "rest"
    assert made._reading
    await made._reading
    assert made.ledger.snapshot.workloads["ns/p"].queue == "rest"
    assert made.ledger.take_news()


@pytest.mark.row("B-81", case="reload")
async def test_a_changed_placement_acts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG)
    made = extender(file)
    assert made.verbs.strategy() == PACK
    file.write_text(CONFIG + "placement: spread\n")
    assert made._followed
    made._followed.poll()
    assert made.verbs.strategy() == SPREAD
    assert made._reading
    await made._reading
    assert made.ledger.take_news(), "the planner looks again, too"


def test_settings_with_a_fault_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG + "defaultQueue: rest\n")
    made = extender(file)
    file.write_text(CONFIG + "defaultQueue: {}\n")
    assert made._followed
    made._followed.poll()
    assert made.config().default_queue == "rest"


# --- whose calls are answered ---


def begun(monkeypatch: pytest.MonkeyPatch, settings: str, folder: Path, **options: Any) -> tuple[Extender, list[str]]:  # noqa: ANN401
    """An extender whose port knows its callers as options and settings say; what the log warns of."""
    warned: list[str] = []
    monkeypatch.setattr(app, "_warn", warned.append)
    (file := folder / "extender.yaml").write_text(CONFIG + settings)
    parts = Parts()
    made = Extender(cast("Process", parts), file)
    app._authenticate(cast("Process", parts), made, replace(OPTIONS, **options))
    assert parts.ready["authentication"] == made.gate.problem
    return made, warned


@pytest.mark.row("X-23", case="log")
@pytest.mark.parametrize(("host", "warnings"), [(None, 1), ("10.0.0.1", 1), ("127.0.0.1", 0), ("::1", 0)])
def test_an_open_port_is_told_in_the_log_unless_it_is_on_loopback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str | None, warnings: int
) -> None:
    made, warned = begun(monkeypatch, "authentication: none\n", tmp_path, host=host)
    assert made.gate.standing(b"").refusal == ""
    assert len(warned) == warnings
    assert all("whoever reaches the port" in each for each in warned)


@pytest.mark.row("X-08", case="ledger")
@pytest.mark.parametrize(
    ("settings", "host", "known"),
    [
        ("", None, True),
        ("authentication: none\n", None, False),
        ("authentication: none\n", "127.0.0.1", True),
    ],
)
def test_what_calls_name_is_heeded_only_where_none_but_kube_scheduler_can_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: str, host: str | None, *, known: bool
) -> None:
    made, _ = begun(monkeypatch, settings, tmp_path, host=host, token=tmp_path)
    assert made.ledger.callers_are_known is known


async def test_a_port_that_is_opened_while_it_serves_is_no_longer_heeded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, _ = begun(monkeypatch, "", tmp_path, token=tmp_path)
    (tmp_path / "extender.yaml").write_text(CONFIG + "authentication: none\n")
    assert made._followed
    made._followed.poll()
    assert not made.ledger.callers_are_known


@pytest.mark.row("X-23", case="log")
async def test_a_port_that_is_opened_while_it_serves_is_logged_once_for_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, warned = begun(monkeypatch, "", tmp_path, token=tmp_path)
    warned.clear()
    counts = []
    for settings in (
        "authentication: none\n",
        "authentication: none\nmoveBarePods: true\n",
        "",
        "authentication: none\n",
    ):
        (tmp_path / "extender.yaml").write_text(CONFIG + settings)
        assert made._followed
        made._followed.poll()
        counts.append(len(warned))
    assert counts == [1, 1, 1, 2]


@pytest.mark.row("X-22", case="no-token-yet")
def test_without_a_token_yet_it_starts_and_is_not_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, warned = begun(monkeypatch, "", tmp_path, token=tmp_path)
    assert "`gpuyard certificates token` makes it" in made.gate.problem()
    assert len(warned) == 1


def test_with_certificates_no_token_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, warned = begun(monkeypatch, "authentication: none\n", tmp_path, token=tmp_path, tls=tmp_path)
    assert (made.gate.tokens, made.gate.problem(), warned) == (None, "", [])


def test_a_port_that_is_opened_while_it_serves_is_open_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, _ = begun(monkeypatch, "", tmp_path, token=tmp_path)
    assert made.gate.standing(b"").refusal
    (tmp_path / "extender.yaml").write_text(CONFIG + "authentication: none\n")
    assert made._followed
    made._followed._changed = lambda _: None
    made._followed.poll()
    assert made.gate.standing(b"").refusal == ""
