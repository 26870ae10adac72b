"""Elmo-like source routes: bitmaps for the layers of a Clos, in the header.

Elmo (Shahbaz and others, 2019); fields as in its switch programs: the source's leaf and spine
have a rule each, the core a bitmap of pods, then come p-rules of the spines of other pods and
of leaves, each a bitmap and the switches it is for. Every layer takes its own part off. What
no p-rule names falls to an s-rule in the switch, or to the default bitmap, which reaches hosts
that are no receivers.

Assumed: two bits before each list say whether p-rules and a default follow (there, one p-rule
always does); the tunnel header gives way to ``fixed_part.py``.
"""

from typing import NamedTuple

from fanfold.core.flight import members_of
from fanfold.encodings.bit_field import NO_BITS, BitReader, Bits
from fanfold.encodings.clos import clos_of
from fanfold.encodings.elmo_rules import SHARED, Rules, cluster
from fanfold.encodings.encoder import I64, Copy, Encoder, Refusal, Turn
from fanfold.encodings.fixed_part import ELMO, body_of, put_fixed, with_body
from fanfold.encodings.ground import Ground

BUDGET_BITS = 325 * 8
"""Longest header of the paper's study."""
LEAF_REDUNDANCY, SPINE_REDUNDANCY = 8, 16
"""R of each layer: one port in so many; of the paper's 48 ports that is 6 and 3."""
SPINE_SHARE = 4
"""Spine rules get at most one part of so many of the room."""
HEADER = "elmo"


class _List(NamedTuple):
    """Sizes of a list of p-rules: bits of a bitmap, of a switch's number."""

    n_ports: int
    id_bits: int

    @property
    def rule_bits(self) -> int:
        """Of a p-rule that names as many switches as it may."""
        return self.n_ports + 1 + SHARED * (self.id_bits + 1)


class _Up(NamedTuple):
    """What the source's leaf or spine does: bitmap below it, and whether to go on up."""

    bitmap: int
    is_up: bool


