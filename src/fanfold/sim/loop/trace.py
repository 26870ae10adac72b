"""The time line of one packet: what the loop notes while it runs (``fanfold explain``)."""

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.replicate import bit
from fanfold.sim.loop.rows import (
    I64,
    N_TRACE,
    N_WORDS,
    NOW,
    PK_ARRAY,
    PK_FAN,
    TRACE_PSN,
    TRACE_STREAM,
    U64,
    World,
)


@kernel
def trace(q: I64, world: World, pkt_bits: U64, p: int, node: int) -> None:
    """Note the arrival of the traced packet, of a copy of it, or of an answer to it."""
    pkt = world.pkts[p]
    owner = -2 - pkt["stream"] if pkt["kind"] >= PK_ARRAY else pkt["stream"]
    if owner != q[TRACE_STREAM] or q[N_TRACE] >= world.log.shape[0]:
        return
    psn = q[TRACE_PSN]
    if pkt["kind"] == PK_FAN:
        if pkt["psn"] != psn // 64 or pkt_bits[p, q[N_WORDS]] & bit(psn % 64) == ZERO:
            return
    elif pkt["kind"] > PK_FAN:
        if pkt["psn"] != psn // 64:
            return
    elif pkt["psn"] != psn:
        return
    row = world.log[q[N_TRACE]]
    row[0], row[1], row[2], row[3] = q[NOW], pkt["link"], pkt["kind"], pkt["bytes"]
    row[4], row[5] = node, pkt["span_ps"]
    q[N_TRACE] += 1
