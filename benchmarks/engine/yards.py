"""The clusters that the engine is timed on. Nothing is left to chance: a size gives one cluster."""

from collections.abc import Iterable

from gpuyard.engine.model import GPU, NO_BOUND, Gang, Node, Pod, PodTerm, Queue, Requirement, Shape, State, Workload
from gpuyard.engine.model.snapshot import Snapshot
from msgspec.structs import replace

NOW = 1_000_000
ONE = Shape(gpus=1, cpu=1000, memory=10**9)
HELPER = Shape(cpu=100, memory=10**8)


def empty_nodes(count: int) -> list[Node]:
    """Nodes of 8 GPUs."""
    return [
        Node(name=f"node-{n:05}", gpus=8, cpu=128_000, memory=10**12, gpu_memory=80_000, labels={"zone": f"z{n % 3}"})
        for n in range(count)
    ]


def queues(count: int, *, quota: int) -> list[Queue]:
    """Queues under one department, each with this quota of GPUs."""
    root = Queue(name="all", quota=NO_BOUND, limit=NO_BOUND)
    each = NO_BOUND._replace(gpu=quota * GPU)
    names = (f"queue-{n:02}" for n in range(count))
    return [root, *(Queue(name=name, parent="all", quota=each, limit=NO_BOUND) for name in names)]


def gangs(
    names: Iterable[str], queue: str | None, *, size: int = 1, shape: Shape = ONE, nodes: Iterable[str] = ()
) -> tuple[list[Workload], list[Pod]]:
    """Workloads of `size` pods each, running one after the other on `nodes`, waiting when those are used up."""
    workloads, pods, places = [], [], iter(nodes)
    for age, name in enumerate(names):
        key = f"ns/{name}"
        workloads.append(Workload(key=key, queue=queue, gang=Gang(minimum=size), created=age))
        for n in range(size):
            node = next(places, "")
            pods.append(
                Pod(
                    key=f"{key}-{n}",
                    uid=f"{key}-{n}",
                    workload=key,
                    shape=shape,
                    state=State.RUNNING if node else State.PENDING,
                    node=node,
                    created=age,
                    started=age if node else None,
                )
            )
    return workloads, pods


def put_together(nodes: list[Node], some: list[Queue], parts: Iterable[tuple[list[Workload], list[Pod]]]) -> Snapshot:
    """A snapshot of all of it."""
    made = list(parts)
    return Snapshot.build(
        now=NOW,
        nodes=nodes,
        queues=some,
        workloads=[w for workloads, _ in made for w in workloads],
        pods=[p for _, pods in made for p in pods],
    )


