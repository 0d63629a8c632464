"""Attribution: which container has which GPU, from a node, its pods and what was known."""

import pytest
from gpuyard.common.topology.model import Node, Owner, Usage
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.utilization import BUSY, IDLE, Script, Span
from gpuyard.common.topology.writing import with_usage, write
from gpuyard.status_updater.attribution import Attribution, attribute, recorded
from gpuyard.status_updater.pods import Pod
from hypothesis import given
from hypothesis import strategies as st

from tests.mock.cluster import container, finished, pod, running, sidecar, waiting

A100 = "NVIDIA-A100-SXM4-40GB"


def node(gpus: str = "[{id: a}, {id: b}]", extra: str = "", product: str = "Tesla-K80", memory: int = 11441) -> Node:
    body = f"{{gpu-product: {product}, gpu-memory: {memory}, gpus: {gpus}{extra}}}"
    return read(f"mig-strategy: mixed\nnodes: {{n: {body}}}").nodes["n"]


def shown(found: Attribution) -> dict[str, str]:
    """`pod/container` by device."""
    owners = {device: usage.owner for device, usage in found.usage.items()}
    return {device: f"{owner.pod}/{owner.container}" for device, owner in owners.items() if owner}


def at(found: Attribution, device: str, now: float = 1_767_225_600 + 1800) -> tuple[int, int]:
    usage = found.usage.get(device, Usage())
    return usage.utilization(now), usage.fb_used(10**9)


# ---- phases -------------------------------------------------------------------------------------------------------

EXPECTED = {
    "unscheduled": None,
    "pending": IDLE,
    "running": Span(10, 30),
    "succeeded": None,
    "failed": None,
    "unknown": IDLE,
}


@pytest.mark.parametrize(
    ("gpus", "phase"),
    [
        pytest.param(gpus, phase, marks=pytest.mark.row("M-07", case=f"{gpus}-{phase}"))
        for gpus in (1, 2)
        for phase in EXPECTED
    ],
)
def test_a_pods_phase_decides_its_use(gpus: int, phase: str) -> None:
    unscheduled = phase == "unscheduled"
    made = pod(
        containers=[container(gpus=gpus)],
        phase="Pending" if unscheduled else phase.capitalize(),
        node="" if unscheduled else "n",
        annotations={"run.ai/simulated-gpu-utilization": "10-30"},
    )
    found = attribute(node(), [made], {})
    expected = EXPECTED[phase]
    assert list(found.usage) == ([] if expected is None else ["a", "b"][:gpus])
    for usage in found.usage.values():
        [share] = usage.shares
        assert (share.utilization, share.fb_used, share.uid) == (expected, 11441, "uid-p")
        assert usage.owner == Owner("ns", "p", "c")


# ---- exactly, by kubelet ------------------------------------------------------------------------------------------


def test_kubelets_word_counts_and_not_the_rule() -> None:
    found = attribute(node(), [pod(statuses=[running("c", "b")])], {})
    assert shown(found) == {"b": "p/c"}


def test_each_container_has_its_own_device_and_one_without_has_none() -> None:
    made = pod(
        containers=[container("x", 0), container("y"), container("z")],
        statuses=[running("x"), running("y", "b"), running("z", "a")],
    )
    assert shown(attribute(node(), [made], {})) == {"b": "p/y", "a": "p/z"}


def test_already_while_pending_kubelet_says_it() -> None:
    found = attribute(node(), [pod(phase="Pending", statuses=[waiting("c", "b")])], {})
    assert shown(found) == {"b": "p/c"}
    assert at(found, "b") == (0, 11441)


def test_a_device_once_learned_is_kept_when_kubelet_forgets_to_say_it() -> None:
    first = attribute(node(), [pod(statuses=[running("c", "b")])], {})
    again = attribute(node(), [pod(statuses=[running("c")])], first.held)
    assert shown(again) == {"b": "p/c"}


def test_a_finished_container_keeps_its_device_until_the_pod_ends() -> None:
    made = pod(containers=[container("x"), container("y")], statuses=[finished("x", "a"), running("y", "b")])
    found = attribute(node(), [made], {})
    assert shown(found) == {"a": "p/x", "b": "p/y"}
    assert at(found, "a")[0] == 0
    assert at(found, "b")[0] == 100


