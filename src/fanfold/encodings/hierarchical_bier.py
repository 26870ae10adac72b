"""Two levels of BIER: bits for pods outside, bits for a pod's hosts inside.

McBride's ChiNOG slides name it, no draft describes it, so the layout is ours. The outer header
of RFC 8296 has a bit for each pod (rack, where all is one pod). Between it and the payload
stands a stack: one entry for each pod and set, domain and SI of 8 bits, then the set's
BitString. The first switch of a pod on the way, its border, takes its own entries, imposes for
each an RFC 8296 header of the pod's own numbers, and forwards by those; other switches never
look at the stack. So a border keeps nothing for a group.
"""

import numpy as np

from fanfold.encodings.domains import OUTSIDE, domains_of, places_of
from fanfold.encodings.encoder import I64, Copy, Encoder, Refusal, Turn
from fanfold.encodings.flat_bier import NO_HOST, TTL, BiftStore, SetKey
from fanfold.encodings.ground import Ground
from fanfold.wire import bier
from fanfold.wire.bitstring import MAX_BSL, MIN_BSL, bift_id, bitstring_bits, bsl_of_bits

OUTER = 255
"""Sub-domain of the bits for pods; a pod's own sub-domain is its number."""
MAX_DOMAINS = OUTER
MAX_STACK_BYTES = 512
"""Of one packet; as long as the longest BitString. Only borders read it."""
PROTO_STACK = 62
"""Next protocol of the outer header: the stack; not assigned."""


