"""Kubeconfigs are read as kubectl reads them; what cannot be used is named with file, field and remedy."""

import base64
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.errors import AccessError
from gpuyard.common.kube.kubeconfig import load


def config(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:  # noqa: ANN401
    """A kubeconfig with one context `dev` of one cluster and one user."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"} | cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "dev",
        "preferences": {},
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


async def read(file: Path, content: dict[str, Any], context: str = "") -> Access:
    file.write_text(yaml.safe_dump(content))
    return await load([file], context)


async def header(access: Access) -> str:
    return (await access.authorization.header()).get("Authorization", "")


async def test_server_and_namespace_come_from_the_current_context(file: Path) -> None:
    access = await read(file, config())
    assert (access.server, access.namespace) == ("https://10.0.0.1:6443", "team")
    assert access.origin == f"{file}, context dev"


async def test_another_context_can_be_named(file: Path) -> None:
    content = config()
    content["contexts"] += [{"name": "prod", "context": {"cluster": "p"}}]
    content["clusters"] += [{"name": "p", "cluster": {"server": "http://prod"}}]
    access = await read(file, content, "prod")
    assert (access.server, access.namespace, access.tls) == ("http://prod", "default", None)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
        ({}, ""),
    ],
)
async def test_each_kind_of_static_credentials_is_sent(file: Path, user: dict[str, Any], expected: str) -> None:
    (file.parent / "token").write_text("from-file")
    assert await header(await read(file, config(user))) == expected


@pytest.mark.parametrize("inline", [True, False])
async def test_certificates_are_taken_inline_or_from_files_beside_the_kubeconfig(file: Path, inline: bool) -> None:
    authority = trustme.CA()
    identity = authority.issue_cert("me@example.com")
    texts = {
        "certificate-authority": authority.cert_pem.bytes(),
        "client-certificate": identity.cert_chain_pems[0].bytes(),
        "client-key": identity.private_key_pem.bytes(),
    }
    fields: dict[str, str] = {}
    for field, text in texts.items():
        (file.parent / field).write_bytes(text)
        fields |= {f"{field}-data": base64.b64encode(text).decode()} if inline else {field: field}
    user = {field: value for field, value in fields.items() if field.startswith("client")}
    cluster = {field: value for field, value in fields.items() if not field.startswith("client")}
    access = await read(file, config(user, **cluster))
    assert access.tls
    assert len(access.tls.get_ca_certs()) == 1


async def test_server_name_proxy_and_verification_are_honoured(file: Path) -> None:
    cluster: dict[str, Any] = {
        "tls-server-name": "api.local",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    access = await read(file, config(**cluster))
    assert (access.server_name, access.proxy) == ("api.local", "http://proxy:3128")
    assert access.tls
    assert not access.tls.check_hostname


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://api.example:6443", "http://proxy:3128"),
        ("https://api.inside.example", None),
        ("https://10.1.2.3:6443", None),
        ("https://11.1.2.3:6443", "http://proxy:3128"),
        ("https://[fd00::7]:6443", None),
        ("https://127.0.0.1:6443", None),
        ("http://api.example", None),
    ],
)
async def test_the_proxy_of_the_environment_is_used_as_kubectl_does(
    file: Path, monkeypatch: pytest.MonkeyPatch, server: str, proxy: str | None
) -> None:
    for name, value in {
        "HTTPS_PROXY": "http://proxy:3128",
        "NO_PROXY": ".inside.example, a/b, 10.0.0.0/8,fd00::/8",
    }.items():
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    assert (await read(file, config(server=server))).proxy == proxy


async def test_of_several_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first, second, absent = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    first.write_text(yaml.safe_dump({"clusters": [{"name": "c", "cluster": {"server": "http://first"}}]}))
    second.write_text(yaml.safe_dump(config()))
    access = await load([first, absent, second])
    assert (access.server, access.namespace) == ("http://first", "team")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": "gone"}, "no context 'gone'; known: dev; choose one with --context"),
        ({"current-context": ""}, "no context ''; known: dev"),
        ({"contexts": None}, "no context 'dev'; known: none"),
        ({"clusters": []}, "no cluster 'c'; known: none"),
        ({"users": [{"name": "other"}]}, "no user 'u'; known: other"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "kubeconfig: cluster 'c' names no server"),
        ({"clusters": "none"}, "kubeconfig: not a kubeconfig: Expected `array | null`, got `str` - at `$.clusters`"),
    ],
)
async def test_what_is_missing_is_named_with_what_there_is(file: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(AccessError) as caught:
        await read(file, config() | change)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"client-certificate-data": "%"}, "client-certificate-data is not base64 of a PEM text"),
        ({"client-certificate": "gone.pem"}, r"client-certificate: .*gone\.pem: No such file or directory"),
        ({"client-certificate-data": "YWJj"}, "the certificates cannot be used"),
        ({"as": "admin", "token": "x"}, "impersonation.* is not supported"),
    ],
)
async def test_credentials_that_cannot_be_used_are_named(file: Path, user: dict[str, Any], said: str) -> None:
    with pytest.raises(AccessError, match=said):
        await read(file, config(user))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not YAML"),
        ("[" * 25_000, "not YAML: nested deeper than 100 levels"),
        ("a: 2026-13-45", "not YAML: month must be in 1..12"),
        ("- a", "not a kubeconfig"),
        ("", "no context ''; known: none"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_refused(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(AccessError, match=said):
        await load([file])


async def test_a_file_that_is_not_there_is_named_with_the_remedy(file: Path) -> None:
    with pytest.raises(AccessError, match="kubeconfig: No such file or directory; name a kubeconfig with --kubeconfig"):
        await load([file])
