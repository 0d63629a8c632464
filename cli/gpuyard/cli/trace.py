"""`--explain`: the whole decision about one pod, from the first gate to what would help."""

from collections.abc import Iterable

from gpuyard.cli.answer import Json, amounts
from gpuyard.cli.drawing import Page, Section, drawn, listed
from gpuyard.engine.explain.pod import Explanation, Gate, NodeWord, QueueStand
from gpuyard.engine.explain.sentences import cause_in_words, thousandths, told
from gpuyard.engine.explain.suggestions import advice_in_words
from gpuyard.engine.model import UNLIMITED
from gpuyard.engine.model.reporter import Step
from gpuyard.engine.model.results import FinalState, Waiting
from gpuyard.engine.model.snapshot import Snapshot


def trace(explanation: Explanation, snapshot: Snapshot, page: Page) -> str:
    """The decision about a pod of `snapshot`."""
    return "\n\n".join([_end(explanation), *details(explanation, snapshot, page)]) + "\n"


def details(explanation: Explanation, snapshot: Snapshot, page: Page) -> list[str]:
    """All of the decision but its end, block by block."""
    sections = [_gates(explanation.gates), _queues(explanation), _nodes(explanation)]
    blocks = [drawn(section, page) for section in sections if section.rows]
    if explanation.steps:
        blocks.append(listed("WHAT THE ENGINE DID", "cyan", [_step(step) for step in explanation.steps], page))
    if explanation.advice is not None:
        blocks.append(listed("WHAT WOULD HELP", "cyan", advice_in_words(explanation.advice, snapshot), page))
    return blocks


def document(of: Explanation, snapshot: Snapshot) -> Json:
    """The same for programs, in the units of a Queue."""
    return {
        "pod": of.pod.key,
        "state": str(of.final.state),
        **({"node": of.final.node} if of.final.node else {}),
        **_why(of.waiting),
        "gates": [{"gate": gate.name, "passed": gate.refusal is None, **_why(gate.refusal)} for gate in of.gates],
        "queues": [_stand(queue) for queue in of.queues],
        "nodes": [_word(word) for word in of.nodes],
        "steps": [_step(step) for step in of.steps],
        "advice": advice_in_words(of.advice, snapshot) if of.advice is not None else [],
    }


def _why(waiting: Waiting | None) -> Json:
    return {} if waiting is None else {"reason": str(waiting.reason), "message": told(waiting)}


def _stand(queue: QueueStand) -> Json:
    return {
        "queue": queue.name,
        "fairShare": amounts(queue.fair_share),
        "quota": amounts(queue.quota),
        "limit": amounts(queue.limit),
        "allocated": amounts(queue.allocated),
        "allocatedNonPreemptible": amounts(queue.fixed),
    }


def _word(word: NodeWord) -> Json:
    cause: Json = {"cause": cause_in_words(word.cause)} if word.cause else {}
    return {"node": word.node, "freeGpus": word.free, "fits": not word.cause, **cause}


def _end(of: Explanation) -> str:
    if of.waiting is not None:
        return f"{of.pod.key} waits: {of.waiting.reason}: {told(of.waiting)}"
    where = f" on {of.final.node}" if of.final.node and of.final.state is not FinalState.PENDING else ""
    return f"{of.pod.key}: {of.final.state}{where}"


def _gates(gates: Iterable[Gate]) -> Section:
    rows = [(gate.name, "passed" if gate.refusal is None else f"refused: {_reason(gate.refusal)}") for gate in gates]
    return Section("GATES", "yellow", ("GATE", "ANSWER"), rows)


def _queues(of: Explanation) -> Section:
    rows = [
        (q.name, *(_gpus(a.gpu) for a in (q.fair_share, q.quota, q.limit, q.allocated, q.fixed))) for q in of.queues
    ]
    columns = ("QUEUE", "FAIR SHARE", "QUOTA", "LIMIT", "IN USE", "NOT PREEMPTIBLE")
    return Section("QUEUES ON THE WAY UP (GPUS)", "yellow", columns, rows)


def _nodes(of: Explanation) -> Section:
    own = of.final.node if of.waiting is None else ""
    rows = [(w.node, str(w.free), _answer(w, own)) for w in of.nodes]
    return Section("NODES", "yellow", ("NODE", "FREE GPUS", "ANSWER"), rows, most=len(rows))


def _answer(word: NodeWord, own: str) -> str:
    if word.cause:
        return cause_in_words(word.cause)
    return "its own place" if word.node == own else "fits"


def _step(step: Step) -> str:
    match step.what, step.detail:
        case "refused", (Waiting() as why,):
            return f"{step.about} is not let through: {_reason(why)}"
        case "placed", (node, now):
            return f"{step.about} gets a place on {node}" + ("" if now else ", once it is free")
        case "tried", (phase, (*victims,), success):
            room = "there is room" if success else "there is still no room that the rules allow"
            return f"{phase}: without {', '.join(map(str, victims))} {room}"
        case "dropped", (phase, victim):
            return f"{phase}: {victim} can stay, the plan works without it"
        case "skipped", (phase, like):
            return f"{phase}: nobody was tried, as {like} asks for no more and found no room that the rules allow"
        case _:
            return f"{step.about}: {step.what}"


def _reason(waiting: Waiting) -> str:
    return f"{waiting.reason}: {told(waiting)}"


def _gpus(amount: int) -> str:
    return "unlimited" if amount == UNLIMITED else thousandths(amount)
