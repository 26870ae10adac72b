"""A host's port: control first, then its streams in turn, packet by packet.

Streams that have something to send form a ring; a new one is served last in the round. A
stream is a message, a lane of a fan with jobs to do, or a rank's blocks. docs/simulator.md
section 4.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import ONE, ZERO
from fanfold.kernels.replicate import bit, lowest_bit, n_bits
from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.loop.blocks import build_array, may_send_block
from fanfold.sim.loop.events import push
from fanfold.sim.loop.ports import drop, launch, occupy, take_pkt, time_of
from fanfold.sim.loop.rows import (
    CUT_BYTES,
    EV_NIC,
    EV_RETRY,
    FLOWLET_PS,
    HEADER_BYTES,
    I64,
    LOSSY,
    N_KINDS,
    N_SI,
    N_WORDS,
    NDP,
    NONE,
    NOW,
    OF_SUM,
    PK_DATA,
    PK_FAN,
    REPAIR_BYTES,
    REPAIR_PKTS,
    RTO_PS,
    SEG,
    TRANSPORT,
    U64,
    UPCALL_SENT,
    Row,
    Rows,
    Senders,
)
from fanfold.sim.loop.upcall import upcall


@kernel
def join(links: Rows, streams: Rows, s: int) -> None:
    """Let a stream take its turn at its port: after all that wait there.

    The one that is being sent waits again only when its packet has left.
    """
    st = streams[s]
    if st["active"] != 0:
        return
    st["active"] = 1
    link = links[st["nic"]]
    last = link["ring"]
    if last == NONE:
        st["ring"] = s
        st["back"] = s
        link["ring"] = s
        link["waits"] = 1
        return
    before = streams[last]["back"]
    if link["waits"] != 0:
        before = last
        last = streams[last]["ring"]
        link["ring"] = s
    st["ring"] = last
    st["back"] = before
    streams[before]["ring"] = s
    streams[last]["back"] = s


@kernel
def part(links: Rows, streams: Rows, s: int) -> None:
    """Take a stream out of its port's round."""
    st = streams[s]
    st["active"] = 0
    link = links[st["nic"]]
    if st["ring"] == s:
        link["ring"] = NONE
        return
    streams[st["back"]]["ring"] = st["ring"]
    streams[st["ring"]]["back"] = st["back"]
    if link["ring"] == s:
        link["ring"] = st["back"]
        link["waits"] = 1


@kernel
def wake_nic(q: I64, links: Rows, at: int, when: int) -> None:
    """Look at a port again at ``when``, unless that happens earlier anyway."""
    link = links[at]
    if link["pending"] != 0 and link["wake_ps"] <= when:
        return
    link["pending"] = 1
    link["wake_ps"] = when
    push(q, when, at * N_KINDS + EV_NIC)


@kernel
def post(q: I64, links: Rows, pkts: Rows, senders: Senders, at: int, p: int) -> None:
    """Send a control packet from a host, before all data that waits at its port."""
    link = links[at]
    pkts[p]["next"] = NONE
    pkts[p]["link"] = NONE
    if link["first_ctl"] == NONE:
        link["first_ctl"] = p
    else:
        pkts[link["last_ctl"]]["next"] = p
    link["last_ctl"] = p
    kick(q, links, pkts, senders, at)


@kernel
def kick(q: I64, links: Rows, pkts: Rows, senders: Senders, at: int) -> None:
    """Start what a host's port sends next, if it is idle."""
    link = links[at]
    now = q[NOW]
    if link["paused"] != 0:
        return
    if link["free_ps"] > now:
        wake_nic(q, links, at, link["free_ps"])
        return
    p = link["first_ctl"]
    if p != NONE:
        link["first_ctl"] = pkts[p]["next"]
    else:
        s = pick(q, links, senders.streams, at)
        if s == NONE:
            return
        if senders.streams[s]["fan"] >= 0:
            p = build_fan(q, links, pkts, senders, s)
        elif senders.streams[s]["fan"] == OF_SUM:
            p = build_block(q, links, pkts, senders, s)
        else:
            p = build_data(q, links, pkts, senders, s)
    if link["up"] <= 0:
        link["drops"] += pkts[p]["n"]
        link["free_ps"] = now + occupy(link, pkts[p]["bytes"])
        drop(q, pkts, p)
    else:
        launch(q, links, pkts, p, at, now)
    if link["first_ctl"] != NONE or link["ring"] != NONE:
        wake_nic(q, links, at, link["free_ps"])


