"""Dynamics: from a member change to the first correct packet, and what a change costs.

Trees change by their protocol's messages. In a ring or tree of hosts the source tells each host
whose neighbours change, and waits for its answer. A source that names its receivers in each
packet, or sends a copy to each, has nothing to wait for.
"""

from collections.abc import Sequence

import msgspec

from fanfold.scenario.settings import Settings
from fanfold.study.gap_ground import (
    SOURCE,
    TOKEN_BYTES,
    GapNet,
    Numbers,
    SchemeRow,
    worst_of,
)
from fanfold.study.gap_sim import (
    broadcast_program,
    copies_program,
    fans_program,
    play,
    tell_program,
)
from fanfold.study.gap_table import NEVER_HERE
from fanfold.trees.group_events import GroupEvent, GroupEventRow
from fanfold.trees.tree_run import TreeRun, build_tree
from fanfold.units import PS_PER_SECOND

N_CHANGES = 8
N_GROUPS = 64
"""Tokens, each to a group of its own, that a source sends one after the other."""
CHANGE_GAP_PS = 10 * PS_PER_SECOND
STEADY = GroupEvent(0, "send", n=20, gap_ps=10**9)
"""Packets from the start on: PIM's routers change to the source's tree by the first ones."""
SETTINGS = Settings()


def measure_dynamics(ground: GapNet, row: SchemeRow) -> Numbers:
    """setup, join and leave times, what a change costs, how fast changes can follow."""
    if row.protocol:
        return _of_trees(ground, row)
    if row.name in ("ring", "binary-tree"):
        return _of_hosts(ground, row)
    return {
        "setup_ps": 0,
        "join_ps": 0,
        "leave_ps": 0,
        "change_gap_ps": _token_gap_ps(ground, row),
        "change_msgs": 0,
        "change_writes": 0,
    }


def sparse_run(ground: GapNet, row: SchemeRow, group: int = 0) -> TreeRun:
    """The sparse group joins; then hosts join and leave one by one, then many join at once."""
    joiners = ground.others[:N_CHANGES]
    events = [GroupEvent(0, "join", host) for host in ground.members]
    events.append(STEADY)
    at_ps = CHANGE_GAP_PS
    for host in joiners:
        events.append(GroupEvent(at_ps, "join", host))
        events.append(GroupEvent(at_ps + CHANGE_GAP_PS, "leave", host))
        at_ps += 2 * CHANGE_GAP_PS
    events += [GroupEvent(at_ps, "join", host) for host in ground.others]
    settings = msgspec.structs.replace(row.tree, group=group)
    looks = (CHANGE_GAP_PS - 1,)
    return build_tree(row.protocol, ground.net, SOURCE, events, settings, looks=looks)


def parts_of(
    ground: GapNet, run: TreeRun
) -> tuple[list[GroupEventRow], list[GroupEventRow], list[GroupEventRow]]:
    """Rows of the first joins, of single changes, of those at once."""
    rows = [row for row in run.events if row.what != "send"]
    n, n_changes = len(ground.members), 2 * min(N_CHANGES, len(ground.others))
    return rows[:n], rows[n : n + n_changes], rows[n + n_changes :]


def _of_trees(ground: GapNet, row: SchemeRow) -> Numbers:
    runs = [sparse_run(ground, row, group) for group in range(1 + row.is_doubled)]
    first, changes, burst = parts_of(ground, runs[0])
    both = [change for run in runs for change in parts_of(ground, run)[1]]
    longest = worst_of(change.took_ps for change in burst)
    n = len(changes)
    return {
        "setup_ps": worst_of(join.took_ps for join in first),
        "join_ps": worst_of([c.took_ps for c in changes if c.what == "join"]),
        "leave_ps": worst_of([c.took_ps for c in changes if c.what == "leave"]),
        "change_gap_ps": longest if longest == NEVER_HERE else longest // len(burst),
        "change_msgs": -(-sum(c.n_messages for c in both) // n),
        "change_writes": -(-sum(c.n_writes for c in both) // n),
    }


def _of_hosts(ground: GapNet, row: SchemeRow) -> Numbers:
    joined: list[Numbers] = []
    left: list[Numbers] = []
    for host in ground.others[:N_CHANGES]:
        more = tuple(sorted((*ground.members, host)))
        joined.append(_told(ground, row, ground.members, more))
        left.append(_told(ground, row, more, ground.members))
    both = joined + left
    join_ps = worst_of([change["took_ps"] for change in joined])
    leave_ps = worst_of([change["took_ps"] for change in left])
    return {
        "setup_ps": _told(ground, row, (), ground.members)["took_ps"],
        "join_ps": join_ps,
        "leave_ps": leave_ps,
        "change_gap_ps": max(join_ps, leave_ps),
        "change_msgs": -(-sum(change["msgs"] for change in both) // len(both)),
        "change_writes": -(-sum(change["writes"] for change in both) // len(both)),
    }


def _told(
    ground: GapNet, row: SchemeRow, before: Sequence[int], after: Sequence[int]
) -> Numbers:
    """Pairs of neighbours that change, and the time to tell all their hosts."""
    changed = _pairs(row, before) ^ _pairs(row, after)
    hosts = sorted({host for pair in changed for host in pair} - {SOURCE})
    told = play(ground, tell_program(hosts), SETTINGS)
    return {"took_ps": told.end_ps, "msgs": 2 * len(hosts), "writes": len(changed)}


def _pairs(row: SchemeRow, receivers: Sequence[int]) -> set[tuple[int, int]]:
    if not receivers:
        return set()
    program = broadcast_program(row.program, receivers, TOKEN_BYTES)
    return set(zip(program.src.tolist(), program.dst.tolist(), strict=True))


def _token_gap_ps(ground: GapNet, row: SchemeRow) -> int:
    """What it adds to a train of tokens that each goes to a group of its own."""
    k, others = len(ground.members), ground.others
    n = min(N_GROUPS, len(others))
    step = max(len(others) // k, 1)
    groups = [
        sorted({others[(i + j * step) % len(others)] for j in range(k)}) for i in range(n)
    ]
    same, changed = (_last_ps(ground, row, some) for some in ([groups[0]] * n, groups))
    return NEVER_HERE if NEVER_HERE in (same, changed) else max(changed - same, 0) // n


def _last_ps(ground: GapNet, row: SchemeRow, groups: Sequence[Sequence[int]]) -> int:
    """When the last receiver of a token to each group has it."""
    if row.program == "unicast":
        told = play(ground, copies_program(groups, TOKEN_BYTES), SETTINGS)
    else:
        fans = fans_program(groups, TOKEN_BYTES, folds=row.program == "fanfold")
        told = play(ground, fans, SETTINGS)
    return NEVER_HERE if told.stuck else int(told.host_ps.max())
