"""For whom a port may speak: BFERs that a shortest path leads to through it.

A word on behalf of a BFER, and data of a BFIR, count only where they come in by a port that
leads to it; of several equal paths any will do (docs/wire/bier-udp.md section 5). A table
without ``behind`` believes every port.
"""

from fanfold.kernels.codes import DROP_BAD_BFIR, DROP_WRONG_PORT
from fanfold.kernels.frame import find_bift
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import FEEDBACK_BYTES
from fanfold.kernels.octets import ZERO, read_u32, read_word
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import U8, U64, Ports
from fanfold.kernels.tables import Bifts

MAX_TTL = 64
"""Hops that any packet of fanfold's own begins with; what claims more is taken down to it."""
FIRST_PORT = 20_000
"""Lowest UDP port of a push or a group at a host: a last hop sends nothing below it."""


@kernel
def speaks_for(bifts: Bifts, table: int, port: int, bits: U64, n_words: int) -> bool:
    """Every bit is of a BFER behind the port."""
    if bifts.behind.shape[0] == 0:
        return True
    for w in range(n_words):
        if bits[w] & ~bifts.behind[table, port, w] != ZERO:
            return False
    return True


@kernel
def check_bfir(bifts: Bifts, table: int, port: int, bfir_id: int) -> int:
    """0 where the port leads to a BFIR, else the drop code. ``table``: of the packet."""
    if bifts.behind.shape[0] == 0:
        return 0
    if bfir_id == 0:
        return DROP_BAD_BFIR
    n_bits = 64 * bifts.n_words[table]
    si = (bfir_id - 1) // n_bits
    t = table
    if bifts.ids[table] & 0xFF != si:
        t = find_bift(bifts.ids, (bifts.ids[table] & ~0xFF) | si) if si < 256 else -1
    if t < 0:
        return DROP_BAD_BFIR
    k = (bfir_id - 1) % n_bits
    mine = bit(k % 64)
    if bifts.behind[t, port, k // 64] & mine != ZERO:
        return 0
    for p in range(bifts.behind.shape[1]):
        if bifts.behind[t, p, k // 64] & mine != ZERO:
            return DROP_WRONG_PORT
    return DROP_BAD_BFIR


@kernel
def is_host(bifts: Bifts, ports: Ports, port: int) -> bool:
    """A host is behind the port, and nobody else: it speaks for itself only."""
    if bifts.behind.shape[0] == 0 or ports.bfr_id[port] == 0:
        return False
    n_bits = 0
    for t in range(bifts.behind.shape[0]):
        for w in range(bifts.behind.shape[2]):
            rest = bifts.behind[t, port, w]
            while rest != ZERO:
                rest &= rest - bit(0)
                n_bits += 1
    return n_bits == 1


@kernel
def heard_behind(buf: U8, fan: int, n: int, bifts: Bifts, port: int) -> bool:
    """All that a FEEDBACK of ``n`` bytes calls heard is behind the port.

    What it calls done or lacking is part of that, or it is not sound.
    """
    if bifts.behind.shape[0] == 0:
        return True
    t = find_bift(bifts.ids, read_u32(buf, fan + 16) >> 12)
    if t < 0:
        return False
    n_words = bifts.n_words[t]
    if n < FEEDBACK_BYTES + 8 * n_words:
        return True
    for w in range(n_words):
        word = read_word(buf, fan + FEEDBACK_BYTES + 8 * (n_words - 1 - w))
        if word & ~bifts.behind[t, port, w] != ZERO:
            return False
    return True
