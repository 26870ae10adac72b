"""Captured packets: drained from a node's tap into a raw file, merged into one pcapng later.

Each router port is an interface named ``node:neighbour``. The underlay's IPv4 and UDP headers
are written as they were on the loopback addresses, so any dissector finds port 8138.
"""

import struct
from collections.abc import Iterable, Iterator
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from fanfold.live import sock as s
from fanfold.live.clock import start_unix_ps
from fanfold.topo.fabric import Fabric
from fanfold.wire.inner import BIER_UDP_PORT, address_of
from fanfold.wire.pcapng import Direction, Writer
from fanfold.wire.underlay import udp_frame

WHOLE = 65_535
"""Bytes of the largest packet."""
UDP_SUM_AT = 26
_HEAD = struct.Struct("=qqq")


class Record(NamedTuple):
    """One packet of a raw capture, in time order within its file; size: before it was cut."""

    at_ps: int
    port: int
    way: int
    dport: int
    peer: int
    size: int
    packet: bytes


class Capture:
    """Writes a node's tap to a raw file while it runs; snaplen: bytes kept of each packet."""

    def __init__(
        self, path: Path, fabric: Fabric, names: list[str], io: s.Sock, snaplen: int = WHOLE
    ) -> None:
        self._io = io
        self._file = path.open("wb")
        own = address_of(fabric.by_name[names[0]].address)
        header = "\n".join([str(own), str(start_unix_ps()), *names]).encode()
        self._file.write(struct.pack("=I", len(header)) + header)
        io.ints[s.TAP_USED] = io.ints[s.TAP_LOST] = 0
        io.ints[s.TAPPING] = snaplen

    def drain(self) -> None:
        """Move what was tapped into the file."""
        used = int(self._io.ints[s.TAP_USED])
        if used:
            self._file.write(self._io.tap[:used].tobytes())
            self._io.ints[s.TAP_USED] = 0

    def close(self) -> int:
        """Stop tapping; packets that found no room."""
        self._io.ints[s.TAPPING] = 0
        self.drain()
        self._file.close()
        return int(self._io.ints[s.TAP_LOST])


def read_raw(path: Path) -> tuple[int, list[str], Iterable[Record]]:
    """Own address, interface names, and records of one raw capture."""
    buf = path.read_bytes()
    (n,) = struct.unpack_from("=I", buf)
    own, offset, *names = buf[4 : 4 + n].decode().split("\n")
    return int(own), names, _records(buf, 4 + n, int(offset))


def _records(buf: bytes, at: int, offset: int) -> Iterable[Record]:
    while at < len(buf):
        when, mixed, peer = _HEAD.unpack_from(buf, at)
        kept = mixed & 0xFFFF
        at += s.TAP_HEAD
        yield Record(
            when + offset,
            mixed >> 32 & 0xFF,
            mixed >> 40 & 0xFF,
            mixed >> 48 & 0xFFFF,
            peer,
            mixed >> 16 & 0xFFFF,
            buf[at : at + kept],
        )
        at += (kept + 7) & ~7


def merge_captures(paths: Iterable[Path], out: Path) -> int:
    """Merge raw captures of several nodes into one pcapng in time order; packets written."""
    with out.open("wb") as file:
        writer = Writer(file)
        streams = [_placed(path, writer) for path in paths]
        n = 0
        for record, own, face in merge(*streams, key=lambda item: item[0].at_ps):
            ends = (own, record.peer) if record.way == s.TAP_OUT else (record.peer, own)
            frame = _frame(ends, record)
            way = Direction.OUTBOUND if record.way == s.TAP_OUT else Direction.INBOUND
            writer.write(face, record.at_ps, frame, way, record.size - len(record.packet))
            n += 1
    return n


def _frame(ends: tuple[int, int], record: Record) -> bytes:
    """IPv4 and UDP around a packet; around a cut one with its true lengths, no checksum."""
    n_cut = record.size - len(record.packet)
    whole = udp_frame(*ends, BIER_UDP_PORT, record.packet + bytes(n_cut), record.dport)
    if not n_cut:
        return whole
    return whole[:UDP_SUM_AT] + b"\0\0" + whole[UDP_SUM_AT + 2 : len(whole) - n_cut]


def _placed(path: Path, writer: Writer) -> Iterator[tuple[Record, int, int]]:
    """Records of one node with its own address and the interface each belongs to."""
    own, names, records = read_raw(path)
    faces = [0] + [writer.add_interface(f"{names[0]}:{n}") for n in names[1:]]
    return ((record, own, faces[record.port]) for record in records)
