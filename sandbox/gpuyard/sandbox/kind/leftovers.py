"""What a Docker engine leaves in the kernel's packet filter, and the commands that take it out again.

Pure: two listings in (`iptables-save`, before the engine started and now), commands out. What was there before stays.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

CHAINS = "DOCKER"


@dataclass
class Table:
    """One table of a listing: each chain's policy (`-` for chains that programs made), and the rules."""

    policies: dict[str, str] = field(default_factory=dict)
    rules: list[list[str]] = field(default_factory=list)


def tables(listing: str) -> dict[str, Table]:
    """What `iptables-save` printed, by table."""
    found: dict[str, Table] = {}
    table = Table()
    for line in listing.splitlines():
        if line.startswith("*"):
            table = found.setdefault(line[1:], Table())
        elif line.startswith(":"):
            chain, policy, *_ = line[1:].split()
            table.policies[chain] = policy
        elif line.startswith("-A "):
            table.rules.append(shlex.split(line)[1:])
    return found


def undo(before: str, now: str, bridge: str) -> list[list[str]]:
    """Arguments of the `iptables` calls that take out of `now` what an engine with this bridge added since `before`."""
    old = tables(before)
    return [
        command for name, table in tables(now).items() for command in _undo(name, old.get(name, Table()), table, bridge)
    ]


def _undo(name: str, before: Table, now: Table, bridge: str) -> list[list[str]]:
    added = [chain for chain in now.policies if chain.startswith(CHAINS) and chain not in before.policies]
    rules = [
        rule for rule in now.rules if rule not in before.rules and rule[0] not in added and _from_engine(rule, bridge)
    ]
    policies = {
        chain: before.policies.get(chain, "ACCEPT")
        for chain, policy in now.policies.items()
        if policy != "-" and policy != before.policies.get(chain, "ACCEPT")
    }
    return [
        *(["-t", name, "-D", *rule] for rule in rules),
        *(["-t", name, "-F", chain] for chain in added),
        *(["-t", name, "-X", chain] for chain in added),
        *(["-t", name, "-P", chain, policy] for chain, policy in policies.items() if chain == "FORWARD"),
    ]


def _from_engine(rule: list[str], bridge: str) -> bool:
    return bridge in rule or rule[-1].startswith(CHAINS)
