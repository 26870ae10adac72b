"""What one BFR forwards on one core, 1 packet in and 4 out, against a bare relay.

A sender process fills the forwarder's socket with blocks cut as a push cuts them, then the
forwarder empties it, and only that is measured: CPU time of its process over packets received.
The four sinks never read and have no room, so the kernel drops their copies on arrival; that
work is done inside the forwarder's ``sendmsg``, for the BFR and for the relay alike.
"""

import multiprocessing
import os
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np
import relay
from measure import Part, spread

from fanfold.errors import EnvironmentLack
from fanfold.kernels.codes import DROP_SOCKET_FULL
from fanfold.kernels.layout import BIER_PORT, FANFOLD_PORT, MAX_PSN
from fanfold.live import pump as p
from fanfold.live import sock as s
from fanfold.live.event_loop import TURNS, EventLoop
from fanfold.live.outbox import PIECE_BYTES
from fanfold.live.own_status import lost_at
from fanfold.live.ports import (
    Limits,
    build_node_state,
    build_sock,
    enable_offload,
    open_socket,
)
from fanfold.live.syscalls import SOL_UDP, UDP_GRO, UDP_SEGMENT
from fanfold.live.warm import warm
from fanfold.topo.fabric import Fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.bitstring import bift_id, bsl_of_bits
from fanfold.wire.fan import Data
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.packet import build

N_OUT = 4
SIZES = {1344: 1500, 8064: 9000}
"""Payload bytes -> MTU of the fabric that gives a push this payload."""
TRUESIZE = 100_000
"""Receive buffer that one block of 64 KB may take."""
ANSWER_S = 30.0
BLOCK_AT = 8  # of the block number in a DATA header
_FORK = multiprocessing.get_context("fork")


def run(n_rounds: int, round_s: float) -> Part:
    """All sizes, alternating BFR and relay."""
    warm()
    rows = [_one_size(stride, mtu, n_rounds, round_s) for stride, mtu in SIZES.items()]
    return Part(
        name="forwarding",
        title="Forwarding on one core, 1 in and 4 out",
        columns={
            "payload": "payload, bytes",
            "bfr_ns": "BFR, CPU ns a packet",
            "relay_ns": "relay, CPU ns a packet",
            "ratio": "BFR / relay",
            "ratio_spread": "over rounds",
            "bfr_kpps": "BFR, kpps a core",
            "bfr_gbps_in": "Gbit/s in",
            "bfr_gbps_out": "Gbit/s out",
            "blocks": "packets a call",
        },
        rows=rows,
        source="process CPU time of the forwarder over packets it received; each round"
        f" measures both, in changing order; medians of {n_rounds} rounds",
        limits="Loopback: a block of 64 KB crosses it whole, and a real NIC splits and merges"
        " it. Packets per second are 1 / CPU time: idle waits are not in them. No feedback"
        " comes back up; the sinks drop everything.",
    )


def _one_size(stride: int, mtu: int, n_rounds: int, round_s: float) -> dict[str, Any]:
    fabric, sinks = _fabric(mtu)
    children = {"bfr": _Child(_bfr, fabric), "relay": _Child(_relay, fabric)}
    try:
        return _measure(fabric, stride, children, n_rounds, round_s)
    finally:
        for child in children.values():
            child.close()
        for sink in sinks:
            sink.close()


def _measure(
    fabric: Fabric, stride: int, children: dict[str, "_Child"], n_rounds: int, round_s: float
) -> dict[str, Any]:
    sender = _Sender(fabric, stride)
    times: dict[str, list[float]] = {name: [] for name in children}
    kept = _pin(0)
    try:
        for child in children.values():
            _round(sender, child, 0.2)
        for i in range(n_rounds):
            for name in list(children)[:: 1 if i % 2 else -1]:
                times[name].append(_round(sender, children[name], round_s))
    finally:
        os.sched_setaffinity(0, kept)
        sender.close()
    ratios = [r / b for b, r in zip(times["bfr"], times["relay"], strict=True)]
    bfr_ns, relay_ns = median(times["bfr"]), median(times["relay"])
    size = sender.seg
    return {
        "payload": stride,
        "packet": size,
        "bfr_ns": round(bfr_ns),
        "relay_ns": round(relay_ns),
        "ratio": round(median(ratios), 3),
        "ratio_spread": spread(ratios, 2),
        "bfr_kpps": round(1e6 / bfr_ns),
        "bfr_gbps_in": round(size * 8 / bfr_ns, 2),
        "bfr_gbps_out": round(size * 8 * N_OUT / bfr_ns, 2),
        "relay_kpps": round(1e6 / relay_ns),
        "relay_gbps_in": round(size * 8 / relay_ns, 2),
        "blocks": "/".join(str(n) for n in dict.fromkeys(sender.cuts)),
        "all_bfr_ns": [round(t) for t in times["bfr"]],
        "all_relay_ns": [round(t) for t in times["relay"]],
    }


