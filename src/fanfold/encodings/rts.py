"""Recursive tree structure: the tree as nested units, by neighbour numbers or BitStrings.

draft-eckert-pim-rts-forwarding-01 (2024) section 4.3: flags b d S L B R, SID of 10 or 18 bits,
RULL, BSL and SD, BitString, RU-list. A copy keeps only the unit of the switch it goes to.
Each switch is written in the shortest of its forms: a list of SIDs, a BitString (rows say which
neighbours are leaves, section 4.3.2.4 option 1), or b where all its hosts receive.

Assumed: SIDs are local, port numbers from 1; a local SID is taken off the copy; the leftmost
bit is port 1; a copy made because of b carries d=1 (the text says d=0, and means a leaf that
delivers); padding is zero. The outer header is ours, ``fixed_part.py``.
"""

from typing import NamedTuple

from fanfold.encodings.encoder import I64, Copy, Encoder, Turn
from fanfold.encodings.fixed_part import RTS, body_of, put_fixed, with_body
from fanfold.encodings.ground import Branches, Ground
from fanfold.encodings.tree_pack import pack, preorder
from fanfold.errors import WireError, WireReason

B_FLAG, D_FLAG, S_FLAG, L_FLAG, BITS_FLAG, R_FLAG = (1 << (7 - i) for i in range(6))
DELIVER = bytes([D_FLAG])
MAX_SHORT_SID = 1023
MAX_BITSTRING_BYTES = 31  # 5 bits of BSL; the draft says 0-32
MAX_PLAIN_RULL = 127
MAX_LIST_BYTES = 127 + (255 - 127) * 4
TOO_LONG = 2**20


class _Form(NamedTuple):
    """Shortest way to write a switch: bytes after flags and SID, and which of three it is."""

    n_bytes: int
    has_b: bool
    has_bits: bool


