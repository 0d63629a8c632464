"""What users apply: a real API server takes it to the letter, and `gpuyard uninstall` takes it out again."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.common.effects import move
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.settings import parse
from gpuyard.sandbox import Cluster, SandboxError, Spec, down, rendering, up
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster.everything import everything
from tests.documents.blocks import DOCS, blocks, typed_in
from tests.mock.daemons import Daemon, eventually, topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600), pytest.mark.story]

GPU, THEIRS = "nvidia.com/gpu", "nvidia.com/theirs"
SAMPLES = sorted(path for path in (MANIFESTS / "samples").rglob("*.yaml") if path.name != "extender-config.yaml")
OVERLAYS = sorted(path.parent for path in (MANIFESTS / "overlays").glob("*/kustomization.yaml"))
NAMESPACES = ("gpuyard", "gpuyard-mock")
NO_GPUS = "no node offers a GPU"


@pytest.fixture(scope="module")
def cluster(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """A sandbox of two nodes without GPUs; the tests below install, use and uninstall in turn."""
    name = next(sandbox_names)
    try:
        yield up(Spec(name=name, nodes=2, gpus=0))
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


@pytest.fixture(scope="module")
def before(cluster: Cluster) -> set[str]:
    """Everything in the cluster that does not belong to something else."""
    return everything(cluster)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, before: set[str]) -> Cluster:
    """The sandbox with both halves of gpuyard."""
    assert not any("gpuyard" in thing for thing in before)
    cluster.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "kind"))
    cluster.kubectl("wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
    return cluster


def get(cluster: Cluster, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def uninstall(cluster: Cluster, *arguments: str) -> str:
    return gpuyard(cluster, "uninstall", "--yes", *arguments)


def gpuyard(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "gpuyard.cli", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def complaints(cluster: Cluster) -> list[str]:
    """What the doctor finds that is not as it should be."""
    found = json.loads(gpuyard(cluster, "doctor", "-o", "json", code=1))
    return [each["seen"] for each in found if each["status"] != "ok"]


# --- install ---


def test_the_rendered_files_are_what_the_sources_say() -> None:
    rendered = rendering.render(Folders.of_user(), Progress())
    assert rendered == {name: (MANIFESTS / name).read_text() for name in rendered}, "run `make manifests`"


def test_one_command_applies_everything_and_again_changes_nothing(installed: Cluster) -> None:
    overlay = ("-k", str(MANIFESTS / "overlays" / "kind"))
    first = {version(one) for one in get(installed, *overlay)["items"]}
    assert len(first) > 40
    installed.kubectl("apply", "--validate=strict", *overlay)
    assert {version(one) for one in get(installed, *overlay)["items"]} == first


def version(thing: dict[str, Any]) -> tuple[str, ...]:
    """Which object, and its generation: that rises when somebody wants it otherwise."""
    meta = thing["metadata"]
    return thing["kind"], meta["name"], meta["uid"], str(meta.get("generation", meta["resourceVersion"]))


@pytest.mark.parametrize("name", list(rendering.SOURCES))
def test_a_rendered_file_is_taken_to_the_letter(installed: Cluster, name: str) -> None:
    said = installed.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
                             "-f", str(MANIFESTS / name))  # fmt: skip
    assert said.count("serverside-applied") == len(list(yaml.safe_load_all((MANIFESTS / name).read_text())))


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_an_overlay_is_taken_to_the_letter_over_another(installed: Cluster, overlay: Path) -> None:
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(overlay))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_sample_is_taken_to_the_letter(installed: Cluster, sample: Path) -> None:
    installed.kubectl("apply", "--validate=strict", "-f", str(sample))


def crd(kind: str) -> dict[str, Any]:
    """A kind of the Prometheus operator, as far as one object is told from another."""
    group, plural = "monitoring.coreos.com", f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Namespaced", "names": names}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    made = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return made | {"metadata": {"name": f"{plural}.{group}"}, "spec": spec | {"versions": [version]}}


@pytest.fixture
def operator(installed: Cluster) -> Iterator[Cluster]:
    """The sandbox with the kinds of the Prometheus operator."""
    kinds = json.dumps({"apiVersion": "v1", "kind": "List", "items": [crd("ServiceMonitor"), crd("PrometheusRule")]})
    installed.kubectl("create", "-f", "-", stdin=kinds)
    installed.kubectl("wait", "--for=condition=established", "--timeout=180s", "crd", "--all")
    yield installed
    installed.kubectl("delete", "-f", "-", stdin=kinds)


@pytest.mark.parametrize(("part", "namespace"), [("monitoring", "gpuyard-mock"), ("monitoring/extender", "gpuyard")])
def test_monitors_alerts_and_board_are_taken_where_the_operator_is(
    operator: Cluster, part: str, namespace: str
) -> None:
    operator.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / part))
    kinds = "servicemonitors.monitoring.coreos.com,prometheusrules.monitoring.coreos.com"
    assert {one["kind"] for one in get(operator, kinds, "-n", namespace)["items"]} == {
        "ServiceMonitor",
        "PrometheusRule",
    }
    [board] = get(operator, "configmaps", "-n", namespace, "-l", "grafana_dashboard=1")["items"]
    assert all(json.loads(text)["panels"] for text in board["data"].values())


def queue(**spec: object) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def group(**spec: object) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


NONSENSE = {
    "a bound below 0 that is not -1": (queue(resources={"gpu": {"quota": -2}}), "must be -1"),
    "a negative weight": (queue(resources={"gpu": {"overQuotaWeight": -1}}), "overQuotaWeight"),
    "a duration that is none": (queue(resources={}, reclaimMinRuntime="soon"), "reclaimMinRuntime"),
    "a queue that is its own parent": (queue(resources={}, parentQueue="q"), "its own parent"),
    "a sub-group without its parent": (group(subGroups=[{"name": "a", "parent": "b"}]), "name of another sub-group"),
    "a gang of none": (group(minMember=0), "minMember"),
    "a misspelt key": (queue(resources={}, prioritty=1), "prioritty"),
}
LONG = "q" * 1000
TOO_LONG = {
    "queue": {
        "displayName": queue(resources={}, displayName=LONG),
        "parentQueue": queue(resources={}, parentQueue=LONG),
        "preemptMinRuntime": queue(resources={}, preemptMinRuntime="1s" * 1000),
    },
    "pod-group": {
        "queue": group(queue=LONG),
        "priorityClassName": group(priorityClassName=LONG),
        "preemptionDelay": group(preemptionDelay="1s" * 1000),
        "topology": group(topologyConstraint={"topology": LONG}),
        "requiredTopologyLevel": group(topologyConstraint={"requiredTopologyLevel": LONG}),
    },
}


@pytest.mark.parametrize(("made", "why"), NONSENSE.values(), ids=NONSENSE.keys())
def test_a_queue_or_gang_that_can_mean_nothing_is_refused(installed: Cluster, made: dict[str, Any], why: str) -> None:
    with pytest.raises(SandboxError) as refused:
        installed.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(made))
    assert why in str(refused.value)


def is_too_long(cluster: Cluster, made: dict[str, Any], field: str) -> bool:
    """Whether the API server refuses an object, since a text in it is too long."""
    with pytest.raises(SandboxError) as refused:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(made))
    return f"{field}: Too long" in str(refused.value)


@pytest.mark.row("X-72", case="queue")
@pytest.mark.parametrize("field", TOO_LONG["queue"])
def test_a_text_in_a_queue_that_is_longer_than_any_name_is_refused(installed: Cluster, field: str) -> None:
    assert is_too_long(installed, TOO_LONG["queue"][field], field)


@pytest.mark.row("X-72", case="pod-group")
@pytest.mark.parametrize("field", TOO_LONG["pod-group"])
def test_a_text_in_a_gang_that_is_longer_than_any_name_is_refused(installed: Cluster, field: str) -> None:
    assert is_too_long(installed, TOO_LONG["pod-group"][field], field)


def test_bare_pods_are_moved_once_the_document_is_followed(installed: Cluster, tmp_path: Path) -> None:
    installed.kubectl("delete", "clusterrolebinding", "gpuyard-extender-move-bare-pods")
    installed.kubectl("apply", "-n", "gpuyard", "-f", str(MANIFESTS / "base" / "extender" / "config.yaml"))
    may = ("auth", "can-i", "create", "pods", "--as=system:serviceaccount:gpuyard:gpuyard-extender", "-n", "default")
    with pytest.raises(SandboxError):
        installed.kubectl(*may)
    section = "What an intruder in the extender's pod could do"
    [settings] = [block for block in blocks(DOCS / "security.md") if block.file == "moving.yaml"]
    (tmp_path / settings.file).write_text(settings.text)
    for line in typed_in(DOCS / "security.md", section):
        here = line.replace("manifests/", f"{MANIFESTS}/").replace(settings.file, str(tmp_path / settings.file))
        installed.kubectl(*here.split()[1:])
    assert installed.kubectl(*may).strip() == "yes"
    text = get(installed, "configmap", "gpuyard-extender", "-n", "gpuyard")["data"]["extender.yaml"]
    assert parse(text.encode(), ExtenderConfig, "the ConfigMap").move_bare_pods


SHARED = "gpuyard.io/shared-gpu"


@pytest.fixture(scope="module")
def shared(installed: Cluster) -> Cluster:
    """The sandbox with the overlay for shared GPUs; its policy acts some seconds after it was applied."""
    installed.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "shared-gpus"))
    eventually(lambda: SHARED in asked_for(installed, {"gpu-fraction": "0.5"})["limits"], within=60)
    return installed


def asked_for(cluster: Cluster, annotations: dict[str, str], **limits: str) -> dict[str, dict[str, str]]:
    """What the containers of a pod ask for when the API server has admitted it."""
    containers = [{"name": "a", "image": "x", "resources": {"limits": limits}}, {"name": "b", "image": "x"}]
    meta = {"name": "p", "namespace": "default", "annotations": annotations}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
    made = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod))
    first, second = json.loads(made)["spec"]["containers"]
    assert second["resources"] == {}
    resources: dict[str, dict[str, str]] = first["resources"]
    return {"limits": {}, "requests": {}} | resources


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"])
def test_a_pod_that_wants_a_part_of_a_gpu_by_annotation_is_one_that_kube_scheduler_asks_about(
    shared: Cluster, key: str
) -> None:
    both = {"cpu": "1", SHARED: "1"}
    assert asked_for(shared, {key: "1"}, cpu="1") == {"limits": both, "requests": both}


def test_all_other_pods_stay_as_they_are(shared: Cluster) -> None:
    assert asked_for(shared, {"note": "gpu-fraction"}) == {"limits": {}, "requests": {}}
    named = {SHARED: "2"}
    assert asked_for(shared, {"gpu-fraction": "0.5"}, **named) == {"limits": named, "requests": named}


SHARING = "shares"
"""A pod that was created with the annotation."""


@pytest.fixture
def sharing(shared: Cluster) -> Iterator[Cluster]:
    """The same with two pods: one shares a GPU, `plain` does not; neither finds a place."""
    for name, notes in ((SHARING, {"gpu-fraction": "0.5"}), ("plain", {"note": "x"})):
        meta = {"name": name, "namespace": "default", "annotations": notes}
        spec = {"containers": [{"name": "a", "image": "x"}], "schedulingGates": [{"name": "example.com/later"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        shared.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: bool(refusal(shared, "plain", {"gpu-fraction": "0.5"})), within=60)
    yield shared
    shared.kubectl("delete", "pod", SHARING, "plain", "--namespace", "default", "--grace-period=0", "--force")


def refusal(cluster: Cluster, pod: str, annotations: dict[str, str | None], *more: str) -> str:
    """Why the API server does not give a pod these annotations; empty: it would."""
    patch = json.dumps({"metadata": {"annotations": annotations}})
    change = ("patch", "pod", pod, "--namespace", "default", "--type=merge", "--patch", patch, "--dry-run=server")
    try:
        cluster.kubectl(*change, *more)
    except SandboxError as error:
        return str(error)
    return ""


@pytest.mark.row("X-65", case="added")
@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"])
def test_no_annotation_for_a_part_of_a_gpu_can_be_added_to_a_pod_that_exists(sharing: Cluster, key: str) -> None:
    assert (
        f"annotation {key} of pod default/plain may not be added or changed, because the part of a GPU that a pod "
        "requests is set when the pod is created; delete the pod and create it again"
    ) in refusal(sharing, "plain", {key: "1"})


@pytest.mark.row("X-65", case="changed")
def test_nor_can_its_value_be_changed(sharing: Cluster) -> None:
    assert "annotation gpu-fraction of pod default/shares" in refusal(sharing, SHARING, {"gpu-fraction": "1"})


@pytest.mark.row("X-65", case="status")
def test_nor_by_way_of_the_status(sharing: Cluster) -> None:
    assert "gpu-memory of pod default/plain" in refusal(sharing, "plain", {"gpu-memory": "9"}, "--subresource=status")


@pytest.mark.row("X-65", case="other-updates")
@pytest.mark.parametrize("annotations", [{"note": "y"}, {"gpu-fraction": "0.5", "note": "y"}, {"gpu-fraction": None}])
def test_other_updates_of_a_pod_with_such_an_annotation_are_accepted(
    sharing: Cluster, annotations: dict[str, str | None]
) -> None:
    assert refusal(sharing, SHARING, annotations) == ""


# --- uninstall; each goes on where the one before has ended ---


def foreign(cluster: Cluster) -> dict[str, Any]:
    """What of node-1 is not ours."""
    node = get(cluster, "node", "node-1")
    labels = {name: value for name, value in node["metadata"]["labels"].items() if name == THEIRS}
    return {"labels": labels, "count": node["status"]["capacity"].get("example.com/theirs")}


def ours(cluster: Cluster, node: str = "node-1") -> list[str]:
    """What of a node is ours: labels, annotations, resources."""
    found = get(cluster, "node", node)
    names = [*found["metadata"]["labels"], *found["metadata"]["annotations"], *found["status"]["capacity"]]
    return [name for name in names if name.startswith(("nvidia.com/", "gpuyard.io/mock")) and name != THEIRS]


def use(cluster: Cluster, logs: Path) -> None:
    """Let updater and gfd work on the nodes, and end."""
    meta = {"name": "topology", "namespace": "gpuyard-mock"}
    data = {"topology.yml": topology({"node-1": 2, "node-2": 1})}
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(wanted))
    daemons = [Daemon(name, cluster.kubeconfig, logs / name) for name in ("status_updater", "gfd")]
    wanted_there = {GPU, "nvidia.com/gpu.product", "gpuyard.io/mock"}
    eventually(lambda: all(wanted_there <= {*ours(cluster, node)} for node in ("node-1", "node-2")), within=60)
    for daemon in daemons:
        daemon.stop()


@pytest.fixture(scope="module")
def used(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The sandbox after gpuyard was used on its nodes, on which others have left something, too."""
    use(installed, tmp_path_factory.mktemp("used"))
    installed.kubectl("label", "node", "node-1", f"{THEIRS}=yes")
    count = {"status": {"capacity": {"example.com/theirs": "3"}}}
    installed.kubectl("patch", "node", "node-1", "--subresource=status", "--patch", json.dumps(count))
    return installed