@kernel
def pick(q: I64, links: Rows, streams: Rows, at: int) -> int:
    """Stream whose turn it is, NONE when none may send now; the port then wakes in time."""
    link = links[at]
    last = link["ring"]
    if last == NONE:
        return NONE
    now = q[NOW]
    nearest = NEVER_PS
    s = streams[last]["ring"]
    while True:
        when = streams[s]["next_ps"]
        if when <= now:
            link["ring"] = s
            link["waits"] = 0
            return s
        nearest = min(nearest, when)
        if s == last:
            break
        s = streams[s]["ring"]
    wake_nic(q, links, at, nearest)
    return NONE


@kernel
def may_send(q: I64, st: Row) -> bool:
    """A stream has something to send and may: again, or for the first time."""
    if q[TRANSPORT] == NDP and st["credit"] <= 0:
        return False
    if st["n_lost"] > 0:
        return True
    if st["n_sent"] >= st["n_recs"]:
        return False
    return st["window"] == 0 or st["n_sent"] - st["n_acked"] < st["window"]


@kernel
def build_data(q: I64, links: Rows, pkts: Rows, senders: Senders, s: int) -> int:
    """Next record of a message; the stream leaves the round when it has no more to send."""
    st = senders.streams[s]
    now = q[NOW]
    p = take_pkt(q, pkts)
    pkt = pkts[p]
    again = st["n_lost"] > 0
    if again:
        r = next_lost(st, senders.bits)
        st["n_again"] += 1
    else:
        r = st["n_sent"]
        st["n_sent"] = r + 1
        st["next_ps"] = max(st["next_ps"] + st["gap_ps"], now)
        again = r < st["high"]  # go back n
        st["high"] = max(st["high"], r + 1)
    if q[TRANSPORT] == NDP:
        st["credit"] -= 1
    payload = st["rec_payload"] if r < st["n_recs"] - 1 else st["last_payload"]
    n = (payload + st["pkt_payload"] - 1) // st["pkt_payload"]
    pkt["kind"], pkt["stream"], pkt["psn"], pkt["n"] = PK_DATA, s, r, n
    pkt["bytes"] = payload + n * q[HEADER_BYTES]
    pkt["head"] = min(payload, st["pkt_payload"]) + q[HEADER_BYTES]
    if q[CUT_BYTES] > 0:
        pkt["head"] = q[CUT_BYTES]
    pkt["span_ps"], pkt["marked"], pkt["trimmed"] = 0, 0, 0
    pkt["again"] = 1 if again else 0
    pkt["stamp"] = now
    pkt["path"] = path_of(q, st)
    if again:
        q[REPAIR_PKTS] += n
        q[REPAIR_BYTES] += pkt["bytes"]
    st["moved_ps"] = now
    if q[LOSSY] != 0:
        expect_by(links, st, 0 if again else pkt["bytes"], now)
    if q[LOSSY] != 0 and st["timer_ps"] == 0:
        st["timer_ps"] = now + q[RTO_PS]
        push(q, st["timer_ps"], s * N_KINDS + EV_RETRY)
    if not may_send(q, st):
        part(links, senders.streams, s)
    if not again and st["n_sent"] == st["n_recs"]:
        follow_on(q, links, senders, s)
    return p


@kernel
def path_of(q: I64, st: Row) -> int:
    """Number of a record's path: the next one each time, or after a pause of its stream."""
    path = i64(st["path"])
    following = (path + st["path_step"]) & 0x7FFFFFFF
    if q[FLOWLET_PS] == 0:
        st["path"] = following
        return path
    if q[NOW] - st["went_ps"] > q[FLOWLET_PS]:
        st["path"] = following
    st["went_ps"] = q[NOW]
    return i64(st["path"])


@kernel
def queue_ps(links: Rows, st: Row) -> int:
    """How long all that is on its way takes the links of a stream's receiver and sender.

    Acknowledgements wait behind what comes to the sender.
    """
    last, home = links[st["queue_at"]], links[st["home_at"]]
    return time_of(last, last["coming"]) + time_of(home, home["coming"])


