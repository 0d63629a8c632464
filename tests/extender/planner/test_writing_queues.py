"""When the planner lets the Queue objects say what they hold."""

from gpuyard.extender.planner import loop

from tests.extender.builders import node, pod, queue
from tests.extender.planner.stage import Stage, path


async def test_many_queues_are_not_written_at_each_look_and_say_the_last_in_the_end() -> None:
    teams = [f"team-{number}" for number in range(loop.A_HANDFUL + 1)]
    stage = Stage(node("n1", 16), *map(queue, teams))
    written = path(queue("team-0")) + "/status"
    for count in (1, 2):
        stage.submit(*(pod(f"{team}-{count}", team, 1, on="n1") for team in teams))
        await stage.look()
        assert stage.api.wrote("patch").count(written) == 1
    for _ in range(int(loop.QUEUES_PAUSE)):
        await stage.look()
    assert stage.api.wrote("patch").count(written) == 2
    assert stage.api.objects[path(queue("team-0"))]["status"]["allocated"]["nvidia.com/gpu"] == "2"


async def test_a_few_queues_are_written_at_each_look() -> None:
    stage = Stage(node("n1"), queue("team"))
    for count in (1, 2):
        stage.submit(pod(f"p{count}", "team", 1, on="n1"))
        await stage.look()
        assert stage.api.objects[path(queue("team"))]["status"]["allocated"]["nvidia.com/gpu"] == str(count)
