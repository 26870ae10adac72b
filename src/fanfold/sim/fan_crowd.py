"""How long what fans have under way takes the links where they meet.

Clocks of fans run no faster than that allows (sim/fan_arrays.py). Letters: R = receivers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import Birt
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan, FanTree
from fanfold.sim.fan_sizes import feedback_bytes
from fanfold.sim.fluid_flows import longest
from fanfold.sim.loop.ways import NONE, lead_all
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
UNDER_WAY = 4
"""Blocks of a fan that may wait for a receiver's link when many fans share it."""


class Part(NamedTuple):
    """A fan, or what leaves by one link of its source: item, receivers, link."""

    item: int
    fan: Fan
    nic: int


class Roads(NamedTuple):
    """By which tables fans go: those of each BFR that are ECMP's, and all trees."""

    net: Net
    routes: Routes
    birt: Birt
    n_ecmp: int
    trees: tuple[FanTree, ...]


def crowd_ps(roads: Roads, parts: list[Part], settings: Settings) -> int:
    """How long what is under way of all fans takes the busiest receiver's link, in ps.

    One fan alone waits only for a link that is slower than its source's.
    """
    net = roads.net
    inbound = np.zeros(net.n_links, np.int64)
    most = UNDER_WAY * settings.payload_bytes * settings.block_psns
    n_out = np.diff(net.first_out[: net.n_hosts + 1])
    for part in parts:
        receivers = np.array(part.fan.receivers, np.int64)
        down = net.reverse[net.first_out[receivers]]
        if part.fan.tree != NO_TREE:
            down = _down_tree(roads, part.fan, down)
        elif n_out[receivers].max() > 1:
            down = _last_links(roads, part)
        if len(parts) == 1:
            down = down[net.bps[down] < net.bps[part.nic]]
        inbound[down] += min(part.fan.n_bytes, most)
    return int(byte_times(net).all(inbound).max(initial=0))


def implosion_ps(net: Net, parts: list[Part], settings: Settings, word_pkts: int) -> int:
    """How long the words on all that is under way take the busiest source's link, in ps.

    word_pkts: packets that one word of a receiver is about.
    """
    inbound = np.zeros(net.n_links, np.int64)
    most = UNDER_WAY * settings.block_psns
    for part in parts:
        n_pkts = min(-(-part.fan.n_bytes // settings.payload_bytes), most)
        word = feedback_bytes(settings, is_tree=part.fan.tree != NO_TREE)
        inbound[part.nic] += -(-n_pkts // word_pkts) * len(part.fan.receivers) * word
    return int(byte_times(net).all(inbound).max(initial=0))


def _down_tree(roads: Roads, fan: Fan, down: I64) -> I64:
    """(R,) the tree's link to each receiver; ``down`` where it never has one."""
    into = {
        int(roads.net.dst[k]): k
        for phase in reversed(roads.trees[fan.tree].phases)
        for k in phase.links
    }
    links = zip(fan.receivers, down.tolist(), strict=True)
    return np.array([into.get(host, link) for host, link in links], np.int64)


def _last_links(roads: Roads, part: Part) -> I64:
    """(R,) link by which a fan's data come to each receiver, along the BIFTs."""
    receivers = np.array(part.fan.receivers, np.int64)
    path = np.empty((receivers.size, longest(roads.routes)), np.int32)
    lead_all(roads.birt, part.nic, receivers, part.fan.entropy % roads.n_ecmp, path)
    last = (path != NONE).sum(axis=1) - 1
    found: I64 = path[np.arange(receivers.size), last].astype(np.int64)
    return found