class HierarchicalBier(Encoder):
    """BitStrings of both levels are the shortest that hold all, up to ``n_bits``."""

    def __init__(self, ground: Ground, limit_bits: int, n_bits: int) -> None:
        super().__init__(ground, limit_bits)
        self.n_bits = n_bits
        self.place = places_of(ground.net)
        self.domain = domains_of(ground.net, self.place)
        self.sizes = np.bincount(self.place)
        order = np.argsort(self.place, kind="stable")
        self._first = np.concatenate([[0], np.cumsum(self.sizes)])
        self._hosts = order
        self.number = np.empty_like(order)
        self.number[order] = np.arange(order.size) - self._first[self.place[order]]
        self.outer_bsl = _bsl(self.sizes.size, n_bits)
        self.inner_bsl = _bsl(int(self.sizes.max()), n_bits)
        self._store = BiftStore(ground, self._hosts_of)
        self._leaks = False

    def encode(self, source: int, members: I64) -> list[Copy]:
        """Own pod by its own numbers; all other pods by one header for each set of pods."""
        if self.n_bits > self.limit_bits:
            raise Refusal(f"BitStrings of {self.n_bits} bits; switches read {self.limit_bits}")
        if not 2 <= self.sizes.size <= MAX_DOMAINS:
            raise Refusal(f"2..{MAX_DOMAINS} pods or racks, not {self.sizes.size}")
        net = self.ground.net
        up = net.src < net.n_hosts
        if (self.domain[net.dst[up]] != self.place[net.src[up]]).any():
            raise Refusal("hosts hang on switches outside their pod or rack: no border there")
        own = int(self.place[source])
        bfir_id = source + 1 & 0xFFFF
        entries = self._entries(own, members)
        heads = [self._inner_head(entry, bfir_id) for entry in entries]
        width = bitstring_bits(self.outer_bsl)
        pods = np.unique(self.place[members])
        pods = pods[pods != own]
        for si in np.unique(pods // width).tolist():
            some = pods[pods // width == si].tolist()
            entries = [entry for pod in some for entry in self._entries(pod, members)]
            n = MAX_STACK_BYTES // len(entries[0])
            for at in range(0, len(entries), n):
                heads.append(self._outer_head(si, entries[at : at + n], bfir_id))
        return [copy for head in heads for copy in self.forward(source, -1, head).copies]

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Inside a pod as BIER; outside as BIER by pods; at a border one becomes the other."""
        header = bier.decode(head)
        end = header.size_bytes
        domain = int(self.domain[node])
        if header.sub_domain != OUTER:
            self._leaks |= domain != header.sub_domain
            return self._store.replicate(node, head)
        stack = head[end:]
        width = bitstring_bits(self.outer_bsl)
        bits, n_lookups = header.bitstring, 0
        copies: list[Copy] = []
        is_mine = domain != OUTSIDE and domain // width == header.si
        if is_mine and bits >> domain % width & 1:
            bits &= ~(1 << domain % width)
            n_lookups += 1
            for entry in self._split(stack):
                if entry[0] == domain:
                    turn = self._store.replicate(node, self._inner_head(entry, header.bfir_id))
                    copies += turn.copies
                    n_lookups += turn.n_lookups
        onward = _with_bits(head[:end], bits)
        turn = self._store.replicate(node, onward)
        copies += [Copy(link, outer + stack) for link, outer in turn.copies]
        return Turn(copies, n_lookups + turn.n_lookups)

    def is_for(self, host: int, head: bytes) -> bool:
        """A header of the host's pod with its own bit alone."""
        header = bier.decode(head)
        si, bit = divmod(int(self.number[host]), bitstring_bits(self.inner_bsl))
        mine = (int(self.place[host]), si, 1 << bit)
        return (header.sub_domain, header.si, header.bitstring) == mine

    def entries(self, router: int) -> int:
        """A row for each pod, and for each host of the switch's own pod.

        Where shortest paths between hosts of a pod lead outside it, switches know all hosts.
        """
        domain = int(self.domain[router])
        if self._leaks:
            return int(self.sizes.size + self.ground.net.n_hosts)
        return int(self.sizes.size + (self.sizes[domain] if domain != OUTSIDE else 0))

    def entry_bytes(self, router: int) -> int:
        """F-BM and neighbour, of the longer of both BitStrings."""
        del router
        return bitstring_bits(max(self.outer_bsl, self.inner_bsl)) // 8 + 2

    def _hosts_of(self, key: SetKey) -> I64:
        """Hosts of a pod's set; of a set of pods the first host of each, on the way there."""
        domain, si = key
        width = bitstring_bits(self.outer_bsl if domain == OUTER else self.inner_bsl)
        hosts = np.full(width, NO_HOST, np.int64)
        if domain == OUTER:
            firsts = self._hosts[self._first[:-1]]
        else:
            firsts = self._hosts[self._first[domain] : self._first[domain + 1]]
        mine = firsts[si * width : (si + 1) * width]
        hosts[: mine.size] = mine
        return hosts

    def _entries(self, domain: int, members: I64) -> list[bytes]:
        """Stack entries of a pod, one for each set its members touch."""
        width = bitstring_bits(self.inner_bsl)
        numbers = self.number[members[self.place[members] == domain]]
        entries = []
        for si in np.unique(numbers // width).tolist():
            mine = numbers[numbers // width == si] % width
            bits = sum(1 << bit for bit in mine.tolist())
            entries.append(bytes([domain, si]) + bits.to_bytes(width // 8))
        return entries

    def _split(self, stack: bytes) -> list[bytes]:
        size = 2 + bitstring_bits(self.inner_bsl) // 8
        return [stack[at : at + size] for at in range(0, len(stack), size)]

    def _outer_head(self, si: int, entries: list[bytes], bfir_id: int) -> bytes:
        width = bitstring_bits(self.outer_bsl)
        bits = sum(1 << pod % width for pod in {entry[0] for entry in entries})
        head = _head(bift_id(self.outer_bsl, OUTER, si), bits, PROTO_STACK, bfir_id)
        return head + b"".join(entries)

    def _inner_head(self, entry: bytes, bfir_id: int) -> bytes:
        bits = int.from_bytes(entry[2:])
        table = bift_id(self.inner_bsl, entry[0], entry[1])
        return _head(table, bits, bier.PROTO_IPV4, bfir_id)


def _bsl(n: int, n_bits: int) -> int:
    """Code of the shortest BitString for n bits, or of the longest allowed."""
    return min(max(MIN_BSL, (n - 1).bit_length() - 5), MAX_BSL, bsl_of_bits(n_bits))


def _head(table: int, bits: int, proto: int, bfir_id: int) -> bytes:
    header = bier.BierHeader(
        bift_id=table, ttl=TTL, bfir_id=bfir_id, bitstring=bits, proto=proto
    )
    return bier.encode(header)


def _with_bits(head: bytes, bits: int) -> bytes:
    at = bier.FIXED_BYTES
    return head[:at] + bits.to_bytes(len(head) - at)
