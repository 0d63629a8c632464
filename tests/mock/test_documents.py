"""What the mock's documents tell people to write and to type is right, as far as that shows without a cluster."""

import re
import shlex

import pytest
import yaml
from click.testing import CliRunner
from gpuyard.cli.main import gpuyard
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.utilization import Script, Span, parse
from gpuyard.status_updater.pods import UTILIZATION

from tests.documents.blocks import RECIPES, START, TOPOLOGY, Block, blocks
from tests.house import tree

DOCUMENTS = (START, TOPOLOGY, RECIPES)
EVERY = [block for document in DOCUMENTS for block in blocks(document)]
UNREACHABLE = 3
PROMETHEUS = "prometheus.yml"


def of(language: str) -> list[Block]:
    return [block for block in EVERY if block.language == language]


def test_there_is_something_to_copy() -> None:
    assert {block.language for block in EVERY} == {"sh", "yaml"}
    assert len({block.section for block in blocks(RECIPES)}) >= 8


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.file)
def test_a_topology_in_the_documents_is_read(block: Block) -> None:
    named = {each["metadata"]["name"]: each.get("data", {}) for each in block.objects}
    prefix = "gpu-profile-"
    profiles = {name.removeprefix(prefix): data["profile.yaml"] for name, data in named.items() if prefix in name}
    texts = [data["topology.yml"] for data in named.values() if "topology.yml" in data]
    bare = [block.text] if not named and block.file != PROMETHEUS else []
    for text in texts or bare:
        topology = read(text, "node", profiles)
        assert topology.nodes or topology.pools


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.file)
def test_what_a_pod_in_the_documents_says_of_its_utilization_is_understood(block: Block) -> None:
    for each in block.objects:
        written = each["metadata"].get("annotations", {}).get(UTILIZATION)
        assert written is None or isinstance(parse(written), Script | Span)


def typed(program: str) -> list[str]:
    """Every command of this program that a reader is told to type, in blocks and in sentences."""
    lines = [line for block in of("sh") for line in block.lines]
    sentences = re.findall(r"`([^`\n]+)`", "\n".join(document.read_text() for document in DOCUMENTS))
    parts = [part.strip() for line in lines + sentences for part in re.split(r'[;|&]|\$\(|\)"?$', line)]
    return sorted({part for part in parts if part.startswith(f"{program} ")})


@pytest.mark.parametrize("command", [each for each in typed("gpuyard") if " gpu " in each])
def test_a_gpu_command_is_understood(command: str) -> None:
    found = CliRunner().invoke(gpuyard, [*shlex.split(command)[1:], "--kubeconfig", "/nowhere"])
    assert found.exit_code == UNREACHABLE, found.output


@pytest.mark.parametrize("command", [each for each in typed("gpuyard") if " gpu " not in each])
def test_another_command_is_there_with_its_options(command: str) -> None:
    words = shlex.split(command)[1:]
    found = CliRunner().invoke(gpuyard, [*[word for word in words if not word.startswith("-")][:2], "--help"])
    assert found.exit_code == 0, found.output
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[\w-]+", found.output))


def test_what_is_applied_is_there() -> None:
    applied = {path for command in typed("kubectl") for path in re.findall(r" -[fk] (\S+)", command)} - {"-"}
    files = {block.file for block in of("yaml") if block.objects}
    assert {path for path in applied if not (tree.ROOT / path).exists()} <= files
    assert files <= applied


def test_the_processes_are_entry_points() -> None:
    scripts = tree.project()["project"]["scripts"]
    started = {word for block in blocks(START) for word in block.text.split() if word.startswith("gpuyard-")}
    assert started >= {"gpuyard-status-updater", "gpuyard-gfd", "gpuyard-dcgm-exporter"}
    assert {word for word in started if not word.startswith("gpuyard-mock")} <= set(scripts)


def test_processes_on_one_machine_have_ports_of_their_own() -> None:
    lines = [line for block in blocks(START) for line in block.text.splitlines() if line.startswith("gpuyard-")]
    started = [command for line in lines for command in line.split("&") if command.startswith("gpuyard-")]
    ports = [re.findall(r"--ops-port (\d+)", command) or ["8081"] for command in started]
    assert len(started) == len({port for [port] in ports}) == 3


def test_the_sample_topology_is_read() -> None:
    sample = yaml.safe_load((tree.ROOT / "manifests" / "samples" / "topology.yaml").read_text())
    assert set(read(sample["data"]["topology.yml"]).nodes) == {"kind-worker", "kind-worker2"}
