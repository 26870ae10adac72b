"""What receivers lacked of the first sending of each block: who missed a packet together.

BitStrings are integers, bit k = bit index k. Only what all who were sent a block have told of
counts, and what BFRs repaired themselves is in no word.
"""

MAX_BLOCKS = 4096
"""With gaps, of which it is kept who lacked what."""
MAX_SETS = 64
"""Different sets of receivers in one block; more say that it is no link."""


class GapBook:
    """Packets that were lacked, by block and by the set of those who lacked them."""

    def __init__(self) -> None:
        self.audience = 0
        """To whom the blocks went; others are not counted."""
        self.n_blocks = 0
        self.n_packets = 0
        self.blocks: list[dict[int, int]] = []
        """Of blocks with gaps: who lacked a packet -> how many packets."""

    def add(self, sent_to: int, told: int, n_psn: int, gaps: dict[int, int]) -> None:
        """All have told of a block's first sending; gaps: psn -> who lacked it."""
        if not self.n_blocks:
            self.audience = sent_to
        if sent_to != self.audience or told != sent_to or len(self.blocks) >= MAX_BLOCKS:
            return
        self.n_blocks += 1
        self.n_packets += n_psn
        sets: dict[int, int] = {}
        for bits in gaps.values():
            if bits and (bits in sets or len(sets) < MAX_SETS):
                sets[bits] = sets.get(bits, 0) + 1
        if sets:
            self.blocks.append(sets)
