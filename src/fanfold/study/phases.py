"""A workload as a graph of phases: computing and moving bytes, and what waits for what.

A phase begins when all that it needs have ended. Phases that move bytes do not share the
network with each other: a study puts what does into one phase. Each is simulated by itself,
from a net at rest, so the end of one is a barrier for those that need it.

Letters: R = ranks, which are hosts of the net; P = phases.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import MisuseError
from fanfold.study.result import Default
from fanfold.work.collective import Collective

I64 = NDArray[np.int64]
Style = Literal["copies", "relay", "fan", "tree"]
"""How a scheme sends one message to many: a copy to each, from receiver to receiver, one copy
on each link by a set in the packet, one copy on each link along a tree that must stand."""
Way = Literal["out", "back"]


class Cast(NamedTuple):
    """One message from a host to others; backwards, a sum from the others to the host.

    start_ps: the earliest. begin: address of its first byte in what is pushed.
    """

    source: int
    receivers: tuple[int, ...]
    n_bytes: int
    start_ps: int = 0
    begin: int = 0


class Phase(NamedTuple):
    """Computing, or moving bytes.

    needs: names of phases that come first. compute_ps: (R,) of each GPU. idle_ps: it only
    takes time. Neither: it moves bytes. casts, way: messages to many, or back from many.
    collectives: by groups. ready_ps: (H,) before which a host takes no part. flood: for schemes
    whose trees must stand, in the place of casts: all to one group that stands, whose members
    throw away what is not theirs. is_standing: trees stand before. payload_bytes: of a packet,
    0: as the simulator has it. first_bytes: of the first layer, 0: nobody asks. most_pieces: of
    a pipeline, 0: no limit.
    """

    name: str
    needs: tuple[str, ...] = ()
    compute_ps: I64 | None = None
    idle_ps: int | None = None
    casts: tuple[Cast, ...] = ()
    collectives: tuple[Collective, ...] = ()
    way: Way = "out"
    ready_ps: I64 | None = None
    flood: tuple[Cast, ...] = ()
    is_standing: bool = False
    payload_bytes: int = 0
    first_bytes: int = 0
    most_pieces: int = 0

    @property
    def is_move(self) -> bool:
        """Whether it moves bytes."""
        return self.compute_ps is None and self.idle_ps is None


class Graph(NamedTuple):
    """One step of a workload on a fabric.

    topology: of ``n_hosts`` hosts or more, of which ``gpus`` compute and wait. durable: phase
    that ends when all is stored, empty where there is none. waits: who is idle where nothing is
    computed: receivers until they have all, or all GPUs until the end. n_slots: of a router for
    feedback, array_slots: for arrays, bitstring_bits: 0: as the simulator has it. has_exit:
    what the site of the first source sends to its border router is egress. note: what a reader
    must know of this point.
    """

    topology: str
    n_hosts: int
    gpus: int
    phases: tuple[Phase, ...]
    defaults: tuple[Default, ...] = ()
    n_slots: int = 0
    array_slots: int = 0
    bitstring_bits: int = 0
    durable: str = ""
    waits: Literal["receivers", "gpus"] = "receivers"
    has_exit: bool = False
    note: str = ""


class Span(NamedTuple):
    """When a phase ran."""

    start_ps: int
    end_ps: int


def check_graph(phases: Sequence[Phase]) -> None:
    """Refuse a graph of ours that does not hold: names twice, or needs that come later."""
    seen: set[str] = set()
    for phase in phases:
        if phase.name in seen or not seen.issuperset(phase.needs):
            raise MisuseError(f"phase {phase.name}: named twice, or needs what comes later")
        seen.add(phase.name)


def schedule(phases: Sequence[Phase], lasts_ps: Mapping[str, int]) -> dict[str, Span]:
    """When each phase runs.

    Args:
        phases: each after those it needs. lasts_ps: of each phase, by name.
    """
    check_graph(phases)
    spans: dict[str, Span] = {}
    for phase in phases:
        start = max((spans[name].end_ps for name in phase.needs), default=0)
        spans[phase.name] = Span(start, start + lasts_ps[phase.name])
    return spans


def busy_ps(phases: Sequence[Phase], gpus: int) -> I64:
    """(R,) time that each GPU computes."""
    total = np.zeros(gpus, np.int64)
    for phase in phases:
        if phase.compute_ps is not None:
            total += phase.compute_ps
    return total
