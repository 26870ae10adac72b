"""Words of receivers as packets: FEEDBACK whose bytes stand in rows of their own, and ACKs."""

from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FEEDBACK_BYTES,
    INNER_BYTES,
    ROW_BYTES,
)
from fanfold.sim.loop.ports import free_pkt
from fanfold.sim.loop.rows import (
    AT_BODIES,
    CUT_BYTES,
    I64,
    N_BODIES,
    N_WORDS,
    NONE,
    NOW,
    PK_ECHO,
    PK_FEEDBACK,
    UNDERLAY,
    UPCALL_WORD,
    Row,
    Rows,
)
from fanfold.sim.loop.upcall import upcall

SIZE = 1 << 16
"""Two numbers in one: a packet * SIZE + a size or a port."""


@kernel
def take_body(q: I64) -> int:
    """A free row of bytes; the loop sees to it that there always are some."""
    q[N_BODIES] -= 1
    return q[q[AT_BODIES] + q[N_BODIES]]


@kernel
def word_pkt(q: I64, pkts: Rows, p: int, body: int, fan: int, block: int, size: int) -> None:
    """Make a row a FEEDBACK packet of a fan; its bytes stand in row ``body`` already."""
    pkt = pkts[p]
    pkt["kind"], pkt["stream"], pkt["psn"], pkt["n"] = PK_FEEDBACK, fan, block, 1
    pkt["bytes"], pkt["si"], pkt["labels"] = size + q[UNDERLAY], size, 0
    pkt["head"] = q[CUT_BYTES] if q[CUT_BYTES] > 0 else pkt["bytes"]
    pkt["ttl"], pkt["stamp"], pkt["path"] = 64, q[NOW], body
    pkt["span_ps"], pkt["marked"], pkt["trimmed"], pkt["again"], pkt["poll"] = 0, 0, 0, 0, 0
    pkt["link"] = NONE


@kernel
def shrink(q: I64, pkt: Row, n_bytes: int) -> None:
    """A word of one receiver by unicast: no BitString in it, four octets for each gap."""
    words = 8 * q[N_WORDS]
    gaps = pkt["si"] - BITS_AT - INNER_BYTES - FEEDBACK_BYTES - 3 * words
    pkt["bytes"] = n_bytes + gaps // (ROW_BYTES + words) * ROW_BYTES
    if q[CUT_BYTES] == 0:
        pkt["head"] = pkt["bytes"]


@kernel
def echo(q: I64, pkts: Rows, fan: Row, p: int, n: int) -> None:
    """Make DATA that a receiver has taken its ACK of ``n`` packets."""
    pkt = pkts[p]
    pkt["kind"], pkt["n"] = PK_ECHO, n
    pkt["bytes"] = n * fan["word"]
    pkt["head"] = q[CUT_BYTES] if q[CUT_BYTES] > 0 else fan["word"]
    pkt["ttl"], pkt["stamp"], pkt["span_ps"] = 64, q[NOW], 0
    pkt["marked"], pkt["again"], pkt["labels"], pkt["link"] = 0, 0, 0, NONE
    pkt["poll"] = 0


@kernel
def on_word_home(q: I64, pkts: Rows, fans: Rows, p: int) -> None:
    """FEEDBACK at its BFIR: an upcall to the sender, which frees its row.

    The ACK of a packet that did not make its block whole changes nothing at the sender.
    """
    pkt = pkts[p]
    fans[pkt["stream"]]["n_feedback"] += pkt["n"]
    if pkt["kind"] == PK_FEEDBACK:
        upcall(q, UPCALL_WORD, pkt["stream"], p * SIZE + pkt["si"])
    else:
        free_pkt(q, pkts, p)
