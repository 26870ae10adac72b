"""What one run of one scheme gave, whichever fidelity or driver produced it.

Letters: H = hosts, L = directed links of the net, I = items of the program.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
N_LINK_CLASSES = 4
DATA, REPAIR, ACK, FEEDBACK = range(N_LINK_CLASSES)
"""Traffic classes of a link: first sendings, sent again, unicast control, fan feedback."""
NOT_DONE = -1


class Outcome(NamedTuple):
    """One run.

    fidelity: "packet", "train" or "flow". end_ps: when the last item was done.
    host_ps: (H,) when a host had received all it was to, 0 where that is nothing, NOT_DONE.
    item_ps: (I,) when an item was done at its sender, NOT_DONE.
    got_bytes: (H,) payload delivered, each byte once. due_bytes: (H,) what was due.
    link_pkts, link_bytes: (L, N_LINK_CLASSES). link_drops: (L,) packets lost on or before it.
    link_trims: (L,) packets cut to their header. link_peak_bytes: (L,) deepest queue.
    feedback_at_source: (I,) feedback packets that reached the source of a fan, acknowledgements
    that reached the source of a message. repairs: packets and bytes that sources sent again.
    n_folds: slots completed, partial, unfolded. n_hops, n_events: of this run.
    stuck: one line for each item that could not finish (at most some), empty when all did.
    reason: why the run stopped. arrays: of sums, joined in slots of BFRs, passed on by BFRs
    without a slot for them, sent up before all had come. sum_slots: of each sum, in each BFR
    that had some for it.
    """

    fidelity: str
    end_ps: int
    host_ps: I64
    item_ps: I64
    got_bytes: I64
    due_bytes: I64
    link_pkts: I64
    link_bytes: I64
    link_drops: I64
    link_trims: I64
    link_peak_bytes: I64
    feedback_at_source: I64
    repairs: tuple[int, int]
    n_folds: tuple[int, int, int]
    n_hops: int
    n_events: int
    stuck: tuple[str, ...]
    reason: str
    arrays: tuple[int, int, int] = (0, 0, 0)
    sum_slots: tuple[int, ...] = ()
