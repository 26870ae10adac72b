"""What a BFIR has still to send: jobs by lane, paced by tokens, one 64 KB piece at a time."""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct

import msgspec
import numpy as np

from fanfold.core.books import MAX_LANES
from fanfold.core.effects import SendBlock
from fanfold.core.flight import members_of
from fanfold.kernels.jit import bind
from fanfold.kernels.layout import (
    BITS_AT,
    FAN_BYTES,
    FLAG_LAST,
    FLAG_POLL,
    FLAG_REPAIR,
    FLAG_SOURCE,
    INNER_BYTES,
    TRAILER_BYTES,
)
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import U8, U64
from fanfold.live import pump as p
from fanfold.live import sock as s
from fanfold.live.pieces import (
    IS_HELD,
    MOST_BYTES,
    N_PAYLOAD,
    N_PIECES,
    N_PSN,
    PSN,
    SEG,
    STRIDE,
    Job,
    build_job,
    send_pieces,
)
from fanfold.live.trailers_out import UDP_BYTES
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import build

MAX_PIECES = 4
"""Pieces of a lane that leave in one go when all are due: a look at the socket between them
costs as much as a piece."""
MAX_QUEUED = 2
"""Jobs waiting in a lane before new blocks are asked for."""
PIECE_BYTES = 65_400
TTL = 64
PIECE_PS = 4_000_000_000
"""A piece lasts no longer than this at the lane's rate, but one packet at least."""
BURST_PS = 2_000_000_000
"""A lane that was kept waiting may catch up this much."""
QUANTUM_PS = 1_000_000_000
"""Pieces that are due within so long leave in one go, as TCP's do in Linux: a turn of a node
costs as much as a piece."""
BLOCK_ROUND = Struct(">IB")
"""From byte 8 of a DATA header on (docs/wire/fan.md)."""

Read = Callable[[int, memoryview], int]
"""(block, room) -> bytes"""


class Fan(msgspec.Struct, frozen=True):
    """One fan's geometry and where its blocks come from."""

    stride: int
    n_psn: int
    last_n_psn: int
    read: Read


