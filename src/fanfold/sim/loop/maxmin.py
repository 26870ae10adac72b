"""Max-min fair rates, worked out again only where something changed.

Bertsekas and Gallager, Data Networks, section 6.5.2: fill all flows evenly, freeze those of the
link that is full first, go on with the rest. A flow may cross a link with any weight: a share
of a sprayed message, or several copies of a fan.

Letters: K = flows, E = entries (a flow on a link), L = links. Rates are bytes per picosecond,
as floats; times stay integers. The ACKs of a flow take from the reverse links what the flow's
rate says, and are served first.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import i64, kernel

I64 = NDArray[np.int64]
Rows = NDArray[np.void]

NONE = -1
EVEN = 10**9
"""Links whose shares differ by less than a billionth are full at once."""
ACK_STEP = 1024
"""ACKs that change by less than a link's 1024th change no rate."""
LEAST_LEFT = 64
"""ACKs leave at least a 64th of a link to data."""

LINK_ROW = np.dtype(
    [
        ("cap", np.float64),
        ("reverse", np.int64),
        ("head", np.int64),  # first entry of a busy flow, NONE
        ("acks", np.float64),  # rate of ACKs on it
        ("seen", np.float64),  # the same, when rates were last worked out
        ("dirty", np.int64),
        ("met", np.int64),  # turn of the last visit
        ("left", np.float64),  # not given away yet
        ("n_open", np.int64),  # flows not frozen yet
        ("open_weight", np.float64),
    ]
)
FLOW_ROW = np.dtype(
    [
        ("first", np.int64),  # its entries
        ("end", np.int64),
        ("limit", np.float64),  # highest rate
        ("ack", np.float64),  # bytes of ACKs for a byte of the flow
        ("rate", np.float64),  # 0 while it is idle
        ("old", np.float64),
        ("met", np.int64),  # turn of the last visit, negative once it is frozen
        ("item", np.int64),  # in hand, and last in line; drain.py
        ("last", np.int64),
        ("left", np.float64),  # bytes of the item in hand, at settled_ps
        ("settled_ps", np.int64),
        ("due_ps", np.int64),
        ("at", np.int64),  # place in the heap, NONE
    ]
)
ENTRY_ROW = np.dtype(
    [
        ("link", np.int64),
        ("flow", np.int64),
        ("weight", np.float64),
        ("ack_weight", np.float64),
        ("after", np.int64),  # neighbours among the busy ones of its link, NONE
        ("before", np.int64),
    ]
)

# Counters, places in ``h``.
N_DIRTY, TURN, N_SOLVES, N_LINKS, N_FLOWS, N_HEAP, N_QUEUE, ON_ACKED, H_FIELDS = range(9)
# Rows of ``lists``.
DIRTY, AT_HAND, PART_LINKS, PART_FLOWS, HEAP, N_LISTS = range(6)


@kernel
def join(h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, k: int) -> None:
    """Let a flow take part; its links are looked at in the next turn."""
    for e in range(flows[k]["first"], flows[k]["end"]):
        at = entries[e]["link"]
        top = links[at]["head"]
        entries[e]["after"] = top
        entries[e]["before"] = NONE
        if top != NONE:
            entries[top]["before"] = e
        links[at]["head"] = e
        mark(h, lists, links, at)


@kernel
def leave(h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, k: int) -> None:
    """Take an idle flow out; its rate and its ACKs are free again."""
    for e in range(flows[k]["first"], flows[k]["end"]):
        at = entries[e]["link"]
        up, down = entries[e]["before"], entries[e]["after"]
        if up == NONE:
            links[at]["head"] = down
        else:
            entries[up]["after"] = down
        if down != NONE:
            entries[down]["before"] = up
        mark(h, lists, links, at)
    change_rate(h, lists, links, flows, entries, k, float(0))


@kernel
def mark(h: I64, lists: I64, links: Rows, at: int) -> None:
    """Look at a link in the next turn."""
    if links[at]["dirty"] == 0:
        links[at]["dirty"] = 1
        lists[DIRTY, h[N_DIRTY]] = at
        h[N_DIRTY] += 1


