"""Slow twins of kernels: sets, dicts and Python ints, obviously right.

A BitString is an int, bit k = bit index k. What is a word in a kernel is an int below 2**64.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NO_NBR = -1
WORD = 1 << 64


def replicate(receivers: set[int], nbr_of: dict[int, int]) -> dict[int, set[int]]:
    """RFC 8279 section 6.5: receivers by BFR-NBR; those of the null next hop are dropped."""
    copies: dict[int, set[int]] = {}
    for receiver in receivers:
        if (nbr := nbr_of[receiver]) != NO_NBR:
            copies.setdefault(nbr, set()).add(receiver)
    return copies


def replicate_by_masks(
    bits: int, nbr_of: list[int], f_bm: dict[int, int]
) -> list[tuple[int, int]]:
    """RFC 8279 section 6.5 to the letter: (BFR-NBR, BitString) of each copy, null ones too."""
    copies = []
    while bits:  # step 2
        k = (bits & -bits).bit_length() - 1  # step 3
        nbr = nbr_of[k]  # steps 4 to 6
        copies.append((nbr, bits & f_bm[nbr]))  # step 7
        bits &= ~f_bm[nbr]  # step 8
    return copies


def replicate_any(
    bits: int, nbr_of: Sequence[int], f_bm: Mapping[int, int]
) -> tuple[dict[int, int], int]:
    """The same on a table that may be wrong: copies by BFR-NBR, and what led nowhere."""
    copies: dict[int, int] = {}
    nowhere = 0
    while bits:
        k = lowest_bit(bits)
        nbr = nbr_of[k]
        if not f_bm.get(nbr, 0) >> k & 1:  # the row is wrong: as if its next hop were null
            nbr = NO_NBR
        taken = bits & (f_bm[nbr] | 1 << k if nbr == NO_NBR else f_bm[nbr])
        if nbr == NO_NBR:
            nowhere |= taken
        else:
            assert nbr not in copies
            copies[nbr] = taken
        bits &= ~taken
    return copies, nowhere


def lowest_bit(word: int) -> int:
    """Index of the lowest set bit."""
    return next(k for k in range(word.bit_length()) if word >> k & 1)


def n_bits(word: int) -> int:
    """Set bits."""
    return bin(word).count("1")


def members(bits: int) -> set[int]:
    """Bit indices of a BitString."""
    return {k for k in range(bits.bit_length()) if bits >> k & 1}


def bits_of(indices: Iterable[int]) -> int:
    """BitString of bit indices."""
    return sum(1 << k for k in set(indices))


def words_of(octets: bytes) -> list[int]:
    """BitString on the wire to words: word 0 is the last eight bytes."""
    return [int.from_bytes(octets[i : i + 8], "big") for i in range(len(octets) - 8, -1, -8)]


def sum_octets(octets: bytes) -> int:
    """RFC 1071: ones-complement sum of 16-bit words, an odd last byte padded on the right."""
    total = 0
    for i in range(0, len(octets), 2):
        total += int.from_bytes(octets[i : i + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total


def split_mix(seed: int, n: int) -> list[int]:
    """SplitMix64, Steele, Lea and Flood 2014."""
    drawn = []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) % WORD
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
        drawn.append(z ^ z >> 31)
    return drawn


Key = tuple[int, int, int]
"""(BFIR-id, flow, block)"""


class Word(NamedTuple):
    """What FEEDBACK says, docs/wire/feedback.md; rows: psn -> who lacks it."""

    bift_id: int
    n_psn: int
    heard: int
    done: int
    rows: Mapping[int, int]
    round: int = 0
    queue: int = 0
    room: int = 255
    worst: int = 0
    n_merged: int = 1
    behind: int = 4095
    is_partial: bool = False


class Slot:
    """One slot: who is expected, and what was heard so far."""

    def __init__(self, bift_id: int, n_psn: int) -> None:
        self.bift_id, self.n_psn = bift_id, n_psn
        self.expected: set[int] = set()
        self.heard: set[int] = set()
        self.done: set[int] = set()
        self.lacking: dict[int, set[int]] = {}
        self.rounds = {255}
        self.signals = [(0, 0, 255, 0)]  # pressure, queue, room, whose
        self.n_merged = 0
        self.behind = {0}
        self.deadline_ps = self.wait_ps = self.armed_ps = 0
        self.is_late = False
        self.left_out: set[int] = set()

    def hear(self, word: Word) -> None:
        """Sets do not count twice."""
        self.heard |= members(word.heard)
        self.left_out -= self.heard
        self.done |= members(word.done)
        for psn, bits in word.rows.items():
            self.lacking.setdefault(psn, set()).update(members(bits))
        self.rounds.add(word.round)
        pressure = max(word.queue, 255 - word.room)
        self.signals.append((pressure, word.queue, word.room, word.worst))
        self.n_merged += word.n_merged
        self.behind.add(word.behind)

    def is_complete(self) -> bool:
        return self.expected <= self.heard | self.left_out

    def word(self, *, is_partial: bool = False) -> Word:
        """Who has the whole block lacks nothing; the first of the worst is named."""
        rows = {psn: bits_of(who - self.done) for psn, who in sorted(self.lacking.items())}
        return Word(
            bift_id=self.bift_id,
            n_psn=self.n_psn,
            heard=bits_of(self.heard),
            done=bits_of(self.done),
            rows={psn: bits for psn, bits in rows.items() if bits},
            round=min(self.rounds),
            queue=max(queue for _, queue, _, _ in self.signals),
            room=min(room for _, _, room, _ in self.signals),
            worst=max(self.signals, key=lambda signal: signal[0])[3],
            n_merged=min(self.n_merged, 0xFFFF),
            behind=max(self.behind),
            is_partial=is_partial,
        )


class Quiet:
    """Who was missed by slots and said nothing for a period: silent when missed twice.

    Sets hold (BIFT-id, bit).
    """

    def __init__(self, period_ps: int) -> None:
        self.period_ps, self.began_ps, self.is_any = period_ps, 0, False
        self.spoke: set[tuple[int, int]] = set()
        self.before: set[tuple[int, int]] = set()
        self.missed: set[tuple[int, int]] = set()
        self.silent: set[tuple[int, int]] = set()

    def hear(self, word: Word, now_ps: int, *, is_folded: bool = True) -> None:
        """A word that no slot took counts only where somebody was missed before."""
        if is_folded or self.is_any:
            self._turn(now_ps)
            heard = {(word.bift_id, k) for k in members(word.heard)}
            self.spoke |= heard
            self.missed -= heard
            self.silent -= heard

    def miss(self, slot: Slot, now_ps: int) -> None:
        """The deadline of a slot came."""
        self._turn(now_ps)
        owing = {(slot.bift_id, k) for k in slot.expected - slot.heard - slot.left_out}
        missed = owing - self.spoke - self.before
        self.is_any |= bool(missed)
        self.silent |= missed & self.missed
        self.missed |= missed

    def left_out(self, bift_id: int, bits: int) -> set[int]:
        """Who of a BitString is silent."""
        return {k for k in members(bits) if (bift_id, k) in self.silent}

    def _turn(self, now_ps: int) -> None:
        passed_ps = now_ps - self.began_ps
        if passed_ps >= self.period_ps:
            self.before = self.spoke if passed_ps < 2 * self.period_ps else set()
            self.spoke, self.began_ps = set(), now_ps


class Slots:
    """A slot table without a bound, one level above the leaves; what goes up is taken out."""

    def __init__(self, fold_ps: int) -> None:
        self.fold_ps = fold_ps
        self.lag_ps = self.lag_at_ps = 0
        self.slots: dict[Key, Slot] = {}
        self.quiet = Quiet(fold_ps // 2)

    def arm(self, key: Key, bift_id: int, n_psn: int, bits: int, now_ps: int) -> None:
        slot = self.slots.setdefault(key, Slot(bift_id, n_psn))
        if now_ps - self.lag_at_ps > 4 * self.fold_ps:
            self.lag_ps = 0
        slot.wait_ps = max(self.fold_ps, min(4 * self.lag_ps, 3 * self.fold_ps))
        slot.armed_ps, slot.deadline_ps, slot.is_late = now_ps, now_ps + slot.wait_ps, False
        if slot.bift_id == bift_id:
            slot.expected |= members(bits)
            slot.left_out -= members(bits)
            slot.left_out |= self.quiet.left_out(bift_id, bits)

    def fold(self, key: Key, word: Word, now_ps: int) -> Word | str:
        """What goes up when it is complete, "waits", or "passes" when no slot takes it."""
        slot = self.slots.get(key)
        if slot is None or (slot.bift_id, slot.n_psn) != (word.bift_id, word.n_psn):
            self.quiet.hear(word, now_ps, is_folded=False)
            return "passes"
        slot.hear(word)
        self.quiet.hear(word, now_ps)
        if slot.is_late:
            slot.is_late, slot.deadline_ps = False, now_ps + slot.wait_ps
        if not slot.is_complete():
            return "waits"
        lag_ps = min(now_ps - slot.armed_ps, 3 * self.fold_ps)
        self.lag_ps += (lag_ps - self.lag_ps) // 8
        self.lag_at_ps = now_ps
        slot = self.slots.pop(key)
        return slot.word(is_partial=not slot.expected <= slot.heard)

    def expire(self, now_ps: int) -> dict[Key, Word]:
        """Partial words of what is past its deadline; who heard nobody waits 16 times more."""
        over = {k: s for k, s in self.slots.items() if s.deadline_ps <= now_ps}
        for key, slot in over.items():
            self.quiet.miss(slot, now_ps)
            if slot.heard or slot.is_late:
                del self.slots[key]
            else:
                slot.is_late, slot.deadline_ps = True, now_ps + 16 * slot.wait_ps
        return {k: s.word(is_partial=True) for k, s in over.items() if s.heard}


def impose(
    payload: bytes, stride: int, bits: Sequence[int], wanted: int, flags: int
) -> list[tuple[int, int, int, bytes]]:
    """(psn, BitString, flags, payload) each; POLL 1 only on the last, unless REPAIR 4."""
    psns = [p for p in range(len(bits)) if wanted >> p & 1]
    return [
        (
            p,
            bits[p],
            flags if flags & 4 or p == psns[-1] else flags & ~1,
            payload[p * stride : (p + 1) * stride],
        )
        for p in psns
    ]


class Collector:
    """Blocks of one flow of known geometry, put together from packets in any order."""

    def __init__(self, n_bytes: int, stride: int, n_psn: int) -> None:
        self.n_bytes, self.stride, self.n_psn = n_bytes, stride, n_psn
        self.parts: dict[int, dict[int, bytes]] = {}
        self.whole: dict[int, bytes] = {}
        self.n_duplicates = 0

    def psns(self, block: int) -> int:
        block_bytes = min(
            self.n_bytes - block * self.stride * self.n_psn, self.stride * self.n_psn
        )
        return -(-block_bytes // self.stride)

    def take(self, block: int, psn: int, payload: bytes) -> None:
        parts = self.parts.setdefault(block, {})
        if block in self.whole or psn in parts:
            self.n_duplicates += 1
            return
        parts[psn] = payload
        if len(parts) == self.psns(block):
            self.whole[block] = b"".join(parts[p] for p in sorted(parts))

    def gaps(self, block: int) -> set[int]:
        return set(range(self.psns(block))) - set(self.parts.get(block, ()))


def hops(fabric: Any, source: str, target: str) -> int | None:
    """Links on a shortest path that no host passes on; None where there is none."""
    found, todo = {source: 0}, [source]
    for name in todo:
        if name == source or fabric.by_name[name].role == "bfr":
            new = [n for n in fabric.neighbours[name] if n not in found]
            found |= dict.fromkeys(new, found[name] + 1)
            todo += new
    return found.get(target)
