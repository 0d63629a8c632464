"""`gpuyard gpu` as people call it: what it refuses before it asks a cluster, and when there is none."""

import asyncio
import json
import sys

import pytest
from click.testing import CliRunner, Result
from gpuyard.cli.gpu import gpu, pair
from gpuyard.cli.topology import Changes, Place, Written

command = sys.modules["gpuyard.cli.gpu"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(gpu, [*arguments, "--kubeconfig", "/nowhere"])


def test_without_a_cluster_it_says_so_and_ends_with_3() -> None:
    found = run("list")
    assert found.exit_code == 3
    assert "/nowhere" in found.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fail", "node-1"), "names no GPU; write NODE/INDEX or NODE/ID"),
        (("heal", "node-1/0", "node-2"), "'node-2' names no GPU"),
        (("fail", "node-1/0", "--xid", "many"), "is not a valid integer"),
        (("set", "node-1", "faults"), "is not KEY=VALUE"),
        (("set", "node-1", "faults=["), "is no YAML value"),
        (("set", "node-1", "driverVersion=!!binary aGk="), "is no YAML value"),
        (("set", "node-1", "xid=!!int soon"), "is no YAML value"),
        (("set", "node-1", "faults=" + "[" * 25_000), "is no YAML value"),
        (("list", "-o", "xml"), "not one of"),
    ],
)
def test_bad_usage_ends_with_2_and_the_remedy(arguments: tuple[str, ...], message: str) -> None:
    found = run(*arguments)
    assert (found.exit_code, message in found.output) == (2, True)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("k=5", 5),
        ("k=10-30", "10-30"),
        ("k=[allocate-error]", ["allocate-error"]),
        ("k=", None),
        ("k=550.10", "550.10"),
        ("k=a=b", "a=b"),
        ("k=2026-01-31", "2026-01-31"),
        ("k=2026-13-45", "2026-13-45"),
        ("k=1:30", "1:30"),
        ("k=010", "010"),
        ("k=0x10", "0x10"),
        ("k=550_1", "550_1"),
        ("k=-1", -1),
        ("k=true", True),
        ("k=null", None),
        ("k={strategy: time-slicing, replicas: 4}", {"strategy": "time-slicing", "replicas": 4}),
    ],
)
def test_values_are_yaml_but_what_only_looks_like_a_number_stays_as_it_is_typed(written: str, value: object) -> None:
    assert pair(written) == ("k", value)


@pytest.mark.parametrize(
    ("arguments", "become", "changes"),
    [
        (("set", "n/0", "xid=48"), "is set", {"xid": 48}),
        (("fail", "n/0"), "is unhealthy", {"health": "unhealthy", "xid": 79}),
        (("heal", "n/0"), "is healthy", {"health": None, "xid": None}),
    ],
)
def test_what_was_changed_is_told_to_people_and_programs(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], become: str, changes: Changes
) -> None:
    async def write(_client: object, _namespace: str, place: Place, changes: Changes) -> Written:
        return Written(str(place), changes, "topology", adopted=False)

    monkeypatch.setattr(command, "write", write)
    monkeypatch.setattr(command, "calling", lambda work, *_: asyncio.run(work(None)))
    assert run(*arguments).output == f"n/0 {become} in configmap/topology\n"
    told = {"place": "n/0", "changes": changes, "configMap": "topology", "adopted": False}
    assert json.loads(run(*arguments, "-o", "json").stdout) == [told]