@kernel
def expect_by(links: Rows, st: Row, n_bytes: int, now_ps: int) -> None:
    """Note when queues have let through what a stream sent, and half as long after.

    Args:
        n_bytes: what now sets out for its receiver.
    """
    links[st["queue_at"]]["coming"] += n_bytes
    wait = queue_ps(links, st)
    st["due_ps"] = max(st["due_ps"], now_ps + wait + wait // 2)


@kernel
def follow_on(q: I64, links: Rows, senders: Senders, s: int) -> None:
    """A stream whose records were all sent lets the next one of its connection begin."""
    streams = senders.streams
    conn = senders.conns[streams[s]["conn"]]
    if conn["now"] != s:
        return
    following = conn["first"]
    conn["now"] = following
    if following == NONE:
        return
    conn["first"] = streams[following]["next_conn"]
    streams[following]["next_ps"] = q[NOW]
    join(links, streams, following)


@kernel
def next_lost(st: Row, bits: U64) -> int:
    """Take the next record that is known to be lost, in turn; there is one."""
    at = st["bits_at"] + st["n_words"]
    w = st["again"]
    while bits[at + w] == ZERO:
        w = (w + 1) % st["n_words"]
    st["again"] = w
    k = lowest_bit(bits[at + w])
    bits[at + w] &= ~bit(k)
    st["n_lost"] -= 1
    return 64 * w + k


@kernel
def build_fan(q: I64, links: Rows, pkts: Rows, senders: Senders, s: int) -> int:
    """Next packet of a lane's first job: one for each SI that is wanted, PSN by PSN."""
    st = senders.streams[s]
    j = st["first_job"]
    job = senders.jobs[j]
    fan = senders.fans[job["fan"]]
    n_words = q[N_WORDS]
    p = take_pkt(q, pkts)
    pkt = pkts[p]
    first = lowest_bit(job["left"])
    row = job_row(job, first)
    for w in range(n_words):
        senders.pkt_bits[p, w] = senders.job_bits[row, job["si"] * n_words + w]
    mask = bit(first)
    n = 1
    if job["n_rows"] == 1:
        left = job["left"] & ~mask
        while n < q[SEG] and left != ZERO:
            low = bit(lowest_bit(left))
            mask |= low
            left &= ~low
            n += 1
    top = fan["last_n_psn"] - 1
    is_tail = job["block"] == fan["n_blocks"] - 1 and mask & bit(top) != ZERO
    payload = n * fan["stride"]
    if is_tail:
        payload += fan["last_bytes"] - fan["stride"]
    pkt["kind"], pkt["stream"], pkt["n"] = PK_FAN, job["fan"], n
    pkt["psn"], pkt["si"] = job["block"], job["si"]
    senders.pkt_bits[p, n_words] = mask
    pkt["bytes"] = payload + n * fan["head"]
    pkt["head"] = min(payload, fan["stride"]) + fan["head"]
    pkt["path"], pkt["labels"] = job["table"], 0
    if q[CUT_BYTES] > 0:
        pkt["head"] = q[CUT_BYTES]
    pkt["span_ps"], pkt["marked"], pkt["trimmed"] = 0, 0, 0
    pkt["again"], pkt["stamp"], pkt["ttl"] = job["again"], job["round"], 64
    if job["again"] != 0:
        q[REPAIR_PKTS] += n
        q[REPAIR_BYTES] += pkt["bytes"]
    st["next_ps"] = max(st["next_ps"], q[NOW]) + pkt["bytes"] * st["gap_ps"]
    job["left"] &= ~mask
    pkt["poll"] = job["poll"] if job["left"] == ZERO or job["again"] != 0 else 0
    if job["left"] == ZERO and not next_si(q, senders.jobs, senders.job_bits, j):
        st["first_job"] = job["next"]
        if job["next"] == NONE:
            part(links, senders.streams, s)
        upcall(q, UPCALL_SENT, job["fan"], j)
    return p


@kernel
def build_block(q: I64, links: Rows, pkts: Rows, senders: Senders, s: int) -> int:
    """Next block of a rank of a sum."""
    m = senders.streams[s]["rank"]
    p = build_array(q, pkts, senders.ranks, m)
    if not may_send_block(senders.ranks, m):
        part(links, senders.streams, s)
    return p


@kernel
def next_si(q: I64, jobs: Rows, job_bits: U64, j: int) -> bool:
    """Go to the next SI of a job in which anybody is wanted; False when there is none."""
    job = jobs[j]
    while job["si"] + 1 < q[N_SI]:
        job["si"] += 1
        job["left"] = wanted(q, job, job_bits)
        if job["left"] != ZERO:
            return True
    return False


@kernel
def wanted(q: I64, job: Row, job_bits: U64) -> np.uint64:
    """PSNs of a job that anybody of its SI is to get."""
    found = ZERO
    at = job["si"] * q[N_WORDS]
    left = job["psns"]
    while left != ZERO:
        psn = lowest_bit(left)
        left &= ~bit(psn)
        row = job_row(job, psn)
        for w in range(at, at + q[N_WORDS]):
            if job_bits[row, w] != ZERO:
                found |= bit(psn)
    return np.uint64(found)


@kernel
def job_row(job: Row, psn: int) -> int:
    """Row of BitStrings for one PSN of a job."""
    if job["n_rows"] == 1:
        return i64(job["bits_at"])
    return i64(job["bits_at"] + n_bits(job["psns"] & (bit(psn) - ONE)))