def test_a_slice_that_is_a_mere_number_is_nobodys_usage() -> None:
    counted = node(extra=", otherDevices: [{name: nvidia.com/mig-1g.5gb, count: 1}]")
    slices = [container(resource="nvidia.com/mig-1g.5gb")]
    found = attribute(counted, [pod("p", slices), pod("q", slices, age=1), pod("r", age=2)], {})
    written = with_usage(counted, found.usage)
    assert [gpu.usage.owner and gpu.usage.owner.pod for gpu in written.gpus] == ["r", None]
    assert [(problem.pod.metadata.name, problem.reason) for problem in found.problems] == [("q", "GpusMissing")]


def test_what_kubelet_gave_one_pod_the_rule_does_not_give_another() -> None:
    older, exact = pod("older", age=0), pod("exact", age=1, statuses=[running("c", "a")])
    assert shown(attribute(node(), [older, exact], {})) == {"a": "exact/c", "b": "older/c"}


# ---- init containers and sidecars ---------------------------------------------------------------------------------


def test_a_running_init_container_has_the_mains_devices() -> None:
    made = pod(
        containers=[container("x"), container("y")],
        inits=[container("init")],
        phase="Pending",
        statuses=[waiting("x", "a"), waiting("y", "b")],
        init_statuses=[running("init")],
    )
    found = attribute(node(), [made], {})
    assert shown(found) == {"a": "p/init", "b": "p/y"}
    assert (at(found, "a")[0], at(found, "b")[0]) == (100, 0)


def test_when_the_init_container_is_done_the_mains_have_them() -> None:
    made = pod(
        containers=[container("x")],
        inits=[container("init", gpus=2)],
        statuses=[running("x", "a")],
        init_statuses=[finished("init")],
    )
    found = attribute(node(), [made], {})
    assert shown(found) == {"a": "p/x", "b": "p/init"}
    assert (at(found, "a")[0], at(found, "b")[0]) == (100, 0)


def test_a_pod_never_holds_more_than_the_greater_of_init_and_mains_and_its_sidecars() -> None:
    made = pod(containers=[container("x"), container("y")], inits=[container("init"), sidecar()])
    found = attribute(node("[{id: a}, {id: b}, {id: c}, {id: d}]"), [made], {})
    assert shown(found) == {"a": "p/x", "b": "p/y", "c": "p/side"}


FOUR = "[{id: a}, {id: b}, {id: c}, {id: d}]"


def test_a_sidecar_behind_an_init_container_may_have_its_device() -> None:
    made = pod(inits=[container("init", gpus=2), sidecar()])
    assert shown(attribute(node(FOUR), [made], {})) == {"a": "p/c", "b": "p/side"}


def test_a_sidecar_before_an_init_container_needs_a_device_beside_it() -> None:
    made = pod(inits=[sidecar(), container("init", gpus=2)])
    assert shown(attribute(node(FOUR), [made], {})) == {"a": "p/c", "b": "p/init", "c": "p/side"}


def test_a_running_init_container_leaves_the_devices_of_sidecars_before_it_alone() -> None:
    made = pod(
        inits=[sidecar("early"), container("init", gpus=2), sidecar("late")],
        phase="Pending",
        init_statuses=[running("early"), running("init")],
    )
    assert shown(attribute(node(FOUR), [made], {})) == {"a": "p/init", "b": "p/early", "c": "p/init"}


def test_a_sidecar_gets_what_is_left_beside_an_exact_main() -> None:
    made = pod(inits=[sidecar()], statuses=[running("c", "b")], init_statuses=[running("side")])
    assert shown(attribute(node(), [made], {})) == {"b": "p/c", "a": "p/side"}


# ---- by rule ------------------------------------------------------------------------------------------------------


def test_by_rule_the_oldest_pod_has_the_lowest_index() -> None:
    found = attribute(node(), [pod("young", age=2), pod("old", age=1)], {})
    assert shown(found) == {"a": "old/c", "b": "young/c"}


def test_a_pod_keeps_its_device_when_an_older_one_goes() -> None:
    first = attribute(node(), [pod("old", age=1), pod("young", age=2)], {})
    then = attribute(node(), [pod("young", age=2), pod("new", age=3)], first.held)
    assert shown(then) == {"b": "young/c", "a": "new/c"}


def test_too_few_gpus_are_reported_and_none_is_given() -> None:
    made = pod(containers=[container(gpus=3)])
    found = attribute(node(), [made], {})
    assert found.usage == {}
    [problem] = found.problems
    assert (problem.reason, problem.pod) == ("GpusMissing", made)
    assert problem.note == "asks for 3 nvidia.com/gpu, 2 are free on n; none is shown for it"


