"""What fans need on arrays: parts by link, tables of BFRs, slots, rows of receivers.

Letters: M = parts of fans, N = bits of all SIs, R = routers. The rows are those of the loop
(sim/loop/rows.py, sim/loop/fans.py) and of the live kernels.
"""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from fanfold.core.flight import Shape
from fanfold.core.pace import MAX_BLOCKS
from fanfold.core.waiting import WAIT_PS
from fanfold.errors import ConfigError
from fanfold.ids import MAX_BFR_ID
from fanfold.kernels import collect as c
from fanfold.kernels import state
from fanfold.kernels.bift import Birt, fill_bift
from fanfold.kernels.codes import (
    N_DROPS,
    N_FOLDS,
    N_STORE,
)
from fanfold.kernels.layout import FEEDBACK_BYTES
from fanfold.kernels.slots import NEVER_PS, PROBES
from fanfold.kernels.state import (
    KEPT_ROW,
    N_PLANES,
    NODE_ROW,
    SLOT_PLANES,
    SLOT_ROW,
    Store,
    build_fold,
    build_store,
)
from fanfold.kernels.vat import MAX_TODO
from fanfold.scenario.failures import has_words, protection_of
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan, Phase, Program, order_of, with_entropy
from fanfold.sim.build import Streams
from fanfold.sim.clock import clock_for, slower
from fanfold.sim.fan_counts import FanCounts
from fanfold.sim.fan_crowd import MAX_GAPS, Part, Roads, crowd_ps, implosion_ps, nacks_ps
from fanfold.sim.fan_planes import FanPlanes, as_parts, joined, n_back, strands_of
from fanfold.sim.fan_shares import shares
from fanfold.sim.fan_sizes import fan_head_bytes, feedback_bytes, with_room
from fanfold.sim.fan_trees import check_room, phase_at, reroute, write_tree
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.fans import Bier
from fanfold.sim.loop.receivers import Receivers
from fanfold.sim.loop.tables import Tables
from fanfold.sim.round_trip import round_trip
from fanfold.sim.sparse import sparse
from fanfold.sim.sum_arrays import SumBuilder, body_bytes_of
from fanfold.sim.waits import slot_wait_ps
from fanfold.topo.birt import build_birt
from fanfold.topo.byte_time import BYTE_BIT_PS, byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes
from fanfold.units import NEVER
from fanfold.wire import bitstring

I16 = NDArray[np.int16]
I64 = NDArray[np.int64]
Rows = NDArray[np.void]
LANES = 9
LIVE_RTT_PS = 13_000_000_000
"""Round trip that the waits of core/waiting.py suit."""
MAX_SPEED = 10_000
REORDER_PS, IDLE_PS = 2_000_000_000, 20_000_000_000
AGAIN_PS = 60_000_000_000
"""Between two words of a receiver on a block, on a live node."""
AGAIN_BLOCKS = 3
"""And of as many blocks at least: a repair waits for the one that is being sent."""
MAX_ROWS = 60_000_000
"""Receivers times blocks of all fans: about 100 bytes each."""
FLOW_PORT = 50_000
BLOCKS, CROWDS = 8, 3
"""That are sent, and times all queues are to empty, while word of a block is awaited."""


SPEAKS = {"packet": r.PER_PACKET, "nack": r.PER_LOSS}


