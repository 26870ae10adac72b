"""What a push should put on links: one copy of each block on the tree to those who lack it.

It follows from the manifest's geometry and from what each receiver's first READY says that it
lacks, never from what was sent: repairs, lanes of their own and receivers that forgot are more
than that, and show as more.
"""

from collections.abc import Mapping, Sequence

from fanfold.core.flight import Shape

UNDERLAY_BYTES = 28
"""IPv4 and UDP of a packet on a link."""


class Expected:
    """Who is to get each block of the data."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._need = [0] * shape.n_blocks
        self._heard = 0

    def note(self, bit: int, lacks: Sequence[int]) -> None:
        """A READY of a receiver; only its first one counts."""
        if self._heard >> bit & 1:
            return
        self._heard |= 1 << bit
        for block in lacks:
            self._need[block] |= 1 << bit

    def needs(self, ready: Mapping[int, Sequence[int]]) -> list[int]:
        """A BitString for each block, of those who are ready and lack it."""
        need = [0] * self._shape.n_blocks
        for bit, lacks in ready.items():
            for block in lacks:
                need[block] |= 1 << bit
        return need

    def copies(
        self, head_bytes: int, plan: Sequence[int] = (), plane: int = 0
    ) -> dict[int, tuple[int, int]]:
        """BitString -> packets and bytes of all packets that are for exactly these.

        Args:
            head_bytes: of all headers of a packet above UDP. plan: plane of each block as they
                were dealt before the start, none where there is one. plane: of which.
        """
        found: dict[int, tuple[int, int]] = {}
        for block, bits in enumerate(self._need):
            if bits and (not plan or plan[block] == plane):
                n = self._shape.psns(block)
                n_bytes = self._shape.bytes(block) + n * (head_bytes + UNDERLAY_BYTES)
                n_before, before = found.get(bits, (0, 0))
                found[bits] = n_before + n, before + n_bytes
        return found
