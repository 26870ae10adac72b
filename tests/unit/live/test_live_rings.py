"""Rings in shared memory: blocks as a socket brings them, any bytes, sleep, and the end."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ring_ends import ADDR, Pair

from fanfold.live import channels as ch
from fanfold.live import rings as r
from fanfold.live import sock as s
from fanfold.streams import stream
from fanfold.units import PS_PER_SECOND

FDS = Path("/proc/self/fd")
SIZE = 1000
BIG = 65_000


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_blocks_come_as_they_were_put_both_ways(pair: Pair) -> None:
    random = stream(5, "test/rings")
    for size, seg in ((1, 1), (64, 64), (100, 30), (BIG, 8000), (65_536, 1000)):
        data = random.bytes(size)
        for here, there in ((pair.a, pair.b), (pair.b, pair.a)):
            assert here.send(data, seg)
            assert there.next() == data
            assert there.io.ints[s.SEG] == seg
            assert there.io.ints[s.PEER_ADDR] == ADDR
            assert there.next() is None


def test_a_ring_goes_round_and_round(pair: Pair) -> None:
    """Never empty, so that it is not started anew: four times its size passes."""
    random = stream(6, "test/rings")
    sent = [random.bytes(1 + i * 977 % BIG) for i in range(540)]
    assert sum(map(len, sent)) > 4 * r.RING_BYTES
    assert all(pair.a.send(data, SIZE) for data in sent[:3])
    for i, data in enumerate(sent):
        assert pair.b.next() == data
        if i + 3 < len(sent):
            assert pair.a.send(sent[i + 3], SIZE)
    assert pair.b.next() is None


def test_what_is_little_stays_at_the_begin(pair: Pair) -> None:
    places = set()
    for _ in range(500):
        assert pair.a.send(bytes(BIG), SIZE)
        assert pair.b.next() == bytes(BIG)
        assert pair.b.next() is None
        places.add(int(pair.b.io.ints[s.BASE]))
    assert len(places) <= 3


def test_a_full_ring_takes_nothing_until_there_is_room(pair: Pair) -> None:
    n = 0
    while pair.a.send(bytes([n & 255]) * BIG, SIZE):
        n += 1
    assert (n + 1) * r.entry_bytes(BIG) > r.RING_BYTES >= n * r.entry_bytes(BIG)
    assert pair.b.next() == bytes(BIG)
    assert not pair.a.send(bytes(BIG), SIZE)  # the block in hand is not given back yet
    assert pair.b.next() == bytes([1]) * BIG
    assert pair.a.send(bytes(BIG), SIZE)
    assert sum(1 for _ in iter(pair.b.next, None)) == n - 1


def test_a_block_larger_than_any_is_refused(pair: Pair) -> None:
    pair.a.io.iov_out[0], pair.a.io.iov_out[1] = pair.a.io.buf.ctypes.data, r.MOST_BYTES + 1
    assert not r.put(pair.a.io, 0, 1, SIZE)


@pytest.mark.parametrize(
    "head",
    [-1, -64, 63, 1, r.RING_BYTES + 64, 1 << 62, -(1 << 63)],
    ids=lambda n: f"{n:#x}",
)
def test_a_count_that_no_writer_has_ends_the_channel(pair: Pair, head: int) -> None:
    page = pair.page_of(pair.b)
    pair.b.io.buf[page : page + 8].view(np.int64)[0] = head
    assert pair.b.next() is None
    assert pair.b.io.channels[0]["state"] == r.DEAD
    assert pair.b.io.ints[s.BROKEN] == 1
    pair.b.channels.sweep()
    assert len(pair.b.channels) == 0
    assert pair.b.next() is None


@pytest.mark.parametrize("tail", [64, -(1 << 62), 1 << 62])
def test_a_count_that_no_reader_has_ends_the_channel(pair: Pair, tail: int) -> None:
    page = int(pair.a.io.channels[0]["out_at"]) + r.TAIL_AT
    pair.a.io.buf[page : page + 8].view(np.int64)[0] = tail
    assert not pair.a.send(bytes(SIZE), SIZE)
    assert pair.a.io.channels[0]["state"] == r.DEAD
    assert r.channel_to(pair.a.io, 1, 7) == -1


def test_any_bytes_in_a_ring_give_blocks_inside_it_or_none() -> None:
    """The words that a writer has, drawn from what is near what is allowed, and at random."""
    random = stream(7, "test/rings")
    near = [0, 1, 63, 64, 65, SIZE, r.MOST_BYTES, r.MOST_BYTES + 1, r.RING_BYTES, (1 << 32) - 1]
    n_blocks = n_broken = 0
    for _ in range(400):
        pair = Pair()
        io = pair.b.io
        channel = io.channels[0]
        at, page = int(channel["in_data"]), int(channel["in_at"])
        tail = int(random.integers(0, 2 * r.RING_BYTES // 64)) * 64
        channel["tail"] = tail
        words = io.buf[at : at + r.RING_BYTES].view(np.int64)
        for k in range(0, r.RING_BYTES // 8, 8 * 97):
            words[k] = int(random.choice(near)) | int(random.choice(near[:8])) << 32
        words[tail % r.RING_BYTES // 8] = int(random.choice(near)) | SIZE << 32
        if random.random() < 0.2:
            words[tail % r.RING_BYTES // 8] = r.SKIP
        used = int(random.choice([64, 1088, 65_600, r.RING_BYTES, r.RING_BYTES + 64]))
        io.buf[page : page + 8].view(np.int64)[0] = tail + used
        while (n := r.take(io, 0)) >= 0:
            base, seg = int(io.ints[s.BASE]), int(io.ints[s.SEG])
            assert 0 < n <= r.MOST_BYTES
            assert seg > 0
            assert at < base <= base + n <= at + r.RING_BYTES
            n_blocks += 1
        n_broken += int(channel["state"] == r.DEAD)
        pair.close()
    assert n_blocks > 20
    assert n_broken > 100


def test_who_sleeps_is_woken_by_a_block(pair: Pair) -> None:
    r.wait_for(pair.b.io, 1)  # compiled
    later = threading.Timer(0.1, lambda: pair.a.send(bytes(SIZE), SIZE))
    later.start()
    began = time.monotonic()
    assert not r.wait_for(pair.b.io, PS_PER_SECOND // 5)
    assert 0.05 < time.monotonic() - began < 0.19
    later.join()
    assert pair.b.next() == bytes(SIZE)


def test_nobody_sleeps_on_a_block_and_nobody_rings_who_is_awake(pair: Pair) -> None:
    assert pair.a.send(bytes(SIZE), SIZE)
    began = time.monotonic()
    assert not r.wait_for(pair.b.io, PS_PER_SECOND // 5)
    assert time.monotonic() - began < 0.1
    with pytest.raises(BlockingIOError):
        os.eventfd_read(pair.b.channels.bell)
    assert pair.b.next() == bytes(SIZE)


def test_who_waits_hears_a_neighbours_last_words_and_its_end(pair: Pair) -> None:
    r.wait_for(pair.b.io, 1)  # compiled
    assert pair.a.send(bytes(SIZE), SIZE)
    assert pair.a.send(bytes(7), 7)
    assert pair.b.next() == bytes(SIZE)
    pair.a.channels.close()
    began = time.monotonic()
    while pair.b.io.channels[0]["state"] != r.LEFT:
        assert not r.wait_for(pair.b.io, PS_PER_SECOND // 5)
        assert pair.b.io.channels[0]["state"] == r.LEFT or pair.b.next() == bytes(7)
    assert r.channel_to(pair.b.io, 1, 9) == -1
    assert pair.b.next() in (bytes(7), None)
    assert pair.b.next() is None
    assert pair.b.io.channels[0]["state"] == r.DEAD
    assert r.wait_for(pair.b.io, PS_PER_SECOND)
    assert time.monotonic() - began < 0.5
    pair.b.channels.sweep()
    assert len(pair.b.channels) == 0
    assert pair.b.io.ints[s.CHANNELS] == 0


HELLO = ch.HELLO.pack(ch.MAGIC, r.CHANNEL_BYTES, ADDR, 7)


@pytest.fixture
def fds() -> Iterator[dict[str, int]]:
    """Descriptors that are right, and that are wrong."""
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, r.CHANNEL_BYTES)
    read, write = os.pipe()
    os.set_blocking(write, False)
    made = {
        "memory": ch.make_memory(),
        "bell": os.eventfd(0, os.EFD_NONBLOCK),
        "loose": loose,
        "waits": os.eventfd(0),
        "pipe": write,
        "read": read,
    }
    yield made
    for fd in made.values():
        os.close(fd)


@pytest.mark.parametrize(
    ("hello", "names", "is_taken"),
    [
        (HELLO, ["memory", "bell"], True),
        (HELLO, ["loose", "bell"], False),  # could be made smaller under the reader
        (HELLO, ["pipe", "bell"], False),
        (HELLO, ["memory", "waits"], False),
        (HELLO, ["memory", "pipe"], False),
        (HELLO, ["memory"], False),
        (HELLO[:-1], ["memory", "bell"], False),
        (HELLO + b"x", ["memory", "bell"], False),
        (b"x" * len(HELLO), ["memory", "bell"], False),
        (ch.HELLO.pack(ch.MAGIC, r.CHANNEL_BYTES - 64, ADDR, 7), ["memory", "bell"], False),
    ],
)
def test_only_sound_offers_are_heard(
    fds: dict[str, int], hello: bytes, names: list[str], is_taken: bool
) -> None:
    caller, control_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = len(list(FDS.iterdir()))
    socket.send_fds(caller, [hello], [fds[name] for name in names])
    offer = ch.hear_offer(control_socket)
    assert (offer is not None) == is_taken
    if offer is not None:
        assert (offer.addr, offer.dport, offer.is_ours) == (ADDR, 7, False)
        offer.refuse()
    assert len(list(FDS.iterdir())) == before - 1  # the control socket's end is closed too
    caller.close()


def test_one_channel_to_each_neighbour_and_a_new_one_when_it_ends(pair: Pair) -> None:
    def offer() -> tuple[socket.socket, ch.Offer]:
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        two.setblocking(False)
        bell = os.eventfd(0, os.EFD_NONBLOCK)
        return one, ch.Offer(two, ch.make_memory(), bell, ADDR, 9, is_ours=False)

    one, again = offer()
    assert not pair.b.channels.take(again, 1)  # the first one lives
    assert one.recv(10) == b""
    pair.a.channels.close()
    two, anew = offer()
    assert pair.b.channels.take(anew, 1)
    assert two.recv(10) == ch.TAKEN
    assert pair.b.channels.find(ADDR, 9) == 1
    one.close()
    two.close()


def test_who_sleeps_is_woken_for_much_or_at_the_end_of_a_turn(pair: Pair) -> None:
    """A writer in its loop does not wake a neighbour for each block."""

    def is_rung() -> bool:
        try:
            return os.eventfd_read(pair.b.channels.bell) > 0
        except BlockingIOError:
            return False

    pair.a.io.ints[s.LATER] = 1
    assert r.lie_down(pair.b.io)
    n = -(-r.BELL_BYTES // BIG)
    for _ in range(n - 1):
        assert pair.a.send(bytes(BIG), SIZE)
        assert not is_rung()
    assert pair.a.send(bytes(BIG), SIZE)
    assert is_rung()
    while pair.b.next() is not None:
        continue
    assert r.lie_down(pair.b.io)
    assert pair.a.send(bytes(SIZE), SIZE)
    assert not is_rung()
    r.ring_owed(pair.a.io)
    assert is_rung()
    while pair.b.next() is not None:
        continue
    assert r.lie_down(pair.b.io)
    assert pair.a.send(bytes(SIZE), SIZE)
    r.wait_for(pair.a.io, 1)  # it has nothing else to do
    assert is_rung()