def test_the_mock_alone_goes_with_all_it_left_on_nodes_and_nothing_else(used: Cluster) -> None:
    theirs = foreign(used)
    [line] = typed_in(DOCS / "install.md", "Uninstall")
    said = gpuyard(used, *line.split()[1:])
    assert (ours(used), ours(used, "node-2")) == ([], [])
    assert foreign(used) == theirs == {"labels": {THEIRS: "yes"}, "count": "3"}
    assert not [thing for thing in everything(used) if "gpuyard-mock" in thing]
    assert "Deployment gpuyard/gpuyard-extender" in everything(used)
    assert "Namespace gpuyard-mock removed" in said
    assert f"node node-2: {GPU} removed from its status" in said


def keep(cluster: Cluster, name: str, data: object) -> dict[str, Any]:
    """A ControllerRevision as the planner makes one; users may make it, too."""
    meta = {"name": f"gpuyard-move-{name}", "namespace": "quickstart", "labels": {move.OF_PLAN: "a-plan"}}
    kept = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta, "revision": 1, "data": data}
    made = cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(kept))
    return json.loads(made)  # type: ignore[no-any-return]


def begin_a_move(cluster: Cluster, name: str) -> dict[str, Any]:
    """What the planner does with a bare pod: keep its spec, let a plan say what is kept, and evict it."""
    pod = get(cluster, "pod", name, "-n", "quickstart")
    revision = keep(cluster, name, move.made_anew(pod))
    uid = pod["metadata"]["uid"]
    kept = {"uid": uid, "revision": revision["metadata"]["uid"], "digest": move.digest(revision["data"])}
    victim = {"pod": f"quickstart/{name}", "uid": uid, "node": "node-1"}
    plan = {"apiVersion": "gpuyard.io/v1alpha1", "kind": "Plan", "metadata": {"name": f"move-{name}"}}
    spec = {"phase": "consolidate", "evictions": [victim]}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(plan | {"spec": spec}))
    status = json.dumps({"status": {"state": "Running", "kept": [kept]}})
    cluster.kubectl(
        "patch", "plans.gpuyard.io", f"move-{name}", "--subresource=status", "--type=merge", "--patch", status
    )
    cluster.kubectl("delete", "pod", name, "-n", "quickstart", "--grace-period=0", "--force")
    return revision


