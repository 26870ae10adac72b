"""Flow fidelity of an exchange: every host to every other, without a message for each pair.

All messages of a round move at once and are of one size, but for a byte, so the most loaded
link is full from the round's begin to its end and decides when that is: its bytes over its
rate, acknowledgements of the other direction among them. Messages are spread evenly over all
shortest paths; with one path each (``ecmp``) so many of them are, nearly.

Letters: n = hosts that exchange, G = groups of hosts behind one router, L = links.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.results.outcome import ACK, DATA, N_LINK_CLASSES, Outcome
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Exchange, Rounds
from fanfold.sim.fluid_counts import (
    acks_of,
    as_full,
    as_short,
    outcome_of_flow,
    reason_of_rounds,
    sorts_of,
    spread_pairs,
)
from fanfold.sim.fluid_flows import first_links, paths_by
from fanfold.sim.fluid_rounds import run_rounds
from fanfold.sim.fluid_sizes import control_ps, last_packet_ps
from fanfold.sim.loop.tally import FULL, N_SORTS, SHORT, SHORT_BYTES
from fanfold.sim.loop.ways import Ways
from fanfold.topo.birt import build_birt
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]


class Spans(NamedTuple):
    """Of each group's farthest message, (G,): last byte sent to received, and its ACK home."""

    rest_ps: I64
    back_ps: I64


def run_exchange(
    net: Net, routes: Routes, exchange: Exchange | Rounds, settings: Settings, *, seed: int
) -> Outcome:
    """Run all rounds.

    Raises:
        ConfigError: hosts with several links, or without a path to one another.
    """
    if isinstance(exchange, Rounds):
        return run_rounds(net, routes, exchange, settings, seed=seed)
    hosts = exchange.hosts
    if (np.diff(net.first_out)[hosts] != 1).any():
        got = f"{hosts.size} hosts with several links each"
        raise ConfigError("workload.ranks", got, "fewer, so that each message has its own path")
    ways = build_birt(net, routes, settings.n_ecmp)
    group = routes.group.astype(np.int64)[hosts]
    longest = max(int(sizes.max(initial=0)) for sizes in exchange.sizes)
    size = min(longest, settings.payload_bytes) + settings.header_bytes
    spans = _spans(net, routes, ways, hosts, group, settings, seed, size)
    tally_of = np.zeros((net.n_links, N_LINK_CLASSES, 2), np.int64)
    start_ps = round_ps = 0
    known: dict[tuple[bytes, bool], I64] = {}
    for sizes, by_sender in zip(exchange.sizes, exchange.by_sender, strict=True):
        start_ps += round_ps + (int(spans.rest_ps.max()) if round_ps else 0)
        mine = _count_round(net, routes, ways, hosts, sizes, by_sender, settings, known)
        round_ps = int(byte_times(net).all(mine[..., 1].sum(axis=1)).max())
        tally_of += mine
    due = np.zeros(net.n_hosts, np.int64)
    for sizes, by_sender in zip(exchange.sizes, exchange.by_sender, strict=True):
        due[hosts] += sizes.sum() - sizes if by_sender else sizes * (hosts.size - 1)
    heard = int(tally_of[net.first_out[hosts], DATA, 0].sum())
    host_ps = np.zeros(net.n_hosts, np.int64)
    host_ps[hosts] = start_ps + round_ps + spans.rest_ps[group]
    end_ps = start_ps + round_ps + int((spans.rest_ps + spans.back_ps).max())
    reason = reason_of_rounds(len(exchange.sizes))
    return outcome_of_flow(tally_of, due, host_ps, end_ps, heard, reason)


def _spans(
    net: Net,
    routes: Routes,
    ways: Ways,
    hosts: I64,
    group: I64,
    settings: Settings,
    seed: int,
    size: int,
) -> Spans:
    """Times of a message, whose largest packet has ``size`` bytes, from the farthest group."""
    some, at = np.unique(group, return_index=True)
    router = net.dst[net.first_out[hosts[at]]] - net.n_hosts
    hops = np.where(routes.hops < FAR, routes.hops, -1)[np.ix_(router, some)]
    if (hops < 0).any():
        a, b = np.argwhere(hops < 0)[0]
        ends = f"{net.node_name(int(hosts[at[a]]))} to {net.node_name(int(hosts[at[b]]))}"
        raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")
    src, dst = hosts[at[np.argmax(hops, axis=0)]], hosts[at]
    if some.size == 1:
        src = hosts[at + 1]
    nic = first_links(net, ways, src, dst, np.zeros_like(src))
    path = paths_by(routes, ways, seed, (src, dst, nic))
    full = np.full(src.size, size)
    spans = Spans(*np.zeros((2, routes.n_groups), np.int64))
    spans.rest_ps[some] = last_packet_ps(net, settings, path, full, settings.header_bytes)
    spans.back_ps[some] = control_ps(net, settings, path, settings.ack_bytes)
    return spans


def _count_round(
    net: Net,
    routes: Routes,
    ways: Ways,
    hosts: I64,
    sizes: I64,
    by_sender: bool,
    settings: Settings,
    known: dict[tuple[bytes, bool], I64],
) -> I64:
    """(L, N_LINK_CLASSES, 2) packets and bytes: pairs of groups together, then hosts' links.

    Args:
        known: what was worked out for rounds before, by what a group sends.
    """
    sorts = sorts_of(sizes, settings)
    some, at, of, n_of = np.unique(
        routes.group[hosts], return_index=True, return_inverse=True, return_counts=True
    )
    per_group = np.zeros((some.size, N_SORTS), np.int64)
    np.add.at(per_group, of, sorts)
    out = np.zeros((net.n_links, N_LINK_CLASSES, 2), np.int64)
    first = net.first_out[hosts]
    total = sorts.sum(axis=0)
    sent = total - sorts if not by_sender else sorts * (hosts.size - 1)
    came = total - sorts if by_sender else sorts * (hosts.size - 1)
    full = settings.payload_bytes + settings.header_bytes
    is_even = bool((n_of == n_of[0]).all() and (per_group == per_group[0]).all())
    for kind, what, by_one, up, down, size in (
        (DATA, per_group, by_sender, sent, came, full),
        (
            ACK,
            acks_of(per_group),
            not by_sender,
            acks_of(came),
            acks_of(sent),
            settings.ack_bytes,
        ),
    ):
        counts, short = as_full(what)
        key = counts.tobytes(), by_one or is_even
        if key not in known:
            known[key] = spread_pairs(net, routes, ways, hosts[at], counts, n_of, key[1])
        links = as_short(known[key].copy(), short)
        links[: net.first_out[net.n_hosts]] = 0
        links[net.reverse[: net.first_out[net.n_hosts]]] = 0
        links[first], links[net.reverse[first]] = up, down
        out[:, kind, 0] = links[:, FULL] + links[:, SHORT]
        out[:, kind, 1] = links[:, FULL] * size + links[:, SHORT_BYTES]
    return out
