"""Ranks of sums: blocks out, results in, and what was lost asked for (docs/wire/fold.md).

As a live rank (live/rank_loop.py), on rows: a block a window ahead goes when its slot is free,
a congestion window, a REQUEST for what is overdue, ARM and fewer slots by rank 0. Times are
those of the rank's clock (``clock_of``), so waits keep their proportion to the round trip.

Where nothing is lost both send the same packets over each link, held by
tests/parity/test_parity_sums.py; timers are one, kernels/rank_timers.py. What follows a loss is
simpler here: what was asked for is not asked for again because later blocks came, and the
congestion window grows and shrinks by steps, where a live one aims at a round trip.
"""

import numpy as np

from fanfold.kernels.absorb import (
    FLAG_EMPTY,
    WHAT_ARM,
    WHAT_ARRAY,
    WHAT_CLOSE,
    WHAT_HEARD,
    WHAT_REQUEST,
    fold_at,
)
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.octets import ZERO, read_u16, read_u32, read_word
from fanfold.kernels.rank_timers import (
    ARM_AGAIN_PS,
    ARM_FIRST_PS,
    MOST_ASKED,
    MOST_LOST,
    MOST_PATIENCE,
    QUEUE_PS,
    REORDER_PS,
    RTO_MOST_PS,
    note_round,
    rto_of,
)
from fanfold.kernels.replicate import bit
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, Rows
from fanfold.sim.loop.blocks import array_pkt, may_send_block, told_pkt
from fanfold.sim.loop.events import push
from fanfold.sim.loop.nic import join, kick, post
from fanfold.sim.loop.rows import (
    EV_RANK,
    N_BITS,
    N_KINDS,
    N_OPEN,
    N_WORDS,
    NONE,
    NOW,
    SINCE,
    Ranks,
    Row,
    Senders,
    World,
)
from fanfold.sim.loop.sum_rows import (
    BUSY,
    GIVEN_UP,
    N_STAND_IN,
    OVER,
    R_ASKED,
    R_HERE,
    R_SENT,
    R_TRIES,
    STAND_IN,
    clock_of,
    low_bits,
    plan_sum,
    time_of,
    values_of_block,
)

LEAST_WINDOW = 4
MAX_ROOT_LEVEL = 3
"""Both as live/rank.py and group/session.py have them."""
ENOUGH = 96
"""A congestion window that long round trips do not make smaller."""
GIVE_UP_PS = 60_000_000_000_000
"""Deadline of an operation when nothing comes, group/fabric.py."""


@kernel
def start_rank(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int) -> None:
    """A rank begins its part of a sum: rank 0 arms the tree."""
    ranks = senders.ranks
    rank = ranks.rows[m]
    if rank["is_first"] != 0:
        if q[N_OPEN] == 0:
            q[SINCE] = q[NOW]
        q[N_OPEN] += 1
    rank["state"], rank["floor_ps"], rank["arm_ps"] = BUSY, clock_of(q), clock_of(q)
    rank["timer_ps"] = NEVER_PS
    look_after(q, links, pkts, senders, m)
    go_on(q, links, pkts, senders, m)  # where BFRs were set up by hand


@kernel
def look_after(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int) -> None:
    """All that is due at a rank: ARM, REQUESTs, giving up; and when to look again."""
    rank = senders.ranks.rows[m]
    if rank["state"] != BUSY:
        return
    when = clock_of(q)
    if rank["floor_ps"] + GIVE_UP_PS <= when or rank["armed"] < 0:
        leave(q, senders.ranks, m, GIVEN_UP)
        return
    wake = rank["floor_ps"] + GIVE_UP_PS
    wake = min(wake, arm_due(q, links, pkts, senders, m, when))
    wake = min(wake, ask_due(q, links, pkts, senders, m, when))
    watch_rank(q, rank, m, wake)


@kernel
def watch_rank(q: I64, rank: Row, m: int, wake: int) -> None:
    """See to it that a rank is looked at again, at the latest when its clock shows ``wake``."""
    when = max(time_of(q, wake), q[NOW] + 1)
    if when < rank["timer_ps"]:
        rank["timer_ps"] = when
        push(q, when, m * N_KINDS + EV_RANK)


