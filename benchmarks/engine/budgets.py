"""What a decision about a job costs where many run: with room, with room that one move makes, and with a long search.

The sites are full of jobs of one to four devices, drawn by a counter that is the same each time.
"""

from collections.abc import Callable
from itertools import count

from gpuyard.engine.budgets.books import Books, Budget, Job, JobId, Node
from gpuyard.engine.budgets.provision import Provided, Request, Rules, provision

from benchmarks.measure import Figure, at_most, in_loops

HOW = "benchmarks.engine.budgets"
NODES, DEVICES, FREE = 100, 16, 2
GPU = 1000


def site() -> Books:
    """All nodes with 2 of 16 devices free; whoever runs there is within its budget."""
    drawn, jobs = count(), []
    for number in range(NODES):
        left = DEVICES - FREE
        while left:
            n = next(drawn)
            amount = min(left, 1 + n * n % 7 % 4)
            jobs.append(Job(JobId("B", f"job-{n}"), f"node-{number}", amount * GPU, number=n))
            left -= amount
    total = NODES * DEVICES * GPU
    nodes = tuple(Node(f"node-{number}", DEVICES * GPU) for number in range(NODES))
    return Books(nodes, (Budget("A", total), Budget("B", total)), tuple(jobs), len(jobs))


def deciding(books: Books, gpus: int, steps: int) -> Callable[[], None]:
    """Decide about a job of so many GPUs, which takes so many steps at least."""

    def decide() -> None:
        answer = provision(books, Request(JobId("A", "new"), gpus * GPU), Rules())
        if not isinstance(answer, Provided) or len(answer.steps) < steps:
            raise AssertionError(f"{gpus} GPUs: {answer}")

    return decide


def figures() -> list[Figure]:
    """Times in loops."""
    books = site()
    jobs = f"{NODES} nodes, {len(books.jobs)} jobs"
    return [
        Figure(f"a job that fits; {jobs}", in_loops(deciding(books, FREE, 1)), at_most(0.02), "loops", HOW),
        Figure("one that a move makes room for", in_loops(deciding(books, FREE + 1, 2)), at_most(1), "loops", HOW),
        Figure("one of a whole node, searched for", in_loops(deciding(books, DEVICES, 5)), at_most(5), "loops", HOW),
    ]
