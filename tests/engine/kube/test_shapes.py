"""What a pod asks for: its containers together, shares of GPUs, and what excludes what."""

import msgspec
import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.shapes import shape
from gpuyard.engine.model import Requirement, Shape, Toleration

from tests.engine.kube.written import Heard, Json, container


def read(spec: Json, notes: Json | None = None, heard: Heard | None = None) -> Shape:
    complain = heard if heard is not None else Heard()
    made = shape(_decoded(spec), msgspec.convert(notes or {}, objects.Notes), complain)
    assert heard is not None or not complain
    return made


def _decoded(spec: Json) -> objects.PodSpec:
    return msgspec.json.decode(msgspec.json.encode(spec), type=objects.PodSpec)


def test_containers_are_added_up() -> None:
    made = read({"containers": [container(2, cpu="500m", memory="1Gi"), container(1, cpu=1)]})
    assert (made.gpus, made.cpu, made.memory) == (3, 1500, 1 << 30)


def test_what_has_a_limit_only_is_requested_at_it() -> None:
    limits = {"nvidia.com/gpu": "4", "cpu": "2", "memory": "1Gi"}
    made = read({"containers": [{"resources": {"limits": limits, "requests": {"cpu": "1"}}}]})
    assert (made.gpus, made.cpu, made.memory) == (4, 1000, 1 << 30)


def test_an_init_container_counts_where_it_asks_for_more_than_all_that_run_after_it() -> None:
    made = read({"initContainers": [container(4), container(2)], "containers": [container(1), container(2)]})
    assert made.gpus == 4


def test_a_sidecar_runs_beside_the_main_containers_and_the_init_containers_after_it() -> None:
    sidecar = container(1) | {"restartPolicy": "Always"}
    assert read({"initContainers": [sidecar], "containers": [container(2)]}).gpus == 3
    assert read({"initContainers": [sidecar, container(3)], "containers": [container(2)]}).gpus == 4
    assert read({"initContainers": [container(3), sidecar], "containers": [container(1)]}).gpus == 3


def test_the_overhead_of_a_runtime_is_added() -> None:
    assert read({"containers": [container(1, cpu="1")], "overhead": {"cpu": "250m"}}).cpu == 1250


def test_a_share_of_a_gpu_is_counted_in_thousandths() -> None:
    made = read({}, {"gpu-fraction": "0.3", "gpu-fraction-num-devices": "2"})
    assert (made.fraction, made.devices, made.gpus) == (300, 2, 0)


@pytest.mark.parametrize("notes", [{"gpu-fraction": "0.001"}, {"gpu-memory": "1", "gpu-fraction-num-devices": "8"}])
def test_a_pod_that_has_whole_gpus_counts_these_whatever_parts_it_asks_for_as_well(notes: dict[str, str]) -> None:
    made = read({"containers": [container(8)]}, notes, Heard())
    assert (made.gpus, made.fraction, made.gpu_memory, made.devices, made.shared) == (8, 0, 0, 1, False)


def test_gpu_memory_is_counted_in_mib() -> None:
    assert read({}, {"gpu-memory": "4096"}).gpu_memory == 4096


@pytest.mark.parametrize(
    ("gpus", "notes", "why"),
    [
        (1, {"gpu-fraction": "0.5"}, "excludes nvidia.com/gpu"),
        (1, {"gpu-memory": "100"}, "excludes nvidia.com/gpu"),
        (0, {"gpu-memory": "100", "gpu-fraction": "0.5"}, "excludes gpu-fraction"),
        (0, {"gpu-fraction-num-devices": "2"}, "needs gpu-fraction or gpu-memory"),
        (0, {"gpu-fraction": "1.5"}, "not a share of a GPU"),
        (0, {"gpu-fraction": "0"}, "not a share of a GPU"),
        (0, {"gpu-fraction": "half"}, "not a quantity"),
        (0, {"gpu-memory": "0"}, "not a positive whole number"),
        (5000, {}, "more than 4096"),
        (0, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1000000000000"}, "more than 4096"),
    ],
)
def test_ways_to_ask_for_gpus_that_exclude_each_other_are_refused(gpus: int, notes: Json, why: str) -> None:
    heard = Heard()
    read({"containers": [container(gpus)]}, notes, heard)
    assert [why in told for _, told in heard] == [True]


def test_a_bad_quantity_is_named_with_its_container() -> None:
    heard = Heard()
    read({"containers": [container(), container(cpu="1x")]}, heard=heard)
    assert heard == [("spec.containers[1].resources.requests.cpu", "'1x' is not a quantity, as 2, 500m or 1.5Gi")]


def test_pods_of_one_kind_share_one_shape() -> None:
    spec = {"containers": [container(1)], "tolerations": [{"operator": "Exists"}], "affinity": None}
    assert read(spec) is read(spec)


def test_selector_affinity_and_tolerations_are_part_of_the_shape() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    made = read(
        {
            "nodeSelector": {"b": "2", "a": "1"},
            "affinity": {"nodeAffinity": required},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        }
    )
    assert made.selector == (("a", "1"), ("b", "2"))
    assert [t.labels for t in made.affinity] == [(Requirement("zone", "In", ("a",)),)]
    assert made.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"),)
