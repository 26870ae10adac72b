"""Ways out of a node never block: what a port does not take waits, bounded, behind that port.

A pair of Unix sockets stands for a slow interface: it takes so much and then no more until
somebody reads. It ignores addresses and offload, so a run arrives as one piece.
"""

import os
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from fanfold.core.effects import SendBlock
from fanfold.kernels.slots import NEVER_PS
from fanfold.live import exits as e
from fanfold.live import sock as s
from fanfold.live.outbox import Fan, Outbox
from fanfold.live.own_status import lost_at
from fanfold.live.ports import (
    Limits,
    build_node_state,
    build_sock,
    close_exits,
    open_socket,
    time_arrivals,
)
from fanfold.live.rings import wait_for
from fanfold.streams import stream
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND
from fanfold.wire.inner import address_of

NONE_LOST = dict.fromkeys(
    ("port_full", "too_large", "send_failed", "link_down", "link_no_key"), 0
)


class Ports:
    """A node's ways out: port 1 is slow, port 2 a UDP socket whose peer listens."""

    def __init__(self, n_ports: int = 3) -> None:
        self.main = open_socket("127.0.0.1", 0, "test")
        self.io = build_sock(self.main, n_ports)
        self.io.ints[s.WAKE_FD] = self.main.fileno()
        self.slow, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.slow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        self.far.setblocking(False)
        if n_ports > 2:
            os.close(int(self.io.exits[1]["fd"]))
        self.io.exits[1]["fd"] = self.slow.fileno()
        self.peer = open_socket("127.0.0.1", 0, "peer")
        self.peer.setblocking(False)

    def close(self) -> None:
        self.io.exits[1]["fd"] = self.main.fileno()
        close_exits(self.io)
        for each in (self.main, self.slow, self.far, self.peer):
            each.close()

    def send(self, data: bytes, port: int = 1, n_pkts: int = 1) -> int:
        """One run of equal packets; what became of it."""
        self.last = np.frombuffer(data, np.uint8).copy()
        half = len(data) // 2  # two iovecs, as a plan may have them
        base = self.last.ctypes.data
        self.io.iov_out[:4] = base, half, base + half, len(data) - half
        e.aim(self.io, address_of("127.0.0.1"), self.peer.getsockname()[1])
        return int(e.send_iov(self.io, port, 2, n_pkts, len(data) // n_pkts))

    def fill(self) -> list[bytes]:
        """Send until the slow port's queue holds something; what was sent."""
        sent = []
        for i in range(1000):
            sent.append(bytes([i % 251]) * 4096)
            if self.send(sent[-1]) == e.KEPT:
                return sent
        raise AssertionError

    def read(self) -> list[bytes]:
        """What has come out of the slow port."""
        got = []
        while True:
            try:
                got.append(self.far.recv(1 << 17))
            except BlockingIOError:
                return got

    def read_all(self) -> list[bytes]:
        """As ``read``, with the queue behind it."""
        got: list[bytes] = []
        while self.io.exits[1]["used"] or (more := self.read()):
            got += more if not self.io.exits[1]["used"] else self.read()
            e.drain(self.io)
        return got


@pytest.fixture
def ports(request: pytest.FixtureRequest) -> Iterator[Ports]:
    made = Ports(getattr(request, "param", 3))
    try:
        yield made
    finally:
        made.close()


def test_a_port_that_takes_no_more_keeps_its_packets_and_holds_no_other_up(
    ports: Ports,
) -> None:
    assert ports.send(b"compiled", port=2) == e.GONE
    ports.peer.recv(100)
    began = time.monotonic()
    sent = ports.fill()
    assert ports.send(b"healthy", port=2) == e.GONE
    assert time.monotonic() - began < 1  # one that blocks would be here for ever
    time.sleep(0.01)
    assert ports.peer.recv(100) == b"healthy"
    assert ports.io.ints[s.WAITING] == 1
    assert ports.read_all() == sent
    assert ports.io.ints[s.WAITING] == 0
    assert lost_at(ports.io, 1) == NONE_LOST


def test_a_queue_is_bounded_in_bytes_and_drops_the_newest_under_a_reason_of_its_own(
    ports: Ports,
) -> None:
    sent = ports.fill()
    n_kept = 1
    while ports.send(b"k" * 4096, n_pkts=4) == e.KEPT:
        sent.append(b"k" * 4096)
        n_kept += 1
    assert n_kept == e.QUEUE_BYTES // (4096 + e.RUN_HEAD)
    assert ports.io.exits[1]["used"] <= e.QUEUE_BYTES
    assert lost_at(ports.io, 1)["port_full"] == 4  # packets, not runs
    assert ports.read_all() == sent


def test_what_waits_comes_out_in_order_and_whole_however_the_ring_turns(ports: Ports) -> None:
    """Ten times round the ring, sizes at random; a list is its twin."""
    random = stream(3, "tests/exits")
    expected: list[bytes] = []
    got: list[bytes] = []
    n_bytes = 0
    while n_bytes < 10 * e.QUEUE_BYTES:
        data = random.bytes(int(random.integers(2, 30_000)))
        if ports.send(data) <= e.KEPT:
            expected.append(data)
            n_bytes += len(data)
        elif random.integers(0, 4):
            got += ports.read()
            e.drain(ports.io)
    got += ports.read_all()
    assert got == expected
    assert lost_at(ports.io, 1)["port_full"] > 0


def test_a_wait_ends_when_a_port_with_a_queue_takes_more(ports: Ports) -> None:
    ports.fill()
    began = time.monotonic()
    assert not wait_for(ports.io, PS_PER_SECOND // 20)  # nobody reads: it lasts
    assert time.monotonic() - began >= 0.045
    ports.read()
    began = time.monotonic()
    wait_for(ports.io, PS_PER_SECOND // 5)
    assert time.monotonic() - began < 0.15


@pytest.mark.parametrize(
    ("size", "addr", "word"),
    [(65_508, "127.0.0.1", "too_large"), (100, "255.255.255.255", "send_failed")],
)
def test_what_the_kernel_refuses_is_told_apart(
    ports: Ports, size: int, addr: str, word: str
) -> None:
    """A broadcast address is one that no socket of ours may send to."""
    packet = np.zeros(size, np.uint8)
    assert not e.post(ports.io, 2, address_of(addr), 9, packet)
    assert lost_at(ports.io, 2) == NONE_LOST | {word: 1}


def test_a_port_says_that_it_overflowed_until_what_waited_and_its_answers_are_through(
    ports: Ports,
) -> None:
    def pressure(later_ps: int = 0) -> int:
        return int(e.pressure_at(ports.io, 1, s.now(ports.io) + later_ps))

    assert pressure() == 0
    ports.fill()
    assert 0 < pressure() < 20  # its fill
    while ports.send(b"k" * 30_000) != e.FULL:
        continue
    assert pressure() == 255
    time.sleep(0.05)
    ports.read_all()
    assert pressure() == 255  # it took 50 ms and more: so do the answers
    assert pressure(PS_PER_SECOND // 25) == 255
    assert pressure(PS_PER_SECOND) == 0
    assert pressure() == 0


@pytest.mark.parametrize("ports", [2], indirect=True)
def test_an_outbox_waits_for_a_port_that_is_full_and_says_later_that_a_job_left(
    ports: Ports,
) -> None:
    """Its own uplink is no reason to drop: what a sender may send waits in the sender."""
    fabric = leaf_spine(1, 0, 2, name="x", prefix=0)
    me = fabric.by_name["h0"]
    node = build_node_state(fabric, "h0", Limits())
    box = Outbox(
        ports.io,
        node,
        bsl=3,
        sub_domain=0,
        bfr_id=me.bfr_id,
        addr=address_of(me.address),
        flow_port=9,
        entropy=0,
    )
    box.fans[7] = Fan(4096, 4, 4, lambda block, room: 4096 * 4)
    told: list[int] = []
    box.on_sent = lambda job: told.append(job.block)
    n_blocks = 64
    for block in range(n_blocks):
        box.add(SendBlock(7, block, 0b1111, (1,), 0, False, False, 0))
    now = 0
    for _ in range(10_000):
        now += PS_PER_SECOND
        following = box.flush(now, lambda flow, lane: 1 << 40)
        waits = int(ports.io.exits[1]["used"])
        assert waits < e.QUEUE_BYTES // 2
        if waits:
            assert following == NEVER_PS or not box.n_waiting()
            assert ports.io.exits[1]["wanted"] == 1
            assert len(told) <= n_blocks - box.n_waiting()  # the one that waits is not told
            ports.read()
            e.drain(ports.io)
            assert ports.io.ints[s.ROOM_CAME] == int(ports.io.exits[1]["used"] == 0)
        elif not box.n_waiting() and len(told) == n_blocks:
            break
    assert told == [*range(n_blocks)]
    assert lost_at(ports.io, 1)["port_full"] == 0


def test_when_packets_came_is_known_though_nobody_looked(ports: Ports) -> None:
    """A process that is paused finds how long ago its packets came."""
    time_arrivals(ports.main)
    time.sleep(0.1)  # Linux begins to stamp packets a little later
    ports.peer.sendto(b"x" * 100, ports.main.getsockname())
    time.sleep(0.08)
    assert s.receive(ports.io) == 100
    assert ports.io.ints[s.SEG] == 100
    when = s.now(ports.io)
    assert 0.07 < (when - s.came_at(ports.io, when)) / PS_PER_SECOND < 5
