"""Where a plugin must be asked who we are, kubernetes-asyncio asks it, and only there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
import yaml
from gpuyard.common.kube.errors import AccessError
from gpuyard.common.kube.kubeconfig import load

VERSION = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, answer: str) -> Path:
    """A kubeconfig whose plugin counts its runs in a file and prints `answer`."""
    plugin = folder / "plugin.py"
    plugin.write_text(f"open({str(folder / 'runs')!r}, 'a').write('x')\nprint({answer!r})\n")
    run = {"apiVersion": VERSION, "command": sys.executable, "args": [str(plugin)]}
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1"}}],
                "users": [{"name": "u", "user": {"exec": run}}],
                "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "dev",
            }
        )
    )
    return file


def credential(status: dict[str, str]) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


async def test_the_plugins_token_is_sent_and_the_plugin_asked_once(tmp_path: Path) -> None:
    access = await load([kubeconfig(tmp_path, credential({"token": "from-plugin"}))])
    for _ in range(3):
        assert await access.authorization.header() == {"Authorization": "Bearer from-plugin"}
    assert (tmp_path / "runs").read_text() == "x"


async def test_a_token_that_was_refused_is_asked_for_anew(tmp_path: Path) -> None:
    access = await load([kubeconfig(tmp_path, credential({"token": "t"}))])
    await access.authorization.header()
    access.authorization.forget()
    await access.authorization.header()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_the_plugins_certificate_is_presented(tmp_path: Path) -> None:
    identity = trustme.CA().issue_cert("me@example.com")
    chain, key = identity.cert_chain_pems[0].bytes().decode(), identity.private_key_pem.bytes().decode()
    access = await load([kubeconfig(tmp_path, credential({"clientCertificateData": chain, "clientKeyData": key}))])
    assert await access.authorization.header() == {}
    assert access.tls


@pytest.mark.row("P-01", case="login")
async def test_the_context_and_the_user_of_a_plugin_may_stand_in_two_files(tmp_path: Path) -> None:
    whole = yaml.safe_load(kubeconfig(tmp_path, credential({"token": "from-plugin"})).read_text())
    parts = [{key: whole[key] for key in keys} for keys in (("contexts", "current-context"), ("users", "clusters"))]
    files = [tmp_path / "a", tmp_path / "b"]
    for file, part in zip(files, parts, strict=True):
        file.write_text(yaml.safe_dump(part))
    access = await load(files)
    assert await access.authorization.header() == {"Authorization": "Bearer from-plugin"}


async def test_a_plugin_that_fails_is_named_with_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"context dev: the login plugin failed: .*does `kubectl get nodes` work"):
        await load([kubeconfig(tmp_path, "no json")])


def test_processes_that_need_no_plugin_do_not_load_the_library() -> None:
    code = (
        "import sys, gpuyard.common.process, gpuyard.common.lease, gpuyard.common.arguments, "
        "gpuyard.common.kube.kubeconfig, gpuyard.common.kube.events\n"
        "print('kubernetes_asyncio' in sys.modules)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert ran.stdout == "False\n"