def to_fill(pods: int) -> Snapshot:
    """One-GPU pods of 20 queues that wait, and just enough empty nodes for them."""
    share = pods // 20
    teams = (gangs((f"job-{q:02}-{n:05}" for n in range(share)), f"queue-{q:02}") for q in range(20))
    return put_together(empty_nodes(pods // 8), queues(20, quota=share), teams)


def to_reclaim(gpus: int) -> Snapshot:
    """A full cluster of one queue's one-GPU pods; another queue asks for the half that is its quota."""
    nodes = empty_nodes(2 * gpus // 8)
    places = [node.name for node in nodes for _ in range(8)]
    parts = (
        gangs((f"old-{n:05}" for n in range(2 * gpus)), "queue-00", nodes=places),
        gangs((f"new-{n:05}" for n in range(gpus)), "queue-01"),
    )
    return put_together(nodes, queues(2, quota=gpus), parts)


def to_consolidate(nodes: int) -> Snapshot:
    """Nodes with three one-GPU pods each, and gangs of 10 pods of 6 GPUs: as many as 41 for 500 nodes."""
    fleet = empty_nodes(nodes)
    places = [node.name for node in fleet for _ in range(3)]
    parts = (
        gangs((f"small-{n:05}" for n in range(3 * nodes)), "queue-00", nodes=places),
        gangs((f"gang-{n:03}" for n in range(41 * nodes // 500)), "queue-01", size=10, shape=Shape(gpus=6, cpu=1000)),
    )
    return put_together(fleet, queues(2, quota=8 * nodes), parts)


def full(nodes: int, pods: int, waiting: int) -> Snapshot:
    """A full cluster of 20 queues at their quotas, and workloads of theirs that wait: nobody may lose for them."""
    fleet = empty_nodes(nodes)
    running = pods - waiting
    whole = min(running, nodes * 8)
    places = [node.name for node in fleet for _ in range(8)][:whole]
    parts = []
    for q in range(20):
        names = (f"run-{q:02}-{n:05}" for n in range(whole // 20))
        parts.append(gangs(names, f"queue-{q:02}", nodes=places[q::20]))
        parts.append(gangs((f"wait-{q:02}-{n:05}" for n in range(waiting // 20)), f"queue-{q:02}"))
        helpers = (f"cpu-{q:02}-{n:05}" for n in range((running - whole) // 20))
        parts.append(
            gangs(helpers, f"queue-{q:02}", shape=HELPER, nodes=[fleet[n % nodes].name for n in range(q, running, 20)])
        )
    return put_together(fleet, queues(20, quota=whole // 20), parts)


def with_room(nodes: int, pods: int, waiting: int) -> Snapshot:
    """Nodes with one GPU free of eight, and pods that wait and can start: every fifth of them asks for no GPU."""
    fleet = empty_nodes(nodes)
    running = pods - waiting
    places = [node.name for node in fleet for _ in range(7)][:running]
    parts = [gangs((f"run-{n:05}" for n in range(len(places))), "queue-00", nodes=places)]
    parts.append(_helpers(fleet, running - len(places)))
    parts.append(gangs((f"wait-{n:04}" for n in range(waiting * 4 // 5)), "queue-01"))
    parts.append(gangs((f"wait-cpu-{n:04}" for n in range(waiting // 5)), "queue-01", shape=HELPER))
    return put_together(fleet, queues(2, quota=8 * nodes), parts)


def to_move(nodes: int, pods: int, waiting: int) -> Snapshot:
    """Nodes with three one-GPU pods each, 41 gangs of 10 pods of 6 GPUs that wait, and pods that ask for no GPU."""
    fleet = empty_nodes(nodes)
    places = [node.name for node in fleet for _ in range(3)]
    parts = [gangs((f"small-{n:05}" for n in range(len(places))), "queue-00", nodes=places)]
    parts.append(_helpers(fleet, pods - waiting - len(places)))
    parts.append(gangs((f"gang-{n:03}" for n in range(41)), "queue-01", size=10, shape=Shape(gpus=6, cpu=1000)))
    parts.append(gangs((f"wait-cpu-{n:04}" for n in range(waiting - 410)), "queue-01", shape=HELPER))
    return put_together(fleet, queues(2, quota=8 * nodes), parts)


def with_affinity(nodes: int, pods: int, waiting: int) -> Snapshot:
    """Nodes with one GPU free of eight; pods of apps that keep off their own kind's nodes or seek their app's zone.

    Of each app 50 pods run, half of the apps with an anti-affinity. Those that wait have an anti-affinity of their
    own, an affinity to an app, a preference, or none of these in turn.
    """
    fleet = [replace(node, labels={**node.labels, "host": node.name}) for node in empty_nodes(nodes)]
    running = pods - waiting
    places = [node.name for node in fleet for _ in range(7)][:running]
    parts = [gangs((f"run-{n:05}" for n in range(len(places))), "queue-00", nodes=places)]
    parts.append(_helpers(fleet, running - len(places)))
    parts.append(gangs((f"wait-{n:04}" for n in range(waiting)), "queue-01"))
    made = put_together(fleet, queues(2, quota=8 * nodes), parts)
    apps = max(1, running // 50)
    return made.with_pod(*(_with_app(pod, n, apps) for n, pod in enumerate(made.pods.values())))


def _with_app(pod: Pod, number: int, apps: int) -> Pod:
    app = f"app-{number % apps:04}"
    kin = (Requirement("app", "In", (app,)),)
    alone, beside = PodTerm("host", kin), PodTerm("zone", kin)
    shape = pod.shape
    if pod.waits:
        choices: list[dict[str, tuple[PodTerm, ...]]] = [
            {"pod_anti_affinity": (alone,)},
            {"pod_affinity": (beside,)},
            {"pod_affinity": (beside._replace(weight=5),)},
            {},
        ]
        shape = replace(shape, **choices[number % 4])
    elif number % apps % 2:
        shape = replace(shape, pod_anti_affinity=(alone,))
    return replace(pod, shape=shape, labels={"app": app, "pod": pod.key.replace("/", "-")})


def _helpers(fleet: list[Node], count: int) -> tuple[list[Workload], list[Pod]]:
    """Running pods of no queue and without GPUs, on one node after the other."""
    nodes = [fleet[n % len(fleet)].name for n in range(count)]
    return gangs((f"cpu-{n:05}" for n in range(count)), None, shape=HELPER, nodes=nodes)
