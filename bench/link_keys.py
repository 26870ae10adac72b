"""What keys of links cost a BFR: 1 packet in and 4 out, open and keyed, in the same run.

As ``forwarding.py``, whose sender, sinks and rounds these are: two BFRs, one whose five links
have sessions, and a sender that seals what it sends to that one. Only the BFRs are measured.
"""

import os
import socket
from statistics import median
from typing import Any

import numpy as np
from forwarding import (
    N_OUT,
    SIZES,
    Step,
    _bfr_at,
    _Child,
    _fabric,
    _pin,
    _round,
    _Sender,
)
from measure import Part, spread

from fanfold.core.link_keys import TakeKeys
from fanfold.kernels.layout import BIER_PORT, MAX_PSN, TRAILER_BYTES
from fanfold.live.exits import KEPT, aim, send_iov
from fanfold.live.link_driver import enable_keys, write_session
from fanfold.live.ports import build_sock
from fanfold.live.sock import Sock
from fanfold.live.trailers_out import UDP_BYTES
from fanfold.live.warm import warm
from fanfold.seals.link_keys import SessionKeys
from fanfold.seals.umac import umac_keys
from fanfold.topo.fabric import Fabric
from fanfold.wire.inner import address_of

NUMBER = 0x5EED000
BARS = {1344: 60, 8064: 25}
"""Payload bytes -> what may come on top, percent."""


def run(n_rounds: int, round_s: float) -> Part:
    """All sizes, alternating open and keyed."""
    warm()
    rows = [_one_size(stride, mtu, n_rounds, round_s) for stride, mtu in SIZES.items()]
    return Part(
        name="link_keys",
        title="Keys of links on one core, 1 in and 4 out",
        columns={
            "payload": "payload, bytes",
            "open_ns": "open, CPU ns a packet",
            "keyed_ns": "keyed, CPU ns a packet",
            "more": "more, percent",
            "more_spread": "over rounds",
            "bar": "bar",
        },
        rows=rows,
        source="process CPU time of the BFR over packets it received; each round measures both,"
        f" in changing order; medians of {n_rounds} rounds",
        limits="Content of a push: its tag covers headers, so a packet is hashed for 88 octets,"
        " five times. Sessions are given, not agreed on. Sealed content is the same to a BFR:"
        " the payload here is random, and a seal changes neither sizes nor headers.",
    )


def _one_size(stride: int, mtu: int, n_rounds: int, round_s: float) -> dict[str, Any]:
    fabric, sinks = _fabric(mtu)
    children = {"open": _Child(_open_bfr, fabric), "keyed": _Child(_keyed_bfr, fabric)}
    senders = {"open": _Sender(fabric, stride), "keyed": _Sealer(fabric, stride)}
    times: dict[str, list[float]] = {name: [] for name in children}
    kept = _pin(0)
    try:
        for name, child in children.items():
            _round(senders[name], child, 0.2)
        for i in range(n_rounds):
            for name in list(children)[:: 1 if i % 2 else -1]:
                times[name].append(_round(senders[name], children[name], round_s))
    finally:
        os.sched_setaffinity(0, kept)
        for one in (*children.values(), *senders.values(), *sinks):
            one.close()
    more = [k / o * 100 - 100 for o, k in zip(times["open"], times["keyed"], strict=True)]
    return {
        "payload": stride,
        "open_ns": round(median(times["open"])),
        "keyed_ns": round(median(times["keyed"])),
        "more": round(median(more), 1),
        "more_spread": spread(more, 1),
        "bar": BARS[stride],
        "all_open_ns": [round(t) for t in times["open"]],
        "all_keyed_ns": [round(t) for t in times["keyed"]],
    }


def _open_bfr(fabric: Fabric) -> tuple[socket.socket, Step]:
    return _bfr_at(fabric, BIER_PORT, 0, lambda io: None)


def _keyed_bfr(fabric: Fabric) -> tuple[socket.socket, Step]:
    def give(io: Sock) -> None:
        for port in range(1, N_OUT + 2):
            _give(io, port, BIER_PORT)

    return _bfr_at(fabric, 0, N_OUT + 1, give)


def _give(io: Sock, port: int, dport: int) -> None:
    """A session that both ends have from the start."""
    keys = umac_keys(bytes(range(16)))
    enable_keys(io, port, "required")
    row, number = port - 1, NUMBER | (port - 1)
    both = SessionKeys(keys, keys)
    write_session(io, TakeKeys(row, number, number, port, dport, both, is_confirmed=True))


class _Sealer(_Sender):
    """The same blocks, each packet with its trailer."""

    def __init__(self, fabric: Fabric, stride: int) -> None:
        super().__init__(fabric, stride)
        per_call = UDP_BYTES // (self.seg + TRAILER_BYTES)
        self.cuts = [min(per_call, MAX_PSN - i) for i in range(0, MAX_PSN, per_call)]
        self._io = build_sock(self.sock, 2, n_links=8)
        port = fabric.port_to("leaf1", "h0")  # its number at the BFR is what trailers say
        _give(self._io, 1, 0)
        self._io.links.rows[0]["peer_id"] = NUMBER | (port - 1)

    def burst(self, target: tuple[str, int], room: int) -> int:
        """As of an open sender; ``target`` is always the same."""
        io = self._io
        io.links.rows[0]["dport"] = target[1]
        n_blocks = max(room // 100_000 // len(self.cuts), 1)
        aim(io, address_of(target[0]), target[1])
        for _ in range(n_blocks):
            self._block += 1
            self._number[:] = np.frombuffer(self._block.to_bytes(4, "big"), np.uint8)
            at = 0
            for n in self.cuts:
                io.iov_out[0] = self._rows.ctypes.data + at * self.seg
                io.iov_out[1] = n * self.seg
                assert send_iov(io, 1, 1, n, self.seg) <= KEPT
                at += n
        return n_blocks * MAX_PSN