@kernel
def on_timer(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int) -> None:
    """A rank's timer; one that was brought forward is not looked at twice."""
    rank = senders.ranks.rows[m]
    if rank["timer_ps"] != q[NOW]:
        return
    rank["timer_ps"] = NEVER_PS
    look_after(q, links, pkts, senders, m)


@kernel
def leave(q: I64, ranks: Ranks, m: int, state: int) -> None:
    """A rank has all it is to get, or gives up."""
    ranks.rows[m]["state"] = state
    one = ranks.sums[ranks.rows[m]["sum"]]
    one["n_open"] -= 1
    if one["n_open"] == 0:
        q[N_OPEN] -= 1


@kernel
def go_on(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int) -> None:
    """Let a rank that may send take its turn at its port."""
    if may_send_block(senders.ranks, m):
        s = senders.ranks.rows[m]["stream"]
        join(links, senders.streams, s)
        kick(q, links, pkts, senders, senders.streams[s]["nic"])
        watch_rank(q, senders.ranks.rows[m], m, clock_of(q) + rto_of(senders.ranks.rows[m]))


@kernel
def tell(
    q: I64, links: Rows, pkts: Rows, senders: Senders, m: int, what: int, block: int
) -> None:
    """Send a packet without an array."""
    p = told_pkt(q, pkts, senders.ranks, m, what, block)
    post(q, links, pkts, senders, senders.streams[senders.ranks.rows[m]["stream"]]["nic"], p)


@kernel
def on_rank(q: I64, world: World, senders: Senders, p: int) -> int:
    """A FOLD packet at a host.

    Returns:
        The rank when it has all results now, else NONE.
    """
    links, pkts, ranks = world.links, world.pkts, senders.ranks
    pkt = pkts[p]
    host = links[pkt["link"]]["dst"]
    m = ranks.seats[pkt["stream"], (world.nodes[host]["bfr_id"] - 1) % q[N_BITS]]
    if m == NONE or ranks.rows[m]["state"] != BUSY:
        return NONE
    rank = ranks.rows[m]
    body = ranks.bodies[pkt["path"]]
    fan = fold_at(q[N_WORDS])
    what, when = body[fan + 1], clock_of(q)
    if what == WHAT_ARRAY:
        place_result(q, world.nodes, ranks, m, body, when)
    elif what == WHAT_HEARD:
        take_heard(q, links, pkts, senders, m, body, when)
    elif what == WHAT_ARM:
        one = ranks.sums[rank["sum"]]
        take_armed(rank, one, read_u16(body, fan + 20), read_u32(body, fan + 8), when)
        if rank["armed"] != 1:
            look_after(q, links, pkts, senders, m)
    if rank["n_done"] == ranks.sums[rank["sum"]]["n_blocks"]:
        leave(q, ranks, m, OVER)
        return m
    go_on(q, links, pkts, senders, m)
    if is_gap(ranks, m):
        look_after(q, links, pkts, senders, m)
    return NONE


@kernel
def close_sum(q: I64, links: Rows, pkts: Rows, senders: Senders, a: int) -> None:
    """Rank 0 tells the BFRs that a sum is over; twice, nobody answers."""
    m = senders.ranks.sums[a]["first_rank"]
    for _ in range(2):
        tell(q, links, pkts, senders, m, WHAT_CLOSE, 0)


@kernel
def is_here(ranks: Ranks, rank: Row, i: int) -> bool:
    """The result of a block that was sent is here."""
    if i < rank["floor"]:
        return True
    return ranks.ring[rank["ring_at"] + i % rank["window"], R_HERE] != 0


