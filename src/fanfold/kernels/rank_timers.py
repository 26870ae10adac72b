"""How long a rank waits: one set of rules for ranks live and simulated.

live/rank_words.py and live/rank_loop.py follow them by the clock of the machine, and
sim/loop/ranks.py by one that runs as many times faster as round trips are shorter.
"""

import numpy as np

from fanfold.kernels.jit import kernel

FIRST_CWND = 16
RTO_LEAST_PS = 10_000_000_000
RTO_MOST_PS = 1_000_000_000_000
ARM_FIRST_PS = 20_000_000_000
ARM_AGAIN_PS = 500_000_000_000
REORDER_PS = 1_000_000_000
QUEUE_PS = 25_000_000_000
"""Waiting in queues aimed at, beyond twice the least round trip: it bridges busy processors."""
MOST_PATIENCE = 6
"""Doublings of the timeout while only what was asked for comes: round trips have grown."""
MOST_ASKED = 8
"""Blocks asked for by timeout at once: one tells as much as all."""
MOST_LOST = 8
"""The congestion window halves when more than one block in so many had to be sent again."""


@kernel
def note_round(row: np.void, rtt_ps: int) -> None:
    """Take a round trip into the mean and the deviation of a row (RFC 6298 sections 2.2, 2.3).

    Args:
        row: a rank's, with srtt_ps and var_ps; 0 before the first. rtt_ps: 1 or more.
    """
    if row["srtt_ps"] == 0:
        row["srtt_ps"], row["var_ps"] = rtt_ps, rtt_ps // 2
    else:
        row["var_ps"] += (abs(rtt_ps - row["srtt_ps"]) - row["var_ps"]) // 4
        row["srtt_ps"] += (rtt_ps - row["srtt_ps"]) // 8


@kernel
def rto_of(row: np.void) -> int:
    """How long a block waits before it is asked for, by a row with a patience too, in ps."""
    rto = max(2 * row["srtt_ps"] + 4 * row["var_ps"], RTO_LEAST_PS)
    return min(rto << row["patience"], RTO_MOST_PS)
