"""Who of a set says nothing: slots do not wait for them, until they are heard again.

A slot that waits for its deadline tells late of all who spoke. Where a receiver has died, every
slot would: so whoever two slots waited for in vain, and said nothing else meanwhile, is silent,
and left out of the wait. One word of it ends that; until then its words go up as they come.

Planes of a set: SPOKE in this period and BEFORE, in the one before; MISSED by a slot since they
spoke; SILENT.
"""

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.state import (
    A_BM,
    BEFORE,
    GONE,
    MISSED,
    P_BM,
    SILENT,
    SPOKE,
    U64,
    Fold,
    Rows,
)

PERIOD_PART = 2
"""Of the shortest deadline of a slot: so long a period is; who is missed was silent for one."""
BEGAN, IS_ANY = 0, 1
"""Of ``Fold.turn``: when the period began; 1 where somebody was missed."""


@kernel
def note_spoke(
    fold: Fold, which: int, heard: U64, n_words: int, node: Rows, now_ps: int
) -> None:
    """A word of these came, whatever slot took it.

    Args:
        which: set that they are of. heard: (W,).
    """
    turn_period(fold, node, now_ps)
    planes = fold.silent[which]
    for w in range(n_words):
        planes[SPOKE, w] |= heard[w]
    if fold.turn[IS_ANY] != 0:
        for w in range(n_words):
            planes[MISSED, w] &= ~heard[w]
            planes[SILENT, w] &= ~heard[w]


@kernel
def note_missed(fold: Fold, at: int, node: Rows, now_ps: int) -> None:
    """A slot's deadline came: who it waited for, and who said nothing lately, was missed."""
    turn_period(fold, node, now_ps)
    row, words = fold.rows[at], fold.words[at]
    planes = fold.silent[row["which"]]
    for w in range(row["n_words"]):
        spoke = words[P_BM, w] | words[GONE, w] | planes[SPOKE, w] | planes[BEFORE, w]
        missed = words[A_BM, w] & ~spoke
        if missed != ZERO:
            planes[SILENT, w] |= missed & planes[MISSED, w]
            planes[MISSED, w] |= missed
            fold.turn[IS_ANY] = 1


@kernel
def turn_period(fold: Fold, node: Rows, now_ps: int) -> None:
    """Begin a period where the last one is over."""
    period_ps = max(node[0]["fold_ps"] // PERIOD_PART, 1)
    passed_ps = now_ps - fold.turn[BEGAN]
    if passed_ps < period_ps:
        return
    fold.turn[BEGAN] = now_ps
    for s in range(fold.silent.shape[0]):
        for w in range(fold.silent.shape[2]):
            last = fold.silent[s, SPOKE, w] if passed_ps < 2 * period_ps else ZERO
            fold.silent[s, BEFORE, w] = last
            fold.silent[s, SPOKE, w] = ZERO


@kernel
def leave_out(fold: Fold, at: int, behind: U64) -> None:
    """A slot below waited in vain: who is behind it, and was not heard, is left out.

    Args:
        behind: (W,), who is behind the port of that word.
    """
    row, words = fold.rows[at], fold.words[at]
    for w in range(min(row["n_words"], behind.shape[0])):
        words[GONE, w] |= words[A_BM, w] & behind[w] & ~words[P_BM, w]
