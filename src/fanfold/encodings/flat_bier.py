"""Flat BIER: one bit for each host, RFC 8279, in a header of RFC 8296.

One packet names receivers of one set of one sub-domain; a message takes as many packets as its
receivers touch sets. Forwarding is the procedure of RFC 8279 section 6.5 to the letter.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fanfold.encodings.encoder import I64, Copy, Encoder, Refusal, Turn
from fanfold.encodings.ground import NO_LINK, Ground
from fanfold.topo.placement import Placement
from fanfold.wire import bier
from fanfold.wire.bitstring import bift_id, bsl_of_bits

TTL = 64
NO_HOST = -1

SetKey = tuple[int, int]
"""Sub-domain and SI."""


class Bift(NamedTuple):
    """One BIFT of one switch.

    nbr_of: link for each bit, NO_LINK where no BFER has it; as an array and as a list. f_bm: by
    link, filled when asked.
    """

    links: I64
    nbr_of: list[int]
    f_bm: dict[int, int]

    def mask(self, link: int) -> int:
        """F-BM: all bits whose way leads over a link (RFC 8279 section 6.4)."""
        if link not in self.f_bm:
            bits = np.packbits(self.links == link, bitorder="little").tobytes()
            self.f_bm[link] = int.from_bytes(bits, "little")
        return self.f_bm[link]


class BiftStore:
    """BIFTs of all switches, each made when the first packet asks for it.

    hosts_of: hosts of a set by bit index, NO_HOST where none has the bit.
    """

    def __init__(self, ground: Ground, hosts_of: Callable[[SetKey], I64]) -> None:
        self._ground = ground
        self._hosts_of = hosts_of
        self._sets: dict[SetKey, I64] = {}
        self._bifts: dict[tuple[int, SetKey], Bift] = {}

    def bift(self, node: int, key: SetKey) -> Bift:
        """Table of a switch for one set."""
        if (node, key) not in self._bifts:
            hosts = self._known(key)
            links = np.full(hosts.size, NO_LINK, np.int64)
            bits = np.nonzero(hosts != NO_HOST)[0]
            links[bits] = self._ground.next_links(node, hosts[bits])
            is_near = self._ground.net.dst[links[bits]] == hosts[bits]
            near = bits[is_near & (links[bits] != NO_LINK)].tolist()
            f_bm = {int(links[bit]): 1 << bit for bit in near}  # a host is behind its own link
            self._bifts[node, key] = Bift(links, links.tolist(), f_bm)
        return self._bifts[node, key]

    def replicate(self, node: int, head: bytes) -> Turn:
        """RFC 8279 section 6.5: lowest bit, its row, a copy with F-BM, those bits cleared."""
        header = bier.decode(head)
        bift = self.bift(node, (header.sub_domain, header.si))
        left, n_bytes = header.bitstring, len(head) - bier.FIXED_BYTES
        fixed, nbr_of = head[: bier.FIXED_BYTES], bift.nbr_of
        copies, n_lookups = [], 0
        while left:
            link = nbr_of[(left & -left).bit_length() - 1]
            n_lookups += 1
            mask = bift.mask(link)
            if link != NO_LINK:
                copies.append(Copy(link, fixed + (left & mask).to_bytes(n_bytes)))
            left &= ~mask
        return Turn(copies, n_lookups)

    def _known(self, key: SetKey) -> I64:
        if key not in self._sets:
            self._sets[key] = self._hosts_of(key)
        return self._sets[key]


class FlatBier(Encoder):
    """Sets of one length over all hosts, placed by ``topo/placement.py``."""

    def __init__(self, ground: Ground, limit_bits: int, placement: Placement) -> None:
        super().__init__(ground, limit_bits)
        self.n_bits = placement.bitstring_bits
        self.bsl = bsl_of_bits(self.n_bits)
        self.sub_domain = placement.sub_domain
        self.si, self.bit = np.divmod(placement.bfr_id - 1, self.n_bits)
        self._key = self.sub_domain << 8 | self.si
        self._keys: list[int] = self._key.tolist()
        self._bits: list[int] = self.bit.tolist()
        self._order = np.argsort(self._key, kind="stable")
        self._sorted = self._key[self._order]
        self._store = BiftStore(ground, self._hosts_of)

    def encode(self, source: int, members: I64) -> list[Copy]:
        """One packet for each set that members touch, and each first link they need."""
        if self.n_bits > self.limit_bits:
            raise Refusal(f"BitStrings of {self.n_bits} bits; switches read {self.limit_bits}")
        copies: list[Copy] = []
        bits = np.zeros((0,), np.int64)
        for key in np.unique(self._key[members]).tolist():
            bits = self.bit[members[self._key[members] == key]]
            head = self._head(key >> 8, key & 0xFF, source, bits)
            copies += self._store.replicate(source, head).copies
        return copies

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """RFC 8279 section 6.5."""
        del came
        return self._store.replicate(node, head)

    def is_for(self, host: int, head: bytes) -> bool:
        """The one bit that is left is the host's own."""
        table = int.from_bytes(head[:3]) >> 4
        bits = int.from_bytes(head[bier.FIXED_BYTES :])
        return bits == 1 << self._bits[host] and table == self.bsl << 16 | self._keys[host]

    def entries(self, router: int) -> int:
        """A row for each BFER of all sets (RFC 8279 section 6.4)."""
        del router
        return self.ground.net.n_hosts

    def entry_bytes(self, router: int) -> int:
        """F-BM and neighbour."""
        del router
        return self.n_bits // 8 + 2

    def _hosts_of(self, key: SetKey) -> I64:
        name = key[0] << 8 | key[1]
        low, high = np.searchsorted(self._sorted, [name, name + 1])
        mine = self._order[low:high]
        hosts = np.full(self.n_bits, NO_HOST, np.int64)
        hosts[self.bit[mine]] = mine
        return hosts

    def _head(self, sub_domain: int, si: int, source: int, bits: I64) -> bytes:
        """Header of one set; the BFIR-id is the source's in its own sub-domain."""
        flags = np.zeros(self.n_bits, np.uint8)
        flags[bits] = 1
        header = bier.BierHeader(
            bift_id=bift_id(self.bsl, sub_domain, si),
            ttl=TTL,
            bfir_id=int(self.si[source]) * self.n_bits + int(self.bit[source]) + 1,
            bitstring=int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little"),
        )
        return bier.encode(header)