def test_an_unhealthy_gpu_is_not_given_by_rule_but_stays_with_who_has_it() -> None:
    first = attribute(node(), [pod()], {})
    ill = node("[{id: a, health: unhealthy}, {id: b}]")
    assert shown(attribute(ill, [pod()], first.held)) == {"a": "p/c"}
    assert shown(attribute(ill, [pod()], {})) == {"b": "p/c"}


def test_slices_are_given_by_their_own_names_and_have_their_own_memory() -> None:
    cut = node("[{id: a, mig: [{profile: 1g.5gb, count: 2}]}]", product=A100, memory=40960)
    slices = [each.id for each in cut.gpus[0].mig or ()]
    found = attribute(cut, [pod(containers=[container(resource="nvidia.com/mig-1g.5gb")])], {})
    assert shown(found) == {slices[0]: "p/c"}
    assert at(found, slices[0]) == (100, 4766)


def test_replicas_show_on_the_card_and_sums_are_capped() -> None:
    shared = node("[{id: a}]", ", sharing: {strategy: time-slicing, replicas: 2}")
    pods = [pod("p", age=1, statuses=[running("c", "a::1")]), pod("q", age=2, statuses=[running("c", "a::0")])]
    found = attribute(shared, pods, {})
    assert shown(found) == {"a": "p/c"}
    assert at(found, "a") == (100, 11441)


# ---- parts of a GPU -----------------------------------------------------------------------------------------------


def part(name: str, fraction: str = "0.5", age: int = 0, **labels: str) -> Pod:
    made = {label.replace("_", "-"): value for label, value in labels.items()}
    return pod(name, [container(gpus=0)], annotations={"gpu-fraction": fraction}, labels=made, age=age)


def test_pods_with_a_fraction_share_the_lowest_gpu_with_room() -> None:
    found = attribute(node(), [part("p", age=1), part("q", age=2), part("r", age=3)], {})
    assert [at(found, device)[1] for device in ("a", "b")] == [11440, 5720]


def where(found: Attribution) -> dict[str, set[str]]:
    """The pods on each device."""
    return {device: {share.uid.removeprefix("uid-") for share in usage.shares} for device, usage in found.usage.items()}


P, Q, R = part("p", age=1), part("q", age=2), part("r", age=3)


def test_a_part_stays_where_it_was_when_an_older_one_goes() -> None:
    first = attribute(node(), [P, Q, R], {})
    assert where(attribute(node(), [Q, R], first.held)) == {"a": {"q"}, "b": {"r"}}


def test_a_whole_gpu_by_rule_is_not_one_that_pods_share() -> None:
    first = attribute(node(), [P], {})
    assert where(attribute(node(), [P, pod("w", age=0)], first.held)) == {"a": {"p"}, "b": {"w"}}
    full = attribute(node("[{id: a}]"), [P, pod("w", age=0)], first.held)
    assert where(full) == {"a": {"p"}}
    assert [problem.pod.metadata.name for problem in full.problems] == ["w"]


def test_a_part_gives_way_to_a_pod_that_kubelet_gave_its_gpu() -> None:
    first = attribute(node(), [P], {})
    whole = pod("w", age=2, statuses=[running("c", "a")])
    assert where(attribute(node(), [P, whole], first.held)) == {"a": {"w"}, "b": {"p"}}


def test_a_part_stays_on_a_gpu_that_falls_ill_and_no_other_comes() -> None:
    first = attribute(node(), [P], {})
    ill = node("[{id: a, health: unhealthy}, {id: b}]")
    assert where(attribute(ill, [P, Q], first.held)) == {"a": {"p"}, "b": {"q"}}


def test_a_group_stays_when_its_first_pod_goes() -> None:
    grouped = [part(name, "0.3", age, runai_gpu_group="g") for age, name in enumerate("qr")]
    filler = part("p", "1", age=0)
    first = attribute(node(), [filler, *grouped], {})
    assert where(first) == {"a": {"p"}, "b": {"q", "r"}}
    assert where(attribute(node(), grouped[1:], first.held)) == {"b": {"r"}}