class Outbox:
    """Turns SendBlock effects into packets on the wire.

    Args:
        io, node: the BFIR's socket and arrays. bsl, sub_domain, bfr_id, addr, flow_port: what
            its headers say. entropy: path of the whole push, where it goes over one plane.
    """

    def __init__(
        self,
        io: s.Sock,
        node: p.Node,
        *,
        bsl: int,
        sub_domain: int,
        bfr_id: int,
        addr: int,
        flow_port: int,
        entropy: int,
    ) -> None:
        self.io, self.node = io, node
        self.bsl, self.sub_domain, self.bfr_id = bsl, sub_domain, bfr_id
        self.addr, self.flow_port = addr, flow_port
        self.entropies: tuple[int, ...] = (entropy,)
        """Path of each plane; a lane's number has its plane in it (core/striped.py)."""
        self.fans: dict[int, Fan] = {}
        self.repairs_alone = False
        """No BFR is to keep what it sends, and to repair it."""
        self.n_bits = bitstring.bitstring_bits(bsl)
        self.n_words = self.n_bits // 64
        self.head_bytes = BITS_AT + self.n_bits // 8 + INNER_BYTES + FAN_BYTES
        self._piece_bytes = PIECE_BYTES
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._send: Callable[[s.Sock, p.Node, Job, int], int] | None = None
        self._heads: dict[tuple[int, int, int, int, int], U8] = {}
        self.on_sent: Callable[[SendBlock], None] = lambda job: None
        """Told when the last packet of a job left."""

    def add(self, job: SendBlock) -> None:
        """Queue a job; repairs go before new blocks of the same lane."""
        lane = self._lanes.setdefault((job.flow, job.lane), _Lane())
        (lane.repairs if job.is_repair else lane.fresh).append(job)

    def has_room(self, flow: int, lane: int) -> bool:
        """A lane whose queue is short takes new blocks, however long another lane's is."""
        found = self._lanes.get((flow, lane))
        return found is None or len(found.repairs) + len(found.fresh) < MAX_QUEUED

    def n_waiting(self) -> int:
        """Jobs not fully sent."""
        return sum(
            len(lane.repairs) + len(lane.fresh) + (lane.hand is not None)
            for lane in self._lanes.values()
        )

    def flush(self, now_ps: int, rate_of: Callable[[int, int], int]) -> int:
        """Send of every lane the pieces whose time has come, MAX_PIECES at most.

        Args:
            rate_of: (flow, lane) -> bits per second.

        Returns:
            When the next piece may go, NEVER_PS when nothing waits.
        """
        nearest = NEVER_PS
        self.io.ints[s.ROOM_CAME] = 0
        for (flow, index), lane in self._lanes.items():
            if lane.has_work() and lane.next_ps <= now_ps:
                self._send_due(lane, now_ps, max(rate_of(flow, index), 1))
            self._tell(lane)
            if lane.has_work() and not self._is_held(lane):
                nearest = min(nearest, lane.next_ps)
        return nearest

    def _tell(self, lane: "_Lane") -> None:
        """Tell of jobs whose last packet does not wait at a port any more."""
        if lane.leaving and not self._is_held(lane):
            left, lane.leaving = lane.leaving, []
            for job in left:
                self.on_sent(job)

    def _is_held(self, lane: "_Lane") -> bool:
        """Packets of a lane wait at a port of this node, so the rest of it waits here.

        Until that queue is empty: here repairs still go before new blocks.
        """
        exits = self.io.exits
        lane.ports = [port for port in lane.ports if exits[port]["used"] > 0]
        for port in lane.ports:
            exits[port]["wanted"] = 1
        return bool(lane.ports)

    def _send_due(self, lane: "_Lane", now_ps: int, rate: int) -> None:
        """Send what a lane may send by now, at ``rate`` bits per second."""
        self._piece_bytes = min(max(rate // 8 * PIECE_PS // PS_PER_SECOND, 1), PIECE_BYTES)
        piece_ps = max(self._piece_bytes * 8 * PS_PER_SECOND // rate, 1)
        left = MAX_PIECES
        while lane.has_work():
            start_ps = max(lane.next_ps, now_ps - BURST_PS)
            n_due = max((now_ps - start_ps) // piece_ps + 1, 0)
            n_pieces = min(left, max(n_due, (now_ps + QUANTUM_PS - start_ps) // piece_ps))
            if n_pieces < 1 or self._is_held(lane):
                return
            n_bytes, n_sent = self._send_some(lane, n_pieces)
            lane.next_ps = start_ps + n_bytes * 8 * PS_PER_SECOND // rate
            left -= n_sent

    def _send_some(self, lane: "_Lane", n_pieces: int) -> tuple[int, int]:
        """Send pieces of the job in hand, or of the next one: bytes, pieces."""
        send, work = lane.hand, lane.work
        if send is None or work is None:
            send, work = self._take(lane)
        if not lane.is_aimed:
            self._aim(lane, send, work)
        if self._send is None:
            self._send = bind(send_pieces, self.io, self.node, work, n_pieces)
        n_bytes = self._send(self.io, self.node, work, n_pieces)
        state = work.state
        if state[IS_HELD]:
            used = np.flatnonzero(self.io.exits["used"] * (self.node.plan.n > 0))
            lane.ports += [int(port) for port in used if port not in lane.ports]
        if state[PSN] >= state[N_PSN]:
            lane.is_aimed = False
            if not lane.sets:
                lane.hand = None
                lane.leaving.append(send)
                self._tell(lane)  # now, not when the pace asks for more: answers come soon
        return n_bytes, int(state[N_PIECES])

    def _take(self, lane: "_Lane") -> tuple[SendBlock, Job]:
        """The next job of a lane in hand, its block read."""
        send = lane.repairs.popleft() if lane.repairs else lane.fresh.popleft()
        fan = self.fans[send.flow]
        block_bytes = fan.stride * fan.n_psn
        if lane.work is None or len(lane.work.payload) < block_bytes:
            lane.work = build_job(self.head_bytes, block_bytes, self.n_words)
        payload = memoryview(lane.work.payload)  # type: ignore[arg-type]  # numpy has the buffer protocol
        lane.work.state[N_PAYLOAD] = fan.read(send.block, payload)
        lane.work.state[STRIDE] = fan.stride
        lane.hand, lane.is_aimed, lane.sets = send, False, sets_of(send.bits, self.n_bits)
        return send, lane.work

    def _aim(self, lane: "_Lane", send: SendBlock, work: Job) -> None:
        """The next packet set of the job in hand: one for each SI (RFC 8279 3)."""
        si = lane.sets.pop(0)
        fan, state = self.fans[send.flow], work.state
        n_psn = fan.last_n_psn if send.is_last else fan.n_psn
        work.head[:] = self._head(send, fan, n_psn, si)
        work.wanted[0] = self._rows(work.bits, send, si)
        seg = self.head_bytes + fan.stride
        state[PSN], state[N_PSN], state[SEG] = 0, n_psn, seg
        state[MOST_BYTES] = self._most_bytes(seg)
        lane.is_aimed = True

    def _most_bytes(self, seg: int) -> int:
        """Octets of a piece of packets of ``seg``; with trailers it leaves in one send."""
        whole = self._piece_bytes
        if self.io.ints[s.KEYED]:
            whole = min(whole, UDP_BYTES // (seg + TRAILER_BYTES) * seg)
        return max(whole, seg)

    def _head(self, job: SendBlock, fan: Fan, n_psn: int, si: int) -> U8:
        """Headers of a job's packets; those of blocks of one flow differ in two fields."""
        flags = (
            FLAG_POLL
            | (FLAG_LAST if job.is_last else 0)
            | (FLAG_REPAIR if job.is_repair else 0)
            | (FLAG_SOURCE if self.repairs_alone else 0)
        )
        entropy = self.entropies[job.lane // MAX_LANES]
        key = job.flow, flags, n_psn, si, entropy
        head = self._heads.get(key)
        if head is None:
            data = Data(
                flow=job.flow,
                block=0,
                n_psn=n_psn,
                psn=0,
                stride=fan.stride,
                first_ttl=TTL,
                flags=flags,
                round=0,
            )
            head = self._heads[key] = self._build_head(data, si, entropy)
        BLOCK_ROUND.pack_into(head.data, self.head_bytes - FAN_BYTES + 8, job.block, job.round)
        return head

    def _build_head(self, data: Data, si: int, entropy: int) -> U8:
        header = BierHeader(
            bift_id=bitstring.bift_id(self.bsl, self.sub_domain, si),
            ttl=TTL,
            bfir_id=self.bfr_id,
            bitstring=1,
            entropy=entropy,
            proto=PROTO_IPV4,
        )
        packet = build(header, self.addr, GROUP_ADDRESS, self.flow_port, data, b"\0")
        return np.frombuffer(packet[: self.head_bytes], np.uint8).copy()

    def _rows(self, rows: U64, job: SendBlock, si: int) -> int:
        """Write the BitString of each PSN in one SI; which PSNs anyone of that SI is to get."""
        shift, mask = si * self.n_bits, (1 << self.n_bits) - 1
        if len(job.bits) == 1:
            rows[:] = self._words(job.bits[0] >> shift & mask)
            return job.psns
        wanted = 0
        for psn, bits in zip(members_of(job.psns), job.bits, strict=True):
            part = bits >> shift & mask
            if part:
                rows[psn] = self._words(part)
                wanted |= 1 << psn
        return wanted

    def _words(self, bits: int) -> U64:
        return np.frombuffer(bits.to_bytes(self.n_bits // 8, "little"), "<u8")


class _Lane:
    """Jobs of one lane, the one in hand, and when it may send again."""

    def __init__(self) -> None:
        self.repairs: deque[SendBlock] = deque()
        self.fresh: deque[SendBlock] = deque()
        self.hand: SendBlock | None = None
        self.sets: list[int] = []  # SIs of it that are not begun
        self.is_aimed = False  # a set of it is being sent
        self.work: Job | None = None
        self.next_ps = 0
        self.ports: list[int] = []  # where packets of this lane may still wait
        self.leaving: list[SendBlock] = []  # whose last packets may be among them

    def has_work(self) -> bool:
        return self.hand is not None or bool(self.repairs) or bool(self.fresh)


def sets_of(bits: Sequence[int], n_bits: int) -> list[int]:
    """SIs that hold any of the bits."""
    every = 0
    for b in bits:
        every |= b
    found = []
    si = 0
    while every >> (si * n_bits):
        if every >> (si * n_bits) & ((1 << n_bits) - 1):
            found.append(si)
        si += 1
    return found
