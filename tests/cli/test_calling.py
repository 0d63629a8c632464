"""How a command ends when its cluster does not answer as it should: with the reason, and what helps."""

from pathlib import Path

import pytest
from gpuyard.cli.calling import UNREACHABLE, calling
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import AccessError, ApiError, KubeError, UnreachableError

from tests.cli.cluster import cluster


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            UnreachableError("no answer"),
            "no answer; if another cluster is meant, name it with --kubeconfig or --context",
        ),
        (
            ApiError("pods", 403, "Forbidden", "you may not"),
            "pods: you may not (403 Forbidden); ask the cluster's administrators for that right",
        ),
        (ApiError("pods", 500, "InternalError", "it broke"), "pods: it broke (500 InternalError)"),
        (AccessError("/nowhere is not there; name another"), "/nowhere is not there; name another"),
    ],
)
def test_it_ends_with_3_and_says_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: KubeError, told: str
) -> None:
    async def work(_: Client) -> None:
        raise error

    with cluster(tmp_path) as kubeconfig, pytest.raises(SystemExit) as ended:
        calling(work, kubeconfig, "")
    assert (ended.value.code, capsys.readouterr().err) == (UNREACHABLE, f"{told}\n")
