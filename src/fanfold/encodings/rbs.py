"""Recursive BitString: the tree itself, a BitString of each switch's own ports.

draft-eckert-bier-rbs-00 (2022): RU-Length and RU-Offset of 12 bits, RU0; a recursive unit is
the BitString of one switch, then the lengths of all its sub-units but the last, then those.
Carried in the BitString of RFC 8296 (section 5), padded to the next length; no part of it is
taken off on the way. Ours: sub-domain 255 says that lengths have 8 bits, 254 that they have 7
behind a 0 or 12 behind a 1; the shorter of the two that can hold the tree is taken. Switches
receive nothing themselves, so their tables have no receive row.
"""

from collections.abc import Callable

from fanfold.encodings.bit_field import NO_BITS, Bits
from fanfold.encodings.encoder import I64, MAX_BITS, Copy, Encoder, Refusal, Turn
from fanfold.encodings.ground import Branches, Ground
from fanfold.encodings.tree_pack import pack, preorder
from fanfold.wire import bier
from fanfold.wire.bitstring import bift_id, bitstring_bits

TTL = 64
LEN_BITS = 12
FIELDS_BITS = 2 * LEN_BITS
FIXED_AF, VARIABLE_AF = 255, 254
"""Sub-domains: how long the address fields are."""
MAX_FIXED = 255
MAX_SHORT = 127
MIN_BITS = 64

Cut = Callable[[int, int], int]
"""Reads bits of an address: from where, how many."""


class Rbs(Encoder):
    """One RBS-BIFT for each switch: a row for each port."""

    def __init__(self, ground: Ground, limit_bits: int) -> None:
        super().__init__(ground, limit_bits)
        self.room = 1 << (min(limit_bits, MAX_BITS).bit_length() - 1)

    def encode(self, source: int, members: I64) -> list[Copy]:
        """A packet for each piece of the tree that fits into a BitString."""
        if self.room < MIN_BITS:
            raise Refusal(f"BitStrings of {MIN_BITS} bits; switches read {self.limit_bits}")
        unit = f"a BitString of {self.room} bits"
        pieces = pack(self.ground, source, members, self._fits, unit)
        return [
            Copy(piece.link, self._head(source, self.ground.dst[piece.link], piece.branches))
            for piece in pieces
        ]

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Section 4.7: one copy for each bit; length and offset name the unit below."""
        del came
        header = bier.decode(head)
        n_bits = bitstring_bits(header.bsl)
        value = header.bitstring

        def cut(at: int, n: int) -> int:
            return value >> (n_bits - at - n) & ((1 << n) - 1)

        length, at = cut(0, LEN_BITS), FIELDS_BITS + cut(LEN_BITS, LEN_BITS)
        end, first, n_ports = at + length, self.ground.first_link(node), self._n_ports(node)
        bits = cut(at, n_ports)
        links = [first + p for p in range(n_ports) if bits >> (n_ports - 1 - p) & 1]
        n_units = sum(self._is_recursive(link) for link in links)
        field = at + n_ports
        lengths = []
        for _ in range(n_units - 1):
            n, field_bits = _read_af(header.sub_domain, cut, field)
            lengths.append(n)
            field += field_bits
        lengths.append(end - field - sum(lengths))
        copies, unit = [], field
        for link in links:
            n = lengths.pop(0) if self._is_recursive(link) else 0
            copies.append(Copy(link, _moved(head, n, unit - FIELDS_BITS if n else 0)))
            unit += n
        return Turn(copies, len(links))

    def is_for(self, host: int, head: bytes) -> bool:
        """RU-Length 0: received (section 4.5)."""
        del host
        header = bier.decode(head)
        return header.bitstring >> (bitstring_bits(header.bsl) - FIELDS_BITS) == 0

    def entries(self, router: int) -> int:
        """A row for each port."""
        return self._n_ports(router)

    def entry_bytes(self, router: int) -> int:
        """R flag and port."""
        del router
        return 2

    def _n_ports(self, node: int) -> int:
        return self.ground.n_ports(node)

    def _ends(self, links: list[int]) -> list[int]:
        return [self.ground.dst[link] for link in links]

    def _is_recursive(self, link: int) -> bool:
        return self.ground.dst[link] >= self.ground.net.n_hosts

    def _fits(self, root: int, branches: Branches) -> bool:
        return min(self._sizes(root, branches)) + FIELDS_BITS <= self.room

    def _sizes(self, root: int, branches: Branches) -> tuple[int, int]:
        """Bits of RU0 with fixed and with variable lengths; beyond all room where too long."""
        sizes: dict[int, tuple[int, int]] = {}
        for node in reversed(preorder(self.ground, root, branches)):
            below = [sizes[n] for n in self._ends(branches[node]) if n in sizes]
            fixed = variable = self._n_ports(node)
            for a, b in below:
                fixed += a
                variable += b
            for a, b in below[:-1]:
                fixed += 8 if a <= MAX_FIXED else MAX_BITS
                variable += 8 if b <= MAX_SHORT else 13
            sizes[node] = fixed, variable
        return sizes[root]

    def _head(self, source: int, root: int, branches: Branches) -> bytes:
        fixed, variable = self._sizes(root, branches)
        form = FIXED_AF if fixed <= variable else VARIABLE_AF
        ru0 = self._unit(root, branches, form)
        address = NO_BITS.then(ru0.n, LEN_BITS).then(0, LEN_BITS).then(ru0.value, ru0.n)
        bsl = max(1, (address.n - 1).bit_length() - 5)
        header = bier.BierHeader(
            bift_id=bift_id(bsl, form, 0),
            ttl=TTL,
            bfir_id=(source + 1) & 0xFFFF,
            bitstring=address.value << (bitstring_bits(bsl) - address.n),
        )
        return bier.encode(header)

    def _unit(self, root: int, branches: Branches, form: int) -> Bits:
        """RU of a router: its BitString, lengths of its sub-units but the last, sub-units."""
        units: dict[int, Bits] = {}
        for node in reversed(preorder(self.ground, root, branches)):
            first, n_ports = self.ground.first_link(node), self._n_ports(node)
            flags = sum(1 << (n_ports - 1 - (link - first)) for link in branches[node])
            unit = NO_BITS.then(flags, n_ports)
            below = [units[n] for n in self._ends(branches[node]) if n in units]
            for sub in below[:-1]:
                unit = unit.then(*_af(form, sub.n))
            for sub in below:
                unit = unit.then(*sub)
            units[node] = unit
        return units[root]


def _af(form: int, n: int) -> tuple[int, int]:
    """Address field of a length: value and bits."""
    if form == FIXED_AF or n <= MAX_SHORT:
        return n, 8
    return 1 << LEN_BITS | n, 1 + LEN_BITS


def _read_af(form: int, cut: Cut, at: int) -> tuple[int, int]:
    """Length in an address field, and the bits of the field."""
    if form == FIXED_AF or cut(at, 1) == 0:
        return cut(at, 8), 8
    return cut(at + 1, LEN_BITS), 1 + LEN_BITS


def _moved(head: bytes, length: int, offset: int) -> bytes:
    """The header with another RU-Length and RU-Offset; nothing else changes on the way."""
    fields = (length << LEN_BITS | offset).to_bytes(FIELDS_BITS // 8)
    at = bier.FIXED_BYTES
    return head[:at] + fields + head[at + FIELDS_BITS // 8 :]
