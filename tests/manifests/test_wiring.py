"""Each way in which kube-scheduler is wired to the extender is the shipped one, but for what makes it another way."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from gpuyard.cli import issuing, keeping
from gpuyard.cli.findings import Status
from gpuyard.cli.scheduler_config import lint
from gpuyard.cli.token_keeping import CONFIG, SECRET_FILE
from gpuyard.common import tokens
from gpuyard.common.tls import AUTHORITY, CERTIFICATE, KEY
from gpuyard.engine.kube.workloads import SCHEDULERS
from gpuyard.extender.__main__ import PORT, TLS_PORT
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.rendering import MANIFESTS
from gpuyard.sandbox.tools import LINUX, catalogue

Json = dict[str, Any]

SHIPPED = "kube-scheduler/config.yaml"
IN_A_POD = ("base/scheduler/config.yaml", "overlays/one-pod/config.yaml")
SECURED = "kube-scheduler/config-mtls.yaml"
ALL = (SHIPPED, SECURED, *IN_A_POD)


def documents(name: str) -> list[Json]:
    return [one for one in yaml.safe_load_all((MANIFESTS / name).read_text()) if one]


def config(name: str) -> Json:
    """A configuration of kube-scheduler, in a file or in a ConfigMap."""
    (made,) = documents(name)
    return yaml.safe_load(made["data"]["config.yaml"]) if made["kind"] == "ConfigMap" else made


def extender(name: str) -> Json:
    (only,) = config(name)["extenders"]
    return only  # type: ignore[no-any-return]


def one(name: str, kind: str) -> Json:
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


@pytest.mark.row("E-23", case="shipped")
@pytest.mark.parametrize("name", ALL)
def test_no_shipped_configuration_has_a_flaw(name: str) -> None:
    given = config(name)
    for each in given["extenders"]:
        each["urlPrefix"] = each["urlPrefix"].replace("TOKEN", tokens.new())
    assert [found.status for found in lint(given, "it")] == [Status.OK]


@pytest.mark.parametrize("name", ALL)
def test_kube_scheduler_is_asked_the_same_way_everywhere(name: str) -> None:
    way = ("urlPrefix", "enableHTTPS", "tlsConfig")
    asked = [{key: value for key, value in extender(each).items() if key not in way} for each in (name, SHIPPED)]
    assert asked[0] == asked[1]
    assert config(name)["percentageOfNodesToScore"] == 100


@pytest.mark.parametrize("name", ALL)
def test_every_profile_is_one_whose_pods_are_governed(name: str) -> None:
    names = [profile["schedulerName"] for profile in config(name)["profiles"]]
    assert set(names) <= set(SCHEDULERS)
    assert "kai-scheduler" in names


@pytest.mark.parametrize("name", IN_A_POD)
def test_a_second_kube_scheduler_never_takes_the_name_of_the_first(name: str) -> None:
    assert [profile["schedulerName"] for profile in config(name)["profiles"]] == ["kai-scheduler"]


@pytest.mark.parametrize("name", IN_A_POD)
def test_a_second_kube_scheduler_holds_a_lease_of_its_own_that_it_may_write(name: str) -> None:
    lease = config(name)["leaderElection"]
    assert lease["leaderElect"]
    write = one("base/scheduler/rbac.yaml", "Role")["rules"][1]
    assert (write["resourceNames"], lease["resourceNamespace"]) == ([lease["resourceName"]], "gpuyard")


def test_in_one_pod_the_extender_is_asked_over_loopback_and_listens_nowhere_else() -> None:
    assert extender("overlays/one-pod/config.yaml")["urlPrefix"] == f"http://127.0.0.1:{PORT}/scheduler"
    pod = one("overlays/one-pod/pod.yaml", "Deployment")["spec"]
    ours, _ = pod["template"]["spec"]["containers"]
    (base,) = one("base/extender/extender.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert ours["args"] == [*(each for each in base["args"] if "--token" not in each), "--host=127.0.0.1"]
    assert (pod["replicas"], pod["strategy"]["type"]) == (1, "Recreate")


def test_both_second_schedulers_are_one_and_the_same_container() -> None:
    (apart,) = one("base/scheduler/scheduler.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    _, beside = one("overlays/one-pod/pod.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    *mounts, certificates = apart["volumeMounts"]
    assert certificates["name"] == "certificates", "over loopback there are none"
    assert beside == apart | {"volumeMounts": mounts}


def test_a_second_scheduler_is_of_the_version_that_is_tested() -> None:
    (container,) = one("base/scheduler/scheduler.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    version = catalogue(system=LINUX)["kube-scheduler"].version
    assert container["image"] == f"registry.k8s.io/kube-scheduler:{version}"


def test_apart_the_extender_is_asked_with_certificates_by_the_name_of_its_service() -> None:
    name = one("base/extender/extender.yaml", "Service")["metadata"]["name"]
    asked = extender("base/scheduler/config.yaml")
    assert asked["urlPrefix"] == f"https://{name}.gpuyard:{TLS_PORT}/scheduler"
    assert asked["tlsConfig"]["serverName"] == extender(SECURED)["tlsConfig"]["serverName"]
    spec = one("base/scheduler/scheduler.yaml", "Deployment")["spec"]["template"]["spec"]
    mount, volume = spec["containers"][0]["volumeMounts"][-1], spec["volumes"][0]
    assert volume == {"name": mount["name"], "secret": {"secretName": keeping.SCHEDULER}}
    files = {asked["tlsConfig"][key] for key in ("caFile", "certFile", "keyFile")}
    assert files == {f"{mount['mountPath']}/{file}" for file in (AUTHORITY, CERTIFICATE, KEY)}
    overlay = documents("overlays/second-scheduler/kustomization.yaml")[0]
    assert overlay["components"] == ["../../components/mtls"], "which makes them"


# --- certificates ---


@pytest.mark.row("E-32")
def test_the_shipped_way_with_certificates_is_refused_without_its_authority() -> None:
    given = config(SECURED)
    del given["extenders"][0]["tlsConfig"]["caFile"]
    assert Status.FAIL in {found.status for found in lint(given, "it")}


def test_the_secured_configuration_names_the_files_and_the_host_that_are_made() -> None:
    asked = extender(SECURED)
    tls = asked["tlsConfig"]
    assert {tls[key].rpartition("/")[2] for key in ("caFile", "certFile", "keyFile")} == {AUTHORITY, CERTIFICATE, KEY}
    assert tls["serverName"] in keeping.ends("gpuyard")[0].hosts
    plain = extender(SHIPPED)["urlPrefix"].replace("gpuyard:TOKEN@", "")
    assert asked["urlPrefix"] == plain.replace("http:", "https:").replace(str(PORT), str(TLS_PORT))


def patched(kind: str) -> list[Json]:
    component = documents("components/mtls/kustomization.yaml")[0]
    return [
        change
        for each in component["patches"]
        if each["target"]["kind"] == kind
        for change in yaml.safe_load(each["patch"])
    ]


def test_the_port_with_certificates_takes_the_place_of_the_open_one() -> None:
    (container,) = one("base/extender/extender.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["ports"][0]["name"] == "http"
    assert {"name": "https", "containerPort": TLS_PORT} in [change["value"] for change in patched("Deployment")]
    (service,) = patched("Service")
    assert (service["path"], service["value"]["port"]) == ("/spec/ports/0", TLS_PORT)


def test_the_extender_reads_the_secret_that_is_made_for_it() -> None:
    values = [change["value"] for change in patched("Deployment")]
    volume = next(value for value in values if isinstance(value, dict) and "secret" in value)
    mount = next(value for value in values if isinstance(value, dict) and "mountPath" in value)
    assert volume == {"name": mount["name"], "secret": {"secretName": keeping.EXTENDER}}
    assert f"--tls={mount['mountPath']}" in values


def test_whoever_makes_certificates_may_write_these_three_secrets_and_nothing_else() -> None:
    create, write = one("components/mtls/certificates.yaml", "Role")["rules"]
    assert create == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    assert set(write["resourceNames"]) == {keeping.AUTHORITY, keeping.EXTENDER, keeping.SCHEDULER}
    assert write["verbs"] == ["get", "update"]


def test_the_first_certificates_are_made_by_what_renews_them_day_by_day() -> None:
    first = one("components/mtls/certificates.yaml", "Job")["spec"]["template"]
    then = one("components/mtls/certificates.yaml", "CronJob")["spec"]
    assert then["jobTemplate"]["spec"]["template"] == first
    (container,) = first["spec"]["containers"]
    assert (container["image"], container["args"]) == (product.IMAGE, ["certificates"])
    assert issuing.RENEW_BEFORE.days > 7, "many runs may fail before one is too late"


def test_a_kind_cluster_of_ones_own_mounts_the_configuration_where_its_kube_scheduler_reads_it() -> None:
    [made] = documents("kube-scheduler/kind.yaml")
    first, *workers = made["nodes"]
    [mount], [patch] = first["extraMounts"], first["kubeadmConfigPatches"]
    assert f"/{mount['hostPath'].split('/')[0]}/" in (MANIFESTS.parent / ".gitignore").read_text().splitlines()
    for line in (f"--save {mount['hostPath']} ", f"-f {mount['hostPath']}/{SECRET_FILE}"):
        assert line in (MANIFESTS / "kube-scheduler" / "kind.yaml").read_text()
    scheduler = yaml.safe_load(patch)["scheduler"]
    [volume] = scheduler["extraVolumes"]
    assert volume["hostPath"] == volume["mountPath"] == mount["containerPath"]
    assert scheduler["extraArgs"] == {"config": f"{mount['containerPath']}/{CONFIG}"}
    assert [node["role"] for node in workers] == ["worker", "worker"]