class FanArrays(FanCounts):
    """The arrays of all fans of a run, and the numbers that follow from the net."""

    def __init__(
        self,
        net: Net,
        routes: Routes,
        program: Program,
        settings: Settings,
        bfr_ids: I64 | None,
        seed: int,
    ) -> None:
        settings = with_room(settings, program, net.n_hosts)
        self.net, self.routes, self.program, self.settings = net, routes, program, settings
        self.n_bits = n_bits = settings.bitstring_bits
        self.bsl, self.n_words = bitstring.bsl_of_bits(n_bits), n_bits // 64
        ids = np.arange(1, net.n_hosts + 1) if bfr_ids is None else bfr_ids
        self.bfr_ids = np.asarray(ids, np.int64)
        wide = bool(program.many)
        if wide and self.bfr_ids.max(initial=1) > MAX_BFR_ID:
            got = f"{net.n_hosts} hosts in one sub-domain"
            raise ConfigError("fidelity", got, f"flow, above {MAX_BFR_ID} BFR-ids")
        self.n_si = int((self.bfr_ids.max(initial=1) - 1) // self.n_bits + 1) if wide else 1
        self.seed, self.n_ecmp = seed, settings.n_ecmp
        self.n_backups = 2 * self.n_ecmp * (protection_of(settings, program) == "frr")
        self.n_tables = self.n_ecmp + len(program.trees) + self.n_backups
        self.n_reroutes = 0
        self.stands: dict[int, Phase] = {}
        self.heads_of = {f.tree: f.receivers for f in program.fans if f.tree != NO_TREE}
        check_room(net, len(program.trees), self.n_bits)
        self.rtt_ps = round_trip(net, routes)
        self.speaks = SPEAKS.get(settings.feedback, r.PER_BLOCK)
        if program.folds:
            self.speaks = r.PER_BLOCK
        self.planes = FanPlanes(net, routes, settings)
        self.parts = self._cut()
        self.strands = strands_of(self.parts)
        self.weights = [
            self.planes.weights(part.fan, part.ways) if part.ways else (1,)
            for part in self.parts
        ]
        birt = build_birt(net, routes, self.n_ecmp, self._host_of())
        self.roads = Roads(net, routes, birt, self.n_ecmp, program.trees)
        self._share_links()
        self.quick = clock_for(LIVE_RTT_PS, self.rtt_ps, MAX_SPEED)
        self.clock = slower(self.quick, clock_for(WAIT_PS, self._slow_ps(), MAX_SPEED))
        hops = routes.hops[routes.hops < FAR]
        self.n_levels = max(int(hops.max(initial=1)), 2)
        self.n_slots = self._count_slots()
        self.sum_builder = SumBuilder(
            net, routes, program, settings, self.bfr_ids, n_ecmp=self.n_ecmp
        )
        self.mends = self._mends()
        self.margin = self._room() if wide else 0

    def _share_links(self) -> None:
        """Rates of fans, and how long what is under way of all takes the links they share."""
        settings = self.settings
        is_held = self.speaks != r.PER_LOSS
        flows = as_parts(self.parts, self.strands)
        self.crowd_ps = crowd_ps(self.roads, flows, settings, self.rtt_ps, is_held=is_held)
        self.strand_shares = shares(self.roads, flows, settings)
        self.shares = joined(self.strands, self.strand_shares, self.weights)
        if not self.program.folds and is_held:
            pkts = 1 if self.speaks == r.PER_PACKET else settings.block_psns
            words_ps = implosion_ps(self.roads, flows, settings, pkts)
            self.crowd_ps = max(self.crowd_ps, words_ps)

    def _room(self) -> int:
        """Packets and events that one event can make, at most."""
        room = self.n_slots * 2 + 256
        if self.program.sums:
            room += MAX_TODO
        if self.mends:
            ports = np.diff(self.net.first_out)[self.net.n_hosts :]
            room += state.MAX_TODO * int(ports.max(initial=1))
        return room

    def set_up(self, q: I64, world: r.World, streams: Streams) -> r.Senders:
        """Fill in what fans need; the senders of all hosts."""
        fans = self._build_fans(world)
        q[r.N_WORDS], q[r.N_SI], q[r.N_ECMP] = self.n_words, self.n_si, self.n_tables
        q[r.N_BITS], q[r.N_DEALT] = self.n_bits, self.n_ecmp
        q[r.FRR_AT] = self.n_tables - self.n_backups
        q[r.BIFT_BASE] = bitstring.bift_id(self.bsl, 0, 0)
        q[r.N_SLOTS] = self.n_slots
        q[r.AGAIN_PS] = max(self.clock.passed(AGAIN_PS), AGAIN_BLOCKS * self._block_ps())
        if self.speaks == r.PER_LOSS and has_words(self.settings):
            again_ps = nacks_ps(self.roads, self.parts, self.settings, MAX_BLOCKS)
            q[r.AGAIN_PS] = max(int(q[r.AGAIN_PS]), again_ps)
        step = self.n_bits // 8
        head = fan_head_bytes(self.settings, is_tree=False)
        body = head + FEEDBACK_BYTES + 2 * step + MAX_GAPS * (4 + step)
        q[r.FEEDBACK_MTU] = body
        width = max(body if self.parts else 1, body_bytes_of(self.n_words))
        stack = int(q[r.AT_BODIES])
        q[stack : stack + r.MAX_BODIES] = np.arange(r.MAX_BODIES)[::-1]
        n_fans = len(self.parts)
        world.nodes["bfr_id"][: self.net.n_hosts] = self.bfr_ids
        self.receivers = self._build_receivers(fans)
        self.bier = self._build_bier(world, body, width)
        self.fill_planes()
        n_jobs = 64 * n_fans
        self.lanes_at = streams.rows.size
        lanes = np.zeros(LANES * len(self.strands), r.STREAM_ROW)
        for name in ("ring", "back", "next_pull", "next_conn", "first_job", "last_job"):
            lanes[name] = r.NONE
        lanes["item"] = r.NONE
        lanes["fan"] = np.repeat([one.part for one in self.strands], LANES)
        lanes["nic"] = np.repeat([one.nic for one in self.strands], LANES)
        lanes["rank"] = r.NONE
        first = streams.rows.size + lanes.size
        made = self.sum_builder.build(q, world, self.bier, first, self.rtt_ps)
        self.sums, self.ranks = made.sums, made.ranks
        return r.Senders(
            np.concatenate([streams.rows, lanes, made.streams]),
            streams.bits,
            streams.conns,
            np.zeros(max(n_jobs, 1), r.JOB_ROW),
            np.zeros((max(n_jobs, 1), self.n_si * self.n_words), np.uint64),
            fans,
            self._pkt_bits(world.pkts.size if n_fans else 1),
            made.ranks,
        )

    def _build_fans(self, world: r.World) -> Rows:
        settings = self.settings
        rows = np.zeros(len(self.parts), r.FAN_ROW)
        n_ids = self.n_si * self.n_bits
        block_at = 0
        for m, part in enumerate(self.parts):
            fan = part.fan
            is_tree = fan.tree != NO_TREE
            shape = Shape(fan.n_bytes, settings.payload_bytes, settings.block_psns)
            tail = shape.last_bytes - (shape.last_n_psn - 1) * settings.payload_bytes
            row = rows[m]
            row["item"], row["host"] = part.item, fan.source
            row["addr"] = fan.source
            row["bfir_id"], row["flow"] = self.bfr_ids[fan.source], 2 * m + 1
            row["flow_port"], row["nic"] = FLOW_PORT, part.nic
            row["n_si"], row["entropy"] = self.n_si, fan.entropy
            row["n_blocks"], row["n_psn"] = shape.n_blocks, settings.block_psns
            row["last_n_psn"], row["last_bytes"] = shape.last_n_psn, tail
            row["stride"], row["unreceived"] = settings.payload_bytes, len(fan.receivers)
            row["recv_at"], row["block_at"] = m * n_ids, block_at
            row["is_tree"], row["speaks"] = is_tree, self.speaks
            row["n_back"] = n_back(part, self.weights[m])
            row["head"] = fan_head_bytes(settings, is_tree=is_tree)
            row["word"] = feedback_bytes(settings, is_tree=is_tree)
            block_at += n_ids * shape.n_blocks
        self.n_rows = block_at
        if block_at > MAX_ROWS:
            raise ConfigError(
                "fidelity", f"{block_at} blocks at receivers", f"flow above {MAX_ROWS}"
            )
        n_parts = np.bincount(rows["item"], minlength=world.items.size)
        for m in range(len(self.parts) - 1, -1, -1):
            world.items[rows[m]["item"]]["fan"] = m  # its first part
        is_fan = world.items["fan"] != r.NONE
        for name in ("n_streams", "unreceived", "unacked"):
            world.items[name][is_fan] = n_parts[is_fan]
        return rows

    def _cut(self) -> list[Part]:
        """Fans by the link they leave by: most hosts have one that leads to everybody."""
        parts = []
        n = self.program.src.size
        fans = with_entropy(self.program.fans, self.seed)
        for m in order_of(fans):
            fan = fans[m]
            self._check(fan)
            if fan.tree != NO_TREE:
                parts.append(Part(n + m, fan, self._root(fan)))
                continue
            if ways := self.planes.ways(fan):
                parts.append(Part(n + m, fan, ways[0].links[0], ways))
                continue
            links: dict[int, list[int]] = {}
            for host in fan.receivers:
                links.setdefault(self._link_to(fan.source, host), []).append(host)
            for nic, hosts in sorted(links.items()):
                parts.append(Part(n + m, fan._replace(receivers=tuple(hosts)), nic))
        return parts

    def _root(self, fan: Fan) -> int:
        """The source's link of a tree."""
        links = (k for phase in self.program.trees[fan.tree].phases for k in phase.links)
        return next(k for k in links if self.net.src[k] == fan.source)

    def table_of(self, fan: Fan) -> int:
        """Table of a fan at each BFR, of all its tables."""
        if fan.tree != NO_TREE:
            return self.n_ecmp + fan.tree
        return fan.entropy % self.n_ecmp

    def _link_to(self, source: int, host: int) -> int:
        """The source's first link if it leads there, else the nearest one that does."""
        net, group = self.net, self.routes.group[host]
        mine = range(int(net.first_out[source]), int(net.first_out[source + 1]))
        hops = [int(self.routes.hops[net.dst[at] - net.n_hosts, group]) for at in mine]
        if min(hops) >= FAR:
            ends = f"{net.node_name(source)} to {net.node_name(host)}"
            raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")
        best = 0 if hops[0] < FAR else hops.index(min(hops))
        return mine[best]

    def _check(self, fan: Fan) -> None:
        if fan.source in fan.receivers:
            name = self.net.node_name(fan.source)
            raise ConfigError("receiver", f"{name} sends to itself", "other hosts")
        for host in (fan.source, *fan.receivers):
            if self.bfr_ids[host] < 1:
                name = self.net.node_name(host)
                raise ConfigError("placement", f"{name} has no BFR-id", "1..65535")

    def _build_receivers(self, fans: Rows) -> Receivers:
        n_ids = self.n_si * self.n_bits
        follow = np.zeros(max(fans.size * n_ids, 1), c.FOLLOW_ROW)
        if fans.size:
            host_of = np.full(n_ids, r.NONE, np.int64)
            host_of[self.bfr_ids[self.bfr_ids > 0] - 1] = np.nonzero(self.bfr_ids > 0)[0]
            follow["map_at"] = np.repeat(np.arange(fans.size), n_ids)
            follow["map_len"] = np.repeat(fans["n_blocks"], n_ids)
            follow["heard_ps"] = np.tile(np.arange(n_ids), fans.size)
            follow["flow_port"] = np.tile(host_of, fans.size)
        collect = c.Collect(
            blocks=np.zeros(max(self.n_rows, 1), c.BLOCK_ROW),
            room=np.zeros((1, 1), np.uint8),
            follow=follow,
            have=np.zeros(1, np.uint8),
            events=np.zeros((1, 3), np.int64),
            n_events=np.zeros(1, np.int64),
            timing=np.array([self.quick.passed(REORDER_PS), self._idle()], np.int64),
        )
        return Receivers(collect, build_fold(1, self.n_words))

    def _build_bier(self, world: r.World, mtu: int, body_bytes: int) -> Bier:
        net, n_slots, w = self.net, self.n_slots, self.n_words
        wide = bool(self.program.many)
        n_routers = net.n_nodes - net.n_hosts if wide else 1
        ports = int(np.diff(net.first_out)[net.n_hosts :].max(initial=1)) if wide else 1
        n_tables = n_routers * self.n_si * self.n_tables if wide else 1
        tables = self._build_tables(n_tables, ports)
        n_heads = n_tables if self.program.trees else 1
        self.labels = np.zeros((n_heads, ports + 2), np.int16)
        bfrs = np.zeros(n_routers, NODE_ROW)
        bfrs["folds"] = int(self.program.folds)
        bfrs["fold_ps"] = slot_wait_ps(self.rtt_ps, self.n_levels * self.mends)
        bfrs["addr"], bfrs["depth"] = np.arange(n_routers), self.n_levels
        bfrs["queue_ps"] = self.crowd_ps + self.late_ps()
        bfrs["mtu"], bfrs["next_ps"] = mtu, NEVER_PS
        keeps = n_routers if self.program.folds and self.parts else 1
        return Bier(
            tables,
            cast("I64", self.labels),
            bfrs,
            np.zeros(keeps * n_slots, SLOT_ROW),
            sparse((keeps * n_slots, SLOT_PLANES, w), np.uint64),
            np.zeros((n_routers, N_FOLDS), np.int64),
            np.zeros((n_routers, n_slots + 1), np.int64),
            self._build_store(n_routers),
            np.zeros(N_DROPS, np.int64),
            np.zeros((4, w), np.uint64),
            np.zeros(ports + 2, np.int64),
            np.zeros((ports + 2, w), np.uint64),
            sparse((r.MAX_BODIES if wide else 1, body_bytes), np.uint8),
            np.zeros((n_routers, 2), np.int64),
            sparse((keeps * self.n_si, N_PLANES, w), np.uint64),
            np.zeros((n_routers, 2), np.int64),
        )

    def late_ps(self) -> int:
        """How much later a word comes whose question was lost: with the next block."""
        return self._block_ps() if self.mends else 0

    def _slow_ps(self) -> int:
        """That waits are not to be shorter than: of blocks, and of queues that all fill."""
        return max(CROWDS * self.crowd_ps, BLOCKS * self._block_ps())

    def _block_ps(self) -> int:
        """Of the slowest fan, at its rate."""
        settings = self.settings
        pkt = settings.payload_bytes + fan_head_bytes(settings, is_tree=False)
        of = [
            min(fan.n_bytes, settings.block_psns * pkt) * BYTE_BIT_PS // share.bps
            for one, share in zip(self.strands, self.strand_shares, strict=True)
            for fan in (self.parts[one.part].fan,)
        ]
        return max(of, default=0)

    def _mends(self) -> bool:
        """Whether BFRs keep DATA: where some can be lost."""
        settings = self.settings
        can_lose = settings.loss_ppb or settings.queue_bytes or settings.failures
        is_asked = bool(settings.cache_bytes and can_lose)
        return is_asked and self.program.folds and bool(self.parts)

    def _build_store(self, n_routers: int) -> Store:
        """Of all routers side by side; empty where nothing can be lost."""
        settings, w = self.settings, self.n_words
        n_bytes = settings.cache_bytes if self.mends else 0
        one = build_store(n_bytes, w, has_bytes=False)
        pkt = settings.payload_bytes + fan_head_bytes(settings, is_tree=False)
        n_entries = int(one.most[0]) // pkt + 1
        segs = np.tile(one.segs, n_routers)
        return one._replace(
            segs=segs,
            entries=np.zeros((segs.size, n_entries), KEPT_ROW),
            room=np.zeros((segs.size, 0), np.uint8),
            held=np.zeros(2 * n_routers, np.int64),
            events=np.zeros(N_STORE * n_routers, np.int64),
            sick=np.full(64 * w * n_routers, -1, np.int64),
        )

    def _build_tables(self, n_tables: int, ports: int) -> Tables:
        """Tables that are still empty; those of trees are written as the trees change."""
        small = sparse((n_tables, self.n_bits), np.int16)
        return Tables(
            cast("I64", small),  # the same kernels on a quarter of the memory
            sparse((n_tables, ports + 2, self.n_words), np.uint64),
            np.zeros(n_tables, np.uint8),
            self.roads.birt,
        )

    def _host_of(self) -> I64:
        """Host of each BFR-id - 1, or NONE."""
        host_of = np.full(self.n_si * self.n_bits, r.NONE, np.int64)
        if self.program.many:
            host_of[self.bfr_ids[self.bfr_ids > 0] - 1] = np.nonzero(self.bfr_ids > 0)[0]
        return host_of

    def fill_planes(self) -> None:
        """BIFTs of all routers as the net stands, where fans go by planes."""
        if self.planes.asked is not None and self.program.fans:
            self.planes.fill(self.bier.tables, self.n_si, self.n_tables)

    def write_trees(self, now_ps: int) -> int:
        """Trees as they stand at a time into the tables; when the next one changes, NEVER."""
        following = self._reroute(now_ps)
        bits = {host: int(self.bfr_ids[host]) - 1 for host in range(self.net.n_hosts)}
        for number, tree in enumerate(self.program.trees):
            phase = phase_at(tree, now_ps)
            later = [p.from_ps for p in tree.phases if p.from_ps > now_ps]
            following = min([following, *later])
            if self.stands.get(number) is phase:
                continue
            self.stands[number] = phase
            n_routers = self.net.n_nodes - self.net.n_hosts
            tables = np.arange(n_routers) * self.n_tables + self.n_ecmp + number
            mine = {host: bits[host] for host in self.heads_of[number]}
            write_tree(
                *(self.net, phase, mine, tables),
                *(cast("I16", self.bier.tables.nbr_of), self.bier.tables.f_bm, self.labels),
            )
        return following

    def _reroute(self, now_ps: int) -> int:
        """Unicast of fans off dead links; when the next ones are kept off, or NEVER."""
        due = [dead for at, dead in self.program.reroutes if at <= now_ps]
        if len(due) > self.n_reroutes:
            self.n_reroutes = len(due)
            self._refill(reroute(self.net, frozenset(due[-1]), self.bier.tables.birt.target_of))
        return min((at for at, _ in self.program.reroutes if at > now_ps), default=int(NEVER))

    def _refill(self, birt: Birt) -> None:
        """All BIFTs of each set alike, by other BIRTs."""
        tables = self.bier.tables
        for row in range((self.net.n_nodes - self.net.n_hosts) * self.n_si):
            first, (r, si) = row * self.n_tables, divmod(row, self.n_si)
            dealt = slice(first, first + self.n_ecmp)
            tables.f_bm[dealt], tables.is_filled[dealt] = 0, 1
            nbr_of, f_bm = tables.nbr_of[first], tables.f_bm[first]
            fill_bift(birt, self.net.n_hosts + r, si, 0, nbr_of, f_bm)
            tables.nbr_of[dealt], tables.f_bm[dealt] = nbr_of, f_bm

    def _idle(self) -> int:
        """When a receiver takes a block that stopped coming for lost: fans take turns there."""
        full = int(byte_times(self.net).all(self.settings.payload_bytes).max())
        return self.quick.passed(IDLE_PS) + 4 * full * len(self.parts)

    def _count_slots(self) -> int:
        """Slots of a BFR: no more than can be in use at once, a power of two."""
        block = self.settings.payload_bytes * self.settings.block_psns
        most = sum(min(-(-part.fan.n_bytes // block), MAX_BLOCKS) for part in self.parts)
        return min(self.settings.n_slots, 1 << (2 * most + PROBES).bit_length())

    def _pkt_bits(self, n_pkts: int) -> NDArray[np.uint64]:
        return sparse((n_pkts, self.n_words + 1), np.uint64)

    def enlarge(self, senders: r.Senders, n_pkts: int) -> r.Senders:
        """Room for BitStrings and FEEDBACK of ``n_pkts`` packets."""
        if self.program.fans:
            bits = self._pkt_bits(n_pkts)
            bits[: senders.pkt_bits.shape[0]] = senders.pkt_bits
            senders = senders._replace(pkt_bits=bits)
        return senders
