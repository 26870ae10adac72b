"""An outbox turns jobs into packets, and says when the last of a job has left."""

import socket
from collections.abc import Iterator

import pytest

from fanfold.core.effects import SendBlock
from fanfold.core.flight import members_of
from fanfold.kernels.slots import NEVER_PS
from fanfold.live.outbox import MAX_PIECES, PIECE_BYTES, Fan, Outbox
from fanfold.live.ports import Limits, build_node_state, build_sock
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.inner import address_of
from fanfold.wire.packet import parse

STRIDE, N_PSN = 100, 4
FABRIC = leaf_spine(1, 0, 2, name="x", prefix=79)


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """The source's, whose neighbour does not listen; packets of it are lost quietly."""
    fabric = FABRIC
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        me = fabric.by_name["h0"]
        made = Outbox(
            build_sock(sock),
            build_node_state(fabric, "h0", Limits()),
            bsl=3,
            sub_domain=0,
            bfr_id=me.bfr_id,
            addr=address_of(me.address),
            flow_port=sock.getsockname()[1],
            entropy=0,
        )
        made.fans[7] = Fan(STRIDE, N_PSN, N_PSN, lambda block, room: STRIDE * N_PSN)
        yield made


@pytest.fixture
def leaf() -> Iterator[socket.socket]:
    """The neighbour, which listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((FABRIC.by_name["leaf1"].address, FABRIC.port))
        sock.settimeout(5)
        yield sock


def block_of(block: int) -> bytes:
    return bytes([block + 1]) * (STRIDE * N_PSN)


def test_what_leaves_is_what_a_job_says(outbox: Outbox, leaf: socket.socket) -> None:
    """Blocks one after the other, a repair of some, and one to each its own."""

    def read(block: int, room: memoryview) -> int:
        room[: STRIDE * N_PSN] = block_of(block)
        return STRIDE * N_PSN

    outbox.fans[7] = Fan(STRIDE, N_PSN, N_PSN, read)
    jobs = [
        SendBlock(7, 0, 0b1111, (0b11,), 0, False, False, 0),
        SendBlock(7, 1, 0b1111, (0b11,), 2, False, False, 0),
        SendBlock(7, 0, 0b1010, (0b01, 0b10), 1, True, False, 0),
        SendBlock(7, 2, 0b1111, (0b11,), 0, False, True, 0),
    ]
    for job in jobs:
        outbox.add(job)
        outbox.flush(PS_PER_SECOND, lambda flow, lane: 10**9)
        for i, psn in enumerate(members_of(job.psns)):
            packet = parse(leaf.recv(9000))
            data = packet.message
            assert isinstance(data, Data)
            told = (data.flow, data.block, data.round, data.psn, data.n_psn, data.stride)
            assert told == (7, job.block, job.round, psn, N_PSN, STRIDE)
            assert bool(data.flags & DataFlag.REPAIR) == job.is_repair
            assert bool(data.flags & DataFlag.LAST) == job.is_last
            assert packet.header.bitstring == job.bits[min(i, len(job.bits) - 1)]
            assert packet.payload == block_of(job.block)[:STRIDE]


@pytest.mark.parametrize(
    ("piece_us", "at_once"), [(300, 3), (600, 1), (2000, 1), (100, MAX_PIECES)]
)
def test_pieces_that_are_due_within_a_quantum_leave_together(
    outbox: Outbox, piece_us: int, at_once: int
) -> None:
    """A lane that is on time: as many as last no longer than it, one at least."""
    told: list[int] = []
    outbox.on_sent = lambda job: told.append(job.block)
    stride, n_psn = 8064, 8  # a block is a piece
    outbox.fans[7] = Fan(stride, n_psn, n_psn, lambda block, room: stride * n_psn)
    for block in range(2 * MAX_PIECES):
        outbox.add(SendBlock(7, block, 0xFF, (1,), 0, False, False, 0))
    outbox._lanes[7, 0].next_ps = now = PS_PER_SECOND
    rate = PIECE_BYTES * 8 * 1_000_000 // piece_us
    following = outbox.flush(now, lambda flow, lane: rate)
    assert told == list(range(at_once))
    n_bytes = at_once * n_psn * (outbox.head_bytes + stride)
    assert following == pytest.approx(now + n_bytes * 8 * PS_PER_SECOND // rate, abs=at_once)


@pytest.mark.parametrize("psns", [0b1111, 0b0001, 0b1010])
@pytest.mark.parametrize("bits", [0b1, 0b1 | 1 << 300])
def test_a_job_is_told_to_have_left_with_its_last_packet(
    outbox: Outbox, psns: int, bits: int
) -> None:
    told: list[int] = []
    sent: list[int] = []
    outbox.on_sent = lambda job: told.append(sum(sent))
    outbox.add(SendBlock(7, 0, psns, (bits,), 0, False, False, 0))
    now, rate = 0, 100_000  # a piece is one packet
    n_packets = psns.bit_count() * (1 if bits == 1 else 2)
    for i in range(n_packets):
        assert told == []
        sent.append(1)
        following = outbox.flush(now, lambda flow, lane: rate)
        assert following != NEVER_PS or i == n_packets - 1
        now = max(following, now) if following != NEVER_PS else now
    assert told == [n_packets]
    outbox.flush(now + PS_PER_SECOND, lambda flow, lane: rate)
    assert told == [n_packets]
    assert outbox.n_waiting() == 0


@pytest.mark.parametrize(("packet_us", "at_once"), [(100, MAX_PIECES), (100_000, 1)])
def test_pieces_that_are_due_leave_in_one_go_up_to_a_bound(
    outbox: Outbox, packet_us: int, at_once: int
) -> None:
    """A late lane catches up a burst: many pieces of the first size, none of the second."""
    told: list[int] = []
    outbox.on_sent = lambda job: told.append(job.block)
    for block in range(2 * MAX_PIECES):
        outbox.add(SendBlock(7, block, 0b1, (1,), 0, False, False, 0))
    rate = (outbox.head_bytes + STRIDE) * 8 * 1_000_000 // packet_us
    outbox.flush(PS_PER_SECOND, lambda flow, lane: rate)
    assert told == list(range(at_once))