def test_a_group_moves_to_the_reservation_that_comes_for_it() -> None:
    grouped = part("p", runai_gpu_group="g")
    first = attribute(node(), [grouped], {})
    keeper = pod("keep", namespace="runai-reservation", labels={"runai-gpu-group": "g"}, statuses=[running("c", "b")])
    assert where(attribute(node(), [grouped, keeper], first.held)) == {"b": {"p"}}


@pytest.mark.parametrize("left", ["cy", "y", "cx", "x", "cxy"])
def test_containers_of_one_pod_stay_on_their_cards_when_the_updater_starts_anew(left: str) -> None:
    """Others come and go before the restart, so that the lowest free replica is not where a container was."""
    shared = node("[{id: a}, {id: b}]", ", sharing: {strategy: time-slicing, replicas: 4}")
    two = [container("main"), container("second")]
    pods = {name: pod(name, age=age, containers=two if name in "xy" else None) for age, name in enumerate("cdexy")}
    before = attribute(shared, pods.values(), {})
    some = [pods[name] for name in left]
    stayed = attribute(shared, some, before.held)
    written = with_usage(shared, stayed.usage)
    anew = attribute(written, some, recorded(written, some))
    assert {device: usage.owner for device, usage in anew.usage.items()} == {
        device: usage.owner for device, usage in stayed.usage.items()
    }
    assert where(anew) == where(stayed)
    assert cards(anew) == cards(stayed)


def cards(found: Attribution) -> dict[str, list[str]]:
    """The cards of each pod, one for each of its containers."""
    uids = {place.uid for place in found.held}
    return {
        uid: sorted(device[0] for place, ids in found.held.items() if place.uid == uid for device in ids)
        for uid in uids
    }


def test_parts_and_replicas_stay_where_they_were_when_the_updater_starts_anew() -> None:
    shared = node(extra=", sharing: {strategy: time-slicing, replicas: 2}")
    for kind, made, others in ((node(), [P, Q, R], [P]), (shared, [pod(n, age=i) for i, n in enumerate("pqr")], [])):
        first = attribute(kind, made, {})
        left = [each for each in made[1:] if each not in others]
        text = write("nodes: {n: {gpu-product: x, gpu-memory: 11441, gpus: [{id: a}, {id: b}]}}", {"n": first.usage})
        written = with_usage(kind, {gpu.id: gpu.usage for gpu in read(text).nodes["n"].gpus})
        assert where(attribute(kind, left, recorded(written, left))) == {"a": {"q"}, "b": {"r"}}


def test_a_group_stays_with_its_reservation_when_the_updater_starts_anew() -> None:
    keeper = pod("keep", namespace="runai-reservation", labels={"runai-gpu-group": "g"}, age=1)
    grouped = part("p", age=2, runai_gpu_group="g")
    first = attribute(node(), [pod("w"), keeper, grouped], {})
    assert where(first) == {"a": {"w"}, "b": {"p"}}
    restarted = recorded(with_usage(node(), first.usage), [keeper, grouped])
    assert where(attribute(node(), [keeper, grouped], restarted)) == {"b": {"p"}}


@pytest.mark.parametrize("index", ["0", "a"])
def test_a_part_of_a_named_gpu_is_there_or_nowhere(index: str) -> None:
    asking = pod("n", [container(gpus=0)], annotations={"gpu-fraction": "0.6", "runai-gpu": index}, age=9)
    assert where(attribute(node(), [pod("w"), asking], {})) == {"a": {"n"}, "b": {"w"}}
    for before in ([pod("w")], [P]):
        first = attribute(node(), before, {})
        found = attribute(node(), [*before, asking], first.held)
        assert where(found) == where(first)
        [problem] = found.problems
        assert problem.note == f"asks for 0.6 of a GPU, GPU {index} on n, which it names, has not so much room"


def test_a_group_stays_with_its_reservation_whatever_came_first() -> None:
    keeper = pod("keep", namespace="runai-reservation", labels={"runai-gpu-group": "g"}, statuses=[running("c", "b")])
    sharing = part("p", "0.25", runai_gpu_group="g")
    for pods in ([keeper, sharing], [sharing, keeper]):
        found = attribute(node(), pods, {})
        assert shown(found) == {"b": "p/c"}
        assert at(found, "b") == (100, 2860)


def test_a_reservation_may_name_the_index_that_it_keeps() -> None:
    keeper = pod("keep", namespace="runai-reservation", annotations={"run.ai/reserve_for_gpu_index": "1"})
    assert list(attribute(node(), [keeper], {}).held.values()) == [("b",)]


