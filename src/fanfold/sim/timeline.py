"""The time line of one packet: for each link it crossed, what the time went into.

Between its arrival at one node and at the next lie the wait for the port, serialisation,
propagation and the delay of the switch. A wait is below zero where a packet is passed on before
all of it has come in: with cut-through, and in trains.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.simulate import Hop
from fanfold.topo.byte_time import BYTE_BIT_PS
from fanfold.topo.net import Net

BLOCK_BITS = 64


class Step(NamedTuple):
    """One link crossed, from ``src`` to ``node``; all of it was there at ``at_ps``.

    wait_ps: None where nobody knows since when it could go: what waits for other items.
    """

    at_ps: int
    what: str
    src: int
    node: int
    link: int
    n_bytes: int
    wait_ps: int | None
    serial_ps: int
    prop_ps: int
    switch_ps: int


def timeline(
    net: Net, settings: Settings, hops: Iterable[Hop], start_ps: int | None
) -> list[Step]:
    """Steps in the order of arrival.

    Args:
        hops: as the simulator noted them. start_ps: when the item could start.
    """
    steps: list[Step] = []
    arrived: dict[tuple[str, int], int] = {}
    reached: dict[int, int] = {}
    for hop in sorted(set(hops)):  # of a train the loop notes head and tail at a host
        src, link = int(net.src[hop.link]), hop.link
        serial_ps = hop.n_bytes * BYTE_BIT_PS // int(net.bps[link])
        prop_ps = int(net.prop_ps[link])
        since = arrived.get((hop.what, src), reached.get(src, start_ps))
        spent = serial_ps + prop_ps + settings.switch_ps
        wait = None if since is None else hop.time_ps - since - spent
        steps.append(
            Step(
                *(hop.time_ps, hop.what, src, hop.node, link, hop.n_bytes),
                *(wait, serial_ps, prop_ps, settings.switch_ps),
            )
        )
        arrived[hop.what, hop.node] = reached[hop.node] = hop.time_ps
    return steps


def bytes_of(program: Program, item: int) -> int:
    """Payload of an item."""
    n = program.src.size
    if item >= program.n_sent:
        return 0
    if item < n:
        return int(program.n_bytes[item])
    return program.many[item - n].n_bytes


def record_of(
    program: Program, settings: Settings, segment_pkts: int, item: int, packet: int
) -> int:
    """What ``Simulation.watch`` takes: the record of a message, the bit of a fan."""
    if item < program.src.size:
        return packet // segment_pkts
    block, psn = divmod(packet, settings.block_psns)
    return block * BLOCK_BITS + psn


def start_of(program: Program, item: int) -> int | None:
    """When an item could start; None for what waits for others."""
    n = program.src.size
    if program.n_needs[item]:
        return None
    if item < n:
        return int(program.start_ps[item])
    return program.many[item - n].start_ps


def text_of(net: Net, program: Program, item: int) -> str:
    """An item in words."""
    n, name = program.src.size, net.node_name
    if item < n:
        ends = f"{name(int(program.src[item]))} to {name(int(program.dst[item]))}"
        return f"message {item}, {ends}, {int(program.n_bytes[item]):,} bytes"
    if item >= program.first_sum:
        one = program.sums[item - program.first_sum]
        return f"sum {item}, {len(one.hosts):,} hosts, {one.n_bytes:,} bytes each"
    fan = program.fans[item - n]
    to = f"{name(fan.source)} to {len(fan.receivers):,} hosts"
    return f"fan {item}, {to}, {fan.n_bytes:,} bytes"
