"""A node's counters as plain values: links by neighbour, drops and folds by name, flows."""

import os
from typing import Annotated, Any

import msgspec

from fanfold.core.effects import DropReason, FoldEvent, TrafficClass, VatEvent
from fanfold.live import pump as p
from fanfold.live import rings
from fanfold.live import sock as s
from fanfold.topo.fabric import Fabric

Counts = dict[str, list[int]]
"""Class -> [packets, bytes]."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Classes = dict[str, tuple[Count, Count]]
ALIKE = ("sub_domain", "bitstring_bits", "mtu")
"""What all fabric files must have alike."""


class LinkStatus(msgspec.Struct, frozen=True):
    """What went over one link of a node, by class."""

    tx: Classes
    rx: Classes
    lost: dict[str, Count] = {}


class FlowStatus(msgspec.Struct, frozen=True):
    """What a node sent of one flow, by neighbour and class."""

    bfir_id: Count
    flow: Count
    tx: dict[str, Classes]


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's counters as others take them from its answer."""

    links: dict[str, LinkStatus]
    drops: dict[str, Count]
    flows: list[FlowStatus]
    fabric: dict[str, Count] = {}


def read_status(fabric: Fabric, name: str, answer: object) -> NodeStatus | None:
    """What a node answered; None when it is no status. Words of nobody's are left out."""
    try:
        given = msgspec.convert(answer, NodeStatus)
    except (msgspec.ValidationError, RecursionError):
        return None
    near = fabric.neighbours[name]
    return NodeStatus(
        links={
            to: LinkStatus(_known(row.tx), _known(row.rx), _reasons(row.lost))
            for to, row in given.links.items()
            if to in near
        },
        drops=_reasons(given.drops),
        fabric={key: n for key, n in given.fabric.items() if key in ALIKE},
        flows=[
            FlowStatus(
                row.bfir_id, row.flow, {to: _known(c) for to, c in row.tx.items() if to in near}
            )
            for row in given.flows
        ],
    )


def _reasons(counts: dict[str, int]) -> dict[str, int]:
    return {word: n for word, n in counts.items() if word in set(DropReason)}


def _known(classes: Classes) -> Classes:
    return {kind: counts for kind, counts in classes.items() if kind in set(TrafficClass)}


def status_of(fabric: Fabric, name: str, io: s.Sock, node: p.Node) -> dict[str, Any]:
    """What this node counted since it started."""
    counters = node.counters
    names = [n.name for n in fabric.port_nodes(name)]
    return {
        "name": name,
        "pid": os.getpid(),
        "fabric": {key: getattr(fabric, key) for key in ALIKE},
        "offload": bool(io.ints[s.GSO]),
        "rings": {
            "channels": int((io.channels["state"] == rings.LIVE).sum()),
            "blocks_in": int(io.ints[s.RUNS_IN]),
            "blocks_out": int(io.ints[s.RUNS_OUT]),
            "broken": int(io.ints[s.BROKEN]),
        },
        "receive_buffer_bytes": int(io.mem[0]) >> 32,  # granted, as SO_MEMINFO says
        "links": {
            names[i]: {
                "tx": _by_class(counters.tx[i]),
                "rx": _by_class(counters.rx[i]),
                "lost": {word: n for word, n in lost_at(io, i).items() if n},
            }
            for i in range(1, len(names))
        },
        "drops": drops_of(io, node),
        "folds": {
            str(event): int(n)
            for event, n in zip(FoldEvent, node.fold.events, strict=True)
            if n
        },
        "arrays": {
            str(event): int(n) for event, n in zip(VatEvent, node.vats.events, strict=True) if n
        },
        "flows": [
            {
                "bfir_id": int(key) >> 32,
                "flow": int(key) & 0xFFFFFFFF,
                "tx": {
                    names[i]: _by_class(counters.flow_tx[f, i]) for i in range(1, len(names))
                },
            }
            for f, key in enumerate(counters.flow_key)
            if key >= 0
        ],
    }


def drops_of(io: s.Sock, node: p.Node) -> dict[str, int]:
    """Packets dropped by reason, those without a way out included."""
    counts = {str(r): int(n) for r, n in zip(DropReason, node.counters.drops, strict=True)}
    for port in range(1, len(io.exits)):
        for word, n in lost_at(io, port).items():
            counts[word] += n
    return {word: n for word, n in counts.items() if n}


def lost_at(io: s.Sock, port: int) -> dict[str, int]:
    """Packets that did not leave by a port, by reason."""
    row = io.exits[port]
    return {
        DropReason.PORT_FULL.value: int(row["full"]),
        DropReason.TOO_LARGE.value: int(row["too_large"]),
        DropReason.SEND_FAILED.value: int(row["refused"]),
    }


def _by_class(rows: Any) -> Counts:
    return {
        str(kind): [int(rows[k, 0]), int(rows[k, 1])]
        for k, kind in enumerate(TrafficClass)
        if rows[k, 0]
    }
