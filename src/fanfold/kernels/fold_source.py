"""From whom a BFR takes FOLD packets (docs/wire/fold.md section 4).

A port that leads to one host is that host's: it speaks for itself, and sends down only what it
joined as the root of a group.
"""

from fanfold.kernels.absorb import WHAT_ARM, WHAT_ARRAY, WHAT_CLOSE, WHAT_HEARD
from fanfold.kernels.codes import DROP_NOT_MEMBER, DROP_NOT_MINE, DROP_WRONG_PORT
from fanfold.kernels.frame import find_bift
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import KIND_SPREAD
from fanfold.kernels.octets import ZERO, read_u16, read_u32
from fanfold.kernels.replicate import bit
from fanfold.kernels.shares import group_of
from fanfold.kernels.state import U8, U64, Ports, Rows
from fanfold.kernels.tables import Bifts
from fanfold.kernels.vat import NO_ROW, Vats, find_vat, is_from_root
from fanfold.kernels.vat_rows import IDLE_PS
from fanfold.kernels.vouch import is_host, speaks_for


@kernel
def check_fold(
    buf: U8,
    at: int,
    fan: int,
    n_words: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    ports: Ports,
    vats: Vats,
    bits: U64,
) -> int:
    """0 where a sound FOLD packet may come in by ``port``, else its drop code.

    Args:
        buf, at: the packet. fan: its FOLD header. n_words, bits: its BitString.
    """
    what, group = i64(buf[fan + 1]), group_of(buf, at, fan)
    is_down = i64(buf[fan]) & 0xF == KIND_SPREAD
    if is_down and (what == WHAT_ARRAY or (port != 0 and node[0]["is_end"] != 0)):
        return DROP_NOT_MINE  # results and words for ranks go to the port of their group
    at_host = is_host(bifts, ports, port)
    if what == WHAT_ARM:
        return check_arm(buf, at, fan, n_words, port, now_ps, ports, vats, bits, at_host)
    table = find_bift(bifts.ids, read_u32(buf, at) >> 12)
    is_own = speaks_for(bifts, table, port, bits, n_words)
    if is_down:
        may = not at_host or is_from_root(vats, group, bits, n_words, port)
        return 0 if may or (is_own and is_ping(buf, fan)) else DROP_WRONG_PORT
    vat = find_vat(vats, group, bits, n_words)
    r = vat if vat >= 0 or vat == NO_ROW else -2 - vat
    if not is_own and (at_host or r == NO_ROW or vats.rows[r]["is_laid"] == 0):
        return DROP_WRONG_PORT
    if what == WHAT_CLOSE and r != NO_ROW and vats.rows[r]["is_root"] != 0:
        armer = vats.rows[r]["armer"]
        return 0 if armer == 0 or is_named(armer, bits, n_words) else DROP_NOT_MEMBER
    return 0


@kernel
def is_ping(buf: U8, fan: int) -> bool:
    """A HEARD that a rank sends to its own BFR, to get it back."""
    return buf[fan + 1] == WHAT_HEARD and buf[fan + 19] == 1


@kernel
def is_named(bfr_id: int, bits: U64, n_words: int) -> bool:
    """The bit of a BFR-id is set; of which set is not looked at."""
    k = (bfr_id - 1) % (64 * n_words)
    return bfr_id != 0 and bits[k // 64] & bit(k % 64) != ZERO


@kernel
def check_arm(
    buf: U8,
    at: int,
    fan: int,
    n_words: int,
    port: int,
    now_ps: int,
    ports: Ports,
    vats: Vats,
    bits: U64,
    at_host: bool,
) -> int:
    """0 where an ARM may come in by ``port``: a rank arms its own group, only a root turns it.

    A group that stands is armed by who armed it first, or by another of its ranks.
    """
    armer, group = read_u16(buf, at + 10), group_of(buf, at, fan)
    is_down = i64(buf[fan]) & 0xF == KIND_SPREAD
    is_own = armer == ports.bfr_id[port] and is_named(armer, bits, n_words)
    if at_host and not is_down and not is_own:
        return DROP_WRONG_PORT
    if at_host and is_down and read_u16(buf, fan + 16) != ports.bfr_id[port]:
        return DROP_WRONG_PORT
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        if row["used"] == 0 or row["group"] != group or row["used_ps"] + IDLE_PS <= now_ps:
            continue
        if at_host and is_down and row["n_slots"] > 0 and row["port"] != port:
            return DROP_WRONG_PORT
        if row["armer"] == 0 or row["armer"] == armer:
            continue
        if row["is_root"] == 0 and is_down:
            if row["port"] != port:
                return DROP_NOT_MEMBER  # the root stays, whichever of its ranks arms it
        elif (row["is_root"] != 0 or at_host) and not is_named(armer, vats.a_bm[r], n_words):
            return DROP_NOT_MEMBER
    return 0
