"""Whatever happened on the way, in whatever order: the end is what a rebuild from scratch makes of what is there."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from gpuyard.common.topology.writing import write
from gpuyard.status_updater.pods import Pod
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mock.cluster import cluster_node, container, pod, running
from tests.mock.office import Office, a_map

NODES = ("n", "m")
GPUS = 3


def cluster(memory: int, gpus: int) -> str:
    """The common map, as a user writes it, with a comment that must survive."""
    lines = ["nodes:"]
    for name in NODES:
        lines += [f"  {name}:", f"    gpu-memory: {memory}", "    gpu-product: Tesla-K80", "    gpus:"]
        lines += [f"      - id: {name}{index}  # {memory}" for index in range(gpus)]
    return "\n".join(lines) + "\n"


def pools(memory: int, gpus: int) -> str:
    """The same as a pool: each node has a map of its own, which the updater makes."""
    pool = f"{{gpuProduct: x, gpuMemory: {memory}, gpuCount: {gpus}}}"
    return f"nodePools: {{p: {pool}}}  # {memory}\nnodePoolLabelKey: pool\n"


def shared(memory: int, gpus: int) -> str:
    """A pool whose GPUs two pods each may have."""
    return pools(memory, gpus).replace("{gpuProduct", "{sharing: {strategy: mps, replicas: 2}, gpuProduct")


FORMS = {"cluster": cluster, "pools": pools, "shared": shared}
BROKEN = "nodes: ["


@dataclass
class History:
    """An office in which things happen."""

    form: str
    exact: bool
    """Whether a kubelet says which device a pod has, or the rule."""
    office: Office = field(init=False)
    users: str = field(init=False)
    age: int = 0

    def __post_init__(self) -> None:
        self.users = FORMS[self.form](100, GPUS)
        self.office = Office((cluster_node(name, {"pool": "p"}) for name in NODES), [a_map(self.users)])

    def come(self, name: str, node: str, gpus: int, *, seen: bool) -> None:
        """A pod starts, perhaps under the name of one that was there before."""
        self.age += 1
        devices = self._free(node)[:gpus] if self.exact else []
        if self.exact and len(devices) < gpus:
            return
        new = pod(
            name, [container(gpus=gpus)], node=node, uid=f"{name}-{self.age}", age=self.age,
            statuses=[running("c", *devices)], annotations={"run.ai/simulated-gpu-utilization": f"1-{self.age}"},
        )  # fmt: skip
        (self.office.pod if seen else self.office.missed)(name, new)

    def _free(self, node: str) -> list[str]:
        """What a kubelet would give: devices that no pod has."""
        held = {
            device
            for each in self.office.pods.values()
            if each.holds
            for ids in each.given("c").values()
            for device in ids
        }
        named = self.office.desk.maps.nodes().get(node)
        return [gpu.id for gpu in (named.gpus if named else ()) if gpu.id not in held]

    def end(self, name: str, phase: str, *, seen: bool) -> None:
        """A pod ends: it is deleted, or stays in a last phase."""
        found = self.office.pods.get(name)
        if found is not None:
            new = None if phase == "deleted" else ended(found, phase)
            (self.office.pod if seen else self.office.missed)(name, new)

    def edit(self, memory: int, gpus: int, *, broken: bool) -> None:
        """The user writes the common map anew, without looking at what the updater wrote meanwhile."""
        if not broken:
            self.users = FORMS[self.form](memory, gpus)
        version = int(self.office.maps["topology"].metadata.resource_version) + 1
        self.office.put_map(a_map(BROKEN if broken else self.users, version=version))

    def edit_between(self, memory: int) -> None:
        """The user's write arrives between the updater's look and its own write, which is refused."""
        due = self.office.desk.due()
        self.edit(memory, GPUS, broken=False)
        stale = [v for name, (_, v) in due.texts.items() if name == "topology"]
        assert all(v != self.office.maps["topology"].metadata.resource_version for v in stale)

    def away(self) -> None:
        """A round while the API is away: nothing can be written, and everything is looked at again."""
        self.office.desk.due()
        self.office.desk.touch_all()

    def leave(self, node: str, *, back: bool) -> None:
        """A node goes, and comes back under its name."""
        self.office.nodes.pop(node, None)
        self.office.desk.touched.add(node)
        if back:
            self.office.put_node(cluster_node(node, {"pool": "p"}))

    def restart(self) -> None:
        """The updater begins anew."""
        self.office.start()

    def relist(self) -> None:
        """A gap in the watches closes."""
        self.office.relist()

    def finish(self) -> dict[str, str]:
        """The gap closes, the map is well, the nodes are there: what it settles to."""
        self.edit(100, GPUS, broken=False)
        for name in NODES:
            self.leave(name, back=True)
        self.office.relist()
        return self.office.settled()


def ended(found: Pod, phase: str) -> Pod:
    return pod(found.metadata.name, node=found.spec.node_name, uid=found.metadata.uid, phase=phase)


NAMES = st.sampled_from("pqrst")
LIKELY = st.sampled_from([True, True, True, False])


def step(what: str, **how: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(what), st.fixed_dictionaries(how))


NODE, MEMORY = st.sampled_from(NODES), st.sampled_from([100, 200])
ENDS = st.sampled_from(["deleted", "Succeeded", "Failed"])
STEPS = st.one_of(
    step("come", name=NAMES, node=NODE, gpus=st.integers(1, 2), seen=LIKELY),
    step("end", name=NAMES, phase=ENDS, seen=LIKELY),
    step("edit", memory=MEMORY, gpus=st.integers(1, GPUS), broken=st.booleans()),
    step("edit_between", memory=MEMORY),
    step("leave", node=NODE, back=st.booleans()),
    *(step(what) for what in ("away", "restart", "relist")),
)
Steps = list[tuple[tuple[str, dict[str, Any]], bool]]
"""What happens, and whether the updater gets to work afterwards."""


def played(form: str, steps: Steps, *, exact: bool) -> History:
    """A history of these steps."""
    history = History(form, exact)
    for (what, how), then_work in steps:
        getattr(history, what)(**how)
        if then_work:
            history.office.settle()
    return history


forms = pytest.mark.parametrize("form", FORMS)
histories = given(st.lists(st.tuples(STEPS, LIKELY), max_size=25))


@forms
@histories
@settings(max_examples=60, deadline=None)
def test_where_kubelet_says_who_has_what_the_way_leaves_no_trace(form: str, steps: Steps) -> None:
    history = played(form, steps, exact=True)
    end = history.finish()
    scratch = History(form, exact=True)
    scratch.office.pods = history.office.pods
    assert end == scratch.office.rebuilt()


@forms
@histories
@settings(max_examples=60, deadline=None)
def test_where_the_rule_says_it_an_updater_that_begins_anew_changes_nothing(form: str, steps: Steps) -> None:
    history = played(form, steps, exact=False)
    end = history.finish()
    assert end == history.office.rebuilt()


@forms
@histories
@settings(max_examples=60, deadline=None)
def test_what_the_user_wrote_last_stands_there_to_the_letter(form: str, steps: Steps) -> None:
    history = played(form, steps, exact=False)
    history.finish()
    assert write(history.office.maps["topology"].text, {}) == history.users


@pytest.mark.parametrize("form", ["cluster", "pools"])
@histories
@settings(max_examples=60, deadline=None)
def test_no_pod_is_lost_and_no_device_has_two(form: str, steps: Steps) -> None:
    history = played(form, steps, exact=False)
    history.finish()
    office = history.office
    office.desk.touch_all()
    missing = {problem.pod.metadata.name for problem in office.desk.due().problems}
    used = [usage.owner.pod for node in office.desk.maps.nodes().values() for _, usage in node.devices() if usage.owner]
    asked = {each.metadata.name: wanted(each) for each in office.pods.values() if each.holds}
    assert {name: used.count(name) for name in asked} == {
        name: 0 if name in missing else n for name, n in asked.items()
    }
    assert set(used) <= set(asked)


def wanted(found: Pod) -> int:
    return sum(found.spec.containers[0].gpus().values())