@kernel
def change_rate(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, k: int, rate: float
) -> None:
    """Give a flow a rate, its ACKs theirs."""
    flow = flows[k]
    more = (rate - flow["rate"]) * flow["ack"]
    flow["rate"] = rate
    if more == 0:
        return
    for e in range(flow["first"], flow["end"]):
        at = links[entries[e]["link"]]["reverse"]
        link = links[at]
        link["acks"] += more * entries[e]["ack_weight"]
        if link["head"] != NONE and abs(link["acks"] - link["seen"]) * ACK_STEP > link["cap"]:
            mark(h, lists, links, at)


@kernel
def work_out(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, root: int, has_limits: bool
) -> None:
    """Rates of all flows that depend on a link; PART_FLOWS names them."""
    h[N_SOLVES] += 1
    gather(h, lists, links, flows, entries, root)
    while True:
        share = lowest_share(h, lists, links)
        if h[N_LINKS] == 0:
            return
        if has_limits and freeze_limited(h, lists, links, flows, entries, share):
            continue
        full = share + share / EVEN
        for i in range(h[N_LINKS]):
            link = links[lists[PART_LINKS, i]]
            if link["n_open"] > 0 and link["left"] <= full * link["open_weight"]:
                e = i64(link["head"])
                while e != NONE:
                    if flows[entries[e]["flow"]]["met"] == h[TURN]:
                        freeze(h, lists, links, flows, entries, entries[e]["flow"], share)
                    e = i64(entries[e]["after"])


@kernel
def gather(h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, root: int) -> None:
    """Find the links and busy flows that depend on each other, from one link on."""
    turn = h[TURN]
    lists[PART_LINKS, 0] = root
    links[root]["met"] = turn
    n_links, n_flows, i = 1, 0, 0
    while i < n_links:
        link = links[lists[PART_LINKS, i]]
        i += 1
        link["seen"] = link["acks"]
        link["left"] = max(link["cap"] - link["acks"], link["cap"] / LEAST_LEFT)
        link["n_open"] = 0
        link["open_weight"] = float(0)
        e = i64(link["head"])
        while e != NONE:
            link["n_open"] += 1
            link["open_weight"] += entries[e]["weight"]
            k = entries[e]["flow"]
            e = i64(entries[e]["after"])
            if flows[k]["met"] == turn:
                continue
            flows[k]["met"] = turn
            flows[k]["old"] = flows[k]["rate"]
            lists[PART_FLOWS, n_flows] = k
            n_flows += 1
            for f in range(flows[k]["first"], flows[k]["end"]):
                other = entries[f]["link"]
                if links[other]["met"] != turn:
                    links[other]["met"] = turn
                    lists[PART_LINKS, n_links] = other
                    n_links += 1
    h[N_LINKS] = n_links
    h[N_FLOWS] = n_flows


@kernel
def lowest_share(h: I64, lists: I64, links: Rows) -> float:
    """Least share that a link can give its open flows; links that have none fall out."""
    best = links[lists[PART_LINKS, 0]]["cap"] * EVEN
    n, i = h[N_LINKS], 0
    while i < n:
        link = links[lists[PART_LINKS, i]]
        if link["n_open"] == 0:
            n -= 1
            lists[PART_LINKS, i] = lists[PART_LINKS, n]
        else:
            best = min(best, link["left"] / link["open_weight"])
            i += 1
    h[N_LINKS] = n
    return best


@kernel
def freeze_limited(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, share: float
) -> bool:
    """Freeze open flows whose own limit is below the share; whether there was one."""
    found = False
    for i in range(h[N_FLOWS]):
        k = lists[PART_FLOWS, i]
        if flows[k]["met"] == h[TURN] and flows[k]["limit"] <= share:
            freeze(h, lists, links, flows, entries, k, flows[k]["limit"])
            found = True
    return found


@kernel
def freeze(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, k: int, rate: float
) -> None:
    """Settle a flow's rate in this turn."""
    flows[k]["met"] = -h[TURN]
    change_rate(h, lists, links, flows, entries, k, rate)
    for e in range(flows[k]["first"], flows[k]["end"]):
        link = links[entries[e]["link"]]
        link["n_open"] -= 1
        link["open_weight"] -= entries[e]["weight"]
        link["left"] = max(link["left"] - rate * entries[e]["weight"], float(0))
