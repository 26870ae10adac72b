"""Items of a program as fluid: flows drain them one after the other at max-min fair rates.

Letters: K = flows (a connection of two hosts, or a fan), I = items. An event is a flow that
has sent its item's last byte, or an item that starts or is done. Events closer together than a
1024th of the time so far, and than an eighth of what the smallest item takes alone (or than a
packet) are one for the rates; each keeps its own time.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.loop.maxmin import (
    AT_HAND,
    DIRTY,
    HEAP,
    I64,
    N_DIRTY,
    N_FLOWS,
    N_HEAP,
    N_QUEUE,
    NONE,
    ON_ACKED,
    PART_FLOWS,
    TURN,
    Rows,
    join,
    leave,
    work_out,
)

WINDOW_SHIFT = 10
FRESH = -1
"""A flow that has begun and has no rate yet."""
MAX_TURNS = 6
"""Rates whose ACKs change rates whose ACKs change rates; each turn is a 60th of the last."""

# States of an item.
WAITS, STARTS, QUEUED, SENDING, UNDER_WAY, DONE = range(6)

ITEM_ROW = np.dtype(
    [
        ("flow", np.int64),  # who sends it, NONE: a pause
        ("bytes", np.float64),  # on the wire
        ("rest_ps", np.int64),  # from the last byte sent to the last byte received
        ("back_ps", np.int64),  # from there to the ACK's arrival
        ("start_ps", np.int64),
        ("pause_ps", np.int64),  # its whole time, where it has no flow
        ("needs", np.int64),  # counted down
        ("first_dep", np.int64),
        ("end_dep", np.int64),
        ("state", np.int64),
        ("sent_ps", np.int64),  # out of its sender
        ("following", np.int64),  # next in line of its flow, NONE
    ]
)


@kernel
def drain(
    h: I64,
    lists: I64,
    links: Rows,
    flows: Rows,
    entries: Rows,
    items: Rows,
    dep: I64,
    queue: I64,
    window_ps: int,
    has_limits: bool,
) -> int:
    """Run all items; those that never start keep their state.

    Args:
        h, lists, links, flows, entries: maxmin.py. dep: (D,) of the program. queue: (2, I) heap
            of items that start or are done: time, item.
        window_ps: events closer together may be one for the rates. has_limits: of flows.

    Returns:
        When the last event was.
    """
    for i in range(items.size):
        if items[i]["needs"] == 0:
            items[i]["state"] = STARTS
            push(h, queue, items[i]["start_ps"] + items[i]["pause_ps"], i)
    end_ps = 0
    while True:
        now = next_ps(h, lists, flows, queue)
        if now == NEVER_PS:
            return end_ps
        window_end = now + min(now >> WINDOW_SHIFT, window_ps)
        while now <= window_end:
            end_ps = max(end_ps, now)
            k = lists[HEAP, 0]
            if h[N_HEAP] > 0 and flows[k]["due_ps"] == now:
                i = flows[k]["item"]
                on_sent(h, lists, links, flows, entries, items, k, now)
                when = now + items[i]["rest_ps"] + h[ON_ACKED] * items[i]["back_ps"]
                push(h, queue, when, i)
            else:
                on_item(h, lists, links, flows, entries, items, dep, queue, now)
            now = next_ps(h, lists, flows, queue)
        settle(h, lists, links, flows, entries, end_ps, has_limits)


@kernel
def next_ps(h: I64, lists: I64, flows: Rows, queue: I64) -> int:
    """Time of the next event, NEVER_PS without one."""
    at = NEVER_PS
    if h[N_HEAP] > 0:
        at = i64(flows[lists[HEAP, 0]]["due_ps"])
    if h[N_QUEUE] > 0:
        at = min(at, i64(queue[0, 0]))
    return at


@kernel
def on_sent(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, items: Rows, k: int, now: int
) -> None:
    """A flow has sent its item: the next one follows at the same rate."""
    flow = flows[k]
    item = items[flow["item"]]
    item["sent_ps"] = now
    item["state"] = UNDER_WAY
    following = item["following"]
    flow["item"] = following
    if following == NONE:
        flow["last"] = NONE
        heap_drop(h, lists, flows, k)
        leave(h, lists, links, flows, entries, k)
        return
    items[following]["state"] = SENDING
    flow["left"] = items[following]["bytes"]
    flow["settled_ps"] = now
    heap_put(h, lists, flows, k, now + whole_ps(flow["left"] / flow["rate"]))


@kernel
def on_item(
    h: I64,
    lists: I64,
    links: Rows,
    flows: Rows,
    entries: Rows,
    items: Rows,
    dep: I64,
    queue: I64,
    now: int,
) -> None:
    """An item starts, or is done and lets others start."""
    i = pop(h, queue)
    if items[i]["state"] == STARTS:
        if items[i]["flow"] != NONE:
            begin(h, lists, links, flows, entries, items, i, now)
            return
        items[i]["sent_ps"] = now
    items[i]["state"] = DONE
    for d in range(items[i]["first_dep"], items[i]["end_dep"]):
        j = dep[d]
        items[j]["needs"] -= 1
        if items[j]["needs"] == 0:
            items[j]["state"] = STARTS
            push(h, queue, max(now, items[j]["start_ps"]) + items[j]["pause_ps"], j)


@kernel
def begin(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, items: Rows, i: int, now: int
) -> None:
    """Give an item to its flow."""
    k = items[i]["flow"]
    flow = flows[k]
    items[i]["following"] = NONE
    items[i]["state"] = QUEUED
    if flow["last"] != NONE:
        items[flow["last"]]["following"] = i
        flow["last"] = i
        return
    items[i]["state"] = SENDING
    flow["item"] = i
    flow["last"] = i
    flow["left"] = items[i]["bytes"]
    flow["settled_ps"] = now
    flow["due_ps"] = FRESH
    join(h, lists, links, flows, entries, k)


@kernel
def settle(
    h: I64, lists: I64, links: Rows, flows: Rows, entries: Rows, now: int, has_limits: bool
) -> None:
    """Work out the rates of all that depends on a dirty link, and what ACKs make of them."""
    n_turns = 0
    while h[N_DIRTY] > 0:
        n = h[N_DIRTY]
        h[N_DIRTY] = 0
        for i in range(n):
            lists[AT_HAND, i] = lists[DIRTY, i]
            links[lists[DIRTY, i]]["dirty"] = 0
        if n_turns == MAX_TURNS:
            return
        n_turns += 1
        h[TURN] += 1
        for i in range(n):
            root = lists[AT_HAND, i]
            if links[root]["head"] != NONE and links[root]["met"] != h[TURN]:
                work_out(h, lists, links, flows, entries, root, has_limits)
                set_due(h, lists, flows, now)


@kernel
def set_due(h: I64, lists: I64, flows: Rows, now: int) -> None:
    """When each flow of the part in hand will have sent its item."""
    for i in range(h[N_FLOWS]):
        k = lists[PART_FLOWS, i]
        flow = flows[k]
        if flow["due_ps"] != FRESH:
            if flow["rate"] == flow["old"]:
                continue
            past = max(now - flow["settled_ps"], 0)
            flow["left"] = max(flow["left"] - past * flow["old"], float(0))
            flow["settled_ps"] += past
        due = flow["settled_ps"] + whole_ps(flow["left"] / flow["rate"])
        heap_put(h, lists, flows, k, due)


@kernel
def whole_ps(span: float) -> int:
    """Nearest picosecond."""
    return i64(np.rint(span))


@kernel
def comes_first(flows: Rows, a: int, b: int) -> bool:
    """Order of two flows: by time, equal times by number."""
    at, other = flows[a]["due_ps"], flows[b]["due_ps"]
    return at < other or (at == other and a < b)


@kernel
def heap_put(h: I64, lists: I64, flows: Rows, k: int, due: int) -> None:
    """Enter a flow, or move it."""
    flows[k]["due_ps"] = due
    i = flows[k]["at"]
    if i == NONE:
        i = h[N_HEAP]
        h[N_HEAP] += 1
    sift(h, lists, flows, i, k)


@kernel
def heap_drop(h: I64, lists: I64, flows: Rows, k: int) -> None:
    """Take a flow out."""
    i = flows[k]["at"]
    flows[k]["at"] = NONE
    h[N_HEAP] -= 1
    last = lists[HEAP, h[N_HEAP]]
    if last != k:
        sift(h, lists, flows, i, last)


@kernel
def sift(h: I64, lists: I64, flows: Rows, i: int, k: int) -> None:
    """Put a flow where it belongs, starting from place i."""
    n = h[N_HEAP]
    while i > 0:
        up = (i - 1) >> 1
        other = lists[HEAP, up]
        if not comes_first(flows, k, other):
            break
        lists[HEAP, i] = other
        flows[other]["at"] = i
        i = up
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and comes_first(flows, lists[HEAP, child + 1], lists[HEAP, child]):
            child += 1
        other = lists[HEAP, child]
        if comes_first(flows, k, other):
            break
        lists[HEAP, i] = other
        flows[other]["at"] = i
        i = child
    lists[HEAP, i] = k
    flows[k]["at"] = i


@kernel
def is_earlier(queue: I64, i: int, when: int, item: int) -> bool:
    """Row i of the queue comes before (when, item)."""
    return queue[0, i] < when or (queue[0, i] == when and queue[1, i] < item)


@kernel
def push(h: I64, queue: I64, when: int, item: int) -> None:
    """Let something happen to an item."""
    i = h[N_QUEUE]
    h[N_QUEUE] += 1
    while i > 0:
        up = (i - 1) >> 1
        if is_earlier(queue, up, when, item):
            break
        queue[0, i] = queue[0, up]
        queue[1, i] = queue[1, up]
        i = up
    queue[0, i] = when
    queue[1, i] = item


@kernel
def pop(h: I64, queue: I64) -> int:
    """Take the item whose turn it is."""
    item = i64(queue[1, 0])
    h[N_QUEUE] -= 1
    n = h[N_QUEUE]
    when, what = queue[0, n], queue[1, n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and is_earlier(queue, child + 1, queue[0, child], queue[1, child]):
            child += 1
        if not is_earlier(queue, child, when, what):
            break
        queue[0, i] = queue[0, child]
        queue[1, i] = queue[1, child]
        i = child
    queue[0, i] = when
    queue[1, i] = what
    return item
