"""Ranks that are late: who is not waited for, and how long a slot waits.

A slot keeps the shortest patience of its arrays. Below the root half of it is waited, so that
what came in time is at the root in time. Without patience nothing here has an effect
(docs/wire/fold.md section 5).
"""

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.state import U64
from fanfold.kernels.vat import FLUSHED_BM, HEARD_BM, Vats


@kernel
def is_whole_but_late(vats: Vats, at: int, n_words: int) -> bool:
    """Everyone is in the slot but ranks that are not waited for."""
    vat = vats.slots[at]["vat"]
    for w in range(n_words):
        seen = vats.words[at, HEARD_BM, w] | vats.words[at, FLUSHED_BM, w]
        if vats.a_bm[vat, w] & ~(seen | vats.late_bm[vat, w]) != ZERO:
            return False
    return True


@kernel
def note_late(vats: Vats, at: int, n_words: int) -> None:
    """Whoever lacks in a slot whose time is over is not waited for in the blocks to come."""
    vat = vats.slots[at]["vat"]
    for w in range(n_words):
        seen = vats.words[at, HEARD_BM, w] | vats.words[at, FLUSHED_BM, w]
        vats.late_bm[vat, w] |= vats.a_bm[vat, w] & ~seen


@kernel
def note_here(vats: Vats, vat: int, bits: U64, n_words: int) -> None:
    """Ranks that were heard are waited for again."""
    for w in range(n_words):
        vats.late_bm[vat, w] &= ~bits[w]


@kernel
def wait_of(vats: Vats, at: int) -> int:
    """How long a slot below the root waits: half of the patience at most."""
    patience = vats.slots[at]["patience_ps"]
    return vats.clock[1] if patience == 0 else min(vats.clock[1], patience // 2)


@kernel
def be_patient(vats: Vats, at: int, patience_ps: int) -> None:
    """Keep the shortest patience of a slot's arrays, none where one of them has none."""
    slot = vats.slots[at]
    slot["patience_ps"] = patience_ps
    if patience_ps == 0:
        return
    if vats.rows[slot["vat"]]["is_root"] != 0:
        vats.clock[0] = min(vats.clock[0], slot["began_ps"] + patience_ps)
        return
    slot["deadline_ps"] = min(slot["deadline_ps"], slot["began_ps"] + wait_of(vats, at))
    vats.clock[0] = min(vats.clock[0], slot["deadline_ps"])


@kernel
def leave_out(vats: Vats, at: int, n_words: int) -> None:
    """The root has decided: whoever is not in the array will not be added."""
    a_bm = vats.a_bm[vats.slots[at]["vat"]]
    for w in range(n_words):
        vats.words[at, FLUSHED_BM, w] |= a_bm[w] & ~vats.words[at, HEARD_BM, w]


@kernel
def lacks_some(vats: Vats, at: int, n_words: int) -> bool:
    """Somebody expected is not in the array of a slot."""
    a_bm = vats.a_bm[vats.slots[at]["vat"]]
    for w in range(n_words):
        if a_bm[w] & ~vats.words[at, HEARD_BM, w] != ZERO:
            return True
    return False
