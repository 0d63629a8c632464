"""What the watches said and what was granted since: the pods by phase, promised room, nodes offered."""

from gpuyard.extender.ledger.ledger import BURIED, IN_FLIGHT, NOT_SEEN_SENTENCE, NOT_SEEN_YET, Ledger
from gpuyard.extender.ledger.phases import TRANSITIONS, Entry, Event, Grant, Phase

__all__ = [
    "BURIED",
    "IN_FLIGHT",
    "NOT_SEEN_SENTENCE",
    "NOT_SEEN_YET",
    "TRANSITIONS",
    "Entry",
    "Event",
    "Grant",
    "Ledger",
    "Phase",
]
