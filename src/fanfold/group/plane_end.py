"""The ends of a rank in all planes of its group, as one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanfold.group.many_ends import ManyEnds
from fanfold.group.plane_split import span
from fanfold.group.plane_watchers import Watchers
from fanfold.group.strand_session import StrandSession
from fanfold.group.strands import Strand
from fanfold.group.wants import Teller
from fanfold.impair import Impairment
from fanfold.kernels.state import I64
from fanfold.live.rank_state import B_DST
from fanfold.live.worker import Worker

SAME = ("srtt_ps", "cwnd", "window", "host_root")
"""Counters that are no sums: of the first plane."""
NO_BLOCKS = np.zeros((0, 5), np.int64)


class PlaneEnd(ManyEnds):
    """Ends of a rank. strands: which plane each session is of.

    Attributes:
        kept: blocks of the last result, and the bytes they are in.
    """

    is_laid = False

    def __init__(
        self,
        members: Sequence[str],
        strands: Sequence[Strand],
        sessions: Sequence[StrandSession],
        watch: Watchers,
        teller: Teller,
    ) -> None:
        self.members = tuple(members)
        self._strands, self._watch, self._teller = strands, watch, teller
        self._ends = [session.strand_end for session in sessions]
        self.block_bytes = min(end.block_bytes for end in self._ends)
        self.workers = [Worker(f"fanfold-strand-{strand.group}") for strand in strands[1:]]
        self.kept: tuple[I64, NDArray[Any]] = NO_BLOCKS, np.zeros(0, np.uint8)
        self.n_changes = 0

    @property
    def is_stopped(self) -> bool:
        """Waits end."""
        return self._ends[0].is_stopped

    @is_stopped.setter
    def is_stopped(self, value: bool) -> None:
        for end in self._ends:
            end.is_stopped = value
        if value:
            self._watch.stop()

    def recall(self) -> None:
        """Leave what is under way, from another thread."""
        for end in self._ends:
            end.recall()

    def divide(self, dtype: Any) -> None:
        """Integer means of the last result, rounded down."""
        blocks, dst = self.kept
        first, last = span(blocks, B_DST)
        values = dst[first:last].view(dtype)
        np.floor_divide(values, len(self.members), out=values)

    def impair(self, place: int, impairment: Impairment, seed: int) -> None:
        """Let an impairment befall what arrives at this rank over one plane."""
        for end in (self._ends[place], self._watch.end_in(place)):
            end.impair(impairment, seed)

    def counters(self) -> dict[str, int]:
        """Of all planes together, and what each has sent; how often planes changed."""
        each = [end.counters() for end in self._ends]
        told = {
            name: n if name in SAME else sum(one[name] for one in each)
            for name, n in each[0].items()
        }
        for strand, one in zip(self._strands, each, strict=True):
            told[f"plane{strand.plane}_sent_bytes"] = one["sent_bytes"]
        used = len(self._watch.view.living())
        return told | {"planes_used": used, "plane_changes": self.n_changes}

    def close(self) -> None:
        """Give all back."""
        self._teller.close()
        self._watch.close()
        for worker in self.workers:
            worker.close()
        super().close()
