"""What a Docker engine leaves in the kernel's packet filter, and the commands that take it out again.

Pure: two listings in (`iptables-save`, before the engine started and now), commands out. What was there before stays,
and so do the chains that all engines share while another one, started later, uses them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

CHAINS = "DOCKER"

Network = IPv4Network | IPv6Network


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
    old, new = tables(before), tables(now)
    marks = {bridge, *_addresses(new, bridge)}
    undo_one = _undo_ours if has_company(before, now, bridge) else _undo
    return [command for name, table in new.items() for command in undo_one(name, old.get(name, Table()), table, marks)]


def has_company(before: str, now: str, bridge: str) -> bool:
    """Whether another engine has come since: it sends what comes from its own cards to the chains of engines."""
    old, new = tables(before), tables(now)
    came = (rule for name, table in new.items() for rule in table.rules if rule not in old.get(name, Table()).rules)
    return any(rule[-1].startswith(CHAINS) and {*_cards(rule)} - {bridge} for rule in came)


def _cards(rule: list[str]) -> list[str]:
    """The network cards that a rule names."""
    return [rule[position + 1] for position, word in enumerate(rule) if word in ("-i", "-o")]


def _addresses(found: dict[str, Table], bridge: str) -> list[str]:
    """The addresses in rules about published ports: they lie in the bridge's subnet and do not name the bridge."""
    rules = [rule for table in found.values() for rule in table.rules]
    subnets = [ip_network(rule[rule.index("-s") + 1]) for rule in rules if bridge in rule and "-s" in rule]
    sources = {rule[rule.index("-s") + 1] for rule in rules if "-s" in rule}
    return [source for source in sources if any(_within(source, subnet) for subnet in subnets)]


def _within(address: str, subnet: Network) -> bool:
    found = ip_network(address)
    return (found.version, subnet.version) in ((4, 4), (6, 6)) and subnet.supernet_of(found)  # type: ignore[arg-type]


def _undo_ours(name: str, before: Table, now: Table, marks: set[str]) -> list[list[str]]:
    """What names our bridge or an address of its, in whatever chain."""
    ours = [rule for rule in now.rules if rule not in before.rules and marks & set(rule)]
    return [["-t", name, "-D", *rule] for rule in ours]


def _undo(name: str, before: Table, now: Table, marks: set[str]) -> list[list[str]]:
    added = [chain for chain in now.policies if chain.startswith(CHAINS) and chain not in before.policies]
    new = [rule for rule in now.rules if rule not in before.rules and rule[0] not in added]
    rules = [rule for rule in new if marks & set(rule) or rule[-1].startswith(CHAINS)]
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
