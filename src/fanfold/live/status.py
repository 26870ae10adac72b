"""What another node says that it counted, checked: peers' words are not trusted."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from fanfold.core.effects import DropReason, TrafficClass
from fanfold.topo.fabric import Fabric

Counts = dict[str, list[int]]
"""Class -> [packets, bytes]."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Classes = dict[str, tuple[Count, Count]]
Answers = Mapping[str, Any]
"""Node name -> what it answered."""
ALIKE = ("sub_domain", "bitstring_bits", "mtu")
"""What all fabric files must have alike."""


class LinkStatus(msgspec.Struct, frozen=True):
    """What went over one link of a node, by class."""

    tx: Classes
    rx: Classes
    lost: dict[str, Count] = {}
    drops: dict[str, Count] = {}
    """Of what came in there, by reason."""


class FlowStatus(msgspec.Struct, frozen=True):
    """What a node sent of one flow, by neighbour and class."""

    bfir_id: Count
    flow: Count
    tx: dict[str, Classes]


class NeighbourStatus(msgspec.Struct, frozen=True):
    """What a node says of one neighbour."""

    state: Literal["up", "down", "unseen"]
    falls: Count


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's counters as others take them from its answer."""

    links: dict[str, LinkStatus]
    drops: dict[str, Count]
    flows: list[FlowStatus]
    fabric: dict[str, Count] = {}
    table: dict[str, Count] = {}
    neighbours: dict[str, NeighbourStatus] = {}
    pid: Count = 0
    at_ns: Count = 0
    """When it said so, by its clock, since 1970."""
    receive_buffer_bytes: Count = 0
    backlog: Count = 0
    """Runs of packets that its machine's kernel dropped."""
    cache: dict[str, Count] = {}


Statuses = Mapping[str, NodeStatus]


def read_all(fabric: Fabric, answers: Answers) -> dict[str, NodeStatus]:
    """Statuses of the nodes whose answers are some."""
    read = {name: read_status(fabric, name, answer) for name, answer in answers.items()}
    return {name: status for name, status in read.items() if status is not None}


def read_status(fabric: Fabric, name: str, answer: object) -> NodeStatus | None:
    """What a node answered; None when it is no status. Words of nobody's are left out."""
    try:
        given = msgspec.convert(answer, NodeStatus)
    except (msgspec.ValidationError, RecursionError):
        return None
    near = fabric.neighbours[name]
    return NodeStatus(
        links={
            to: LinkStatus(
                _known(row.tx), _known(row.rx), _reasons(row.lost), _reasons(row.drops)
            )
            for to, row in given.links.items()
            if to in near
        },
        drops=_reasons(given.drops),
        fabric={key: n for key, n in given.fabric.items() if key in ALIKE},
        table=given.table,
        pid=given.pid,
        at_ns=given.at_ns,
        receive_buffer_bytes=given.receive_buffer_bytes,
        backlog=given.backlog,
        cache=given.cache,
        neighbours={to: row for to, row in given.neighbours.items() if to in near},
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
