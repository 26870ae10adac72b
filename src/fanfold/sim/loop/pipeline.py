"""Programs in the compact form: pipelines of C equal pieces in their steady state.

All items have their max-min fair rates of the moment when every one of them is moving. Piece j
of an item starts when piece j of all it waits for is done and piece j - 1 has been sent; with
one rate for each item the arrivals of pieces are evenly spaced or more and more apart, so the
last piece depends on the first and the last one before it alone. Against the same pieces as
events a broadcast or reduce ends within 1 % of its time; an all_reduce ends 1 to 4 % later, as
the first pieces do not meet the last ones yet. Letters: I = items.
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.sim.loop.drain import DONE, UNDER_WAY, whole_ps
from fanfold.sim.loop.maxmin import I64, TURN, Rows, join, work_out


@kernel
def fill_all(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, n_turns: int, has_limits: bool
) -> None:
    """Rates of all flows at once; every turn takes the ACKs of the turn before."""
    for k in range(flows.size):
        join(h, lists, links, flows, entries, k)
    for _ in range(n_turns):
        h[TURN] += 1
        for at in range(links.size):
            if links[at]["head"] >= 0 and links[at]["met"] != h[TURN]:
                work_out(h, lists, links, flows, entries, at, has_limits)


@kernel
def flow_through(
    flows: Rows, items: Rows, dep: I64, first_ps: I64, last_ps: I64, ready: I64, pieces: int
) -> int:
    """When the last byte of each item leaves its sender.

    Args:
        items: ``sent_ps`` is filled, ``bytes`` are those of all pieces together. first_ps,
            last_ps: (I,) zero: when the first and the last piece may start. ready: (I,) room.

    Returns:
        Items that ran.
    """
    n_ready = 0
    for i in range(items.size):
        first_ps[i] = max(first_ps[i], items[i]["start_ps"])
        last_ps[i] = max(last_ps[i], items[i]["start_ps"])
        if items[i]["needs"] == 0:
            ready[n_ready] = i
            n_ready += 1
    n = 0
    while n < n_ready:
        i = ready[n]
        n += 1
        item = items[i]
        span = item["bytes"] / flows[item["flow"]]["rate"]
        one_ps = whole_ps(span / pieces)
        first = first_ps[i] + one_ps
        last = max(last_ps[i] + one_ps, first_ps[i] + whole_ps(span))
        item["sent_ps"] = last
        item["state"] = UNDER_WAY if item["first_dep"] == item["end_dep"] else DONE
        for d in range(item["first_dep"], item["end_dep"]):
            j = dep[d]
            first_ps[j] = max(first_ps[j], first + item["rest_ps"])
            last_ps[j] = max(last_ps[j], last + item["rest_ps"])
            items[j]["needs"] -= 1
            if items[j]["needs"] == 0:
                ready[n_ready] = i64(j)
                n_ready += 1
    return n


@kernel
def go_round(sent_ps: I64, room: I64, one_ps: I64, rest_ps: I64, pieces: int) -> None:
    """When the last byte of each item of a ring leaves its sender; item i waits for item i - 1.

    Step by step, exact for these rates: a piece starts when the one before it has been sent and
    the one that it passes on has come.

    Args:
        sent_ps: (I,) when each may start at the earliest; its last byte on return. room: (I,).
            one_ps: (I,) time of a piece. rest_ps: (I,) from its last byte sent to its last
            byte received.
    """
    n = sent_ps.size
    for i in range(n):
        sent_ps[i] += one_ps[i]
    old, new = sent_ps, room
    for _ in range(1, pieces):
        new[0] = max(old[0], old[n - 1] + rest_ps[n - 1]) + one_ps[0]
        for i in range(1, n):
            new[i] = max(old[i], old[i - 1] + rest_ps[i - 1]) + one_ps[i]
        old, new = new, old
    if pieces % 2 == 0:
        for i in range(n):
            sent_ps[i] = room[i]
