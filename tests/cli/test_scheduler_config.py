"""`gpuyard doctor scheduler-config`: what of a KubeSchedulerConfiguration keeps queues from being held."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.cli.findings import Status
from gpuyard.cli.scheduler_config import KEYS, NoConfiguration, lint, read

from tests.cli.mutations import VALUES
from tests.cli.shell import run

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

MANIFESTS = Path(__file__).parents[2] / "manifests"
SHIPPED = MANIFESTS / "kube-scheduler" / "config.yaml"
SECRET = "a-token-that-nobody-may-see"  # noqa: S105 - nobody has it
KIND = "\nkind: KubeSchedulerConfiguration\n"
EVERY = sorted(path for path in MANIFESTS.rglob("*.yaml") if KIND in path.read_text())
SECURE = [path for path in EVERY if "urlPrefix: https:" in path.read_text()]
GPU, PART = "nvidia.com/gpu", "gpuyard.io/shared-gpu"
OTHER = {"urlPrefix": "http://10.0.0.1/other", "filterVerb": "filter"}


def with_token(path: Path) -> str:
    """A file of ours with a token in the place of the word that stands for it."""
    return path.read_text().replace("TOKEN@", f"{SECRET}@")


def config(**of_the_extender: Any) -> Json:  # noqa: ANN401 - YAML
    """The shipped configuration, its extender changed."""
    found: Json = yaml.safe_load(with_token(SHIPPED))
    found["extenders"][0] |= of_the_extender
    return found


def changed(change: Callable[[Json], object], given: Json | None = None) -> Json:
    """The shipped configuration, or this one, changed."""
    found = given or config()
    change(found)
    return found


def without(key: str) -> Json:
    return changed(lambda found: found["extenders"][0].pop(key))


def flaws(given: Json) -> list[tuple[str, Status]]:
    return [(each.seen.partition(": ")[0], each.status) for each in lint(given, "file") if each.status != "ok"]


def failing(given: Json) -> list[str]:
    return [field for field, status in flaws(given) if status is Status.FAIL]


@pytest.mark.row("E-23", case="shipped")
@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_a_configuration_that_we_ship_has_no_flaw_once_it_has_the_token(path: Path, tmp_path: Path) -> None:
    (file := tmp_path / "config.yaml").write_text(with_token(path))
    told = run("doctor", "scheduler-config", file)
    assert (told.code, told.out.split()[0]) == (0, "ok")


def test_in_a_pod_of_its_own_kube_scheduler_may_ask_by_a_name_of_the_cluster() -> None:
    def in_a_pod(found: Json) -> None:
        del found["clientConnection"]

    named = config(urlPrefix=f"http://gpuyard:{SECRET}@gpuyard-extender.gpuyard.svc:8080/scheduler")
    assert flaws(changed(in_a_pod, named)) == []


@pytest.mark.row("E-23", case="listed-twice")
def test_a_resource_that_two_extenders_list_is_found() -> None:
    theirs = OTHER | {"managedResources": [{"name": GPU}]}
    assert failing(changed(lambda found: found["extenders"].append(theirs))) == ["extenders.managedResources"]


@pytest.mark.row("E-23", case="listed-twice")
def test_a_resource_that_one_extender_lists_twice_is_found() -> None:
    managed = [{"name": GPU}, {"name": GPU}, {"name": PART, "ignoredByScheduler": True}]
    assert failing(config(managedResources=managed)) == ["extenders.managedResources"]


def test_an_extender_that_asks_elsewhere_about_gpus_is_told_where_gpuyard_answers() -> None:
    assert failing(config(urlPrefix="http://10.96.0.77:8080/filter")) == ["extenders[0].urlPrefix"]


@pytest.mark.row("E-23", case="weight-zero")
@pytest.mark.parametrize("weight", [0, -1, None])
def test_a_verb_for_scores_without_a_weight_is_found(weight: int | None) -> None:
    assert failing(config(weight=weight)) == ["extenders[0].weight"]


@pytest.mark.row("E-23", case="two-binds")
def test_two_extenders_that_bind_are_found() -> None:
    theirs = OTHER | {"bindVerb": "bind"}
    assert failing(changed(lambda found: found["extenders"].append(theirs), config(bindVerb="bind"))) == [
        "extenders[1].bindVerb"
    ]


@pytest.mark.row("E-32")
@pytest.mark.parametrize("tls", [None, {}, {"insecure": True}, {"certFile": "/c", "keyFile": "/k"}])
def test_tls_without_a_certificate_authority_is_found(tls: Json | None) -> None:
    secure = {"urlPrefix": "https://10.96.0.77:8443/scheduler", "enableHTTPS": True}
    assert failing(config(**secure, tlsConfig=tls)) == ["extenders[0].tlsConfig"]
    assert failing(config(**secure, tlsConfig={"caFile": "/ca"})) == []
    assert failing(config(**secure, tlsConfig={"caData": "Q0E="})) == []


@pytest.mark.row("E-32")
@pytest.mark.parametrize("path", SECURE, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_a_shipped_configuration_with_tls_is_refused_once_its_certificate_authority_is_gone(path: Path) -> None:
    found: Json = yaml.safe_load(path.read_text())
    for extender in found["extenders"]:
        for key in ("caFile", "caData"):
            extender["tlsConfig"].pop(key, None)
    assert "extenders[0].tlsConfig" in failing(found)


@pytest.mark.parametrize(
    ("tls", "field"),
    [
        ({"caFile": "/ca", "insecure": True}, "extenders[0].tlsConfig.insecure"),
        ({"caFile": "/ca", "certFile": "/c"}, "extenders[0].tlsConfig"),
        ({"caFile": "/ca", "keyData": "Sw=="}, "extenders[0].tlsConfig"),
    ],
)
def test_tls_that_cannot_work_is_found(tls: Json, field: str) -> None:
    given = config(urlPrefix="https://10.96.0.77:8443/scheduler", enableHTTPS=True, tlsConfig=tls)
    assert failing(given) == [field]


def test_https_that_is_switched_on_for_a_plain_address_encrypts_nothing() -> None:
    assert failing(config(enableHTTPS=True, tlsConfig={"caFile": "/ca"})) == ["extenders[0].enableHTTPS"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filterVerb", "filters"),
        ("filterVerb", None),
        ("preemptVerb", ""),
        ("prioritizeVerb", "score"),
        ("bindVerb", "binding"),
        ("ignorable", True),
        ("urlPrefix", "10.96.0.77:8080/scheduler"),
        ("urlPrefix", "http://10.96.0.77:8080"),
        ("httpTimeout", "soon"),
        ("httpTimeout", 2),
        ("managedResources", []),
        ("managedResources", None),
    ],
)
def test_a_value_with_which_quotas_are_not_held_is_a_failure(key: str, value: object) -> None:
    assert failing(config(**{key: value})) == [f"extenders[0].{key}"]


@pytest.mark.parametrize("key", ["filterVerb", "preemptVerb", "urlPrefix", "managedResources"])
def test_a_key_without_which_quotas_are_not_held_is_a_failure(key: str) -> None:
    assert failing(without(key)) == [f"extenders[0].{key}"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prioritizeVerb", None),
        ("weight", 1),
        ("nodeCacheCapable", False),
        ("httpTimeout", None),
        ("httpTimeout", "100ms"),
        ("httpTimeout", "1m30s"),
        ("urlPrefix", f"http://gpuyard:{SECRET}@gpuyard-extender.gpuyard.svc:8080/scheduler"),
    ],
)
def test_a_value_with_which_it_works_but_worse_is_a_warning(key: str, value: object) -> None:
    assert flaws(config(**{key: value})) == [(f"extenders[0].{key}", Status.WARN)]


@pytest.mark.parametrize(
    ("managed", "status"),
    [
        ([{"name": PART, "ignoredByScheduler": True}], Status.FAIL),
        ([{"name": GPU, "ignoredByScheduler": True}, {"name": PART, "ignoredByScheduler": True}], Status.FAIL),
        ([{"name": GPU}, {"name": PART}], Status.FAIL),
        ([{"name": GPU}], Status.WARN),
    ],
)
def test_each_resource_has_to_be_asked_about_in_its_own_way(managed: list[Json], status: Status) -> None:
    assert flaws(config(managedResources=managed)) == [("extenders[0].managedResources", status)]


@pytest.mark.parametrize("name", ["", "cpu", "requests.nvidia.com/gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu"])
def test_what_no_device_plugin_offers_is_no_resource_of_an_extender(name: str) -> None:
    managed = [{"name": GPU}, {"name": PART, "ignoredByScheduler": True}, {"name": name}]
    assert failing(config(managedResources=managed)) == ["extenders[0].managedResources[2].name"]


@pytest.mark.parametrize(("key", "hint"), [("nodeCachecapable", "write nodeCacheCapable"), ("colour", "take it away")])
def test_a_key_that_there_is_not_is_named_with_the_one_that_is_meant(key: str, hint: str) -> None:
    [found] = lint(config(**{key: True}), "file")
    assert (found.seen.partition(":")[0], found.remedy.startswith(hint)) == (f"extenders[0].{key}", True)


@pytest.mark.parametrize(
    ("profiles", "found"),
    [
        ([{"schedulerName": "a"}, {"schedulerName": "a"}], ["profiles", "profiles"]),
        ([{"schedulerName": "mine"}], ["profiles"]),
        ([{"schedulerName": "kai-scheduler"}], []),
        ([{}], []),
        (None, []),
    ],
)
def test_some_profile_has_to_be_one_whose_pods_are_governed(profiles: list[Json] | None, found: list[str]) -> None:
    assert failing(changed(lambda given: given.update(profiles=profiles))) == found


# --- what somebody may have written by mistake ---

ODD = [value for value in VALUES if value is not None]
FIELDS = (
    *(("clientConnection",), ("clientConnection", "kubeconfig"), ("percentageOfNodesToScore",), ("apiVersion",)),
    *(("profiles",), ("profiles", 0), ("profiles", 0, "schedulerName"), ("profiles", 0, "percentageOfNodesToScore")),
    *(("extenders",), ("extenders", 0), ("extenders", 0, "tlsConfig", "caFile")),
    *(("extenders", 0, key) for key in sorted(KEYS)),
    *(("extenders", 0, "managedResources", 0), ("extenders", 0, "managedResources", 0, "name")),
    ("extenders", 0, "managedResources", 0, "ignoredByScheduler"),
)
"""Where a value may stand."""


def written(field: tuple[str | int, ...], value: object) -> Json:
    """The shipped configuration with this value there."""
    found = config(tlsConfig={"caFile": "/ca"})
    holder: Any = found
    for key in field[:-1]:
        holder = holder[key]
    holder[field[-1]] = value
    return found


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ".".join(map(str, field)))
def test_whatever_stands_in_a_field_something_is_said_of_it(field: tuple[str | int, ...]) -> None:
    for value in (*ODD, 0x10**6000, "http://[::1/scheduler", "http://10.96.0.77:bad/scheduler"):
        assert lint(written(field, value), "file"), value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("clientConnection",), "x"),
        (("percentageOfNodesToScore",), [1]),
        (("profiles", 0), "x"),
        (("extenders", 0, "tlsConfig"), True),
        (("extenders", 0, "weight"), True),
        (("extenders", 0, "ignorable"), "false"),
        (("extenders", 0, "urlPrefix"), "http://[::1/scheduler"),
        (("extenders", 0, "urlPrefix"), "http://10.96.0.77:bad/scheduler"),
    ],
)
def test_a_value_that_kube_scheduler_cannot_read_is_a_failure(field: tuple[str | int, ...], value: object) -> None:
    name = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, field)))
    given = written(field, value)
    if field[-1] != "tlsConfig":
        del given["extenders"][0]["tlsConfig"]
    assert failing(given) == [name]


@pytest.mark.parametrize("data", ["[1]", "x", "{a: [1]}", "{a: null}"])
def test_a_config_map_that_holds_something_else_holds_no_configuration(data: str) -> None:
    with pytest.raises(NoConfiguration, match="but ConfigMap"):
        read(f"kind: ConfigMap\ndata: {data}".encode())


def test_keys_of_other_types_are_named() -> None:
    given = config()
    given["extenders"][0] |= {1: "x", None: "y", "colour": "z"}
    assert "extenders[0].1" in failing(given)


def test_on_a_control_plane_kube_scheduler_needs_a_kubeconfig() -> None:
    given = changed(lambda found: found.pop("clientConnection"))
    assert flaws(given) == [("clientConnection.kubeconfig", Status.WARN)]
    assert [found.status for found in lint(given, "file", in_pod=True)] == [Status.OK]


@pytest.mark.parametrize(
    ("of_all", "own", "field"),
    [
        (100, 50, "profiles[1].percentageOfNodesToScore"),
        (100, 0, "profiles[1].percentageOfNodesToScore"),
        (50, 100, "percentageOfNodesToScore"),
        (None, 100, "percentageOfNodesToScore"),
    ],
)
def test_a_share_of_its_own_counts_before_that_of_all(of_all: int | None, own: int, field: str) -> None:
    def change(found: Json) -> None:
        found["percentageOfNodesToScore"] = of_all
        found["profiles"][1]["percentageOfNodesToScore"] = own

    assert flaws(changed(change)) == [(field, Status.WARN)]


def test_how_many_nodes_a_profile_looks_at_that_is_not_governed_is_its_own_affair() -> None:
    other = {"schedulerName": "mine", "percentageOfNodesToScore": 5}
    assert flaws(changed(lambda found: found["profiles"].append(other))) == []


def test_all_nodes_have_to_be_looked_at_by_the_profile_or_by_all_of_them() -> None:
    def none(given: Json) -> None:
        del given["percentageOfNodesToScore"]

    def by_profile(given: Json) -> None:
        none(given)
        given["profiles"] = [{"schedulerName": "default-scheduler", "percentageOfNodesToScore": 100}]

    assert flaws(changed(none)) == [("percentageOfNodesToScore", Status.WARN)]
    assert flaws(changed(by_profile)) == []


@pytest.mark.parametrize("extenders", [[], None, [OTHER]])
def test_a_configuration_without_us_is_told_what_to_add(extenders: list[Json] | None) -> None:
    [found] = lint(changed(lambda given: given.update(extenders=extenders)), "file")
    assert (found.status, found.remedy) == (
        Status.FAIL,
        "add the extender of manifests/kube-scheduler/config.yaml",
    )


@pytest.mark.parametrize("extenders", ["ours", ["ours"], {"urlPrefix": "http://x/scheduler"}])
def test_extenders_that_are_no_list_of_extenders_are_found(extenders: object) -> None:
    assert failing(changed(lambda given: given.update(extenders=extenders))) == ["extenders"]


def test_an_older_version_is_found() -> None:
    older = "kubescheduler.config.k8s.io/v1beta3"
    assert failing(changed(lambda given: given.update(apiVersion=older))) == ["apiVersion"]


def test_it_may_stand_in_a_config_map_as_well() -> None:
    held: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"note": "x", "config.yaml": with_token(SHIPPED)},
    }
    other: Json = {"apiVersion": "v1", "kind": "Service"}
    assert read(yaml.safe_dump_all([other, held]).encode()) == config()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "but nothing"),
        (b"a: [", "it is not YAML"),
        (b"- " * 50_000, "it is not YAML: nested deeper than 100 levels"),
        (b"a: !!bool soon", "it is not YAML"),
        (b"kind: Pod", "but Pod"),
        (b"kind: ConfigMap", "but ConfigMap"),
        (b"- kind: Pod", "but nothing"),
    ],
)
def test_a_file_without_a_configuration_says_what_it_is(text: bytes, why: str) -> None:
    with pytest.raises(NoConfiguration, match=why):
        read(text)


def test_for_programs_each_flaw_has_its_field_and_its_remedy() -> None:
    told = run("doctor", "scheduler-config", "-", "-o", "json", stdin=json.dumps(config(ignorable=True)))
    [found] = json.loads(told.out)
    assert (told.code, found["check"], found["status"]) == (1, "-", "fail")
    assert found["seen"].startswith("extenders[0].ignorable: is true")
    assert found["remedy"].startswith("write false")


@pytest.mark.parametrize("file", ["/nowhere/config.yaml", __file__])
def test_a_file_that_cannot_be_used_ends_with_2_and_what_would_do(file: str) -> None:
    told = run("doctor", "scheduler-config", file)
    assert (told.code, told.out) == (2, "")
    assert f"{file}: " in told.err
    assert "name the file that kube-scheduler has as --config" in told.err


# --- the token ---


@pytest.mark.row("X-26", case="no-token")
@pytest.mark.parametrize("host", ["10.96.0.77:8080", "gpuyard-extender.gpuyard"])
def test_an_address_without_a_token_is_a_warning_with_the_command_that_writes_it(host: str) -> None:
    given = config(urlPrefix=f"http://{host}/scheduler")
    assert ("extenders[0].urlPrefix", Status.WARN) in flaws(given)
    assert "gpuyard certificates token --save" in next(each.remedy for each in lint(given, "file") if each.remedy)


def test_the_word_in_the_place_of_the_token_is_found() -> None:
    assert failing(config(urlPrefix="http://gpuyard:TOKEN@10.96.0.77:8080/scheduler")) == ["extenders[0].urlPrefix"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/scheduler", "http://localhost:8080/scheduler"])
def test_over_loopback_no_token_is_missed(url: str) -> None:
    assert flaws(config(urlPrefix=url)) == []


def test_where_the_extender_is_known_to_ask_for_no_token_none_is_missed() -> None:
    given = config(urlPrefix="http://10.96.0.77:8080/scheduler")
    assert [each.status for each in lint(given, "file", with_token=False)] == [Status.OK]


@pytest.mark.row("X-26", case="never-shown")
@pytest.mark.parametrize(
    "change",
    [
        {"urlPrefix": f"http://gpuyard:{SECRET}@10.96.0.77:8080/elsewhere"},
        {"urlPrefix": f"http://gpuyard:{SECRET}@10.96.0.77:bad/scheduler"},
        {"urlPrefix": f"ftp://gpuyard:{SECRET}@10.96.0.77/scheduler"},
        {"urlPrefix": [f"http://gpuyard:{SECRET}@10.96.0.77:8080/scheduler"]},
        {"weight": 0},
    ],
)
def test_no_finding_shows_the_token(change: Json, tmp_path: Path) -> None:
    (file := tmp_path / "config.yaml").write_text(yaml.safe_dump(config(**change)))
    told = run("doctor", "scheduler-config", file)
    assert told.code == 1
    assert SECRET not in told.out + told.err


@pytest.mark.row("X-26", case="never-shown")
def test_a_file_that_is_no_yaml_is_refused_without_its_lines(tmp_path: Path) -> None:
    (file := tmp_path / "config.yaml").write_text(f"{{ urlPrefix: http://gpuyard:{SECRET}@10.96.0.77:8080/scheduler: ]")
    told = run("doctor", "scheduler-config", file)
    assert told.code == 2
    assert SECRET not in told.out + told.err
