"""Blocks of a power of two: pods, leaves and hosts named by a prefix each.

PEEL (HotNets 2025), as its authors' page tells it; its text was not at hand, so the layout is
ours: three fields of 16 bits, block of pods, of leaves in a pod, of hosts on a leaf. Blocks of
m places are numbered as a binary heap, 1 is all, 2 and 3 are the halves. A switch has one
static rule for each block of its own ports. A packet reaches all hosts in the product of its
three blocks, so scattered receivers take many packets.

Exact, or covering: a covering block may hold places of no receiver, up to one in four at each
layer; those hosts get copies they throw away. No switch sends back where a packet came from.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from fanfold.encodings.clos import clos_of
from fanfold.encodings.encoder import I64, Copy, Encoder, Refusal, Turn
from fanfold.encodings.fixed_part import PREFIX, body_of, put_fixed
from fanfold.encodings.ground import Ground

_FIELDS = Struct("!HHH")
FIELDS_BITS = 48
FILL = 4
"""Covering: of so many places of a block one may be no receiver's."""

Places = frozenset[int]
Leaves = dict[int, Places]
"""Places of receivers on the leaves of a pod, by slot."""


class _Row(NamedTuple):
    """A row of m places, m a power of two, to be covered by blocks.

    wanted: places that must be in just one block. idle: that may be in any, nothing is sent
    there. free: where no receiver is, so that only a covering block may hold them.
    """

    m: int
    wanted: Places
    idle: Places
    free: Places


class PrefixBlocks(Encoder):
    """Every packet is one product of blocks."""

    def __init__(self, ground: Ground, limit_bits: int, *, is_covering: bool) -> None:
        super().__init__(ground, limit_bits)
        self.is_covering = is_covering
        self.clos = clos = clos_of(ground)
        sizes = (clos.n_pods, clos.n_slots, clos.n_places)
        self.m_pods, self.m_slots, self.m_places = (1 << (n - 1).bit_length() for n in sizes)

    def encode(self, source: int, members: I64) -> list[Copy]:
        """The own leaf, then the own pod, then all others; alike ones share packets."""
        if self.limit_bits < FIELDS_BITS:
            raise Refusal(f"{FIELDS_BITS} bits of blocks; switches read {self.limit_bits}")
        clos, own = self.clos, int(self.clos.leaf_of[source])
        pod, slot = int(clos.pod_of[own]), int(clos.slot_of[own])
        pods = self._places(members)
        mine = pods.pop(pod, {})
        here, there = self.m_pods + pod, self.m_slots + slot
        hosts = mine.pop(slot, frozenset())
        idle = frozenset({int(clos.place_of[source])})
        packets = [(here, there, block) for block in self._host_blocks(hosts, idle)]
        packets += [(here, *below) for below in self._pod_packets(mine, frozenset({slot}))]
        alike: dict[frozenset[tuple[int, Places]], set[int]] = {}
        for at, leaves in pods.items():
            alike.setdefault(frozenset(leaves.items()), set()).add(at)
        others = self._beyond(self.m_pods, clos.n_pods) | {pod}
        free = frozenset(range(clos.n_pods)) - pods.keys() - {pod}
        for content, some in alike.items():
            inside = self._pod_packets(dict(content), frozenset())
            for block in self._blocks(_Row(self.m_pods, frozenset(some), others, free)):
                packets += [(block, *below) for below in inside]
        link = self.ground.first_link(source)
        return [Copy(link, put_fixed(PREFIX, source, _FIELDS.pack(*p))) for p in packets]

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """One rule: the block of this switch's ports, or up; never back."""
        clos, tier = self.clos, self.clos.tier(node)
        back = int(self.ground.net.src[came])
        pods, slots, places = _FIELDS.unpack(body_of(PREFIX, head))
        if self._goes_up(node, back, pods, slots):
            return Turn([Copy(clos.up_links(node)[0], head)], 1)
        blocks = ((places, self.m_places), (slots, self.m_slots), (pods, self.m_pods))
        block, m = blocks[tier - 1]
        origin = clos.index(back) if clos.tier(back) < tier else -1
        links = clos.down_links(node)
        low, size = _span(block, m)
        places = (at for at in range(low, low + size) if at != origin and at in links)
        return Turn([Copy(links[at], head) for at in places], 1)

    def _goes_up(self, node: int, back: int, pods: int, slots: int) -> bool:
        """From below, and not for exactly this pod, at a leaf this leaf."""
        clos, tier = self.clos, self.clos.tier(node)
        if clos.tier(back) > tier or tier == 3:
            return False
        is_here = pods == self.m_pods + clos.pod(node)
        return not (is_here and (tier == 2 or slots == self.m_slots + clos.index(node)))

    def entries(self, router: int) -> int:
        """A rule for each block of the ports below, and one for the way up."""
        n_down = len(self.clos.down_links(router))
        return (
            2 * (1 << (n_down - 1).bit_length()) - 1 + (1 if self.clos.up_links(router) else 0)
        )

    def entry_bytes(self, router: int) -> int:
        """A bitmap of ports."""
        return -(-self.ground.n_ports(router) // 8)

    def _places(self, members: I64) -> dict[int, Leaves]:
        """Places of members by pod and slot."""
        clos = self.clos
        found: dict[int, dict[int, set[int]]] = {}
        leaves = clos.leaf_of[members]
        rows = (clos.pod_of[leaves], clos.slot_of[leaves], clos.place_of[members])
        for pod, slot, place in zip(*(row.tolist() for row in rows), strict=True):
            found.setdefault(pod, {}).setdefault(slot, set()).add(place)
        return {
            pod: {slot: frozenset(places) for slot, places in leaves.items()}
            for pod, leaves in found.items()
        }

    def _pod_packets(self, leaves: Leaves, idle: Places) -> list[tuple[int, int]]:
        """Blocks of leaves and of hosts for one pod; leaves with the same places together."""
        alike: dict[Places, set[int]] = {}
        for slot, places in leaves.items():
            alike.setdefault(places, set()).add(slot)
        others = self._beyond(self.m_slots, self.clos.n_slots) | idle
        free = frozenset(range(self.clos.n_slots)) - leaves.keys() - idle
        return [
            (block, hosts)
            for places, some in alike.items()
            for block in self._blocks(_Row(self.m_slots, frozenset(some), others, free))
            for hosts in self._host_blocks(places, frozenset())
        ]

    def _host_blocks(self, places: Places, idle: Places) -> list[int]:
        others = self._beyond(self.m_places, self.clos.n_places) | idle
        free = frozenset(range(self.clos.n_places)) - places - idle
        return list(self._blocks(_Row(self.m_places, places, others, free)))

    def _beyond(self, m: int, n: int) -> Places:
        """Places that no switch has."""
        return frozenset(range(n, m))

    def _blocks(self, row: _Row) -> Iterator[int]:
        """Fewest blocks that hold the wanted places, each in one of them."""
        waiting = [1]
        while waiting:
            block = waiting.pop()
            low, size = _span(block, row.m)
            places = frozenset(range(low, low + size))
            if not places & row.wanted:
                continue
            other = places - row.wanted - row.idle
            n_spare = size // FILL if self.is_covering else 0
            if other <= row.free and len(other) <= n_spare:
                yield block
            else:
                waiting += [2 * block + 1, 2 * block]


def _span(block: int, m: int) -> tuple[int, int]:
    """First place of a block and its size."""
    size = m >> (block.bit_length() - 1)
    return (block * size) - m, size
