"""Run a program on a net, packet by packet or in trains: the door to the compiled loop."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.results.outcome import NOT_DONE, Outcome
from fanfold.scenario.failures import has_words, net_at_start
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Program, expand
from fanfold.sim import build as b
from fanfold.sim.by_hand import push
from fanfold.sim.failing import Failing
from fanfold.sim.fans import Fans
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.fans import Bier
from fanfold.sim.loop.receivers import Receivers
from fanfold.sim.loop.run import run
from fanfold.sim.loop.sum_rows import Sums
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes, build_routes
from fanfold.topo.weighted_sets import weighted_sets
from fanfold.units import NEVER

I64 = NDArray[np.int64]
TURNS = 2_000_000
"""Events between two looks at the clock: about half a second."""
MESSAGES, FANS, SUMS = 0, 1, 2
"""What the compiled loop can do; each takes longer to compile than the one before."""
MAX_LOG = 4096
MAX_STUCK = 20
EVENTS_OF_QUEUED = 3
"""That a copy adds at a queued port: its arrival, the port is free, a pause."""
WHY = {
    r.DONE: "every item is done",
    r.EMPTY: "no event left",
}


class Hop(NamedTuple):
    """One line of a traced packet: it has fully arrived at ``node`` over ``link``."""

    time_ps: int
    node: int
    link: int
    what: str
    n_bytes: int


class Progress(NamedTuple):
    """How far a run is."""

    now_ps: int
    n_events: int
    n_hops: int
    n_done: int
    n_items: int


WHAT = (
    *("data", "ack", "nack", "pull", "fan data", "feedback", "ack of fan data"),
    *("array", "word of a sum"),
)


class Simulation:
    """One run being worked through; ``simulate`` is the usual door."""

    def __init__(
        self,
        net: Net,
        routes: Routes,
        program: Program,
        settings: Settings,
        *,
        seed: int,
        segment_pkts: int = 1,
        bfr_ids: I64 | None = None,
        whole: int = MESSAGES,
    ) -> None:
        check(settings, segment_pkts, program)
        self.net, self.settings, self.segment_pkts = net, settings, segment_pkts
        self.whole = SUMS if program.sums else max(whole, FANS if program.fans else MESSAGES)
        self.program = program = expand(program)
        if settings.by_weight:
            net, routes = _as_at_start(net, routes, settings)
            self.net = net
        streams = b.build_streams(net, routes, program, settings, segment_pkts, seed)
        items = b.build_items(program, streams)
        ports = int(np.diff(net.first_out).max(initial=1))
        deps = int(np.diff(program.first_dep).max(initial=1))
        self.margin = ports * (EVENTS_OF_QUEUED if b.is_queued(settings) else 1) + deps + 64
        room = max(4096, 2 * net.n_links + items.size, 4 * self.margin)
        self.fans = Fans(net, routes, program, settings, bfr_ids, seed)
        self.margin += self.fans.margin
        room += 2 * self.fans.margin
        self.ways = ways = weighted_sets(net, routes) if settings.is_dealt else routes
        q = b.build_queue(net, settings, room, self.margin, streams.rows.size)
        b.set_scalars(q, net, program, settings, ways.first.size - 1, self.fans.rtt_ps)
        q[r.SEG] = segment_pkts
        self.q = q
        self.world = r.World(
            b.build_links(net, settings, seed),
            b.build_nodes(net, routes),
            b.lines(room, r.PKT_ROW),
            items,
            np.concatenate([program.first_dep, program.dep]).astype(np.int64),
            ways.ecmp,
            np.concatenate([ways.first, ways.link]).astype(np.int32),
            np.zeros((MAX_LOG, 6), np.int64),
        )
        self._chain_pkts(0)
        self.senders = self.fans.set_up(q, self.world, streams)
        self.fan_state = self._fan_state()
        self.queued = np.zeros(1, np.int64) if q[r.QUEUED] else None
        b.sort_deps(self.world.deps, b.start_ranks(items, streams))
        b.push_starts(q, items, streams)
        self._push_failures()
        self.failing: Failing | None = None
        if has_words(settings) and not _is_past(settings, program):
            target_of = self.fans.roads.birt.target_of
            self.failing = Failing(net, settings, program, seed, target_of)
            self.failing.start(q)
        self.change_ps = int(NEVER)
        self._change_trees()
        self.code = r.TURN

    def _chain_pkts(self, start: int) -> None:
        pkts, q = self.world.pkts, self.q
        pkts["next"][start:] = np.arange(start + 1, pkts.size + 1)
        pkts["next"][-1] = q[r.FREE_PKT] if start else r.NONE
        q[r.FREE_PKT] = start
        q[r.N_FREE_PKT] += pkts.size - start

    def _push_failures(self) -> None:
        index = {self.net.node_name(n): n for n in range(self.net.n_nodes)}
        for i, failure in enumerate(self.settings.failures):
            if not failure.a:
                continue
            for name in (failure.a, failure.b):
                if name not in index:
                    raise ConfigError(f"settings.failures[{i}]", name, "nodes of the topology")
            a, c = index[failure.a], index[failure.b]
            between = (self.net.src == a) & (self.net.dst == c)
            between |= (self.net.src == c) & (self.net.dst == a)
            if not between.any():
                pair = f"{failure.a} and {failure.b}"
                raise ConfigError(f"settings.failures[{i}]", pair, "two nodes with a link")
            for link in np.nonzero(between)[0].tolist():
                what = (2 * link + int(failure.up)) * r.N_KINDS + r.EV_CABLE
                push(self.q, failure.at_ps, what)

    def _change_trees(self) -> None:
        """Trees as they stand from now on; the loop comes back when the next one changes."""
        now = max(int(self.q[r.NOW]), self.change_ps if self.change_ps < NEVER else 0)
        self.change_ps = self.fans.write_trees(now)
        if self.failing is not None:
            self.change_ps = min(self.change_ps, self.failing.go_on(self, now))
        self.q[r.STOP_PS] = self.change_ps

    def parts_of(self, item: int) -> int:
        """Parts of a fan: its source sends one through each link that leads to receivers."""
        row = self.world.items[item]
        return int(row["n_streams"]) if row["fan"] != r.NONE else 1

    def watch(self, item: int, packet: int, part: int = 0) -> None:
        """Trace one packet of an item; its time line is ``hops`` afterwards.

        Args:
            part: of a fan, below ``parts_of``; each has the packet for its own receivers.
        """
        row = self.world.items[item]
        if row["fan"] != r.NONE:
            self.q[r.TRACE_STREAM] = row["fan"] + part
        elif self.program.first_sum <= item < self.program.n_sent:
            self.q[r.TRACE_STREAM] = r.OF_SUM - (item - self.program.first_sum)
        else:
            self.q[r.TRACE_STREAM] = row["first"]
        self.q[r.TRACE_PSN] = packet

    def step(self, turns: int = TURNS) -> bool:
        """Work through some events; False when the run is over."""
        left = turns
        while left > 0:
            before = int(self.q[r.N_EVENTS])
            bier, receivers, sums = self.fan_state
            queued = self.queued
            self.code = run(
                self.q, self.world, self.senders, bier, receivers, sums, queued, left
            )
            left -= int(self.q[r.N_EVENTS]) - before
            if self.code == r.UPCALL:
                self.fans.deliver(self)
            elif self.code == r.FULL:
                self._enlarge()
            elif self.code == r.LATE:
                self._change_trees()
            elif self.code != r.TURN:
                return False
        return True

    def _enlarge(self) -> None:
        q = self.q
        used = q[r.N_POOL] + q[r.N_SIDE] + q[r.N_FAR] + q[r.N_READY] - q[r.I_READY]
        if q[r.CAP] - used < self.margin:
            self.q = b.enlarge_queue(q)
        if q[r.N_BODIES] < self.margin:
            got = f"{r.MAX_BODIES} words of receivers and arrays under way at once"
            raise ConfigError("fidelity", got, "flow, or fewer fans, sums or receivers")
        if self.q[r.N_FREE_PKT] < self.margin:
            old = self.world.pkts
            pkts = b.lines(2 * old.size, r.PKT_ROW)
            pkts[: old.size] = old
            self.world = self.world._replace(pkts=pkts)
            self._chain_pkts(old.size)
            self.senders = self.fans.enlarge(self.senders, pkts.size)
            self.fan_state = self._fan_state()

    def _fan_state(self) -> tuple[Bier | None, Receivers | None, Sums | None]:
        if self.whole:
            sums = self.fans.sums if self.whole == SUMS else None
            return self.fans.bier, self.fans.receivers, sums
        return None, None, None

    def progress(self) -> Progress:
        """Where it stands."""
        q = self.q
        fields = (r.NOW, r.N_EVENTS, r.N_HOPS, r.N_DONE, r.N_ITEMS)
        return Progress(*(int(q[f]) for f in fields))

    def hops(self) -> list[Hop]:
        """Time line of the traced packet, of its copies and of what answered it."""
        log = self.world.log[: int(self.q[r.N_TRACE])].tolist()
        return [
            Hop(time + span, node, link, WHAT[kind], n)
            for time, link, kind, n, node, span in log
        ]

    def outcome(self) -> Outcome:
        """What came out so far."""
        world, q, program = self.world, self.q, self.program
        links, nodes, items = world.links, world.nodes, world.items
        n_hosts = self.net.n_hosts
        due = np.zeros(n_hosts, np.int64)
        np.add.at(due, program.dst, program.n_bytes)
        for fan in program.fans:
            due[list(fan.receivers)] += fan.n_bytes
        for one in program.sums:
            due[list(one.hosts if one.to_all else one.hosts[:1])] += one.n_bytes
        got = nodes["got_bytes"][:n_hosts].copy()
        host_ps = np.where(got == due, nodes["done_ps"][:n_hosts], NOT_DONE)
        streams = self.senders.streams
        heard = np.zeros(program.n_items, np.int64)
        unicast = streams["fan"] == r.NONE
        np.add.at(heard, streams["item"][unicast], streams["n_acks"][unicast])
        fans = self.senders.fans
        np.add.at(heard, fans["item"], fans["n_feedback"])
        item_ps = np.where(items["done_ps"] >= 0, items["done_ps"], NOT_DONE)
        stuck = tuple(self._stuck())
        why = WHY.get(self.code, "not over")
        if stuck:
            n_open = int((items["done_ps"] < 0).sum())
            if n_open:
                why = f"{why}, {n_open} items not done"
            elif self.fans.lost:
                why = f"{why}, receivers given up"
            else:
                why = f"{why}, sums are wrong"
        return Outcome(
            fidelity="packet" if self.segment_pkts == 1 else "train",
            end_ps=int(max(items["done_ps"].max(initial=0), items["got_ps"].max(initial=0))),
            host_ps=host_ps,
            item_ps=item_ps,
            got_bytes=got,
            due_bytes=due,
            link_pkts=links["pkts"].astype(np.int64),
            link_bytes=links["bytes"].copy(),
            link_drops=(links["drops"] + links["lost"]).astype(np.int64),
            link_trims=links["trims"].copy(),
            link_peak_bytes=_bytes_in(links),
            feedback_at_source=heard,
            repairs=(int(q[r.REPAIR_PKTS]), int(q[r.REPAIR_BYTES])),
            n_folds=self.fans.n_folds(),
            arrays=self.fans.n_arrays(),
            sum_slots=self.fans.sum_slots(),
            n_hops=int(q[r.N_HOPS]),
            n_events=int(q[r.N_EVENTS]),
            stuck=stuck,
            reason=why,
        )

    def _stuck(self) -> list[str]:
        items, program, name = self.world.items, self.program, self.net.node_name
        lines = [*self.fans.lost, *self.fans.wrong_sums()]
        for i in np.nonzero(items["done_ps"] < 0)[0][:MAX_STUCK].tolist():
            if i < program.src.size:
                ends = f"message {i} {name(int(program.src[i]))} to {name(int(program.dst[i]))}"
                if items["needs"][i] > 0:
                    lines.append(f"{ends}: waits for {items['needs'][i]} others")
                else:
                    first = items["first"][i]
                    st = self.senders.streams[first : first + items["n_streams"][i]]
                    acked, n = int(st["n_acked"].sum()), int(st["n_recs"].sum())
                    lines.append(f"{ends}: {acked} of {n} records acknowledged")
            elif i >= program.n_sent:
                lines.append(f"pause {i}: waits for {items['needs'][i]} others")
            elif i >= program.first_sum:
                lines.append(self.fans.open_sum(i - program.first_sum))
            else:
                fan = program.fans[i - program.src.size]
                lines.append(f"fan {i} from {name(fan.source)}: not acknowledged by all")
        return lines[:MAX_STUCK]


def _as_at_start(net: Net, routes: Routes, settings: Settings) -> tuple[Net, Routes]:
    """The net without what has failed at time 0, and its routes."""
    started = net_at_start(net, settings)
    return (net, routes) if started is net else (started, build_routes(started))


def _is_past(settings: Settings, program: Program) -> bool:
    """All has failed before the start, weights know it, and only messages are sent.

    Nobody has anything to find out: sessions of neighbours would tell nothing.
    """
    is_early = all(failure.at_ps == 0 and failure.fail for failure in settings.failures)
    return is_early and settings.by_weight and not program.many


def _bytes_in(links: NDArray[np.void]) -> NDArray[np.int64]:
    """Longest backlog of each link in bytes: those that take just so long."""
    num, den = links["byte_num"].astype(np.int64), links["byte_den"].astype(np.int64)
    return -(-links["peak_ps"] * den // num)


def check(settings: Settings, segment_pkts: int, program: Program) -> None:
    """Raise ConfigError for what the loop cannot do."""
    if settings.loss_ppb >= 10**9:
        raise ConfigError("settings.loss_ppb", settings.loss_ppb, "below 1000000000")
    if segment_pkts < 1 or segment_pkts > 64:
        raise ConfigError("segment_pkts", segment_pkts, "1..64")
    if settings.n_slots & (settings.n_slots - 1):
        raise ConfigError("settings.n_slots", settings.n_slots, "a power of two")
    is_held = b.is_queued(settings)
    is_cut = has_words(settings)
    if segment_pkts > 1 and (settings.loss_ppb or is_held or settings.queue_bytes or is_cut):
        raise ConfigError(
            "fidelity", "train", "packet where packets may be lost, trimmed or paused"
        )
    if any(one.tree != NO_TREE for one in program.sums):
        raise ConfigError("fidelity", "sums in installed trees, packet by packet", "flow")
    if program.protocol and program.fans and not program.trees:
        raise ConfigError("program", f"fans of {program.protocol}", "trees laid on a net")
    if settings.transport == "ndp" and program.many:
        allowed = "plain or roce with fans and sums: no header of theirs tells what was cut"
        raise ConfigError("settings.transport", settings.transport, allowed)


def simulate(
    net: Net,
    routes: Routes,
    program: Program,
    settings: Settings,
    *,
    seed: int,
    segment_pkts: int = 1,
    whole: int = MESSAGES,
    progress: Callable[[Mapping[str, int]], None] | None = None,
) -> Outcome:
    """Run a program to its end.

    Args:
        segment_pkts: 1 for packets, more for trains of so many. whole: use the loop that can do
            FANS, or SUMS as well, where others of the process need it anyway: it compiles once.
            progress: told about twice a second, the fields of ``Progress``.

    Raises:
        ConfigError: no path to a receiver, or settings that do not go together.
    """
    sim = Simulation(
        net,
        routes,
        program,
        settings,
        seed=seed,
        segment_pkts=segment_pkts,
        whole=whole,
    )
    while sim.step():
        if progress is not None:
            progress(sim.progress()._asdict())
    return sim.outcome()
