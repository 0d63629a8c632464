"""Broken input without end: a cluster with one of everything, and one thing in it changed."""

import copy
import json
from random import Random
from typing import Any

import yaml

from tests.engine.kube.written import MORNING, Json, container, meta, node, pod, pod_group, queue, with_meta

VALUES: tuple[object, ...] = (
    None,
    True,
    "",
    "x",
    "0",
    "-1",
    "1e9",
    "9" * 5000,
    "\x1b[31m\n",
    "\u00e9\U0001f600",
    MORNING,
    "\u00b2",
    "999999999999999999h",
    "1000000000000",
    "department",
    "node-1",
    "team-a",
    "gang",
    "In",
    0,
    -1,
    -2,
    3,
    10**6,
    2**63,
    10**30,
    0.1,
    1e308,
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"a": {"b": [1, {"c": None}]}},
)
NOISE = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\x00",
    b"\xff",
    b"\n",
    b"- ",
    b"*a",
    b"&a ",
    b"!!x ",
    b"---\n",
    b"\t",
)


def _api(kind: str, version: str, name: str, **more: object) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": meta(name)} | more


def _demanding(name: str) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    spec: Json = {
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [zone]}},
            "podAntiAffinity": {required: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}]},
        },
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "initContainers": [container(1, cpu="1") | {"restartPolicy": "Always"}],
        "priorityClassName": "build-preemptible",
        "schedulerName": "default-scheduler",
    }
    return pod(name, 1, **spec)


def cluster() -> list[Json]:
    """One of everything, small enough to be planned in a moment."""
    shared = {"gpu-fraction": "0.5"}
    gang = {"pod-group-name": "gang"}
    job = {"ownerReferences": [{"kind": "PyTorchJob", "name": "train", "uid": "u", "controller": True}]}
    parts = [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 1}]
    devices = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1"}]}]
    return [
        with_meta(node("node-1", 4, labels={"zone": "a", "nvidia.com/gpu.memory": "40960"}), creationTimestamp=MORNING),
        node("node-2", 2, labels={"zone": "b"}, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        queue("department", 4, priority=200),
        queue("team-a", 2, parent="department", preemptMinRuntime="10m"),
        queue("team-b", 2, 4, parent="department", reclaimMinRuntime="1m"),
        _api("PriorityClass", "scheduling.k8s.io/v1", "gold", value=60),
        _api("Topology", "kai.scheduler/v1alpha1", "rows", spec={"levels": [{"nodeLabel": "zone"}]}),
        _api("QueueUsage", "gpuyard.io/v1alpha1", "usage", queues={"team-a": {"gpu": 0.5}}),
        _api("Namespace", "v1", "default"),
        _api("PyTorchJob", "kubeflow.org/v1", "train", spec={"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}),
        pod_group("gang", None, queue="team-a", subGroups=parts, stalenessGracePeriod="60s"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta("budget", "default"),
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 1},
        },
        _api(
            "Plan",
            "gpuyard.io/v1alpha1",
            "plan-1",
            spec={
                "promises": [
                    {
                        "pod": "default/expected",
                        "owner": "u",
                        "workload": "default/expected",
                        "shape": {"gpus": 1, "cpu": 100, "selector": [["zone", "a"]]},
                        "node": "node-1",
                        "queue": "team-a",
                        "priority": 75,
                    }
                ]
            },
            status={"state": "Clearing"},
        ),
        pod("m", 1, notes=gang, labels={"kai.scheduler/subgroup-name": "master"}),
        pod("w", 1, notes=gang, labels={"kai.scheduler/subgroup-name": "worker"}),
        with_meta(pod("t-0", 1, "team-b"), **job),
        with_meta(pod("t-1", 1, "team-b"), **job),
        pod("a", 2, "team-a", on="node-1", status={"containerStatuses": [{"allocatedResourcesStatus": devices}]}),
        with_meta(pod("b", 1, "team-b", on="node-1", labels={"app": "x"}), deletionTimestamp=MORNING),
        pod("c", 0, "team-b", on="node-1", notes=shared, labels={"runai-gpu-group": "g1"}),
        pod("d", 0, "team-b", notes=shared),
        _demanding("e"),
        pod("f", 4, "team-b", priorityClassName="inference"),
    ]


def mutated(random: Random) -> tuple[str, bytes]:
    """(suffix, text) of a file with one thing changed: half of them still valid JSON or YAML, half of them not."""
    objects = cluster()
    in_json = random.random() < 0.5
    if random.random() < 0.5:
        _change(random, objects)
        return _written(objects, in_json=in_json)
    suffix, text = _written(objects, in_json=in_json)
    return suffix, _scratched(random, text)


def _written(objects: list[Json], *, in_json: bool) -> tuple[str, bytes]:
    if in_json:
        return ".json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    return ".yaml", yaml.dump_all(objects, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()


def _change(random: Random, objects: list[Json]) -> None:
    holder, key = random.choice(list(_places(random.choice(objects))))
    match random.randrange(4):
        case 0:
            del holder[key]
        case 1:
            other, place = random.choice(list(_places(random.choice(objects))))
            holder[key] = copy.deepcopy(other[place])
        case 2 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case _:
            holder[key] = random.choice(VALUES)


def _places(of: Any) -> Any:  # noqa: ANN401 - whatever a manifest is made of
    """(holder, key) of everything in an object."""
    keys = list(of) if isinstance(of, dict) else range(len(of)) if isinstance(of, list) else ()
    for key in keys:
        yield of, key
        yield from _places(of[key])


def _scratched(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text))
    match random.randrange(4):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + random.choice(NOISE) + text[at:]
        case 2:
            return text[:at] + text[at + random.randrange(1, 20) :]
        case _:
            return text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]
