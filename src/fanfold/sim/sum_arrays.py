"""Arrays of sums: their ranks, what their words are made of, rows and slots of all BFRs.

A BFR keeps what a live one keeps, with slots up to ``array_slots``. Clocks of ranks and slots
run as many times faster as round trips are shorter (docs/simulator.md 6).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES, INNER_BYTES
from fanfold.kernels.rank_timers import FIRST_CWND, RTO_LEAST_PS
from fanfold.kernels.reduce import CODE_BYTES_OF, WORD_BYTES_OF
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.tables import Bifts, build_unchecked
from fanfold.kernels.vat import N_VAT_EVENTS, WAIT_PS, build_vats
from fanfold.scenario.settings import Settings
from fanfold.scenario.sum_words import VALUE_BYTES, sum_word, words_bytes
from fanfold.schemes.program import MIDDLE, Program, Sum
from fanfold.sim.clock import clock_for, slower
from fanfold.sim.loop import rows as r
from fanfold.sim.loop import sum_rows as s
from fanfold.sim.loop.fans import Bier
from fanfold.sim.sum_links import sum_links
from fanfold.sim.sum_sizes import sum_window
from fanfold.topo.byte_time import BYTE_BIT_PS
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring
from fanfold.wire.bier import BierHeader
from fanfold.wire.fold import Fold
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import build

I64 = NDArray[np.int64]
Rows = NDArray[np.void]
WAYS = 4
"""Rows of a group at one BFR at most: ways toward its root."""
LIVE_ROUND_PS = 4_000_000_000
"""Round trip that the waits of kernels/rank_timers.py suit."""
MAX_SPEED = 10_000
GROUP_PORT = 20_000
MAX_RINGS = 2**24
"""Blocks that all ranks of a program may have under way: 32 bytes each."""
MAX_ROOT_LEVEL = 255
QUEUES = 3
"""Times that the queue of first blocks is to empty before a rank asks for one."""


class SumArrays(NamedTuple):
    """What the loop works on, and the streams of all ranks.

    streams: STREAM_ROW, one a rank.
    """

    ranks: r.Ranks
    sums: s.Sums
    streams: Rows


def body_bytes_of(n_words: int) -> int:
    """Bytes of the largest FOLD packet as it travels here."""
    head = BITS_AT + 8 * n_words + INNER_BYTES + FOLD_BYTES
    return head + max(8 * n_words, s.STAND_IN)


class SumBuilder:
    """Fills the arrays of a program's sums."""

    def __init__(
        self,
        net: Net,
        routes: Routes,
        program: Program,
        settings: Settings,
        bfr_ids: I64,
        *,
        n_ecmp: int,
    ) -> None:
        self.net, self.routes, self.program, self.settings = net, routes, program, settings
        self.bfr_ids, self.n_ecmp = bfr_ids, n_ecmp
        self.n_bits = settings.bitstring_bits
        self.n_words = self.n_bits // 64
        self.windows = [sum_window(one, settings) for one in program.sums]
        wanted = 2 * sum(self.windows)
        self.n_slots = max(min(settings.array_slots, wanted), 1)
        self.n_rows = WAYS * max(len(program.sums), 1)
        n_rings = sum(
            w * len(one.hosts) for w, one in zip(self.windows, program.sums, strict=True)
        )
        if n_rings > MAX_RINGS:
            got = f"{n_rings} blocks of sums that may be under way"
            raise ConfigError("fidelity", got, f"flow, above {MAX_RINGS}")

    def build(self, q: I64, world: r.World, bier: Bier, first: int, rtt_ps: int) -> SumArrays:
        """All arrays; ``first``: stream of the first rank."""
        clock = slower(
            clock_for(LIVE_ROUND_PS, rtt_ps, MAX_SPEED),
            clock_for(RTO_LEAST_PS, QUEUES * self._queue_ps(), MAX_SPEED),
        )
        q[r.N_VAT_ROWS], q[r.N_VAT_SLOTS] = self.n_rows, self.n_slots
        q[r.SPEED], q[r.SLOW] = clock
        ranks, streams = self._ranks(world, bier.bodies, first)
        return SumArrays(ranks, self._sums(bier), streams)

    def _queue_ps(self) -> int:
        """How long what ranks send at first waits for a link slower than theirs, in ps."""
        full = self.settings.payload_bytes + BITS_AT + self.n_bits // 8 + INNER_BYTES
        full += self.settings.underlay_bytes + FOLD_BYTES
        own = [sum_links(self.net, self.routes, one) for one in self.program.sums]
        if not own or self.net.bps.min() >= self.net.bps[np.concatenate(own)].max():
            return 0
        return FIRST_CWND * full * BYTE_BIT_PS // int(self.net.bps.min())

    def _ranks(
        self, world: r.World, bodies: NDArray[np.uint8], first: int
    ) -> tuple[r.Ranks, Rows]:
        program, net = self.program, self.net
        counts = np.array([len(one.hosts) for one in program.sums], np.int64)
        total = int(counts.sum())
        rows = np.zeros(total, s.RANK_ROW)
        sums = np.zeros(len(counts), s.SUM_ROW)
        members = np.zeros((len(counts), self.n_words), np.uint64)
        seats = np.full((max(len(counts), 1), self.n_bits), r.NONE, np.int32)
        hosts = np.array([h for one in program.sums for h in one.hosts], np.int64)
        rows["stream"], rows["host"] = first + np.arange(total), hosts
        rows["bit"] = (self.bfr_ids[hosts] - 1) % self.n_bits
        rows["least_ps"], rows["timer_ps"] = PS_PER_SECOND, NEVER_PS
        own = _own_words(total)
        want = np.zeros((len(counts), s.N_STAND_IN), np.int64)
        head = BITS_AT + 8 * self.n_words + INNER_BYTES + FOLD_BYTES
        heads = np.zeros((total, head), np.uint8)
        at, ring_at = 0, 0
        for a, one in enumerate(program.sums):
            mine = slice(at, at + len(one.hosts))
            self._fill_sum(sums[a], a, one)
            self._fill_ranks(rows[mine], a, one, ring_at)
            sums[a]["first_rank"] = at
            want[a] = own[mine].sum(axis=0)
            heads[mine] = self._heads(a, one, int(sums[a]["bift_id"]))
            seats[a, rows["bit"][mine]] = np.arange(at, at + len(one.hosts))
            for k in rows["bit"][mine].tolist():
                members[a, k // 64] |= np.uint64(1 << k % 64)
            item = program.first_sum + a
            world.items["first"][item] = first + at
            for name in ("n_streams", "unreceived", "unacked"):
                world.items[name][item] = len(one.hosts)
            at += len(one.hosts)
            ring_at += self.windows[a] * len(one.hosts)
        streams = np.zeros(total, r.STREAM_ROW)
        for name in ("ring", "back", "next_pull", "next_conn", "first_job", "last_job"):
            streams[name] = r.NONE
        streams["fan"], streams["rank"] = r.OF_SUM, np.arange(total)
        streams["item"], streams["src"] = r.NONE, hosts
        links = [sum_links(net, self.routes, one) for one in program.sums]
        streams["nic"] = np.concatenate([np.zeros(0, np.int64), *links])
        ring = np.zeros((max(ring_at, 1), 4), np.int64)
        return r.Ranks(rows, sums, ring, heads, own, want, members, seats, bodies), streams

    def _fill_ranks(self, rows: Rows, a: int, one: Sum, ring_at: int) -> None:
        window = self.windows[a]
        rows["sum"], rows["most_window"], rows["window"] = a, window, window
        rows["cwnd"] = rows["epoch_end"] = min(FIRST_CWND, window)
        rows["root_level"], rows["keeps"] = self._root_level(one), int(one.to_all)
        rows["ring_at"] = ring_at + window * np.arange(len(one.hosts))
        rows[0]["is_first"], rows[0]["keeps"] = 1, 1

    def _fill_sum(self, row: np.void, a: int, one: Sum) -> None:
        sis = set(((self.bfr_ids[list(one.hosts)] - 1) // self.n_bits).tolist())
        if len(sis) != 1:
            got = f"sum {a} over {len(sis)} sets of {self.n_bits} BFR-ids"
            raise ConfigError("settings.bitstring_bits", got, "members in one set")
        (si,) = sis
        row["item"], row["n_ranks"] = self.program.first_sum + a, len(one.hosts)
        word = sum_word(one, self.settings)
        width = WORD_BYTES_OF[word]
        row["word_bytes"], row["code_bytes"] = width, CODE_BYTES_OF[word]
        row["n_open"], row["n_bytes"] = len(one.hosts), one.n_bytes * width // VALUE_BYTES
        row["room_bytes"] = self.settings.payload_bytes
        row["block_bytes"] = words_bytes(one, self.settings)
        s.plan_sum(row, self.windows[a], self.windows[a])
        row["only"] = 0 if one.to_all else self.bfr_ids[one.hosts[0]]
        row["bift_id"] = bitstring.bift_id(bitstring.bsl_of_bits(self.n_bits), 0, si)
        row["si"], row["wrong_rank"] = si, r.NONE

    def _heads(self, a: int, one: Sum, bift_id: int) -> NDArray[np.uint8]:
        """Headers of an array of each rank, as live/rank.py builds them."""
        fold = Fold(kind=Kind.FOLD, what=0, group=a, n_merged=1)
        lines = []
        for host in one.hosts:
            bfr_id = int(self.bfr_ids[host])
            header = BierHeader(
                bift_id=bift_id,
                ttl=64,
                bfir_id=bfr_id,
                bitstring=1 << (bfr_id - 1) % self.n_bits,
                entropy=a & 0xFFFFF,
            )
            packet = build(header, host, GROUP_ADDRESS, GROUP_PORT, fold)
            lines.append(np.frombuffer(packet, np.uint8))
        return np.stack(lines)

    def _root_level(self, one: Sum) -> int:
        """BFRs above rank 0's first before the root."""
        if one.root_level != MIDDLE:
            return one.root_level
        leaf = int(self.net.dst[sum_links(self.net, self.routes, one)[0]]) - self.net.n_hosts
        far = [
            host for host in one.hosts if self.routes.hops[leaf, self.routes.group[host]] > 1
        ]
        if not far:
            return 0
        last = max(far, key=lambda host: int(self.bfr_ids[host]))
        hops = int(self.routes.hops[leaf, self.routes.group[last]])
        if hops >= FAR:
            ends = f"{self.net.node_name(one.hosts[0])} to {self.net.node_name(last)}"
            raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")
        return min((hops - 1) // 2, MAX_ROOT_LEVEL)

    def _sums(self, bier: Bier) -> s.Sums:
        net, w = self.net, self.n_words
        n_routers = net.n_nodes - net.n_hosts if self.program.sums else 1
        most = self.settings.group_slots or self.n_slots
        clock = np.zeros((n_routers, 3), np.int64)
        clock[:, 0], clock[:, 1] = NEVER_PS, WAIT_PS
        vats = build_vats(
            n_routers * self.n_rows,
            n_routers * self.n_slots,
            w,
            body_bytes_of(w),
            most_of_group=most,
        )._replace(events=np.zeros((n_routers, N_VAT_EVENTS), np.int64), clock=clock)
        one = np.zeros(1, np.int64)
        bifts = Bifts(
            ids=one,
            n_words=one.copy(),
            n_ecmp=np.array([self.n_ecmp], np.int64),
            first=one.copy(),
            nbr_of=bier.tables.nbr_of,
            f_bm=bier.tables.f_bm,
            behind=build_unchecked(),
        )
        scratch = np.zeros((4, w), np.uint64)
        return s.Sums(vats, bifts, self._ports(), one.copy(), scratch)

    def _ports(self) -> I64:
        """(R, P + 1) BFR-id behind each port, 0 for BFRs."""
        net = self.net
        counts = np.diff(net.first_out)[net.n_hosts :]
        ids = np.zeros((counts.size, int(counts.max(initial=1)) + 1), np.int64)
        router = np.repeat(np.arange(counts.size), counts)
        first = int(net.first_out[net.n_hosts])
        links = np.arange(first, net.n_links)
        port = links - net.first_out[net.n_hosts + router] + 1
        to = net.dst[links]
        is_host = to < net.n_hosts
        ids[router[is_host], port[is_host]] = self.bfr_ids[to[is_host]]
        return ids


def _own_words(n: int) -> I64:
    """(n, N_STAND_IN) what the words of each rank are made of, 1 to LOW_BITS, all unlike."""
    seed = np.arange(1, n * s.N_STAND_IN + 1, dtype=np.uint64)
    mixed = (seed ^ (seed >> np.uint64(7))) * np.uint64(0x9E3779B97F4A7C15)
    low = (mixed >> np.uint64(40)) % np.uint64(s.LOW_BITS)
    return low.astype(np.int64).reshape(n, s.N_STAND_IN) + 1