class Rts(Encoder):
    """One SID table for each switch: a row for each port."""

    def __init__(self, ground: Ground, limit_bits: int) -> None:
        super().__init__(ground, limit_bits)
        self._leaves: dict[int, list[int]] = {}

    def encode(self, source: int, members: I64) -> list[Copy]:
        """A packet for each piece of the tree that fits."""
        unit = f"{self.limit_bits} bits"
        copies = []
        for piece in pack(self.ground, source, members, self._fits, unit):
            root = self.ground.dst[piece.link]
            forms = self._forms(root, piece.branches)
            ru0 = self._written(root, piece.branches, forms)
            copies.append(Copy(piece.link, put_fixed(RTS, source, ru0)))
        return copies

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Sections 4.3.2 to 4.3.5: b, then the bits of the BitString, then units with a SID."""
        del came
        unit = _Unit(body_of(RTS, head), 0)
        first, n_lookups = self.ground.first_link(node), 0
        copies: list[Copy] = []
        if unit.flags & B_FLAG:
            n_lookups += 1
            copies += [Copy(k, with_body(head, DELIVER)) for k in self._leaf_links(node)]
        at = unit.list_at
        for port in unit.ports():
            link = first + port
            n_lookups += 1
            body = DELIVER
            if self.ground.dst[link] >= self.ground.net.n_hosts:
                sub = _Unit(unit.buf, at)
                body, at = sub.without_sid(), sub.end
            copies.append(Copy(link, with_body(head, body)))
        while at < unit.end and unit.buf[at] & S_FLAG:
            sub = _Unit(unit.buf, at)
            n_lookups += 1
            copies.append(Copy(first + sub.sid - 1, with_body(head, sub.without_sid())))
            at = sub.end
        return Turn(copies, n_lookups)

    def is_for(self, host: int, head: bytes) -> bool:
        """One unit that only says: deliver."""
        del host
        return body_of(RTS, head) == DELIVER

    def entries(self, router: int) -> int:
        """A SID for each port, and the list of all leaf neighbours."""
        return self.ground.n_ports(router) + 1

    def entry_bytes(self, router: int) -> int:
        """Leaf flag and port."""
        del router
        return 2

    def _leaf_links(self, node: int) -> list[int]:
        if node not in self._leaves:
            first = self.ground.first_link(node)
            links = range(first, first + self.ground.n_ports(node))
            n_hosts = self.ground.net.n_hosts
            self._leaves[node] = [k for k in links if self.ground.dst[k] < n_hosts]
        return self._leaves[node]

    def _fits(self, root: int, branches: Branches) -> bool:
        n_bytes = self._forms(root, branches)[root].n_bytes + 1
        return n_bytes < TOO_LONG and 8 * n_bytes <= self.limit_bits

    def _forms(self, root: int, branches: Branches) -> dict[int, _Form]:
        """Form of each router of a piece, those below first."""
        forms: dict[int, _Form] = {}
        for node in reversed(preorder(self.ground, root, branches)):
            forms[node] = min(
                self._form(node, branches[node], _Form(0, has_b, has_bits), forms)
                for has_b in (False, True)
                for has_bits in (False, True)
            )
        return forms

    def _form(self, node: int, links: list[int], kind: _Form, forms: dict[int, _Form]) -> _Form:
        """One form of a router: how long it is, TOO_LONG where it cannot be written so."""
        below = set(self._leaf_links(node)) if kind.has_b else set()
        if kind.has_b and not (below and below <= set(links)):
            return kind._replace(n_bytes=TOO_LONG)
        named = [link for link in links if link not in below]
        n_bits = self._bitstring_bytes(node)
        if kind.has_bits and (not named or n_bits > MAX_BITSTRING_BYTES):
            return kind._replace(n_bytes=TOO_LONG)
        n_list = 0
        for link in named:
            form = forms.get(self.ground.dst[link])
            opened = 1 if kind.has_bits else self._sid_bytes(link, node)
            if form is not None or not kind.has_bits:
                n_list += opened + (form.n_bytes if form else 0)
        if n_list > MAX_LIST_BYTES:
            return kind._replace(n_bytes=TOO_LONG)
        bits = 1 + n_bits if kind.has_bits else 0
        return kind._replace(n_bytes=_padded(n_list) + (1 if n_list else 0) + bits)

    def _bitstring_bytes(self, node: int) -> int:
        return -(-self.ground.n_ports(node) // 8)

    def _sid_bytes(self, link: int, node: int) -> int:
        """Flags and SID of a unit in a list."""
        return 2 if link - self.ground.first_link(node) + 1 <= MAX_SHORT_SID else 3

    def _written(self, root: int, branches: Branches, forms: dict[int, _Form]) -> bytes:
        """RU0: every unit below a SID list has its SID, every other one has none."""
        bodies: dict[int, tuple[int, bytes]] = {}
        for node, form in forms.items():
            first = self.ground.first_link(node)
            leaves = set(self._leaf_links(node)) if form.has_b else set()
            named = [link for link in branches[node] if link not in leaves]
            units = b""
            for link in named:
                sid = 0 if form.has_bits else link - first + 1
                if self.ground.dst[link] in bodies:
                    units += _opened(*bodies[self.ground.dst[link]], sid)
                elif sid:
                    units += _opened(D_FLAG, b"", sid)
            bits = self._bitstring(node, named) if form.has_bits else b""
            bodies[node] = _closed(form, bits, units)
        return _opened(*bodies[root], 0)

    def _bitstring(self, node: int, links: list[int]) -> bytes:
        n_bytes, first = self._bitstring_bytes(node), self.ground.first_link(node)
        bits = sum(1 << (8 * n_bytes - 1 - (link - first)) for link in links)
        return bytes([n_bytes << 3]) + bits.to_bytes(n_bytes)


class _Unit:
    """One recursive unit where it stands in a buffer."""

    def __init__(self, buf: bytes, at: int) -> None:
        self.buf, self.at = buf, at
        self.flags = self._byte(at)
        self.n_open = 1 if not self.flags & S_FLAG else 3 if self.flags & L_FLAG else 2
        at += self.n_open
        n_list = 0
        if self.flags & R_FLAG:
            n_list = self._byte(at)
            n_list = n_list if n_list <= MAX_PLAIN_RULL else 127 + (n_list - 127) * 4
            at += 1
        self.n_bits = 0
        if self.flags & BITS_FLAG:
            self.n_bits = 8 * (self._byte(at) >> 3)
            at += 1
        self.bits_at = at
        self.list_at = at + self.n_bits // 8
        self.end = self.list_at + n_list
        if self.end > len(buf):
            raise WireError("rts", WireReason.TRUNCATED, len(buf))

    @property
    def sid(self) -> int:
        """The SID: 10 or 18 bits behind the flags."""
        n_bits = 8 * self.n_open - 6
        return int.from_bytes(self.buf[self.at : self.at + self.n_open]) & ((1 << n_bits) - 1)

    def ports(self) -> list[int]:
        """Ports from 0 whose bit is set."""
        bits = int.from_bytes(self.buf[self.bits_at : self.list_at])
        return [p for p in range(self.n_bits) if bits >> (self.n_bits - 1 - p) & 1]

    def without_sid(self) -> bytes:
        """The unit as the switch gets it that it is for."""
        flags = self.flags & ~(S_FLAG | L_FLAG) & 0xFC
        return bytes([flags]) + self.buf[self.at + self.n_open : self.end]

    def _byte(self, at: int) -> int:
        if at >= len(self.buf):
            raise WireError("rts", WireReason.TRUNCATED, len(self.buf))
        return self.buf[at]


def _padded(n_list: int) -> int:
    """Bytes of an RU-list that RULL can tell."""
    return n_list if n_list <= MAX_PLAIN_RULL else 127 + -(-(n_list - 127) // 4) * 4


def _closed(form: _Form, bits: bytes, units: bytes) -> tuple[int, bytes]:
    """Flags without S and L, and all that follows flags and SID."""
    flags = (B_FLAG if form.has_b else 0) | (BITS_FLAG if bits else 0)
    rull = b""
    if units:
        flags |= R_FLAG
        n_list = _padded(len(units))
        units += bytes(n_list - len(units))
        rull = bytes([n_list if n_list <= MAX_PLAIN_RULL else 127 + (n_list - 127) // 4])
    return flags, rull + bits + units


def _opened(flags: int, rest: bytes, sid: int) -> bytes:
    """A unit: flags, SID where there is one, and the rest."""
    if sid == 0:
        return bytes([flags]) + rest
    if sid <= MAX_SHORT_SID:
        return ((flags | S_FLAG) << 8 | sid).to_bytes(2) + rest
    return ((flags | S_FLAG | L_FLAG) << 16 | sid).to_bytes(3) + rest
