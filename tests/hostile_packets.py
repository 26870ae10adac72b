"""Packets of every kind with right checksums and wrong contents, from a seed.

A sound packet, then bits of any header flipped, then the inner lengths and checksums made right
again: what an attacker sends who knows the documents.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from fanfold.wire import bitstring as bs
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.checksum import internet_checksum
from fanfold.wire.close import Close
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.fold import DOWN, UP, Fold, FoldFlag, FoldScope, FoldWhat
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import Message, build
from fanfold.wire.report import Report, ReportState

BIER_HEAD = 12
INNER = 28
TTL_AT = 3
BSL_AT = 5
BFIR_AT = 10
MAX_WORDS = 64_800


class HostilePackets:
    """Makes packets.

    Args:
        bsl: of the BitStrings. own: BFR-id of who sends. top: highest that somebody has.
        ports: flow and group ports that exist. groups: numbers of groups that exist.
        flows: flow ids that exist. addr: inner source.
    """

    def __init__(
        self,
        seed: int,
        *,
        bsl: int,
        own: int,
        top: int,
        ports: Sequence[int] = (40_000,),
        groups: Sequence[int] = (7,),
        flows: Sequence[int] = (6,),
        addr: int = 0x7F510009,
    ) -> None:
        self.random = Random(seed)
        self.bsl, self.addr, self.top = bsl, addr, top
        self.n_bits = bs.bitstring_bits(bsl)
        beyond = (top - 1) // self.n_bits * self.n_bits + self.n_bits + 1
        self.own = own
        self.ids = (0, 1, 2, own, top, min(beyond, 0xFFFF), 0xFFFF)
        self.ports, self.groups, self.flows = (*ports, 53, 8138), groups, flows

    def _often(self, *values: int) -> int:
        """The first one most of the time: packets that belong together do more."""
        return values[0] if self.random.random() < 0.6 else self.random.choice(values)

    # Sound packets.

    def _bits(self) -> int:
        r = self.random
        few = 0
        for _ in range(r.randrange(1, 4)):
            few |= 1 << (r.randrange(self.top) % self.n_bits)
        return r.choice((few, few, (1 << min(self.top, self.n_bits)) - 1, 1 << self.n_bits - 1))

    def _build(self, message: Message, payload: bytes = b"", bits: int = 0) -> bytes:
        r = self.random
        si = r.choice((0, 0, 0, (self.top - 1) // self.n_bits))
        header = BierHeader(
            bs.bift_id(self.bsl, 0, si),
            self._often(64, 255, 2, 1),
            self._often(self.own, *self.ids),
            bits or self._bits(),
            r.randrange(1 << 20),
        )
        port = r.choice(self.ports)
        return build(header, self.addr, GROUP_ADDRESS, port, message, payload)

    def data(self) -> bytes:
        r = self.random
        shapes = ((4, 8), (64, 64), (1, 4096), (64, 8192), (2, 65_000), (64, 1))
        n_psn, stride = shapes[0] if r.random() < 0.6 else r.choice(shapes)
        message = Data(
            flow=r.choice(self.flows) | r.randrange(2),
            block=self._often(0, 1, 7, 8, 2**32 - 1),
            n_psn=n_psn,
            psn=r.randrange(n_psn),
            stride=stride,
            first_ttl=r.choice((64, 0, 255)),
            flags=r.randrange(8),
            round=r.randrange(256),
        )
        size = r.choice((1, stride, stride, r.randrange(1, stride + 1)))
        return self._build(message, r.randbytes(size))

    def question(self) -> bytes:
        r, flow = self.random, self.random.choice(self.flows)
        ask = Ask(flow=flow, cursor=r.choice((0, 1, 2**32 - 1)), nonce=r.randrange(1 << 32))
        return self._build(r.choice((ask, Close(flow=flow, reason=r.randrange(2)))))

    def word(self) -> bytes:
        """FEEDBACK for the flow's BFIR, in the name of some."""
        r, heard = self.random, self._bits()
        n_psn = self._often(4, 1, 64, r.randrange(1, 65))
        rows = [FeedbackRow(psn, heard) for psn in range(n_psn) if r.random() < 0.5]
        message = Feedback(
            flow=r.choice(self.flows) | r.randrange(2),
            block=self._often(0, 1, 2**32 - 1),
            n_psn=n_psn,
            bift_id=bs.bift_id(self.bsl, 0, r.choice((0, 0, 0, 255))),
            round=r.randrange(256),
            queue=r.randrange(256),
            room=r.randrange(256),
            worst=r.choice(self.ids),
            n_merged=r.randrange(1 << 16),
            behind=r.randrange(4096),
            heard=heard,
            done=heard & r.choice((0, heard)),
            rows=tuple(rows),
        )
        return self._build(message, bits=1 << r.randrange(min(self.top, self.n_bits)))

    def report(self) -> bytes:
        r = self.random
        message = Report(
            r.choice((ReportState.READY, ReportState.DONE, ReportState.CHECKING)),
            r.choice([i for i in self.ids if i]),
            r.choice(self.flows),
            cursor=r.choice((0, 1, 2**32 - 1)),
            nonce=r.randrange(1 << 32),
            n_have=r.choice((0, 1, 2**32 - 1)),
            digest=r.randbytes(32),
        )
        return self._build(message, bits=1 << r.randrange(min(self.top, self.n_bits)))

    def fold(self) -> bytes:
        """Any FOLD, arrays up to 65 kB."""
        r = self.random
        kind = r.choice((Kind.FOLD, Kind.SPREAD))
        what = r.choice((*sorted(UP if kind == Kind.FOLD else DOWN), FoldWhat.ARRAY))
        what = r.choice((what, what, FoldWhat.ARRAY))
        bits = self._bits()
        if what == FoldWhat.ARM and r.random() < 0.7:
            bits = (1 << min(self.top, self.n_bits)) - 1
        scope = self._often(FoldScope.ALL, FoldScope.ONLY, FoldScope.BUT)
        words = 4 * self._often(16, 0, 1, 2048, MAX_WORDS // 4)
        flags = r.choice((0, 0, FoldFlag.RETRY, FoldFlag.PARTIAL, FoldFlag.OUT))
        payload = r.randbytes(words) if what == FoldWhat.ARRAY else b""
        if what == FoldWhat.HEARD:
            payload = bs.to_bytes(self._bits(), self.bsl)
        if what == FoldWhat.ARRAY and not payload:
            flags |= FoldFlag.EMPTY
        message = Fold(
            kind=kind,
            what=what,
            group=self._often(*self.groups),
            block=self._often(0, 1, 2, 3, 9, 1 << 20, 2**32 - 1),
            op=self._often(0, 1, 2, 3, 4),
            word=self._often(0, 1, 3),
            flags=flags,
            exponent=r.randrange(1 << 16),
            n_merged=r.choice((bits.bit_count(), 0, 99)),
            only=r.choice([i for i in self.ids if i]) if scope else 0,
            scope=scope,
            root_level=r.choice((0, 0, 1, 3, 255)),
            n_slots=self._often(4, 0, 1, 2, 8, 65_535),
            patience=r.choice((0, 0, 1, 800)),
        )
        return self._build(message, payload, bits)

    def sound(self) -> bytes:
        makers: tuple[Callable[[], bytes], ...] = (
            self.data,
            self.question,
            self.word,
            self.report,
            self.fold,
            self.fold,
        )
        return self.random.choice(makers)()

    def lossy_block(self, flow: int) -> Iterator[bytes]:
        """Packet 1 of a block passes a BFR, and a word that somebody lacks it."""
        data, heard = self._block(flow, 5)
        yield self._sane(replace(data, psn=1), heard.heard, b"12345678")
        yield self._sane(heard, 1 << self.own - 1)

    def _block(self, flow: int, block: int) -> tuple[Data, Feedback]:
        whole = 0b11
        data = Data(flow=flow, block=block, n_psn=4, psn=0, stride=8, first_ttl=64)
        heard = Feedback(
            flow=flow,
            block=block,
            n_psn=4,
            bift_id=bs.bift_id(self.bsl, 0, 0),
            heard=whole,
            done=0b10,
            rows=(FeedbackRow(1, 0b01),),
            round=0,
            queue=0,
            room=255,
            worst=0,
            n_merged=2,
        )
        return data, heard

    def session(self, group: int, flow: int) -> Iterator[bytes]:
        """What honest nodes say to a BFR: a block and its words, an array of each of two ranks.

        First the group's root is here, then elsewhere; words are asked for and sent again.
        """
        whole = 0b11
        data, heard = self._block(flow, 0)
        yield self._sane(data, whole, b"12345678")
        yield self._sane(heard, 1 << self.own - 1)
        for root in (Kind.FOLD, Kind.SPREAD):
            yield self._fold(root, group, whole, FoldWhat.ARM)
            for flags in (0, FoldFlag.RETRY):
                for bits in (0b01, 0b10):
                    yield self._fold(Kind.FOLD, group, bits, FoldWhat.REQUEST)
                    yield self._fold(Kind.FOLD, group, bits, FoldWhat.ARRAY, flags)
                    yield self._fold(Kind.SPREAD, group, bits, FoldWhat.HEARD)
            yield self._fold(Kind.FOLD, group, 0b01, FoldWhat.ARRAY, FoldFlag.PARTIAL, 2)
            yield self._fold(Kind.FOLD, group, 0b01, FoldWhat.REQUEST)
            yield self._fold(root, group, 0b01, FoldWhat.ARM)

    def _fold(
        self, kind: int, group: int, bits: int, what: int, flags: int = 0, block: int = 1
    ) -> bytes:
        n_slots = 4 if what == FoldWhat.ARM else 0
        payload = bytes(64) if what == FoldWhat.ARRAY else b""
        payload = bs.to_bytes(0, self.bsl) if what == FoldWhat.HEARD else payload
        n_merged = int(what == FoldWhat.ARRAY)
        fold = Fold(
            kind,
            what,
            group,
            block,
            flags=flags,
            n_merged=n_merged,
            n_slots=n_slots,
            patience=1 if block > 1 else 800,
        )
        return self._sane(fold, bits, payload)

    def _sane(self, message: Message, bits: int, payload: bytes = b"") -> bytes:
        header = BierHeader(bs.bift_id(self.bsl, 0, 0), 64, self.own, bits)
        return build(header, self.addr, GROUP_ADDRESS, self.ports[0], message, payload)

    # Wrong ones.

    def head_bytes(self) -> int:
        """Bytes of all headers up to fanfold's own, and that one."""
        return BIER_HEAD + self.n_bits // 8 + INNER + 24

    def mutated(self, packet: bytes | None = None) -> bytes:
        """A sound packet with bits or a field of its headers changed, then sealed."""
        r = self.random
        buf = bytearray(self.sound() if packet is None else packet)
        top = min(len(buf), self.head_bytes())
        for _ in range(r.choice((0, 1, 1, 2, 4))):
            buf[r.randrange(top)] ^= 1 << r.randrange(8)
        if r.random() < 0.5:
            buf[BFIR_AT : BFIR_AT + 2] = r.choice(self.ids).to_bytes(2, "big")
        if r.random() < 0.05:
            del buf[r.randrange(len(buf)) :]
        return sealed(bytes(buf), self.n_bits // 8)

    def every_flip(self, packet: bytes) -> Iterator[bytes]:
        """A packet once for each bit of its headers: flipped as it is, and sealed again."""
        for i in range(8 * min(len(packet), self.head_bytes())):
            buf = bytearray(packet)
            buf[i // 8] ^= 1 << i % 8
            yield bytes(buf)
            yield sealed(bytes(buf), self.n_bits // 8)

    def every_id(self, packet: bytes) -> Iterator[bytes]:
        """A packet once in the name of each BFR-id."""
        for bfr_id in self.ids:
            yield packet[:BFIR_AT] + bfr_id.to_bytes(2, "big") + packet[BFIR_AT + 2 :]


def sealed(packet: bytes, bits_bytes: int) -> bytes:
    """Inner lengths and checksums made right, where there is room for them."""
    ip = BIER_HEAD + bits_bytes
    if len(packet) < ip + INNER:
        return packet
    buf = bytearray(packet)
    size = len(packet) - ip
    buf[ip + 2 : ip + 4] = size.to_bytes(2, "big")
    buf[ip + 10 : ip + 12] = b"\0\0"
    buf[ip + 10 : ip + 12] = internet_checksum(bytes(buf[ip : ip + 20])).to_bytes(2, "big")
    udp = ip + 20
    buf[udp + 4 : udp + 6] = (size - 20).to_bytes(2, "big")
    buf[udp + 6 : udp + 8] = b"\0\0"
    pseudo = bytes(buf[ip + 12 : ip + 20]) + b"\0\x11" + bytes(buf[udp + 4 : udp + 6])
    total = internet_checksum(pseudo + bytes(buf[udp:])) or 0xFFFF
    buf[udp + 6 : udp + 8] = total.to_bytes(2, "big")
    return bytes(buf)