def replace_what_is_kept(cluster: Cluster, name: str, revision: dict[str, Any]) -> None:
    """What a user of the namespace may do who has the right to ControllerRevisions."""
    cluster.kubectl("delete", "controllerrevision", f"gpuyard-move-{name}", "-n", "quickstart")
    keep(cluster, name, revision["data"] | {"spec": revision["data"]["spec"] | {"hostPID": True}})


@pytest.fixture(scope="module")
def removed(used: Cluster) -> dict[str, list[str]]:
    """What `gpuyard uninstall` says it did and left, with strangers' things in its namespace and pods being moved."""
    used.kubectl("-n", "gpuyard", "create", "configmap", "notes")
    used.kubectl("annotate", "pod", "red-train-1", "-n", "quickstart", "gpuyard.io/poke=1", "theirs=yes")
    replace_what_is_kept(used, "red-train-3", begin_a_move(used, "red-train-3"))
    keep(used, "no-pod", {"no": "metadata"})
    begin_a_move(used, "red-train-2")
    return json.loads(gpuyard(used, "uninstall", "--yes", "-o", "json", code=1))  # type: ignore[no-any-return]


@pytest.mark.row("X-76", case="replaced")
@pytest.mark.row("X-76", case="no-plan")
def test_what_users_put_in_the_place_of_a_kept_spec_is_not_created_and_the_rest_goes_on(
    used: Cluster, removed: dict[str, list[str]]
) -> None:
    names = ("no-pod", "red-train-3")
    refusal = "ControllerRevision quickstart/gpuyard-move-{} is not what a plan says was kept of a pod"
    assert [one.partition(":")[0] for one in sorted(removed["left"])] == [refusal.format(name) for name in names]
    assert "pod quickstart/red-train-2 was being moved, and is there again" in removed["done"]
    pods = {one["metadata"]["name"] for one in get(used, "pods", "-n", "quickstart")["items"]}
    assert ("red-train-3" in pods, "red-train-2" in pods) == (False, True)
    kept = {one["metadata"]["name"] for one in get(used, "controllerrevisions", "-n", "quickstart")["items"]}
    assert kept == {f"gpuyard-move-{name}" for name in names}, "they are left for people to look at"