@kernel
def place_result(q: I64, nodes: Rows, ranks: Ranks, m: int, body: U8, when: int) -> None:
    """Take in the result of a block; only a right one counts as payload."""
    rank = ranks.rows[m]
    one = ranks.sums[rank["sum"]]
    fan = fold_at(q[N_WORDS])
    i = read_u32(body, fan + 8)
    if i >= rank["next"] or is_here(ranks, rank, i):
        return
    if not is_right(ranks, m, i, body, fan):
        if one["wrong_rank"] == NONE:
            one["wrong_rank"], one["wrong_block"] = m, i
    elif rank["keeps"] != 0 and i >= one["n_agreed"]:
        nodes[rank["host"]]["got_bytes"] += values_of_block(one, i)
        nodes[rank["host"]]["done_ps"] = q[NOW]
    ranks.ring[rank["ring_at"] + i % rank["window"], R_HERE] = 1
    rank["n_done"] += 1
    measure(ranks, rank, i, when)
    while rank["floor"] < rank["next"] and is_here(ranks, rank, rank["floor"]):
        rank["floor"] += 1
        rank["floor_ps"] = when


@kernel
def is_right(ranks: Ranks, m: int, i: int, body: U8, fan: int) -> bool:
    """The words that came are what all ranks' words add up to, each of them once."""
    rank = ranks.rows[m]
    a = rank["sum"]
    one = ranks.sums[a]
    if read_u16(body, fan + 14) != one["n_ranks"]:
        return False
    is_meant = rank["keeps"] != 0 or i < one["n_agreed"]
    if body[fan + 2] & FLAG_EMPTY != 0:
        return not is_meant
    head = fan + FOLD_BYTES
    words = body[head : head + STAND_IN].view(np.int32)
    for j in range(N_STAND_IN):
        if words[j] != ranks.want[a, j] + one["n_ranks"] * low_bits(i, j):
            return False
    return True


