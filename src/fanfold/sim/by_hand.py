"""Hands of the slow plane on the loop's arrays: what it does once a block needs no kernel.

A kernel called from Python would be compiled for that alone. docs/simulator.md section 6.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.sim.loop import rows as r

I64 = NDArray[np.int64]
Rows = NDArray[np.void]
ACKED = 1
"""As in schemes/program.py."""


def push(q: I64, at_ps: int, what: int) -> None:
    """As ``sim.loop.events.push``."""
    if q[r.END] <= at_ps < q[r.HORIZON]:
        row = int(q[r.FREE])
        at = int(q[r.AT_POOL]) + 3 * row
        q[r.FREE] = q[at + 2]
        head = int(q[r.AT_HEADS]) + ((at_ps >> int(q[r.SHIFT])) & int(q[r.MASK]))
        q[at], q[at + 1], q[at + 2] = at_ps, what, q[head]
        q[head] = 2 * row
        q[r.N_POOL] += 1
        return
    is_near = at_ps < q[r.END]
    region, count = (r.AT_SIDE, r.N_SIDE) if is_near else (r.AT_FAR, r.N_FAR)
    q[r.SEQ] += 1
    _sift(q, int(q[region]), int(q[count]), (at_ps, int(q[r.SEQ]), what))
    q[count] += 1


def _sift(q: I64, at: int, n: int, row: tuple[int, int, int]) -> None:
    i = n
    while i > 0:
        up = at + 3 * ((i - 1) // 2)
        if (int(q[up]), int(q[up + 1])) < row[:2]:
            break
        here = at + 3 * i
        q[here : here + 3] = q[up : up + 3]
        i = (i - 1) // 2
    here = at + 3 * i
    q[here : here + 3] = row


def join(links: Rows, streams: Rows, s: int) -> None:
    """As ``sim.loop.nic.join``: a stream takes its turn after all that wait."""
    st = streams[s]
    if st["active"]:
        return
    st["active"] = 1
    link = links[st["nic"]]
    last = int(link["ring"])
    if last == r.NONE:
        st["ring"] = st["back"] = link["ring"] = s
        link["waits"] = 1
        return
    before = int(streams[last]["back"])
    if link["waits"]:
        before, last = last, int(streams[last]["ring"])
        link["ring"] = s
    st["ring"], st["back"] = last, before
    streams[before]["ring"] = streams[last]["back"] = s


def wake(q: I64, links: Rows, nic: int) -> None:
    """Let a host's port look for work as soon as it is free."""
    link = links[nic]
    when = max(int(link["free_ps"]), int(q[r.NOW]))
    if link["pending"] and link["wake_ps"] <= when:
        return
    link["pending"], link["wake_ps"] = 1, when
    push(q, when, nic * r.N_KINDS + r.EV_NIC)


def finish(q: I64, items: Rows, deps: I64, i: int) -> None:
    """As ``sim.loop.unicast.settle`` with ACKED: one part of an item is done at its sender."""
    item = items[i]
    item["unacked"] -= 1
    if item["unacked"] > 0:
        return
    item["done_ps"] = q[r.NOW]
    q[r.N_DONE] += 1
    if q[r.ON] != ACKED:
        return
    for d in range(int(deps[i]), int(deps[i + 1])):
        waiting = int(deps[items.size + 1 + d])
        items[waiting]["needs"] -= 1
        if items[waiting]["needs"] == 0:
            when = max(int(q[r.NOW]), int(items[waiting]["start_ps"]))
            when += int(items[waiting]["pause_ps"])
            push(q, when, waiting * r.N_KINDS + r.EV_START)


def free(q: I64, pkts: Rows, p: int) -> None:
    """As ``sim.loop.ports.free_pkt`` for a FEEDBACK packet."""
    if pkts["path"][p] >= 0:
        q[int(q[r.AT_BODIES]) + int(q[r.N_BODIES])] = pkts["path"][p]
        q[r.N_BODIES] += 1
    pkts["next"][p] = q[r.FREE_PKT]
    q[r.FREE_PKT] = p
    q[r.N_FREE_PKT] += 1


def push_all(q: I64, times: I64, whats: I64) -> None:
    """Many events before the run begins, equal times in the order given."""
    assert q[r.END] == q[r.N_FAR] == 0
    order = np.argsort(times, kind="stable")
    rows = np.stack([times[order], np.arange(1, times.size + 1)[order], whats[order]], axis=1)
    at = int(q[r.AT_FAR])
    q[at : at + 3 * times.size] = rows.reshape(-1)  # sorted rows are a heap
    q[r.N_FAR], q[r.SEQ] = times.size, times.size