def test_what_somebody_keeps_in_our_namespace_stays_and_so_do_queues_with_their_crds(
    used: Cluster, removed: dict[str, list[str]]
) -> None:
    said = "\n".join(removed["done"])
    assert "namespace gpuyard stays: ConfigMap notes is not ours" in said
    assert "CRD queues.scheduling.run.ai stays" in said
    left = {thing for thing in everything(used) if "gpuyard" in thing}
    assert left == {
        "Namespace /gpuyard",
        "ConfigMap gpuyard/notes",
        "ConfigMap gpuyard/kube-root-ca.crt",
        "ServiceAccount gpuyard/default",
        *(f"ControllerRevision quickstart/gpuyard-move-{name}" for name in ("no-pod", "red-train-3")),
    }
    assert get(used, "pod", "red-train-2", "-n", "quickstart")
    notes = get(used, "pod", "red-train-1", "-n", "quickstart")["metadata"]["annotations"]
    assert "gpuyard.io/poke" not in notes
    assert notes["theirs"] == "yes"


@pytest.mark.row("P-04", case="dry-run")
def test_a_dry_run_lists_what_would_go_and_removes_nothing(used: Cluster) -> None:
    there = everything(used)
    said = gpuyard(used, "uninstall", "--dry-run")
    assert said.startswith(f"gpuyard on {used.api_url} (")
    assert "  CustomResourceDefinition queues.scheduling.run.ai\n" in said
    assert everything(used) == there