def _round(sender: "_Sender", child: "_Child", seconds: float) -> float:
    """CPU nanoseconds a packet over many bursts."""
    cpu_ns = packets = faults = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        n = sender.burst(child.target, child.room)
        told = child.ask(n)
        cpu_ns += told[0]
        packets += told[1]
        faults = told[2]
    if faults:
        raise EnvironmentLack(f"forwarding: {faults} packets were dropped or refused")
    return cpu_ns / max(packets, 1)


def _pin(index: int) -> set[int]:
    """Keep this process on one CPU of those it may use; returns what it had."""
    had = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(had)[index % len(had)]})
    return had


def _fabric(mtu: int) -> tuple[Fabric, list[socket.socket]]:
    """One BFR with a source and four receivers, on loopback addresses that are free."""
    for prefix in range(249, 0, -1):
        fabric = leaf_spine(1, 0, N_OUT, name="bench", prefix=prefix)
        fabric = Fabric(fabric.name, fabric.nodes, fabric.links, mtu=mtu)
        sinks: list[socket.socket] = []
        try:
            open_socket(fabric.by_name["leaf1"].address, BIER_PORT, "leaf1").close()
            for i in range(N_OUT):
                sinks.append(_sink(fabric.by_name[f"h{i + 1}"].address))
        except OSError:
            for sink in sinks:
                sink.close()
            continue
        except EnvironmentLack:
            continue
        return fabric, sinks
    raise EnvironmentLack("forwarding: UDP port 8138 is in use on every loopback range tried")


