"""Simplicity: messages and tables that a group needs, rows looked up, spread of receivers."""

import numpy as np

from fanfold.results.outcome import Outcome
from fanfold.study.gap_ground import PPM, GapNet, Numbers, SchemeRow
from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.measure_dynamics import sparse_run
from fanfold.study.measure_sparseness import HOST_TREES, Sparse, best_row, quiet_run
from fanfold.trees.catalog import protocol_of
from fanfold.wire.catalog import CATALOG

SPOKEN = {
    "auto": ("ack",),
    "packet": ("ack",),
    "block": ("feedback",),
    "nack": ("nack",),
    "folded": ("feedback",),
}
"""Kinds of packets by which receivers speak."""
TOLD = ("neighbours", "answer")
PUSHED = tuple(
    codec.name for codec in CATALOG if codec.name in ("ask", "close", "feedback", "report")
)
"""What a push of fanfold needs beside DATA: headers of wire/catalog.py."""
FLOODED = ("prefix",)
"""A BFR-prefix with its BIER information, in the routing of the domain (RFC 8401, RFC 8444)."""


def measure_simplicity(
    ground: GapNet, row: SchemeRow, sparse: Sparse, base: Outcome | None
) -> Numbers:
    """Control messages and state of one sparse group; spread of the large one.

    Args:
        base: of the large group, None where no such run was made.
    """
    numbers = _of_trees(ground, row) if row.protocol else _of_others(ground, row, sparse, base)
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


def _of_trees(ground: GapNet, row: SchemeRow) -> Numbers:
    quiet = quiet_run(ground.net, row, ground.members)
    kinds = {message.kind for message in sparse_run(ground, row).messages}
    twice = 1 + row.is_doubled
    return {
        "control_msgs": twice * sum(message.n for message in quiet.messages),
        "message_kinds": len(kinds) + len(SPOKEN[row.feedback]),
        "state_kinds": len(protocol_of(row.protocol).machine.keys),
        "state_entries": twice * sum(state.n_entries for state in quiet.states),
        "most_entries": twice * max(state.n_entries for state in quiet.states),
        "lookups_per_pkt": 1,
    }


def _of_others(ground: GapNet, row: SchemeRow, sparse: Sparse, base: Outcome | None) -> Numbers:
    """Routers of a BIER domain keep BIFTs, those that fold also slots: a row for each packet.

    The source of a ring or tree of hosts tells each of them its neighbours, and is answered.
    A push of fanfold has a REPORT of each receiver before and after, and one CLOSE.
    """
    has_slots = base is not None and sum(base.n_folds) > 0
    n_members, n_hosts = len(sparse.near.members), ground.net.n_hosts
    told = TOLD if row.name in HOST_TREES else PUSHED if row.program == "fanfold" else ()
    flooded = FLOODED if row.program == "bier" else ()
    spoken = () if row.program == "fanfold" else SPOKEN[row.feedback]
    rows = best_row(row, sparse.near.rows)
    has_bifts = row.program in ("bier", "fanfold")
    n_slots = rows.n_visits if has_slots else 0
    sent = {HOST_TREES: 2 * n_members, ("fanfold",): 2 * n_members + 1}
    return {
        "control_msgs": next((n for names, n in sent.items() if row.program in names), 0),
        "message_kinds": len({*told, *flooded, *spoken}),
        "state_kinds": int(has_bifts) + int(has_slots),
        "state_entries": has_bifts * (ground.net.n_nodes - n_hosts) * n_hosts + n_slots,
        "most_entries": has_bifts * n_hosts + int(has_slots),
        "lookups_per_pkt": -(-rows.n_lookups // rows.n_visits) + has_slots,
    }