class Elmo(Encoder):
    """P-rules, then s-rules or a default bitmap."""

    def __init__(self, ground: Ground, limit_bits: int, *, is_stored: bool) -> None:
        super().__init__(ground, limit_bits)
        self.is_stored = is_stored
        self.clos = clos = clos_of(ground)
        self.room = min(limit_bits, BUDGET_BITS)
        self.leaf_list = _List(clos.n_places, max(1, (clos.n_leaves - 1).bit_length()))
        self.spine_list = _List(clos.n_slots, max(1, (clos.n_pods - 1).bit_length()))
        self.stored: dict[tuple[int, int], int] = {}

    def encode(self, source: int, members: I64) -> list[Copy]:
        """One packet; rows that an earlier group left are taken out."""
        self.stored.clear()
        self.group_entries.clear()
        clos = self.clos
        bitmaps = self._bitmaps(members)
        own = int(clos.leaf_of[source])
        mine = bitmaps.pop(own, 0)
        pod = int(clos.pod_of[own])
        slots: dict[int, int] = {}
        for leaf in bitmaps:
            at = int(clos.pod_of[leaf])
            slots[at] = slots.get(at, 0) | 1 << int(clos.slot_of[leaf])
        near = slots.pop(pod, 0)
        bits = self._up_rule(NO_BITS, _Up(mine, bool(bitmaps)), clos.n_places, clos.n_up(1))
        if bitmaps:
            up = _Up(near, bool(slots))
            bits = self._up_rule(bits, up, clos.n_slots, clos.n_up(2))
            if slots:
                bits = bits.then(sum(1 << at for at in slots), clos.n_pods)
                bits = bits.then(*self._spine_rules(slots))
            bits = bits.then(*self._leaf_rules(bitmaps, self.room - bits.n))
        if bits.n > self.room:
            raise Refusal(f"a header of {bits.n} bits; switches read {self.room}")
        link = self.ground.first_link(source)
        return [Copy(link, put_fixed(ELMO, source, bits.padded()))]

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Take this layer's rule, take the layer off, send to the ports it names."""
        clos = self.clos
        body = BitReader(HEADER, body_of(ELMO, head))
        tier = clos.tier(node)
        n_lookups, up, rise = 1, _Up(0, is_up=False), b""
        if clos.tier(int(self.ground.net.src[came])) < tier < 3:
            up = self._read_up(tier, body)
            bitmap, rise = up.bitmap, body.rest()
            if tier == 2 and up.is_up:  # leaves of this pod need nothing of other pods
                body.take(clos.n_pods)
                _read(body, self.spine_list, -1)
        elif tier == 3:
            bitmap = body.take(clos.n_pods)
        else:
            bitmap, n_lookups = self._ruled(node, tier, body)
        below = with_body(head, body.rest() if tier > 1 else b"")
        links = clos.down_links(node)
        copies = [Copy(links[at], below) for at in members_of(bitmap) if at in links]
        if up.is_up:
            copies.append(Copy(clos.up_links(node)[0], with_body(head, rise)))
        return Turn(copies, n_lookups)

    def entries(self, router: int) -> int:
        """Its own number, and the group of its links up."""
        del router
        return 2

    def entry_bytes(self, router: int) -> int:
        """A bitmap of ports."""
        return -(-self.ground.n_ports(router) // 8)

    def _bitmaps(self, members: I64) -> dict[int, int]:
        found: dict[int, int] = {}
        leaves, places = self.clos.leaf_of[members], self.clos.place_of[members]
        for leaf, place in zip(leaves.tolist(), places.tolist(), strict=True):
            found[leaf] = found.get(leaf, 0) | 1 << place
        return found

    def _up_rule(self, bits: Bits, up: _Up, n_down: int, n_up: int) -> Bits:
        """Bitmap below, bitmap above (multipath stands for it), multipath, more to come."""
        return bits.then(up.bitmap, n_down).then(0, n_up).then(up.is_up, 1).then(up.is_up, 1)

    def _read_up(self, tier: int, body: BitReader) -> _Up:
        clos = self.clos
        n_down, n_up = (
            (clos.n_places, clos.n_up(1)) if tier == 1 else (clos.n_slots, clos.n_up(2))
        )
        bitmap = body.take(n_down)
        body.take(n_up + 1)
        return _Up(bitmap, bool(body.take(1)))

    def _spine_rules(self, slots: dict[int, int]) -> Bits:
        n_rules = max(1, self.room // SPINE_SHARE // self.spine_list.rule_bits)
        rules = cluster(
            slots, n_rules, self.clos.n_slots // SPINE_REDUNDANCY, is_stored=self.is_stored
        )
        for pod, bitmap in rules.stored.items():
            for spine in self.clos.spines_of(pod):
                self._store(2, spine, bitmap)
        return _written(rules, self.spine_list)

    def _leaf_rules(self, bitmaps: dict[int, int], room: int) -> Bits:
        spare = room - 2 - (0 if self.is_stored else self.leaf_list.n_ports)
        n_rules = max(0, spare // self.leaf_list.rule_bits)
        if spare < 0:
            raise Refusal(f"rules of spines and cores leave no room in {self.room} bits")
        rules = cluster(
            bitmaps, n_rules, self.clos.n_places // LEAF_REDUNDANCY, is_stored=self.is_stored
        )
        for leaf, bitmap in rules.stored.items():
            self._store(1, int(self.clos.leaves[leaf]), bitmap)
        return _written(rules, self.leaf_list)

    def _store(self, tier: int, node: int, bitmap: int) -> None:
        self.stored[tier, node] = bitmap
        self.group_entries[node] = self.group_entries.get(node, 0) + 1

    def _ruled(self, node: int, tier: int, body: BitReader) -> tuple[int, int]:
        """Bitmap of a switch below the top, and rows read: the p-rules', then its table's."""
        form = self.leaf_list if tier == 1 else self.spine_list
        name = self.clos.leaf_number[node] if tier == 1 else self.clos.pod(node)
        matched, default = _read(body, form, name)
        if matched is not None:
            return matched, 1
        return self.stored.get((tier, node), default), 2


def _written(rules: Rules, form: _List) -> Bits:
    """A list: are there p-rules, is there a default; the p-rules; the default."""
    bits = NO_BITS.then(bool(rules.shared), 1).then(bool(rules.default), 1)
    for i, (bitmap, switches) in enumerate(rules.shared):
        bits = bits.then(bitmap, form.n_ports)
        for j, switch in enumerate(switches):
            bits = bits.then(switch, form.id_bits).then(j < len(switches) - 1, 1)
        bits = bits.then(i < len(rules.shared) - 1, 1)
    return bits.then(rules.default, form.n_ports) if rules.default else bits


def _read(body: BitReader, form: _List, name: int) -> tuple[int | None, int]:
    """Bitmap of the p-rule that names a switch, None without one; the default bitmap."""
    has_rules, has_default = body.take(1), body.take(1)
    matched = None
    while has_rules:
        bitmap, has_id = body.take(form.n_ports), 1
        while has_id:
            if body.take(form.id_bits) == name:
                matched = bitmap
            has_id = body.take(1)
        has_rules = body.take(1)
    return matched, body.take(form.n_ports) if has_default else 0
