"""The way to the cluster is found where users and kubelet put it, and tokens stay fresh."""

from pathlib import Path

import pytest
import trustme
from gpuyard.common.kube.access import Authorization, find_access, in_cluster
from gpuyard.common.kube.errors import AccessError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """A service account as kubelet mounts it."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text("gpuyard")
    (folder / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    return folder


def kubeconfig(path: Path, server: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"""{{"clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}],
        "contexts": [{{"name": "x", "context": {{"cluster": "c"}}}}], "current-context": "x"}}"""
    )
    return str(path)


async def test_inside_a_pod_its_service_account_is_used(mount: Path) -> None:
    access = await find_access(environ=POD, mount=mount)
    assert (access.server, access.namespace) == ("https://10.96.0.1:6443", "gpuyard")
    assert await access.authorization.header() == {"Authorization": "Bearer first"}


async def test_an_ipv6_address_is_put_in_brackets(mount: Path) -> None:
    access = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, mount)
    assert access.server == "https://[fd00::1]:443"


async def test_a_named_kubeconfig_wins_over_everything(mount: Path, tmp_path: Path) -> None:
    named = kubeconfig(tmp_path / "named", "http://named")
    other = kubeconfig(tmp_path / "other", "http://other")
    access = await find_access(named, environ=POD | {"KUBECONFIG": other}, mount=mount)
    assert access.server == "http://named"


async def test_the_environment_wins_over_the_pod(mount: Path, tmp_path: Path) -> None:
    other = kubeconfig(tmp_path / "other", "http://other")
    assert (await find_access(environ=POD | {"KUBECONFIG": other}, mount=mount)).server == "http://other"


async def test_outside_a_pod_the_home_folder_is_looked_at(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube" / "config", "http://home")
    assert (await find_access(environ={"HOME": str(tmp_path)})).server == "http://home"


async def test_where_nothing_is_found_the_error_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"name one with --kubeconfig FILE, or start one with `gpuyard sandbox up`"):
        await find_access(environ={"HOME": str(tmp_path)})


def test_a_pod_without_its_certificate_says_which_file_is_missing(mount: Path) -> None:
    (mount / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"ca\.crt: cannot read the certificate authority"):
        in_cluster(POD, mount)


async def test_a_token_that_kubelet_renews_is_read_again_within_a_minute(mount: Path) -> None:
    now = 0.0
    authorization = Authorization.token_file(mount / "token", clock=lambda: now)
    assert await authorization.header() == {"Authorization": "Bearer first"}
    (mount / "token").write_text("second")
    now = 59
    assert await authorization.header() == {"Authorization": "Bearer first"}
    now = 61
    assert await authorization.header() == {"Authorization": "Bearer second"}


async def test_a_forgotten_token_is_read_again_at_once(mount: Path) -> None:
    authorization = Authorization.token_file(mount / "token", clock=lambda: 0)
    await authorization.header()
    (mount / "token").write_text("second")
    authorization.forget()
    assert await authorization.header() == {"Authorization": "Bearer second"}


async def test_a_token_file_that_vanished_is_an_error_with_its_name(mount: Path) -> None:
    (mount / "token").unlink()
    with pytest.raises(AccessError, match="token: cannot read the token"):
        await Authorization.token_file(mount / "token").header()


async def test_without_credentials_no_header_is_sent() -> None:
    assert await Authorization.fixed("").header() == {}


async def test_a_fetched_header_is_kept_for_its_lifetime() -> None:
    values = iter("ab")
    now = 0.0

    async def fetch() -> str:
        return next(values)

    authorization = Authorization(fetch, lifetime=10, clock=lambda: now)
    assert [(await authorization.header())["Authorization"] for _ in range(3)] == ["a"] * 3
    now = 11
    assert (await authorization.header())["Authorization"] == "b"
