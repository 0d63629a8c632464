"""What `gpuyard doctor` reads of pods: who runs in them, with which options, and whether they ask for GPUs."""

import pytest
from gpuyard.cli.patient import command_of, leads, option, wants_gpus

from tests.engine.kube.written import Json, container, pod


def running(*command: str, args: tuple[str, ...] = ()) -> Json:
    return pod(containers=[container(), {"name": "s", "command": list(command), "args": list(args)}])


@pytest.mark.parametrize(
    "command",
    [("kube-scheduler", "-v=3"), ("/usr/local/bin/kube-scheduler",), ("/bin/env", "kube-scheduler")],
)
def test_a_program_is_known_by_its_name(command: tuple[str, ...]) -> None:
    assert command_of(running(*command), "kube-scheduler") == list(command)


def test_a_program_may_be_named_by_the_arguments_alone() -> None:
    assert command_of(running(args=("kube-scheduler", "--v=3")), "kube-scheduler") == ["kube-scheduler", "--v=3"]


def test_what_only_speaks_of_a_program_does_not_run_it() -> None:
    assert command_of(running("sh", "-c", "pgrep kube-scheduler"), "kube-scheduler") is None


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("a", "--config=/x"), "/x"),
        (("a", "--config", "/x"), "/x"),
        (("a", "--config"), ""),
        (("a", "--configs=/x"), ""),
    ],
)
def test_an_option_is_read_in_both_ways_of_writing_it(words: tuple[str, ...], value: str) -> None:
    assert option(words, "--config") == value


@pytest.mark.parametrize(
    ("given", "wants"),
    [
        (pod(), True),
        (pod(gpus=0), False),
        (pod(containers=[container()], initContainers=[container(1)]), True),
        (pod(containers=[container(0, **{"gpuyard.io/shared-gpu": "1"})]), True),
        (pod(containers=[{"name": "main"}]), False),
    ],
    ids=["gpu", "none", "init container", "part of a gpu", "nothing at all"],
)
def test_a_pod_wants_gpus_if_any_of_its_containers_does(given: Json, wants: bool) -> None:
    assert wants_gpus(given) is wants


def test_the_leader_is_the_pod_with_the_label() -> None:
    assert leads(pod(labels={"gpuyard.io/leader": "true"}))
    assert not leads(pod(labels={"gpuyard.io/leader": "false"}))
