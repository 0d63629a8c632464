"""What `gpuyard top` shows, as values and for people."""

from gpuyard.cli.drawing import Page
from gpuyard.cli.overview import Overview, names, overview, page_of
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.settle import settle

from tests.engine.kube.written import Json, node, pod, queue, reading

PLAIN = Page(None, lambda text, _: text)


def seen(*given: Json) -> Overview:
    snapshot = reading(*given).snapshot
    return overview(snapshot, settle(snapshot, Settings(cycles=1)))


def test_queues_stand_behind_their_parents_and_what_waits_counts_above() -> None:
    given = [queue("a", 4, 4, parent="top"), queue("top", 8), queue("b", 4, parent="top"), node()]
    found = seen(*given, pod("runs", 3, "a", on="node-1"), pod("waits", 2, "a"))
    assert [(q.name, q.level, q.used["gpu"], q.waiting_pods, q.waiting_gpus) for q in found.queues] == [
        ("top", 0, 3, 1, 2),
        ("a", 1, 3, 1, 2),
        ("b", 1, 0, 0, 0),
    ]
    assert [(q.quota["gpu"], q.limit["gpu"]) for q in found.queues] == [(8, -1), (4, 4), (4, -1)]


def test_a_queue_whose_parent_is_missing_is_shown_without_a_share() -> None:
    (orphan,) = seen(queue(parent="gone"), node()).queues
    assert (orphan.parent, orphan.fair_share, orphan.used) == ("gone", {}, {})


def test_a_node_says_what_is_free_and_whether_it_may_be_used() -> None:
    half = pod("half", 0, on="a", notes={"gpu-fraction": "0.5"})
    ill = node("c")
    ill["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    found = seen(node("a"), node("b", unschedulable=True), ill, node("cpu-only", 0), queue(), pod("p", 3, on="a"), half)
    assert [(n.name, n.state, n.gpus, n.used, n.free, n.pods) for n in found.nodes] == [
        ("a", "ready", 8, 3.5, 4.5, 2),
        ("b", "cordoned", 8, 0, 8, 0),
        ("c", "not ready", 8, 0, 8, 0),
    ]


def test_a_pod_says_why_it_waits_and_those_that_wait_stand_last() -> None:
    found = seen(node(), queue(limit=4), pod("z", 4, on="node-1"), pod("a", 1), pod("done", status={"phase": "Failed"}))
    assert [(p.pod, p.state, p.node, p.reason) for p in found.pods] == [
        ("default/z", "Running", "node-1", ""),
        ("default/a", "Pending", "", "OverLimit"),
    ]
    assert "limit" in found.pods[1].message


def test_a_pod_with_room_waits_for_kube_scheduler_only() -> None:
    (waits,) = seen(node(), queue(), pod("a")).pods
    assert (waits.reason, waits.message) == ("", "there is room on node-1")


def test_a_pod_for_which_others_must_leave_says_where_it_will_be() -> None:
    full = pod("lent", 8, "b", on="node-1")
    found = seen(node(), queue("a", 8), queue("b", 0), full, pod("mine", 8, "a"))
    assert found.pods[1].message == "gets room on node-1"


def test_a_pod_with_scheduling_gates_says_that_they_hold_it_back() -> None:
    (gated,) = seen(node(), queue(), pod("g", schedulingGates=[{"name": "x"}])).pods
    assert (gated.state, gated.message) == ("Gated", "held back by its scheduling gates")


def test_a_pod_without_a_queue_is_shown_as_not_governed() -> None:
    found = seen(node(), queue(), pod("p", 2, None, on="node-1"), pod("cpu", 0, None))
    assert [(p.pod, p.queue) for p in found.pods] == [("default/p", "")]
    assert "(not governed)" in page_of(found, PLAIN)


def test_the_page_draws_the_tree_in_gpus() -> None:
    given = [node(), queue("top", 8), queue("a", 4, 6, parent="top"), pod("p", 6, "a", on="node-1"), pod("q", 2, "a")]
    lines = page_of(seen(*given), PLAIN).splitlines()
    assert lines[0] == "QUEUES (GPUS)"
    assert lines[2].split() == ["top", "8", "unlimited", "8", "6", "2", "in", "1"]
    assert lines[3].startswith("    a ")
    assert lines[-1].split() == ["default/q", "a", "2", "Pending", "-", "OverLimit"]


GIVEN = (node(), queue("a", 4, 6), pod("p", 6, "a", on="node-1"), pod("q", 2, "a"))


def test_wide_it_has_the_other_resources_of_queues_and_whole_reasons() -> None:
    lines = page_of(seen(*GIVEN), PLAIN, wide=True).splitlines()
    assert lines[1].endswith("CPU (m) USED / QUOTA / LIMIT  MEMORY (MB) USED / QUOTA / LIMIT")
    assert lines[2].endswith("0 / unlimited / unlimited     0 / unlimited / unlimited")
    assert "OverLimit: queue a has a limit of 6 GPUs" in lines[-1]


def test_without_headers_there_are_rows_alone_and_all_of_them() -> None:
    many = [pod(f"p{n:02}", 0, "a", notes={"gpu-fraction": "0.1"}, on="node-1") for n in range(50)]
    queues, nodes, pods = page_of(seen(*GIVEN[:2], *many), PLAIN._replace(headers=False)).split("\n\n")
    assert (queues.split()[0], nodes.split()[0]) == ("a", "node-1")
    assert [line.split()[0] for line in pods.splitlines()] == [f"default/p{n:02}" for n in range(50)]


def test_names_are_for_other_commands() -> None:
    assert names(seen(*GIVEN)).split() == ["queue/a", "node/node-1", "pod/default/p", "pod/default/q"]
