"""What the compiled loop notes of neighbours: when each was heard, what it said, traffic.

A HELLO that says what the last one said is a sign of life and no news: Python sees others only.
A port that is shut, by hand, lets nothing in and nothing out.
"""

from fanfold.kernels.codes import (
    CLASS_FEEDBACK,
    CLASS_FOLD,
    DROP_LINK_DOWN,
    OF_LINK,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.state import I64, Plan
from fanfold.live.sock import (
    BARE,
    END,
    NEXT,
    PORT,
    SEG,
    STIR,
    STIRRED,
    Sock,
)

SILENT = 0
NOTE = 1
TELL = 2
"""Of STIR: whether traffic is noted, and told at once; SILENT once it was."""


@kernel
def take_in(sock: Sock, drops: I64, when: int) -> None:
    """Note that the neighbour at the port of the block in hand lives, or drop it: shut.

    Of a handshake anybody may be the sender.
    """
    ints = sock.ints
    if ints[NEXT] >= ints[END]:
        return
    if sock.exits[ints[PORT]]["shut"] != 0:
        drops[DROP_LINK_DOWN] += (ints[END] - ints[NEXT] + ints[SEG] - 1) // ints[SEG]
        ints[NEXT] = ints[END]
    elif ints[BARE] == 0:
        sock.heard[ints[PORT]] = when


@kernel
def note_traffic(sock: Sock, plan: Plan) -> None:
    """Something passes that is not of neighbours only."""
    ints = sock.ints
    if ints[STIR] != SILENT and plan.kind[0] != OF_LINK:
        ints[STIRRED] = i64(ints[STIR] == TELL)
        ints[STIR] = SILENT


@kernel
def is_known(sock: Sock, at: int, n: int) -> bool:
    """The packet at ``at``, one of ``n`` bytes, is the HELLO that the port brought last."""
    said = sock.hellos[sock.ints[PORT]]
    if i64(said[0]) != n or n == 0:
        return False
    unlike = 0
    for i in range(n):
        unlike |= i64(said[1 + i]) ^ i64(sock.buf[at + i])
    return unlike == 0


@kernel
def has_other(sock: Sock, plan: Plan, first: int) -> bool:
    """Something other than DATA, arrays and HELLOs known is planned for the node itself."""
    seg, end = sock.ints[SEG], sock.ints[END]
    for i in range(plan.n[0]):
        k = plan.pkt[0, i]
        kind = plan.kind[k]
        if kind < CLASS_FEEDBACK or kind == CLASS_FOLD:
            continue
        at = first + k * seg
        if kind != OF_LINK or not is_known(sock, at, min(seg, end - at)):
            return True
    return False