def test_a_part_that_fits_nowhere_is_reported() -> None:
    [problem] = attribute(node("[{id: a}]"), [part("p", age=1), part("q", "0.7", age=2)], {}).problems
    assert problem.note == "asks for 0.7 of a GPU, no GPU on n has so much room; none is shown for it"


def memory(found: Attribution) -> dict[str, int]:
    return {device: at(found, device)[1] for device in sorted(found.usage)}


def test_a_part_may_be_so_much_memory() -> None:
    asking = [
        pod(name, [container(gpus=0)], annotations={"gpu-memory": "6000"}, age=age) for age, name in enumerate("pq")
    ]
    assert memory(attribute(node(), asking, {})) == {"a": 6000, "b": 6000}


def test_a_part_may_be_of_several_gpus() -> None:
    annotations = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    asking = pod("p", [container(gpus=0)], annotations=annotations)
    assert memory(attribute(node(), [asking], {})) == {"a": 5720, "b": 5720}
    [problem] = attribute(node("[{id: a}]"), [asking], {}).problems
    assert problem.note.startswith("asks for 0.5 of each of 2 GPUs, no GPU on n has so much room")


def test_a_label_for_each_of_several_groups_names_the_gpus() -> None:
    def keeper(group: str, device: str) -> Pod:
        labels = {"runai-gpu-group": group}
        return pod(f"keep-{group}", namespace="runai-reservation", labels=labels, statuses=[running("c", device)])

    annotations = {"gpu-memory": "100", "gpu-fraction-num-devices": "2"}
    labels = {"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}
    sharing = pod("p", [container(gpus=0)], annotations=annotations, labels=labels)
    three = node("[{id: a}, {id: b}, {id: c}]")
    assert memory(attribute(three, [sharing, keeper("g", "b"), keeper("h", "c")], {})) == {"b": 100, "c": 100}


def test_groups_without_reservations_are_gpus_of_their_own_that_their_pods_share() -> None:
    both = {"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}
    parts = {"gpu-fraction": "0.2", "gpu-fraction-num-devices": "2"}
    pods = [pod("p", [container(gpus=0)], annotations=parts, labels=both), part("q", "0.3", age=1, runai_gpu_group="h")]
    assert memory(attribute(node(), pods, {})) == {"a": 2288, "b": 2288 + 3432}


@pytest.mark.parametrize(
    ("annotations", "note"),
    [
        ({"gpu-fraction": "1.5"}, "annotation gpu-fraction: is '1.5'; write a number above 0 and at most 1"),
        ({"gpu-fraction": "half"}, "annotation gpu-fraction: is 'half'"),
        ({"gpu-memory": "2Gi"}, "annotation gpu-memory: is '2Gi'; write whole MiB"),
        ({"gpu-memory": "0"}, "annotation gpu-memory: is '0'"),
        ({"gpu-fraction": "0.5", "gpu-memory": "5"}, "gpu-fraction and gpu-memory exclude each other; keep one"),
        ({"gpu-fraction-num-devices": "2"}, "needs gpu-fraction or gpu-memory beside it"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "none"}, "write a whole number 1-256"),
    ],
)
def test_a_part_that_makes_no_sense_is_reported_and_counts_as_a_whole_gpu(
    annotations: dict[str, str], note: str
) -> None:
    found = attribute(node(), [pod("p", [container(gpus=0)], annotations=annotations)], {})
    [problem] = found.problems
    assert (problem.reason, note in problem.note) == ("GpuPartRefused", True)
    assert problem.note.endswith("it counts as one whole GPU")
    assert memory(found) == {"a": 11441}


def test_a_gpu_is_shown_under_the_pod_with_most_memory_the_oldest_of_equals() -> None:
    pods = [part("small", "0.2", age=1), part("big", "0.4", age=2), part("late", "0.4", age=3)]
    assert shown(attribute(node("[{id: a}]"), pods, {})) == {"a": "big/c"}


# ---- how busy -----------------------------------------------------------------------------------------------------


def busy(found: Attribution) -> object:
    return found.usage["a"].shares[0].utilization


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(), BUSY),
        (pod(annotations={"run.ai/simulated-gpu-utilization": "30"}), Span(30, 30)),
        (pod("runai-idle-gpu-x"), IDLE),
        (pod(labels={"workloadKind": "TrainingWorkload"}), Span(80, 100)),
        (pod(labels={"workloadKind": "InteractiveWorkload"}), IDLE),
        (pod(labels={"workloadKind": "Other"}), BUSY),
    ],
)
def test_how_busy_a_pod_is_follows_its_hints(made: Pod, expected: Span) -> None:
    assert busy(attribute(node(), [made], {})) == expected


