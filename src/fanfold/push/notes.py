"""What counters of nodes say in words: links too small, tables that do not fit, no way out."""

from collections.abc import Mapping

from fanfold.core.effects import DropReason
from fanfold.live.status import ALIKE, NodeStatus
from fanfold.topo.fabric import Fabric

Drops = Mapping[str, int]

MOST_NAMED = 8

_WORDS = {
    DropReason.TOO_LARGE: "were larger than a link takes, which had room for them at the start:"
    " its MTU was made smaller; see `ip link`, set fabric.mtu to the smallest of all links",
    DropReason.SEND_FAILED: "were refused by the kernel: a link is down, there is no route, or"
    " a firewall forbids it; see `ip route` and `ip link`",
    DropReason.UNKNOWN_BIFT: "were for a table it has not: sub_domain, bitstring_bits or the"
    " hosts in the sender's fabric file are not those of its own",
    DropReason.BSL_MISMATCH: "had a BitString of another length than their table:"
    " bitstring_bits of the sender is not that of this node",
}
"""What a user can mend, by the reason of a drop."""


def words_of(name: str, lost: Mapping[str, Drops], drops: Drops) -> list[str]:
    """One line for each thing that a user can mend at a node.

    lost: what did not leave, by neighbour. drops: those to speak of.
    """
    lines = []
    for reason, what in _WORDS.items():
        n = drops.get(reason, 0)
        if n:
            links = [to for to, counts in lost.items() if counts.get(reason)]
            where = f" to {', '.join(links)}" if links else ""
            lines.append(f"{name}: packets{where} {what} ({n} of them)")
    return lines


def unlike(fabric: Fabric, name: str, own: Mapping[str, int]) -> list[str]:
    """Where a node's fabric file says something else than that of a push."""
    return [
        f"{name}: {key} is {own[key]} there and {getattr(fabric, key)} here: the fabric files"
        " are not the same"
        for key in ALIKE
        if key in own and own[key] != getattr(fabric, key)
    ]


def swapped(fabric: Fabric, name: str, table: Mapping[str, int]) -> list[str]:
    """Where a node's table is another than the one that a push was predicted by."""
    version = table.get("version", fabric.version)
    if version == fabric.version:
        return []
    return [
        f"{name}: its table is of version {version}, the prediction of version {fabric.version}"
    ]


def lost_links(
    fabric: Fabric, before: Mapping[str, NodeStatus], after: Mapping[str, NodeStatus]
) -> list[str]:
    """Links, with another way beside them, that a push had to do without."""
    fell, down = [], []
    for link in fabric.links:
        if not fabric.has_other_way(link.a, link.b):
            continue
        ends = [(link.a, link.b), (link.b, link.a)]
        rows = [(end, to, after[end].neighbours.get(to)) for end, to in ends if end in after]
        if any(row and row.falls > _falls(before, end, to) for end, to, row in rows):
            fell.append(f"{link.a}-{link.b}")
        elif any(row and row.state == "down" for _, _, row in rows):
            down.append(f"{link.a}-{link.b}")
    lines = []
    if fell:
        lines.append(f"lost during the push, and routed around where possible: {_some(fell)}")
    if down:
        lines.append(f"down before the push, and routed around where possible: {_some(down)}")
    return lines


def _falls(statuses: Mapping[str, NodeStatus], name: str, to: str) -> int:
    row = statuses[name].neighbours.get(to) if name in statuses else None
    return row.falls if row else 0


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def notes_of(
    fabric: Fabric,
    before: Mapping[str, NodeStatus],
    statuses: Mapping[str, NodeStatus],
    drops: Mapping[str, Drops],
) -> list[str]:
    """What went wrong at nodes during a push, that a user can mend or should know.

    A table that is missing is not told again where a fabric file is said to differ.
    """
    lines = lost_links(fabric, before, statuses)
    for name, status in statuses.items():
        differing = unlike(fabric, name, status.fabric)
        lost = {to: link.lost for to, link in status.links.items()}
        some = dict(drops.get(name, {}))
        if differing:
            some.pop(DropReason.UNKNOWN_BIFT, None)
        lines += differing + swapped(fabric, name, status.table) + words_of(name, lost, some)
    return lines
