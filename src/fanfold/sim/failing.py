"""What fails in a run, who notices, and the tables that follow; docs/simulator.md 6.

The compiled loop stops at each failure and at each change of a table. Neighbours notice by
their sessions (sim/link_sessions.py), which run ahead of the loop a few HELLOs at a time:
between failures nothing that data do changes what they see. Tables come from the one builder
(kernels/bift.py), on the net without the links that the router knows to be down.

notice: who loses a neighbour has the table without that link ready; who hears of it makes one.
by_weights: fans go by planes: all hosts have other weights, and routers other tables, some
time after a link has changed.
frr: the node beside leads what is meant for the lost neighbour round it in packets of their
own, to which every node on the way applies backup tables: for BFERs beyond the neighbour those
of the net without it, for its own BFERs those without the link. reroute: tables of the net as
it is, at all nodes, some time after the first has noticed.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fanfold.core.link_states import LinkSet
from fanfold.core.neighbours import LinksChanged, NeighbourBack, NeighbourLost
from fanfold.errors import ConfigError
from fanfold.kernels.bift import Birt, fill_bift
from fanfold.kernels.tables import NULL_NBR
from fanfold.scenario.failures import Fault, protection_of, read_faults
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.by_hand import push
from fanfold.sim.fan_planes import masks
from fanfold.sim.fans import Fans
from fanfold.sim.link_sessions import LinkSessions, failed_links
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.fans import Bier
from fanfold.sim.running import Running
from fanfold.streams import stream_key
from fanfold.topo.birt import build_birt
from fanfold.topo.net import Net
from fanfold.topo.routes import build_routes
from fanfold.units import NEVER

I64 = NDArray[np.int64]
AHEAD = 5
"""Intervals of HELLOs that sessions run ahead of the loop."""
CALM = 3
"""Times of detection, and of a NOTICE at a router, without news: sessions are let be."""
MOST = 64
"""Sets of links whose routes are kept."""
EVERYBODY = -1
"""In place of a node: all routers change their tables."""
BEGINS, ENDS = 0, 1
Call = Callable[[Bier], None]


class _Run(Running, Protocol):
    fans: Fans


class Failing:
    """The failures of one run.

    lost: (time, node, port) of each neighbour that was noticed to be lost. switches: (time,
    node) of each change of tables, EVERYBODY for new paths everywhere.
    """

    def __init__(
        self, net: Net, settings: Settings, program: Program, seed: int, target_of: I64
    ) -> None:
        self.net, self.settings, self.seed = net, settings, seed
        self.faults = read_faults(settings, net)
        self.protection = protection_of(settings, program)
        self.by_weights = bool(settings.planes and program.fans)
        """Tables follow weights of planes, all at once; half a cable is no lost neighbour."""
        self.has_tables = bool(program.fans and not program.protocol and not self.by_weights)
        self.sessions = LinkSessions(net, settings, seed)
        self.lost: list[tuple[int, int, int]] = []
        self.switches: list[tuple[int, int]] = []
        self._target_of = target_of
        self._acts = sorted(self._times())
        self._due: list[tuple[int, int, Call]] = []
        self._n_due = 0
        self._waits: dict[int, LinkSet] = {}
        self._gone: set[tuple[int, int]] = set()
        self._new_paths_ps = self._news_ps = 0
        self._birts: dict[LinkSet, Birt] = {}
        self._why: dict[int, set[int]] = {}
        self._led: set[tuple[int, int]] = set()
        n_cuts = sum(fault.cuts for fault in self.faults)
        if self.protection == "frr" and n_cuts > 1:
            got = f"frr and {n_cuts} failures that cut"
            raise ConfigError("settings.protection", got, "one that cuts with frr")

    def _times(self) -> Iterator[tuple[int, int, int]]:
        for number, fault in enumerate(self.faults):
            yield fault.at_ps, BEGINS, number
            if fault.until_ps >= 0:
                yield fault.until_ps, ENDS, number

    def start(self, q: I64) -> None:
        """Prepare a run: ports that wait are woken when a link is mended."""
        q[r.SILENT_PS] = max(self.settings.detect_ps // 2, 1)
        for fault in self.faults:
            if fault.cuts and fault.until_ps >= 0:
                for link in fault.links:
                    what = (2 * link + 1) * r.N_KINDS + r.EV_CABLE
                    push(q, fault.until_ps, what)

    def go_on(self, sim: _Run, now_ps: int) -> int:
        """Do what is due; when there is something to do next, NEVER where nothing is."""
        while self._acts and self._acts[0][0] <= now_ps:
            _, what, number = self._acts.pop(0)
            (self._begin if what == BEGINS else self._end)(sim, number, now_ps)
        while self._due and self._due[0][0] <= now_ps:
            heapq.heappop(self._due)[2](sim.fans.bier)
        settings = self.settings
        told_ps = settings.notice_ps if self.protection == "notice" else 0
        calm_ps = self._news_ps + CALM * (settings.detect_ps + told_ps)
        until_ps = self._acts[0][0] if self._acts else NEVER
        if self._acts or now_ps < calm_ps:
            until_ps = min(until_ps, now_ps + AHEAD * settings.hello_ps)
            self._look_ahead(until_ps)
        return min(until_ps, self._due[0][0] if self._due else NEVER)

    def _look_ahead(self, until_ps: int) -> None:
        """Let sessions go on until the first thing that the loop has to know of."""
        sessions = self.sessions
        while (at := sessions.next_ps()) <= min([until_ps, *(due[0] for due in self._due[:1])]):
            sessions.run(at)
            self._hear()

    def _hear(self) -> None:
        """Take up what nodes have noticed; links that others tell of, where a table follows."""
        for heard in self.sessions.heard:
            if isinstance(heard.effect, LinksChanged):
                if self.protection == "notice" and self.has_tables:
                    self._news_ps = heard.at_ps
                    self._on_links(heard.at_ps, heard.node, heard.effect.failed)
            else:
                self._news_ps = heard.at_ps
                self._on_neighbour(heard.at_ps, heard.node, heard.effect)
        self.sessions.heard.clear()

    def _begin(self, sim: _Run, number: int, now_ps: int) -> None:
        fault, links = self.faults[number], sim.world.links
        self._news_ps = now_ps
        hosts = sim.world.nodes[: self.net.n_hosts]
        hosts["gap_ps"] = hosts["back_ps"] = r.NONE
        hosts["data_ps"] = now_ps
        if not fault.cuts:
            self._turn_gray(links, fault)
            return
        for link in fault.links:
            if links["heard_ps"][link] > 0:
                self.sessions.note_life(link, int(links["heard_ps"][link]))
            self._why.setdefault(link, set()).add(number)
            links["up"][link] = r.CUT
        self._tell_weights(sim, now_ps)
        if fault.kind == "half-cable":
            return
        self.sessions.cut(fault.links)
        for node in fault.nodes:
            if fault.kind == "node":
                self.sessions.end(node)
            elif fault.kind == "pause":
                self.sessions.stand(node)
        self._hear()

    def _tell_weights(self, sim: _Run, now_ps: int) -> None:
        """All hosts hear of a change of links, at the start at once."""
        if self.by_weights:
            then_ps = now_ps + (self.settings.weights_ps if now_ps else 0)
            self._when(then_ps, lambda _: sim.fans.follow_links(sim, then_ps))

    def _turn_gray(self, links: NDArray[np.void], fault: Fault) -> None:
        """Links lose from now on, by a stream of their own each."""
        for link in fault.links:
            links["loss_ppb"][link] = fault.loss_ppb
            if links["rng"][link] == 0:
                links["rng"][link] = stream_key(self.seed, f"sim/gray/{link}") & (2**64 - 1)

    def _end(self, sim: _Run, number: int, now_ps: int) -> None:
        fault, links = self.faults[number], sim.world.links
        self._news_ps = now_ps
        for link in fault.links:
            if not fault.cuts:
                links["loss_ppb"][link] = self.settings.loss_ppb
                continue
            self._why[link].discard(number)
            links["up"][link] = r.CUT if self._why[link] else 1
            if not self._why[link]:
                self.sessions.mend((link,))
        if fault.cuts:
            self._tell_weights(sim, now_ps)
        for node in fault.nodes:
            if fault.kind == "node":
                self.sessions.begin(node)
            elif fault.kind == "pause":
                self.sessions.go_on(node)
        self._hear()

    def _on_neighbour(
        self, at_ps: int, node: int, effect: NeighbourLost | NeighbourBack
    ) -> None:
        """One end of a link has noticed."""
        link = int(self.net.first_out[node]) + effect.port - 1
        pair = _pair(node, int(self.net.dst[link]))
        if isinstance(effect, NeighbourLost):
            self.lost.append((at_ps, node, effect.port))
            self._gone.add(pair)
            if self.protection == "frr" and self.has_tables and node >= self.net.n_hosts:
                self._when(at_ps, lambda bier: self._lead_round(bier, at_ps, node, effect.port))
        elif pair in self._gone:
            self._gone.discard(pair)
        else:
            return
        if self.protection != "notice" and self.has_tables and self._new_paths_ps < at_ps:
            self._new_paths_ps = new_ps = at_ps + self.settings.reroute_ps
            self._when(new_ps, lambda bier: self._reroute(bier, new_ps))

    def _on_links(self, at_ps: int, node: int, failed: LinkSet) -> None:
        """A router knows of other links than before; with tables made ahead it acts at once."""
        if node < self.net.n_hosts:
            return
        is_ahead = not failed or (len(failed) == 1 and node in next(iter(failed)))
        if node in self._waits:
            self._waits[node] = failed
        elif not is_ahead:
            self._waits[node] = failed
            then_ps = at_ps + self.settings.table_ps
            self._when(
                then_ps, lambda bier: self._switch(bier, then_ps, node, self._waits.pop(node))
            )
        if is_ahead:
            self._when(at_ps, lambda bier: self._switch(bier, at_ps, node, failed))

    def _when(self, at_ps: int, call: Call) -> None:
        self._n_due += 1
        heapq.heappush(self._due, (at_ps, self._n_due, call))

    def _switch(self, bier: Bier, at_ps: int, node: int, failed: LinkSet) -> None:
        """A router's tables for the net without some links."""
        self.switches.append((at_ps, node))
        self._fill(bier, self._birt(failed), node, 0)

    def _reroute(self, bier: Bier, at_ps: int) -> None:
        """New paths everywhere, for all that was noticed until now."""
        self.switches.append((at_ps, EVERYBODY))
        birt = self._birt(frozenset(self._gone))
        for node in range(self.net.n_hosts, self.net.n_nodes):
            self._fill(bier, birt, node, 0)
        bier.frr[:] = 0

    def _lead_round(self, bier: Bier, at_ps: int, node: int, port: int) -> None:
        """BIER-FRR at a node beside a failure: the backup tables of its side are in use.

        Both ends of a link have a set of their own; of a node that has ended all neighbours
        have the same.
        """
        self.switches.append((at_ps, node))
        net = self.net
        lost = int(net.dst[net.first_out[node] + port - 1])
        is_node = any(lost in one.nodes and len(one.nodes) == 1 for one in self.faults)
        side = 0 if is_node else int(node > lost)
        bier.frr[node - net.n_hosts] = port, side
        if (lost, side) in self._led:
            return
        self._led.add((lost, side))
        beyond = self._birt(frozenset(_pair(lost, int(n)) for n in net.dst[net.src == lost]))
        own = beyond if is_node else self._birt(frozenset({_pair(node, lost)}))
        for other in range(net.n_hosts, net.n_nodes):
            self._fill(bier, beyond, other, 1 + side)
            if own is not beyond:
                self._fill(bier, own, other, 1 + side, only_empty=True)

    def _fill(
        self, bier: Bier, birt: Birt, node: int, which: int, *, only_empty: bool = False
    ) -> None:
        """BIFTs of one router: those in use (0), or those of a detour (1, 2).

        only_empty: leave rows that lead somewhere.
        """
        tables, n_dealt = bier.tables, birt.n_dealt
        n_si = self._target_of.size // tables.nbr_of.shape[1]
        n_tables = tables.is_filled.size // ((self.net.n_nodes - self.net.n_hosts) * n_si)
        offset = n_tables - 2 * n_dealt + (which - 1) * n_dealt if which else 0
        for si in range(n_si):
            first = ((node - self.net.n_hosts) * n_si + si) * n_tables + offset
            for e in range(n_dealt):
                row = first + e
                nbr_of, f_bm = tables.nbr_of[row], np.zeros_like(tables.f_bm[row])
                if only_empty:
                    kept = nbr_of.copy()
                    fill_bift(birt, node, si, e, nbr_of, f_bm)
                    has_way = kept != NULL_NBR
                    nbr_of[has_way] = kept[has_way]
                    f_bm = masks(nbr_of, f_bm)
                else:
                    fill_bift(birt, node, si, e, nbr_of, f_bm)
                tables.f_bm[row] = f_bm
                tables.is_filled[row] = 1

    def _birt(self, failed: LinkSet) -> Birt:
        """BIRTs of the net without links."""
        found = self._birts.get(failed)
        if found is None:
            net = self.net
            is_up = net.is_up.copy()
            is_up[list(failed_links(net, failed))] = 0
            cut = net._replace(is_up=is_up)
            found = build_birt(cut, build_routes(cut), self.settings.n_ecmp, self._target_of)
            if len(self._birts) >= MOST:
                del self._birts[next(iter(self._birts))]
            self._birts[failed] = found
        return found


def _pair(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)
