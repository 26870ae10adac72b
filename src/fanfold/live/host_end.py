"""A rank's end of a group whose ranks are all at one host; the same batches as ``RankEnd``.

No packet leaves the host and no BFR has slots for the group: there is no window to ask for, no
root, no branch. A rank that ends is seen by its lock (host_memory.py), within LOOK_PS.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanfold.kernels.reduce import KIND_F64, WORD_FIX32, WORD_FIX64
from fanfold.kernels.words import is_fixed, word_of_kind
from fanfold.live import host_loop as loop
from fanfold.live import host_state as h
from fanfold.live.clock import now_ps, pause, start_ps
from fanfold.live.host_memory import HostMemory
from fanfold.live.rank import NO_BATCH, Batch
from fanfold.live.rank_late import OVERTAKEN, UNLIKE
from fanfold.live.rank_loop import DONE, GONE, LATE, WOKEN
from fanfold.live.rank_state import B_BYTES, B_DST, N_COLUMNS, NOTHING
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND

KNOCK_PS, MOST_KNOCK_PS = PS_PER_SECOND // 1000, PS_PER_SECOND // 50
"""Between two looks for rank 0, twice as long each time; as a rule it is there before."""
ENDED = -1
"""``gone``: another rank has ended."""
NO_BLOCK = np.full((1, N_COLUMNS), NOTHING, np.int64)
NO_BLOCK[0, B_BYTES] = 0
"""In the place of none: ranks meet in each operation."""


class HostEnd:
    """A rank's memory and state; one batch at a time.

    Args:
        members: the host's name for each rank. rank: which of them this is.

    Raises:
        EnvironmentLack: the group's number is in use at the host.
    """

    is_laid = False

    def __init__(
        self, fabric: Fabric, members: Sequence[str], rank: int, *, group: int
    ) -> None:
        self.fabric, self.members = fabric, tuple(members)
        self._rank, n = rank, len(members)
        address = fabric.by_name[members[rank]].address
        self._memory = HostMemory(address, group, rank, h.memory_bytes_of(n))
        self.block_bytes = h.block_bytes_of(n)
        self.state = h.build_host(rank, n, self._memory.mem)
        self.is_stopped = self._is_recalled = False
        self._is_begun = False
        self._gone = 0
        self._n_bytes = [0, 0]
        self._warm()

    def _warm(self) -> None:
        """Compile or load what an operation calls, on memory of this rank's own."""
        room = np.zeros(h.memory_bytes_of(len(self.members)), np.uint8)
        state, self.state = self.state, self.state._replace(mem=room)
        self._load(NO_BATCH)
        loop.begin_host(self.state)
        loop.serve_host(self.state, 0)
        loop.end_host(self.state, 0)
        loop.call_host(self.state)
        self.state = state
        self.state.ints[h.CALLED] = 0

    def run(self, batch: Batch, until_ps: int, *, may_end: bool = False) -> int:
        """Write a batch and read its results; a code of ``host_loop`` or ``rank_loop``.

        Args:
            may_end: ``recall`` ends it too; the same batch may be run later.
        """
        self._gone = 0
        if not self._join(until_ps, may_end=may_end):
            return WOKEN if self._is_called(may_end=may_end) else LATE
        self._load(batch)
        if not self._is_begun:
            loop.begin_host(self.state)
        self._is_begun = True
        code = self._serve(until_ps, may_end=may_end)
        if code == DONE or self._gone == UNLIKE:
            self._is_begun = False
            n_past = len(self.state.blocks) if code == DONE else h.PLACES
            loop.end_host(self.state, n_past)  # behind all that any rank wrote
        return code

    def _serve(self, until_ps: int, *, may_end: bool) -> int:
        while True:
            code = loop.serve_host(self.state, until_ps + start_ps())
            if code == WOKEN:
                self.state.ints[h.CALLED] = 0
                if self._is_called(may_end=may_end):
                    return code
            elif code == loop.LOOK:
                self._gone = self._why_stuck()
                if self._gone:
                    return GONE
            else:
                self._gone = UNLIKE if code == GONE else 0
                return code

    def _is_called(self, *, may_end: bool) -> bool:
        is_called = self.is_stopped or (may_end and self._is_recalled)
        self._is_recalled = False
        return is_called

    def _join(self, until_ps: int, *, may_end: bool) -> bool:
        """Have the memory that rank 0 made; False: it was not there in time."""
        wait_ps = KNOCK_PS
        while not self._memory.join():
            if now_ps() >= until_ps or self.is_stopped or (may_end and self._is_recalled):
                return False
            pause(min(wait_ps, max(until_ps - now_ps(), 0)))
            wait_ps = min(2 * wait_ps, MOST_KNOCK_PS)
        if not len(self.state.mem):
            self.state = self.state._replace(mem=self._memory.mem)
        self._memory.lock()
        self._words(h.HERE_AT)[self._rank] = 1
        return True

    def _load(self, batch: Batch) -> None:
        ints = self.state.ints
        is_sum = is_fixed(batch.kind, batch.op)
        word = WORD_FIX64 if batch.kind == KIND_F64 else WORD_FIX32
        ints[h.KIND], ints[h.OP], ints[h.ASKED] = batch.kind, batch.op, batch.asked
        ints[h.WORD] = word if is_sum else word_of_kind(batch.kind, batch.op)
        blocks = batch.blocks if len(batch.blocks) else NO_BLOCK
        ints[h.N_BLOCKS] = len(blocks)
        self.state.share[0] = batch.share
        self.state = self.state._replace(blocks=blocks, src=batch.src, dst=batch.dst)

    def _words(self, what: int) -> Any:
        """A word of each rank."""
        n = len(self.members) * h.RANK_BYTES
        return self.state.mem[:n].view(np.int64)[what // 8 :: h.RANK_BYTES // 8]

    def missing(self) -> list[int]:
        """Ranks that this one waits for."""
        if not len(self.state.mem):
            return [0]
        ints = self.state.ints
        g, is_whole = ints[h.BASE] + ints[h.TAKEN], ints[h.IS_WHOLE]
        for what in (h.POSTED_AT,) if is_whole else (h.POSTED_AT, h.JOINED_AT):
            behind = np.flatnonzero(self._words(what) <= g).tolist()
            if behind and behind != [self._rank]:
                return [r for r in behind if r != self._rank]
        return np.flatnonzero(self._words(h.TAKEN_AT) <= g - h.PLACES).tolist()

    def ended(self) -> list[int]:
        """Of the ranks that this one waits for, those that have ended, or left."""
        here = self._words(h.HERE_AT) if len(self.state.mem) else ()
        return [r for r in self.missing() if len(here) and here[r] and not self._is_alive(r)]

    def _is_alive(self, rank: int) -> bool:
        return self._memory.is_alive(rank)

    def _why_stuck(self) -> int:
        if self.ended():
            return ENDED
        gave_up = self._words(h.GAVE_UP_AT)
        return OVERTAKEN if any(gave_up[r] for r in self.missing()) else 0

    def gone(self) -> int:
        """Why this rank cannot go on: UNLIKE, OVERTAKEN, ENDED; 0: it can."""
        return self._gone

    def give_up(self) -> None:
        """Let a rank that is late know that nobody waits for it any more."""
        if len(self.state.mem):
            self._words(h.GAVE_UP_AT)[self._rank] = 1

    def flags(self) -> int:
        """Flags of all results of the last batch."""
        return int(self.state.ints[h.FLAGS])

    def not_finite(self) -> Any:
        """Blocks that are to be mended: none, values that are not finite are in the sums."""
        return np.zeros(0, np.int64)

    def flushed(self) -> int:
        """Values of the last batch that went as 0: none, each has an exponent."""
        return 0

    def divide(self, dtype: Any) -> None:
        """Integer means of the last batch, rounded down."""
        for row in self.state.blocks:
            if row[B_DST] != NOTHING:
                values = self.state.dst[row[B_DST] : row[B_DST] + row[B_BYTES]].view(dtype)
                np.floor_divide(values, len(self.members), out=values)

    def counters(self) -> dict[str, int]:
        """How often it slept for others, and parts with values that are not finite."""
        ints = self.state.ints
        return {"sleeps": int(ints[h.N_SLEEPS]), "not_finite_parts": int(ints[h.N_BAD])}

    def ask_for_slots(self, n_blocks: int) -> None:
        """There are none."""

    def has_fewer_slots(self) -> bool:
        """None are asked for."""
        return False

    def recall(self) -> None:
        """End a wait that may end, from another thread."""
        self._is_recalled = True
        self.wake()

    def wake(self) -> None:
        """End the current wait, from another thread."""
        loop.call_host(self.state)

    def leave(self) -> None:
        """Nobody keeps anything for this group."""

    def close(self) -> None:
        """Give the memory back."""
        self.state = self.state._replace(mem=np.zeros(0, np.uint8))
        self._memory.close()
