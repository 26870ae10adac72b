"""How long what fans have under way takes the links where they meet.

Clocks of fans run no faster than that allows (sim/fan_arrays.py). Letters: H = receivers, M =
links of the longest path, L = links.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import Birt
from fanfold.scenario.failures import read_faults
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan, FanTree, Program
from fanfold.sim.build import slowest_ports
from fanfold.sim.fan_sizes import fan_head_bytes, feedback_bytes
from fanfold.sim.fan_trees import phase_at, trace_branches
from fanfold.sim.loop.ways import NONE, lead_all
from fanfold.topo.byte_time import BYTE_BIT_PS, byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes
from fanfold.units import NEVER

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
MAX_GAPS = 16
"""Rows of missing packets in one FEEDBACK packet; what has more goes in several."""
UNDER_WAY = 4
"""Blocks of a fan that may wait for a link when many fans share it."""


class Way(NamedTuple):
    """A plane of a source, and its links there, those that are down too."""

    plane: int
    links: tuple[int, ...]


class Part(NamedTuple):
    """A fan, or what leaves by one link of its source: item, receivers, link.

    ways: planes that it is dealt to, then ``nic`` is the first link of all.
    """

    item: int
    fan: Fan
    nic: int
    ways: tuple[Way, ...] = ()


class Roads(NamedTuple):
    """By which tables fans go: those of each BFR that are ECMP's, and all trees."""

    net: Net
    routes: Routes
    birt: Birt
    n_ecmp: int
    trees: tuple[FanTree, ...]

    def path(self, part: Part, at_ps: int = NEVER) -> I32:
        """(H, M) links of a part to each of its receivers, NONE beyond the last.

        at_ps: when, of a tree that changes; as it stands in the end.
        """
        fan = part.fan
        hosts = np.array(fan.receivers, np.int64)
        if fan.tree != NO_TREE:
            phase = phase_at(self.trees[fan.tree], at_ps)
            return trace_branches(self.net, phase, hosts).path
        path = np.empty((hosts.size, self.routes.longest), np.int32)
        lead_all(self.birt, part.nic, hosts, fan.entropy % self.n_ecmp, path)
        return path


def first_window(bps: int, rtt_ps: int) -> int:
    """Bytes that a fan may have under way at first, where that is more than two blocks."""
    return 2 * (bps * rtt_ps // BYTE_BIT_PS)


def crowd_ps(
    roads: Roads, parts: list[Part], settings: Settings, rtt_ps: int, *, is_held: bool
) -> int:
    """How long what is under way of all fans takes the busiest link on their ways, in ps.

    One fan alone waits only for links that are slower than its source's.

    Args:
        is_held: words hold a source back; else all that it has may be under way.
    """
    net, by_planes = roads.net, bool(settings.planes)
    load = np.zeros(net.n_links, np.int64)
    block = settings.payload_bytes * settings.block_psns
    for part in parts:
        path = roads.path(part)
        used = np.unique(path[path != NONE]).astype(np.int64)
        if parts[0].item == parts[-1].item and (len(parts) == 1 or by_planes):
            used = used[net.bps[used] < net.bps[part.nic]]
        n_pkts = -(-part.fan.n_bytes // settings.payload_bytes)
        if is_held:
            window = first_window(int(net.bps[part.nic]), rtt_ps)
            blocks = max(UNDER_WAY, -(-window // block))
            n_pkts = min(n_pkts, blocks * settings.block_psns)
        head = fan_head_bytes(settings, is_tree=part.fan.tree != NO_TREE)
        load[used] += min(part.fan.n_bytes, n_pkts * settings.payload_bytes) + n_pkts * head
    return int(byte_times(net).all(load).max(initial=0))


def implosion_ps(roads: Roads, parts: list[Part], settings: Settings, word_pkts: int) -> int:
    """How long the words on all that is under way take the busiest link back, in ps.

    Args:
        word_pkts: packets that one word of a receiver is about.
    """
    net = roads.net
    load = np.zeros(net.n_links, np.int64)
    most = UNDER_WAY * settings.block_psns
    for part in parts:
        n_pkts = min(-(-part.fan.n_bytes // settings.payload_bytes), most)
        word = feedback_bytes(settings, is_tree=part.fan.tree != NO_TREE)
        path = roads.path(part)
        n_words = np.bincount(net.reverse[path[path != NONE]], minlength=net.n_links)
        load += -(-n_pkts // word_pkts) * n_words * word
    return int(byte_times(net).all(load).max(initial=0))


def nacks_ps(roads: Roads, parts: list[Part], settings: Settings, n_blocks: int) -> int:
    """Until all who are behind what fails have told sources of so many blocks, in ps.

    Receivers of RFC 5740 wait so long too, by the size of the group (5.3), before they repeat.
    """
    net = roads.net
    load = np.zeros(net.n_links, np.int64)
    for fault in read_faults(settings, net):
        cut = np.array(fault.links if fault.cuts else (), np.int64)
        for part in parts:
            path = roads.path(part, fault.at_ps)
            behind = path[np.isin(path, cut).any(axis=1)]
            n_words = np.bincount(net.reverse[behind[behind != NONE]], minlength=net.n_links)
            load += n_blocks * n_words * _told_bytes(settings, is_tree=part.fan.tree != NO_TREE)
    return int(byte_times(net).all(load).max(initial=0))


def _told_bytes(settings: Settings, *, is_tree: bool) -> int:
    """All packets of a word that a whole block is lacking."""
    n_pkts = -(-settings.block_psns // MAX_GAPS)
    rows = 0 if is_tree else settings.block_psns * (4 + settings.bitstring_bits // 8)
    return n_pkts * feedback_bytes(settings, is_tree=is_tree) + rows


class Inbound:
    """Messages that are still to come to hosts: fans' packets and words wait behind them.

    A source of messages has no window, so all of them may stand in the last queue.
    """

    def __init__(self, net: Net, program: Program) -> None:
        self.program = program
        self.bps = net.bps[slowest_ports(net)]
        self.load = np.zeros(net.n_hosts, np.int64)

    def count(self, is_open: NDArray[np.bool_]) -> None:
        """Note what is under way now; is_open: (F,) messages not received."""
        program = self.program
        self.load[:] = 0
        np.add.at(self.load, program.dst[is_open], program.n_bytes[is_open])

    def wait_ps(self, fan: Fan) -> int:
        """How long packets of a fan, and words about them, may wait behind messages."""
        hosts = np.array(fan.receivers, np.int64)
        worst = hosts[np.argmax(self.load[hosts] / self.bps[hosts])]
        return self._queue_ps(int(worst)) + self._queue_ps(fan.source)

    def _queue_ps(self, host: int) -> int:
        return int(self.load[host]) * BYTE_BIT_PS // int(self.bps[host])
