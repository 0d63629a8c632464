"""The commands that ask a live cluster: why a pod waits, who has what, and what if I submitted this."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")


@pytest.fixture
def team(yard: Yard) -> str:
    """A queue with a limit of 2 GPUs: one pod uses them up, another one waits."""
    name = yard.queue("team", limit=2)
    yard.submit("runs", queue=name, gpus=2)
    yard.until(lambda: yard.placed() == {"runs"}, 30, "the first pod runs")
    yard.submit("waits", queue=name)
    yard.until(lambda: "waits" in yard.verdicts(), 30, "the second pod is refused")
    return name


def gpuyard(*arguments: str | Path, code: int = 0) -> str:
    """What the command says, run as users run it."""
    done = run(*arguments)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuyard.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def ask(yard: Yard, *arguments: str | Path, code: int = 0) -> str:
    return gpuyard(*arguments, "--kubeconfig", yard.cluster.kubeconfig, code=code)


def answer(yard: Yard, *arguments: str | Path) -> Json:
    found: Json = json.loads(ask(yard, *arguments, "-o", "json"))
    return found


@pytest.mark.row("Q-41", case="limit")
def test_explain_says_why_in_both_their_words_and_its_advice_makes_the_pod_run(yard: Yard, team: str) -> None:
    told = answer(yard, "explain", "pod/waits", "-n", yard.namespace)
    assert (told["state"], told["queue"], told["reason"]) == ("Pending", team, "OverLimit")
    assert told["kubeScheduler"]["message"] == yard.verdicts()["waits"]
    assert any(f"raise the limit of queue {team} from 2 GPUs to 3 GPUs" in line for line in told["advice"])
    yard.queue("team", limit=3)
    yard.until(lambda: "waits" in yard.placed(), 30, "it runs as advised")


@pytest.fixture
def member(yard: Yard, tmp_path: Path) -> Path:
    """The kubeconfig of somebody who may look at the pods of the namespace and at nothing else."""
    kubectl, namespace = yard.cluster.kubectl, f"--namespace={yard.namespace}"
    kubectl("create", "serviceaccount", "member", namespace)
    kubectl(
        "create", "rolebinding", "member", "--clusterrole=view", f"--serviceaccount={yard.namespace}:member", namespace
    )
    config = yaml.safe_load(yard.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", "member", namespace).strip()}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.usefixtures("team")
def test_who_may_look_at_his_namespace_only_is_told_what_the_pod_and_its_events_say(yard: Yard, member: Path) -> None:
    asked = ("explain", "pod/waits", "-n", yard.namespace, "--kubeconfig", member, "-o", "json")
    # Neither the right nor the Event is there at once.
    yard.until(lambda: "OverLimit" in run(*asked).stdout, 60, "the Event is told")
    told = json.loads(gpuyard(*asked))
    assert "has a limit of 2 GPUs (2 GPUs in use, 1 GPU asked for)" in told["message"]
    assert told["kubeScheduler"]["message"] == yard.verdicts()["waits"]
    gpuyard("explain", "pod/other", "-n", yard.namespace, "--kubeconfig", member, code=2)
    gpuyard("top", "--kubeconfig", member, code=3)


def test_top_counts_what_is_used_and_what_waits(yard: Yard, team: str) -> None:
    told = answer(yard, "top")
    (row,) = [one for one in told["queues"] if one["name"] == team]
    assert (row["used"]["gpu"], row["limit"]["gpu"], row["waitingPods"], row["waitingGpus"]) == (2, 2, 1, 1)
    pods = {one["pod"]: one for one in told["pods"]}
    assert pods[f"{yard.namespace}/runs"]["node"] == yard.one("runs")["spec"]["nodeName"]
    assert pods[f"{yard.namespace}/waits"]["reason"] == "OverLimit"


def test_a_saved_snapshot_gives_the_plan_of_the_live_cluster(yard: Yard, team: str, tmp_path: Path) -> None:
    ask(yard, "snapshot", "save", tmp_path / "cluster.json")
    waits = f"{yard.namespace}/waits"
    saved = json.loads(gpuyard("plan", "-f", tmp_path / "cluster.json", "-o", "json"))
    live = answer(yard, "plan", "--live")
    assert saved["pending"][waits]["reason"] == live["pending"][waits]["reason"] == "OverLimit"
    assert saved["queues"][team]["allocated"] == live["queues"][team]["allocated"]
    assert live["queues"][team]["allocated"]["gpu"] == 2


def job(yard: Yard, queue: str, pods: int) -> Json:
    """A Job whose pods have a GPU each."""
    made = yard.pod("unused", queue)
    template = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"] | {"restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    meta = {"name": "train", "namespace": yard.namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("submitted", [3, 2])
def test_what_a_plan_says_of_a_job_is_what_becomes_of_it(yard: Yard, tmp_path: Path, submitted: int) -> None:
    mine = job(yard, yard.queue("team", limit=2), submitted)
    (tmp_path / "job.json").write_text(json.dumps(mine))
    asked = ("plan", "--live", "-f", tmp_path / "job.json", "--check", f"{yard.namespace}/job/train")
    told = ask(yard, *asked, code=int(submitted > 2))
    assert ("yes: all 2 pods" in told, "no: 2 of the 3 pods" in told) == (submitted == 2, submitted == 3)
    yard.apply(mine)
    yard.until(lambda: len(yard.placed()) == 2, 60, "two of its pods run, as many as was said")
    yard.until(lambda: len(yard.pods()) == submitted, 60, "its controller has made all")
    # Those that are there are counted once.
    assert ask(yard, *asked, code=int(submitted > 2)).splitlines()[0][:3] == told[:3]
    assert answer(yard, "explain", "job/train", "-n", yard.namespace)["state"] == ["Running", "Pending"][submitted > 2]


@pytest.mark.parametrize(("limit", "code"), [(2, 0), (1, 1)])
def test_what_if_i_submitted_this(yard: Yard, tmp_path: Path, limit: int, code: int) -> None:
    mine: Json = yard.pod("mine", yard.queue("other", limit=limit), gpus=2)
    (tmp_path / "mine.json").write_text(json.dumps(mine))
    ask(yard, "plan", "--live", "-f", tmp_path / "mine.json", "--check", f"{yard.namespace}/mine", code=code)
    assert "mine" not in yard.pods()
