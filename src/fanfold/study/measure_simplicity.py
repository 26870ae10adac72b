"""Simplicity: messages and tables that a group needs, rows looked up, spread of receivers."""

import numpy as np

from fanfold.results.outcome import Outcome
from fanfold.study.gap_ground import PPM, Ground, Numbers, SchemeRow
from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.measure_dynamics import sparse_run
from fanfold.study.measure_sparseness import HOST_TREES, Sparse, best_row, quiet_run
from fanfold.trees.catalog import protocol_of


def measure_simplicity(
    ground: Ground, row: SchemeRow, sparse: Sparse, base: Outcome | None
) -> Numbers:
    """Control messages and state of one sparse group; spread of the large one.

    Args:
        base: of the large group, None where no such run was made.
    """
    numbers = _of_trees(ground, row) if row.protocol else _of_others(row, sparse, base)
    if base is not None:
        numbers["spread_ppm"] = spread_ppm(base, ground.receivers)
    return numbers


def spread_ppm(base: Outcome, receivers: tuple[int, ...]) -> int:
    """How much later 99 of 100 receivers are done than half of them."""
    done = np.sort(base.host_ps[list(receivers)])
    if done[0] < 0:
        return NEVER_HERE
    half, most = (int(done[(done.size * per_mille - 1) // 1000]) for per_mille in (500, 990))
    return PPM * (most - half) // half


def _of_trees(ground: Ground, row: SchemeRow) -> Numbers:
    quiet = quiet_run(ground.net, row, ground.members)
    kinds = {message.kind for message in sparse_run(ground, row).messages}
    twice = 1 + row.is_doubled
    return {
        "control_msgs": twice * sum(message.n for message in quiet.messages),
        "message_kinds": len(kinds),
        "state_kinds": len(protocol_of(row.protocol).machine.keys),
        "state_entries": twice * sum(state.n_entries for state in quiet.states),
        "most_entries": twice * max(state.n_entries for state in quiet.states),
        "lookups_per_pkt": 1,
    }


def _of_others(row: SchemeRow, sparse: Sparse, base: Outcome | None) -> Numbers:
    """No router knows the group; BFRs that fold have slots, a row for each packet.

    The source of a ring or tree of hosts tells each of them its neighbours, and is answered.
    """
    has_slots = base is not None and sum(base.n_folds) > 0
    is_told = row.name in HOST_TREES
    rows = best_row(row, sparse.near.rows)
    return {
        "control_msgs": 2 * len(sparse.near.members) * is_told,
        "message_kinds": 2 * is_told,
        "state_kinds": int(has_slots),
        "state_entries": 0,
        "most_entries": 0,
        "lookups_per_pkt": -(-rows.n_lookups // rows.n_visits) + has_slots,
    }