def test_a_node_may_say_how_busy_its_pods_are() -> None:
    assert busy(attribute(node(extra=", utilization: 5-9"), [pod()], {})) == Span(5, 9)


def test_a_script_runs_from_the_containers_start() -> None:
    text = '{"steps": [{"time": "1h", "utilization": 80}, {"time": "1h", "utilization": 0}]}'
    made = pod(annotations={"run.ai/simulated-gpu-utilization": text}, statuses=[running("c", "a")])
    found = attribute(node(), [made], {})
    assert isinstance(busy(found), Script)
    begin = found.usage["a"].shares[0].started
    assert [found.usage["a"].utilization(begin + hours * 3600) for hours in (0.5, 1.5)] == [80, 0]


@pytest.mark.parametrize("text", ["80-20", "200", "-1", "10.5", "abc"])
def test_a_bad_utilization_is_reported_and_the_default_stands_in(text: str) -> None:
    found = attribute(node(), [pod(annotations={"run.ai/simulated-gpu-utilization": text})], {})
    [problem] = found.problems
    assert problem.reason == "UtilizationRefused"
    assert text in problem.note
    assert problem.note.endswith("100 is used instead")
    assert busy(found) == BUSY


# ---- nothing depends on the way -----------------------------------------------------------------------------------

NAMES = st.sampled_from("pqrst")
STEPS = st.lists(st.tuples(st.sampled_from(["come", "go"]), NAMES, st.integers(1, 2)), max_size=12)
BIG = node("[{}, {}, {}, {}, {}, {}]")


@given(STEPS)
def test_an_updater_that_starts_anew_goes_on_where_the_topology_stands(steps: list[tuple[str, str, int]]) -> None:
    pods: dict[str, Pod] = {}
    found = Attribution()
    for age, (what, name, gpus) in enumerate(steps):
        if what == "come":
            pods[name] = pod(name, [container(gpus=gpus)], uid=f"{name}-{age}", age=age)
        else:
            pods.pop(name, None)
        found = attribute(BIG, pods.values(), found.held)
    if any(problem.reason == "GpusMissing" for problem in found.problems):
        return
    restarted = recorded(with_usage(BIG, found.usage), pods.values())
    assert attribute(BIG, pods.values(), restarted).usage == found.usage


@given(STEPS)
def test_nobody_moves_while_others_come_and_go_and_updaters_start_anew(steps: list[tuple[str, str, int]]) -> None:
    pods: dict[str, Pod] = {}
    found = Attribution()
    for age, (what, name, kind) in enumerate(steps):
        pods.pop(name, None)
        if what == "come":
            new = f"{name}-{age}"
            pods[name] = part(new, "0.5", age) if kind == 1 else pod(new, age=age)
        stay = {each.metadata.name for each in pods.values()}
        held = {user: device for device, users in where(found).items() for user in users & stay}
        restarted = recorded(with_usage(node(), found.usage), pods.values())
        assert attribute(node(), pods.values(), restarted).usage == attribute(node(), pods.values(), found.held).usage
        found = attribute(node(), pods.values(), found.held)
        now = {user: device for device, users in where(found).items() for user in users}
        assert {user: now.get(user) for user in held} == held


@given(st.permutations([pod(name, age=age) for age, name in enumerate("pqrst")]))
def test_the_order_of_arrival_means_nothing(pods: list[Pod]) -> None:
    assert attribute(BIG, pods, {}).usage == attribute(BIG, sorted(pods, key=lambda each: each.age), {}).usage


@given(STEPS)
def test_no_device_is_given_twice_and_no_pod_gets_a_part_of_what_it_asked(steps: list[tuple[str, str, int]]) -> None:
    pods = [pod(f"{name}{i}", [container(gpus=gpus)], age=i) for i, (_, name, gpus) in enumerate(steps)]
    found = attribute(BIG, pods, {})
    given_out = [device for ids in found.held.values() for device in ids]
    assert len(given_out) == len(set(given_out))
    missing = {problem.pod.metadata.uid for problem in found.problems}
    assert {place.uid for place in found.held} | missing == {each.metadata.uid for each in pods}
