"""Datagrams that no fanfold node would send: random bytes, cut and flipped packets, trains."""

import socket
import struct
from collections.abc import Iterator
from random import Random

from fanfold.live.syscalls import SOL_UDP, UDP_SEGMENT
from fanfold.wire import bitstring
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.close import Close
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.packet import Message, build
from fanfold.wire.report import Report, ReportState

MAX_DATAGRAM = 65_507
MAX_TRAIN = 40
BIER_HEAD = 12
BFIR_AT = 10


class Blaster:
    """Makes datagrams from a seed, and sends them from the addresses of others.

    Args:
        bfir, bfir_addr, flow_port: whose packets the sound ones pretend to be.
    """

    def __init__(self, seed: int, bfir_id: int, bfir: str, flow_port: int) -> None:
        self.random = Random(seed)
        self.bfir_id, self.bfir, self.flow_port = bfir_id, address_of(bfir), flow_port

    def sound(self) -> bytes:
        """A well-formed packet of any kind, of a flow that nobody has."""
        return self.random.choice((self._data, self._question, self._word, self._report))()

    def _down(self, message: Message, payload: bytes = b"") -> bytes:
        r = self.random
        bits, entropy = r.randrange(1, 32), r.randrange(1 << 20)
        header = BierHeader(bitstring.bift_id(3, 0, 0), 64, self.bfir_id, bits, entropy)
        return build(header, self.bfir, GROUP_ADDRESS, self.flow_port, message, payload)

    def _up(self, message: Message) -> bytes:
        me = 1 << (self.bfir_id - 1)
        header = BierHeader(bitstring.bift_id(3, 0, 0), 64, self.bfir_id, me)
        return build(header, self.bfir, self.bfir, self.flow_port, message)

    def _flow(self) -> int:
        return self.random.randrange(1 << 31) * 2

    def _data(self) -> bytes:
        r = self.random
        n_psn = r.randrange(1, 65)
        data = Data(
            flow=self._flow() | r.randrange(2),
            block=r.choice((0, 1, r.randrange(1 << 32))),
            n_psn=n_psn,
            psn=r.randrange(n_psn),
            stride=r.choice((64, 512, 8192)),
            first_ttl=64,
            flags=r.randrange(8),
            round=r.randrange(256),
        )
        return self._down(data, r.randbytes(r.choice((1, data.stride // 2, data.stride))))

    def _question(self) -> bytes:
        r = self.random
        ask = Ask(flow=self._flow(), cursor=r.randrange(1 << 32), nonce=r.randrange(1 << 32))
        return self._down(r.choice((ask, Close(flow=self._flow(), reason=r.randrange(2)))))

    def _word(self) -> bytes:
        r = self.random
        heard, n_psn = r.randrange(32), r.randrange(1, 65)
        rows = [FeedbackRow(psn, heard) for psn in range(n_psn) if r.random() < 0.2]
        word = Feedback(
            flow=self._flow() | 1,
            block=r.randrange(1 << 32),
            n_psn=n_psn,
            bift_id=bitstring.bift_id(3, 0, r.randrange(256)),
            round=r.randrange(256),
            queue=r.randrange(256),
            room=r.randrange(256),
            worst=r.randrange(1 << 16),
            n_merged=r.randrange(1 << 16),
            heard=heard,
            done=heard & r.randrange(32),
            rows=tuple(rows),
        )
        return self._up(word)

    def _report(self) -> bytes:
        r = self.random
        report = Report(
            ReportState.READY,
            r.randrange(1, 1 << 16),
            self._flow(),
            cursor=r.randrange(1 << 32),
            n_have=r.randrange(1 << 32),
            body=r.randbytes(r.randrange(2000)),
        )
        return self._up(report)

    def first_of(self, flow: int, bits: int) -> bytes:
        """A sound packet that begins the manifest of a push, to ``bits``."""
        down = BierHeader(bitstring.bift_id(3, 0, 0), 64, self.bfir_id, bits)
        data = Data(flow=flow, block=0, n_psn=8, psn=0, stride=512, first_ttl=64)
        return build(down, self.bfir, GROUP_ADDRESS, self.flow_port, data, bytes(512))

    def noise(self) -> bytes:
        """Random bytes, now and then behind a sound BIER header."""
        r = self.random
        size = r.choice((0, 1, 11, 12, 44, 60, 72, 88, 1500, r.randrange(9000)))
        if r.random() < 0.01:
            size = MAX_DATAGRAM - r.randrange(200)
        body = r.randbytes(size)
        return self.sound()[: r.choice((0, BIER_HEAD, 44, 64))] + body[: MAX_DATAGRAM - 64]

    def damaged(self) -> bytes:
        """A sound packet cut anywhere, or behind its BIER head with bits flipped."""
        r = self.random
        packet = bytearray(self.sound())
        if r.random() < 0.3:
            return bytes(packet[: r.randrange(len(packet))])
        for _ in range(r.choice((1, 1, 2, 8))):
            packet[r.randrange(BIER_HEAD, len(packet))] ^= 1 << r.randrange(8)
        return bytes(packet)

    def relabelled(self) -> bytes:
        """A sound packet with bits of its BIER head flipped, which no checksum covers."""
        packet = bytearray(self.sound())
        packet[self.random.randrange(BIER_HEAD)] ^= 1 << self.random.randrange(8)
        return bytes(packet)

    def renamed(self) -> bytes:
        """A sound packet in the name of nobody, of somebody else, or of an id beyond."""
        packet = bytearray(self.sound())
        bfr_id = self.random.choice((0, 1, 2, self.bfir_id, 256, 257, 0xFFFF))
        packet[BFIR_AT : BFIR_AT + 2] = bfr_id.to_bytes(2, "big")
        return bytes(packet)

    def datagrams(self) -> Iterator[bytes]:
        """Any of them without end."""
        makers = (self.noise, self.damaged, self.damaged, self.relabelled, self.renamed)
        while True:
            yield self.random.choice(makers)()

    def train(self) -> tuple[bytes, int]:
        """Packets for one send, and the size they are cut to on the way."""
        r = self.random
        first = self.damaged() or b"x"
        size = len(first)
        n = min(r.randrange(2, MAX_TRAIN), max(60_000 // size, 1))
        parts = [first]
        for _ in range(n):
            parts.append(r.choice((self.damaged, self.noise))().ljust(size, b"\0")[:size])
        parts.append(r.randbytes(r.randrange(size)))
        return b"".join(parts), size


def send(sock: socket.socket, datagram: bytes, where: tuple[str, int]) -> bool:
    """Send; a full queue, or a port that is closed meanwhile, is no fault here."""
    try:
        sock.sendto(datagram, where)
    except (BlockingIOError, ConnectionRefusedError):
        return False
    return True


def send_train(sock: socket.socket, train: tuple[bytes, int], where: tuple[str, int]) -> int:
    """Send many packets in one call; how many."""
    buf, size = train
    ancillary = [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", size))]
    try:
        sock.sendmsg([buf], ancillary, 0, where)
    except OSError:
        return 0
    return -(-len(buf) // size)