@pytest.mark.row("P-04", case="asked")
def test_without_a_terminal_and_without_yes_nothing_is_removed(used: Cluster) -> None:
    there = everything(used)
    gpuyard(used, "uninstall", code=2)
    assert everything(used) == there


def test_once_nobody_needs_them_crds_and_namespace_go_too(used: Cluster, before: set[str]) -> None:
    used.kubectl("-n", "gpuyard", "delete", "configmap", "notes")
    for sample in reversed(SAMPLES):
        used.kubectl("delete", "--ignore-not-found", "--force", "--grace-period=0", "-f", str(sample))
    uninstall(used)
    eventually(lambda: everything(used) == before, within=60)


def test_where_nothing_is_it_does_nothing(used: Cluster, before: set[str]) -> None:
    assert len(uninstall(used).splitlines()) == 1
    assert everything(used) == before


def test_what_deleting_the_mock_alone_leaves_is_on_nodes_and_the_doctor_names_it(
    used: Cluster, before: set[str], tmp_path: Path
) -> None:
    assert complaints(used) == [NO_GPUS]
    used.kubectl("apply", "-k", str(MANIFESTS / "base" / "mock"))
    use(used, tmp_path)
    used.kubectl("delete", "-k", str(MANIFESTS / "base" / "mock"))
    eventually(lambda: everything(used) == before, within=60)
    said = gpuyard(used, "doctor", code=1)
    assert [each.partition(":")[0] for each in complaints(used)] == ["node node-1", "node node-2"]
    assert said.count("`gpuyard uninstall mock` takes it away") == len(("node-1", "node-2"))
    uninstall(used, "mock")
    assert (ours(used), ours(used, "node-2")) == ([], [])
    assert complaints(used) == [NO_GPUS]


