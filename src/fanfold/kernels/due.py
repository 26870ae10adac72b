"""When a receiver tells of the gaps of a block, and of which."""

import numpy as np

from fanfold.kernels.collect import FILLING, Collect
from fanfold.kernels.feedback import whole_block
from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64

MAX_AGAIN_PS = 2_000_000_000_000
"""Longest time between two reports of the same gaps."""


@kernel
def report_at(collect: Collect, r: int) -> int:
    """When the gaps of a block being collected are to be reported.

    When its report time has come, or, if no word on it was asked for or given yet, when a block
    two further on has begun: its last packets are then lost, not late.
    """
    row = collect.blocks[r]
    when = row["report_ps"]
    if row["polled"] == 0 and row["told"] == 0 and is_passed(collect, r):
        when = min(when, row["last_ps"] + collect.timing[0])
    return when


@kernel
def is_passed(collect: Collect, r: int) -> bool:
    """The sender's pass came two blocks further since this one's last packet: the rest is lost.

    A sender that serves late comers passes over the blocks again: what it sent of later ones
    before says nothing of this pass. Nor does what came by another port: of planes each goes at
    a pace of its own.
    """
    row = collect.blocks[r]
    follow = collect.follow[row["follow"]]
    if follow["front_port"] != row["port"]:
        return False
    return follow["front"] >= row["block"] + 2 and follow["front_ps"] >= row["last_ps"]


@kernel
def gaps_of(collect: Collect, r: int) -> np.uint64:
    """PSNs of a block that are known to be missing.

    What stands behind the highest PSN seen may not have been sent yet: it is missing only
    when the sender asked for a word, which it does last, or has passed on.
    """
    row = collect.blocks[r]
    gaps = ~row["have"] & whole_block(row["n_psn"])
    if row["polled"] != 0 or is_passed(collect, r):
        return gaps
    seen = row["have"]
    for shift in (1, 2, 4, 8, 16, 32):
        seen |= seen >> np.uint64(shift)
    return gaps & seen


@kernel
def repeat_at(collect: Collect, r: int, now_ps: int, again_ps: int) -> int:
    """When gaps that are being reported now are reported again.

    After ``again_ps`` at first; when no packet answers them for a while in steps of a quarter
    of it: the sender may be gone. A repair asks for a word itself.
    """
    silent_ps = now_ps - collect.blocks[r]["last_ps"]
    return now_ps + max(again_ps, min(silent_ps // 4, MAX_AGAIN_PS))


@kernel
def next_report(collect: Collect) -> int:
    """When ``due_reports`` finds the next row, NEVER_PS when nothing is being collected."""
    nearest = NEVER_PS
    for r in range(collect.blocks.shape[0]):
        if collect.blocks[r]["state"] == FILLING:
            nearest = min(nearest, report_at(collect, r))
    return nearest


@kernel
def due_reports(collect: Collect, now_ps: int, again_ps: int, out: I64) -> int:
    """Rows whose gaps are to be reported now; each is given its next report time here.

    Args:
        again_ps: shortest time between two reports of the same gaps (``repeat_at``).

    Returns:
        Rows written to ``out``. What finds no room in it stays due.
    """
    n = 0
    for r in range(collect.blocks.shape[0]):
        row = collect.blocks[r]
        due = row["state"] == FILLING and report_at(collect, r) <= now_ps
        if due and gaps_of(collect, r) == ZERO:
            row["report_ps"] = now_ps + collect.timing[1]
        elif due and n < out.shape[0]:
            row["told"], row["report_ps"] = 1, repeat_at(collect, r, now_ps, again_ps)
            out[n] = r
            n += 1
    return n
