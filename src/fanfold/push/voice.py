"""A receiver's words on blocks, written straight from what it collects."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from fanfold.kernels.collect import Collect
from fanfold.kernels.jit import bind
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.speak import WHOLE_ROW, speak
from fanfold.kernels.state import U8, Fold, Rows, build_fold


class Voice:
    """One BFER's; arrays are those of its node, as PushReceiver has them."""

    def __init__(self, bfr_id: int, collect: Collect, node_row: Rows, n_words: int) -> None:
        self._collect, self._node_row = collect, node_row
        self._own: Fold = build_fold(1, n_words)
        self._index = (bfr_id - 1) % (64 * n_words)
        self._out = np.zeros(1 << 16, np.uint8)

    @cached_property
    def _speak(self) -> Callable[..., int]:
        given = self._node_row, self._index, self._own, 0, self._out
        return bind(speak, self._collect, 0, 0, WHOLE_ROW, *given)

    def words(self, f: int, block: int, r: int) -> Iterator[U8]:
        """FEEDBACK on a block of the flow of row ``f``, one packet or more.

        r: row that collects it, whose gaps are told; WHOLE_ROW: all of it is here.
        """
        collect, out = self._collect, self._out
        psn = 0 if f >= 0 else MAX_PSN
        while psn < MAX_PSN:
            own = self._node_row, self._index, self._own, psn, out
            size, psn = divmod(self._speak(collect, f, block, r, *own), 128)
            yield out[:size]