def test_crds_of_others_and_their_queues_stay_whatever_is_asked(used: Cluster) -> None:
    crd = yaml.safe_load((MANIFESTS / "crds" / "queues.scheduling.run.ai.yaml").read_text())
    crd["metadata"]["labels"] = {"app.kubernetes.io/part-of": "another"}
    used.kubectl("create", "-f", "-", stdin=json.dumps(crd))
    used.kubectl("wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
    used.kubectl("create", "-f", "-", stdin=json.dumps(queue(resources={})))
    uninstall(used, "--crds")
    assert get(used, "queues.scheduling.run.ai", "q")


def test_queues_go_with_our_crds_only_when_that_is_asked(installed: Cluster) -> None:
    installed.kubectl("apply", "-k", str(MANIFESTS / "crds"))
    assert "stays: there are 1 objects" in uninstall(installed, "extender")
    uninstall(installed, "extender", "--crds")
    eventually(lambda: not get(installed, "crd")["items"])


def test_a_cluster_that_does_not_answer_is_told_apart(tmp_path: Path, cluster: Cluster) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(cluster.kubeconfig.read_text().replace(cluster.api_url, "https://127.0.0.1:9"))
    command = [sys.executable, "-m", "gpuyard.cli", "uninstall", "--kubeconfig", str(nowhere)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
