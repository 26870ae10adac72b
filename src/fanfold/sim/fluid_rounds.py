"""Flow fidelity of rounds of messages between pairs, each as long as its fullest link needs.

A round begins when all of the one before has come. Its messages are alike, so the most loaded
link is full from the round's begin to its end: its bytes over its rate, acknowledgements of the
other direction among them. Messages are spread evenly over all shortest paths; with one path
each (``ecmp``) so many of them are, nearly.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.results.outcome import ACK, DATA, N_LINK_CLASSES, Outcome
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Rounds
from fanfold.sim.fluid_counts import (
    acks_of,
    as_full,
    as_short,
    outcome_of_flow,
    reason_of_rounds,
    sorts_of,
    spread_evenly,
)
from fanfold.sim.fluid_flows import first_links, paths_by
from fanfold.sim.fluid_sizes import control_ps, last_packet_ps
from fanfold.sim.loop.tally import FULL, N_SORTS, SHORT, SHORT_BYTES
from fanfold.sim.loop.ways import Ways
from fanfold.topo.birt import build_birt
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]


def run_rounds(
    net: Net, routes: Routes, rounds: Rounds, settings: Settings, *, seed: int
) -> Outcome:
    """Run all rounds.

    Raises:
        ConfigError: hosts without a path to one another.
    """
    ways = build_birt(net, routes, settings.n_ecmp)
    times = byte_times(net)
    tally = np.zeros((net.n_links, N_LINK_CLASSES, 2), np.int64)
    due, host_ps = np.zeros((2, net.n_hosts), np.int64)
    heard = now = end_ps = 0
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    counter = _Counter(net, routes, ways, settings)
    for src, dst, n_bytes in rounds.sends:
        n_acks, carried = counter.add(tally, src, dst, n_bytes)
        heard += n_acks
        np.add.at(due, dst, n_bytes)
        hops = _hops(net, routes, src, dst)
        far, at = np.unique(hops, return_index=True)
        size = min(int(n_bytes.max()), settings.payload_bytes) + settings.header_bytes
        for one, f in zip(far.tolist(), at.tolist(), strict=True):
            if (one, size) not in spans:
                ends = src[f : f + 1], dst[f : f + 1]
                spans[one, size] = _span(net, routes, ways, ends, settings, seed, size)
        rest = np.array([spans[one, size][0] for one in far.tolist()])
        sent_ps = now + int(times.all(carried).max())
        host_ps[dst] = sent_ps + rest[np.searchsorted(far, hops)]
        now = sent_ps + int(rest.max())
        end_ps = now + max(spans[one, size][1] for one in far.tolist())
    reason = reason_of_rounds(len(rounds.sends))
    return outcome_of_flow(tally, due, host_ps, end_ps, heard, reason)


class _Counter:
    """Packets and bytes of rounds on every link.

    Between routers all messages from one group of hosts to another go as one; what was worked
    out for such is known from then on: doubling sends what halving sent.
    """

    def __init__(self, net: Net, routes: Routes, ways: Ways, settings: Settings) -> None:
        self._net, self._routes, self._ways, self._settings = net, routes, ways, settings
        self._group = routes.group.astype(np.int64)
        self._is_one = bool(np.diff(net.first_out)[: net.n_hosts].max() == 1)
        self._known: dict[bytes, I64] = {}

    def add(self, tally: I64, src: I64, dst: I64, n_bytes: I64) -> tuple[int, I64]:
        """Add a round to (L, N_LINK_CLASSES, 2).

        Returns:
            Its ACKs, and bytes of it on each link, (L,).
        """
        settings, sorts = self._settings, sorts_of(n_bytes, self._settings)
        acks, carried = acks_of(sorts), np.zeros(self._net.n_links, np.int64)
        for kind, a, b, what, size in (
            (DATA, src, dst, sorts, settings.payload_bytes + settings.header_bytes),
            (ACK, dst, src, acks, settings.ack_bytes),
        ):
            links = self._links(a, b, what)
            n_wire = links[:, FULL] * size + links[:, SHORT_BYTES]
            tally[:, kind, 0] += links[:, FULL] + links[:, SHORT]
            tally[:, kind, 1] += n_wire
            carried += n_wire
        return int(acks[:, FULL].sum()), carried

    def _links(self, src: I64, dst: I64, what: I64) -> I64:
        """(L, N_SORTS) of what goes between hosts one way."""
        if not self._is_one:
            return spread_evenly(self._net, self._routes, self._ways, src, dst, what)
        pair = self._group[src] * self._routes.n_groups + self._group[dst]
        some, at, of = np.unique(pair, return_index=True, return_inverse=True)
        between = np.zeros((at.size, N_SORTS), np.int64)
        np.add.at(between, of, what)
        between, size = as_full(between)
        key = some.tobytes() + between.tobytes()
        if key not in self._known:
            ends = src[at], dst[at]
            links = spread_evenly(self._net, self._routes, self._ways, *ends, between)
            hosts = self._net.first_out[: self._net.n_hosts]
            links[hosts] = links[self._net.reverse[hosts]] = 0
            self._known[key] = links
        links = as_short(self._known[key].copy(), size)
        np.add.at(links, self._net.first_out[src], what)
        np.add.at(links, self._net.reverse[self._net.first_out[dst]], what)
        return links


def _span(
    net: Net,
    routes: Routes,
    ways: Ways,
    ends: tuple[I64, I64],
    settings: Settings,
    seed: int,
    size: int,
) -> tuple[int, int]:
    """Of one message: from its last byte sent to received, and its ACK home.

    Args:
        size: bytes of its largest packet.
    """
    nic = first_links(net, ways, *ends, np.zeros_like(ends[0]))
    path = paths_by(routes, ways, seed, (*ends, nic))
    rest = last_packet_ps(net, settings, path, np.full(1, size), settings.header_bytes)
    return int(rest[0]), int(control_ps(net, settings, path, settings.ack_bytes)[0])


def _hops(net: Net, routes: Routes, src: I64, dst: I64) -> I64:
    """Links of each pair beyond its source's router; those of a number are alike."""
    router = net.dst[net.first_out[src]] - net.n_hosts
    hops = routes.hops[router, routes.group[dst]]
    if (hops >= FAR).any():
        a, b = (int(ends[np.argmax(hops >= FAR)]) for ends in (src, dst))
        ends = f"{net.node_name(a)} to {net.node_name(b)}"
        raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")
    return hops.astype(np.int64)