@kernel
def measure(ranks: Ranks, rank: Row, i: int, when: int) -> None:
    """Round trip of a block that was sent once and not asked for, and the congestion window."""
    at = rank["ring_at"] + i % rank["window"]
    sent = ranks.ring[at, R_SENT]
    if ranks.ring[at, R_TRIES] == 0 and ranks.ring[at, R_ASKED] == 0:
        rtt = max(when - sent, 1)
        rank["least_ps"] = min(rank["least_ps"], rtt)
        rank["fresh_ps"] = max(rank["fresh_ps"], sent)
        if rank["srtt_ps"] != 0:
            rank["patience"] = 0
        note_round(rank, rtt)
    rank["epoch_end"] -= 1
    if rank["epoch_end"] <= 0:
        if rank["epoch_lost"] * MOST_LOST > rank["cwnd"] and rank["epoch_lost"] > 1:
            rank["cwnd"] = max(rank["cwnd"] // 2, 4)
        elif rank["srtt_ps"] > 2 * rank["least_ps"] + QUEUE_PS:
            least = min(rank["cwnd"], ENOUGH)
            rank["cwnd"] = max(rank["cwnd"] * 7 // 8, least)
        else:
            rank["cwnd"] = min(rank["cwnd"] + max(rank["cwnd"] // 2, 1), rank["window"])
        rank["epoch_end"], rank["epoch_lost"] = rank["cwnd"], 0


@kernel
def take_heard(
    q: I64, links: Rows, pkts: Rows, senders: Senders, m: int, body: U8, when: int
) -> None:
    """Somebody on the way says whom it has heard: send again what it has not."""
    ranks = senders.ranks
    rank = ranks.rows[m]
    fan = fold_at(q[N_WORDS])
    i = read_u32(body, fan + 8)
    if i >= rank["next"] or is_here(ranks, rank, i):
        return
    at = rank["ring_at"] + i % rank["window"]
    w, k = rank["bit"] // 64, rank["bit"] % 64
    heard = read_word(body, fan + FOLD_BYTES + 8 * (q[N_WORDS] - 1 - w))
    if heard & bit(k) != ZERO:
        ranks.ring[at, R_ASKED] = when
        return
    if when - ranks.ring[at, R_SENT] > max(rank["srtt_ps"] // 2, REORDER_PS):
        ranks.ring[at, R_SENT] = when
        ranks.ring[at, R_TRIES] += 1
        rank["epoch_lost"] += 1
        p = array_pkt(q, pkts, ranks, m, i, 1)
        post(q, links, pkts, senders, senders.streams[rank["stream"]]["nic"], p)


@kernel
def take_armed(rank: Row, one: Row, n_slots: int, asked: int, when: int) -> None:
    """The tree is armed, with so many slots; or the root had no room for those asked for."""
    if n_slots == 0:
        if rank["is_first"] != 0 and rank["armed"] == 0 and asked == 2 * rank["window"]:
            ask_for_less(rank)
            rank["arm_ps"] = when
    elif rank["armed"] != 1 and n_slots <= 2 * rank["most_window"]:
        rank["window"], rank["armed"] = n_slots // 2, 1
        plan_sum(one, rank["most_window"], n_slots // 2)
        rank["cwnd"] = min(rank["cwnd"], rank["window"])
        rank["epoch_end"] = rank["cwnd"]


@kernel
def ask_for_less(rank: Row) -> None:
    """Half as many slots, then a root further up; else there is no room."""
    rank["n_shrunk"] += 1
    if rank["window"] > LEAST_WINDOW:
        rank["window"] = max(rank["window"] // 2, LEAST_WINDOW)
    elif rank["root_level"] < MAX_ROOT_LEVEL:
        rank["window"] = rank["most_window"]
        rank["root_level"] += 1
    else:
        rank["armed"] = -1


@kernel
def is_gap(ranks: Ranks, m: int) -> bool:
    """What was sent after the oldest block lacking has come, and that was not asked for yet."""
    rank = ranks.rows[m]
    if rank["floor"] >= rank["next"]:
        return False
    at = rank["ring_at"] + rank["floor"] % rank["window"]
    late = ranks.ring[at, R_SENT] + max(rank["srtt_ps"] // 4, REORDER_PS)
    return ranks.ring[at, R_ASKED] == 0 and rank["fresh_ps"] > late


@kernel
def ask_due(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int, when: int) -> int:
    """Ask for results that are overdue; when to look again."""
    ranks = senders.ranks
    rank = ranks.rows[m]
    rto = rto_of(rank)
    reorder = max(rank["srtt_ps"] // 4, REORDER_PS)
    n_late = 0
    nearest = NEVER_PS
    for i in range(rank["floor"], rank["next"]):
        if is_here(ranks, rank, i):
            continue
        at = rank["ring_at"] + i % rank["window"]
        sent, asked = ranks.ring[at, R_SENT], ranks.ring[at, R_ASKED]
        due = sent + rto
        if asked != 0:
            tries = min(ranks.ring[at, R_TRIES] - 1, 8)
            due = max(asked, sent) + min(rto << max(tries, 0), RTO_MOST_PS)
        elif rank["fresh_ps"] > sent + reorder:
            due = when
        if due <= when:
            if asked == 0 and due == sent + rto and when > rank["patient_ps"] + rto:
                rank["patience"] = min(rank["patience"] + 1, MOST_PATIENCE)
                rank["patient_ps"] = when
            ranks.ring[at, R_ASKED] = when
            ranks.ring[at, R_TRIES] += 1
            tell(q, links, pkts, senders, m, WHAT_REQUEST, i)
            due = when + rto
            n_late += 1
        nearest = min(nearest, due)
        if n_late >= MOST_ASKED:
            return min(nearest, when + rto // 4)
    return nearest


@kernel
def arm_due(q: I64, links: Rows, pkts: Rows, senders: Senders, m: int, when: int) -> int:
    """Rank 0 arms the tree: at first, and when nothing has moved for long."""
    rank = senders.ranks.rows[m]
    if rank["is_first"] == 0:
        return NEVER_PS
    if rank["armed"] == 1:
        rank["arm_ps"] = max(rank["arm_ps"], rank["floor_ps"] + ARM_AGAIN_PS)
    if rank["arm_ps"] <= when:
        tell(q, links, pkts, senders, m, WHAT_ARM, 2 * rank["window"])
        rank["arm_ps"] = when + (ARM_AGAIN_PS if rank["armed"] == 1 else ARM_FIRST_PS)
    return int(rank["arm_ps"])