def _sink(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    sock.setsockopt(SOL_UDP, UDP_GRO, 1)  # or the kernel would split a block before it drops it
    sock.bind((address, BIER_PORT))
    return sock


class _Sender:
    """The blocks of one push, all packets ready but for the block number."""

    def __init__(self, fabric: Fabric, stride: int) -> None:
        me = fabric.by_name["h0"]
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((me.address, 0))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        flow_port = self.sock.getsockname()[1]
        header = BierHeader(
            bift_id=bift_id(bsl_of_bits(fabric.bitstring_bits), fabric.sub_domain, 0),
            ttl=64,
            bfir_id=me.bfr_id,
            bitstring=(1 << N_OUT) - 1,
            entropy=7,
            proto=PROTO_IPV4,
        )
        payload = np.random.default_rng(1).bytes(stride)
        packets = [
            build(
                header,
                address_of(me.address),
                GROUP_ADDRESS,
                flow_port,
                Data(
                    flow=0x1001,
                    block=0,
                    n_psn=MAX_PSN,
                    psn=psn,
                    stride=stride,
                    first_ttl=64,
                    flags=1 if psn == MAX_PSN - 1 else 0,
                    round=0,
                ),
                payload,
            )
            for psn in range(MAX_PSN)
        ]
        self.seg = len(packets[0])
        fan_at = self.seg - stride - 16
        assert struct.unpack_from("!H", packets[0], fan_at - 6)[0] == FANFOLD_PORT
        per_call = PIECE_BYTES // self.seg
        self.cuts = [min(per_call, MAX_PSN - i) for i in range(0, MAX_PSN, per_call)]
        self._rows = np.frombuffer(b"".join(packets), np.uint8).copy().reshape(MAX_PSN, -1)
        self._number = self._rows[:, fan_at + BLOCK_AT : fan_at + BLOCK_AT + 4]
        self._block = 0

    def burst(self, target: tuple[str, int], room: int) -> int:
        """Send whole blocks of the push while the receive buffer has room; packets sent."""
        n_blocks = max(room // TRUESIZE // len(self.cuts), 1)
        size = struct.pack("=H", self.seg)
        for _ in range(n_blocks):
            self._block += 1
            self._number[:] = np.frombuffer(struct.pack("!I", self._block), np.uint8)
            at = 0
            for n in self.cuts:
                ctl = [(SOL_UDP, UDP_SEGMENT, size)] if n > 1 else []
                self.sock.sendmsg([self._rows[at : at + n].data], ctl, 0, target)
                at += n
        return n_blocks * MAX_PSN

    def close(self) -> None:
        self.sock.close()


Step = Callable[[], tuple[int, int]]
"""Forward what waits; returns packets received since the start, and how many went wrong."""


class _Child:
    """A forwarder in a process of its own, told how many packets to expect."""

    def __init__(self, make: Callable[[Fabric], tuple[socket.socket, Step]], fabric: Fabric):
        self._pipe, there = _FORK.Pipe()
        self.process = _FORK.Process(target=_serve, args=(make, fabric, there), daemon=True)
        self.process.start()
        there.close()
        self.target, self.room = self._hear()

    def ask(self, n_packets: int) -> tuple[int, int, int]:
        """(CPU ns, packets received, faults since the start)."""
        self._pipe.send(n_packets)
        told: tuple[int, int, int] = self._hear()
        return told

    def _hear(self) -> Any:
        if not self._pipe.poll(ANSWER_S):
            raise EnvironmentLack(f"forwarding: no answer in {ANSWER_S} s")
        return self._pipe.recv()

    def close(self) -> None:
        self._pipe.close()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(
    make: Callable[[Fabric], tuple[socket.socket, Step]], fabric: Fabric, pipe: Connection
):
    sock, step = make(fabric)
    _pin(-1)
    room = min(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), 64 * TRUESIZE)
    pipe.send((sock.getsockname(), room))
    had, faults = step()
    while True:
        try:
            expected = pipe.recv()
        except EOFError:
            return
        began = time.process_time_ns()
        idle, n = 0, had
        while n - had < expected and idle < 3:
            before = n
            n, faults = step()
            idle = idle + 1 if n == before else 0
        pipe.send((time.process_time_ns() - began, n - had, faults))
        had = n


def _bfr(fabric: Fabric) -> tuple[socket.socket, Step]:
    """The real node: its tables, slots and counters, its event loop's compiled loop."""
    return _bfr_at(fabric, BIER_PORT, 0, lambda io: None)


def _bfr_at(
    fabric: Fabric, udp_port: int, n_links: int, give: Callable[[s.Sock], None]
) -> tuple[socket.socket, Step]:
    """A node on a UDP port; ``give``: keys of its links, so many sessions."""
    sock = open_socket(fabric.by_name["leaf1"].address, udp_port, "leaf1")
    node = build_node_state(fabric, "leaf1", Limits())
    io = build_sock(sock, len(node.ports.addr), n_links=n_links)
    event_loop = EventLoop(sock, io, node, None)
    give(io)
    port = fabric.port_to("leaf1", "h0")

    def step() -> tuple[int, int]:
        p.serve(event_loop.io, node, TURNS, 0)  # as the event loop's step, but it does not wait
        n_bad = int(node.counters.drops.sum() - node.counters.drops[DROP_SOCKET_FULL])
        n_bad += sum(sum(lost_at(event_loop.io, i).values()) for i in range(1, N_OUT + 2))
        return int(node.counters.rx[port, :, 0].sum()), n_bad

    assert event_loop.io.ints[s.GSO], "this kernel has no UDP_SEGMENT"
    return sock, step


def _relay(fabric: Fabric) -> tuple[socket.socket, Step]:
    """The ceiling, on another port of the same address."""
    sock = open_socket(fabric.by_name["leaf1"].address, 0, "relay")
    assert enable_offload(sock), "this kernel has no UDP_SEGMENT"
    to = [(fabric.by_name[f"h{i + 1}"].address, BIER_PORT) for i in range(N_OUT)]
    arrays = relay.build_relay(sock, to)

    def step() -> tuple[int, int]:
        relay.forward(arrays, 64)
        return int(arrays.counts[1]), int(arrays.counts[3])

    return sock, step
