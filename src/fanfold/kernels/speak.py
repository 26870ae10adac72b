"""A receiver's word on one block, straight from what it collects (docs/wire/feedback.md)."""

import numpy as np

from fanfold.kernels.collect import FREE, Collect
from fanfold.kernels.due import gaps_of
from fanfold.kernels.feedback import NOT_TOLD, own_report, write_feedback
from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.state import DONE_BM, U8, Fold, Rows

WHOLE_ROW = -1
MAX_ROUND = 255


@kernel
def advance_floor(collect: Collect, f: int) -> int:
    """Lowest block of a flow that is not here yet."""
    follow = collect.follow[f]
    floor = follow["floor"]
    while floor < follow["map_len"] and collect.have[follow["map_at"] + floor] != 0:
        floor += 1
    follow["floor"] = floor
    return floor


@kernel
def speak(
    collect: Collect,
    f: int,
    block: int,
    r: int,
    node: Rows,
    own_index: int,
    own: Fold,
    psn: int,
    out: U8,
) -> int:
    """Write FEEDBACK of this BFER on one block.

    Args:
        collect: what it holds. f: row of the flow. block: which. r: row collecting it, or
            WHOLE_ROW when all of it is here. node: this BFER's row. own_index: its bit index.
        own: scratch table of one slot. psn: 0, or where the last packet left off.
        out: packet, overwritten.

    Returns:
        As ``write_feedback``: bytes * 128 + next PSN.
    """
    follow = collect.follow[f]
    row = own.rows[0]
    have = ~ZERO
    row["n_psn"] = follow["n_psn"]
    row["round"] = MAX_ROUND
    if follow["n_blocks"] != 0 and block == follow["n_blocks"] - 1:
        row["n_psn"] = follow["last_n_psn"]
    if r != WHOLE_ROW:
        have = ~gaps_of(collect, r)
        row["n_psn"] = collect.blocks[r]["n_psn"]
        row["round"] = collect.blocks[r]["round"]
    n_free = 0
    for i in range(collect.blocks.shape[0]):
        n_free += 1 if collect.blocks[i]["state"] == FREE else 0
    row["room"] = n_free * 255 // collect.blocks.shape[0]
    row["queue"] = node[0]["queue"]
    row["worst"] = node[0]["bfr_id"]
    row["partial"] = 0
    row["behind"] = min(max(block - advance_floor(collect, f), 0), NOT_TOLD)
    row["bfir_id"], row["flow"], row["block"] = follow["bfir_id"], follow["flow"], block
    row["bift_id"], row["n_words"] = follow["bift_id"], own.words.shape[2]
    row["entropy"] = follow["entropy"]
    row["flow_port"], row["bfir_addr"] = follow["flow_port"], follow["bfir_addr"]
    if psn == 0:
        own_report(own, own_index, np.uint64(have))
        if r != WHOLE_ROW:
            own.words[0, DONE_BM] = ZERO  # what is not known to be missing is not here yet
    return write_feedback(own, 0, node[0]["addr"], node[0]["mtu"], psn, out)
