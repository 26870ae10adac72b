"""Messages between two hosts: data, acknowledgements, loss, pulls (docs/simulator.md 5).

roce: cumulative ACKs, a NACK for each gap, go back n. plain: an ACK for each record, what is
missing is sent again. ndp: as plain, and the receiver pulls; headers of cut packets are NACKed.
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.rank_timers import note_round
from fanfold.kernels.replicate import bit
from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.loop.events import push
from fanfold.sim.loop.nic import join, kick, may_send, part, queue_ps
from fanfold.sim.loop.ports import take_pkt
from fanfold.sim.loop.ranks import start_rank
from fanfold.sim.loop.rows import (
    ACK_BYTES,
    AT_LOST,
    EV_PULL,
    EV_RETRY,
    EV_START,
    I64,
    LOSSY,
    N_DONE,
    N_HOPS,
    N_KINDS,
    NDP,
    NONE,
    NOW,
    ON,
    PK_ACK,
    PK_NACK,
    PK_PULL,
    PULL_PS,
    REORDER,
    ROCE,
    RTO_PS,
    TRANSPORT,
    U64,
    UPCALL_START,
    Row,
    Rows,
    Senders,
)
from fanfold.sim.loop.upcall import upcall

MAX_BACKOFF = 6
DEVIATIONS = 4
"""Of round trips, by which a packet may be later on another path (RFC 6298 2.3)."""
UNKNOWN = 4
"""Shortest waits of a connection that nothing was heard on yet."""
MAX_TRIES = 32
"""Timers that run out one after the other before a sender gives up."""
AGAIN_SHIFT = 20
"""A microsecond is another path for what answers a packet sent again."""
RECEIVED = 0
ACKED = 1
"""As in schemes/program.py."""


@kernel
def start_item(
    q: I64, links: Rows, pkts: Rows, senders: Senders, items: Rows, deps: I64, i: int
) -> None:
    """All that an item waits for has happened: its streams or ranks, or its fan, begin.

    A pause is called when its time is over.
    """
    item = items[i]
    item["started_ps"] = q[NOW] - item["pause_ps"]
    if item["fan"] != NONE:
        upcall(q, UPCALL_START, item["fan"], 0)
        return
    if item["n_streams"] == 0:
        settle(q, items, deps, i, RECEIVED)
        settle(q, items, deps, i, ACKED)
        return
    streams = senders.streams
    for s in range(item["first"], item["first"] + item["n_streams"]):
        st = streams[s]
        if st["rank"] != NONE:
            start_rank(q, links, pkts, senders, st["rank"])
            continue
        conn = senders.conns[st["conn"]]
        if conn["now"] != NONE:
            st["next_conn"] = NONE
            if conn["first"] == NONE:
                conn["first"] = s
            else:
                streams[conn["last"]]["next_conn"] = s
            conn["last"] = s
            continue
        conn["now"] = s
        st["next_ps"] = q[NOW]
        join(links, streams, s)
        kick(q, links, pkts, senders, st["nic"])


@kernel
def settle(q: I64, items: Rows, deps: I64, i: int, what: int) -> None:
    """One stream or receiver of an item is done (``what``: RECEIVED or ACKED)."""
    item = items[i]
    if what == ACKED:
        item["unacked"] -= 1
        if item["unacked"] > 0:
            return
        item["done_ps"] = q[NOW]
        q[N_DONE] += 1
    else:
        item["unreceived"] -= 1
        if item["unreceived"] > 0:
            return
        item["got_ps"] = q[NOW]
    if q[ON] != what:
        return
    n_items = items.shape[0]
    for d in range(deps[i], deps[i + 1]):
        waiting = deps[n_items + 1 + d]
        items[waiting]["needs"] -= 1
        if items[waiting]["needs"] == 0:
            when = max(q[NOW], items[waiting]["start_ps"]) + items[waiting]["pause_ps"]
            push(q, when, waiting * N_KINDS + EV_START)


@kernel
def answer(q: I64, links: Rows, pkts: Rows, p: int, kind: int, value: int) -> int:
    """Control packet back to the sender of ``p``, over the link it came on."""
    a = take_pkt(q, pkts)
    ack = pkts[a]
    pkt = pkts[p]
    ack["kind"], ack["stream"], ack["psn"] = kind, pkt["stream"], value
    n = pkt["n"] if kind == PK_ACK else 1
    ack["n"], ack["bytes"], ack["head"] = n, n * q[ACK_BYTES], q[ACK_BYTES]
    ack["span_ps"], ack["trimmed"], ack["again"] = 0, 0, 0
    ack["marked"], ack["stamp"] = pkt["marked"], pkt["stamp"]
    ack["path"] = pkt["psn"] * 7 + pkt["stream"] * 13
    if pkt["again"] != 0:  # the path of the first one may lead over a dead link
        ack["path"] += (q[NOW] >> AGAIN_SHIFT) & 0xFFFF
    ack["link"] = links[pkt["link"]]["reverse"]
    return a


@kernel
def on_data(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    streams: Rows,
    bits: U64,
    items: Rows,
    deps: I64,
    p: int,
) -> int:
    """A record of a message at its receiver.

    Returns:
        The control packet to post, or NONE.
    """
    pkt = pkts[p]
    s = pkt["stream"]
    st = streams[s]
    r = pkt["psn"]
    if pkt["trimmed"] != 0:
        return answer(q, links, pkts, p, PK_NACK, r)
    if q[TRANSPORT] == ROCE:
        if r > st["expected"]:
            if st["nacked"] == st["expected"]:
                return NONE
            st["nacked"] = st["expected"]
            return answer(q, links, pkts, p, PK_NACK, st["expected"])
        if r < st["expected"]:
            return answer(q, links, pkts, p, PK_ACK, st["expected"])
        st["expected"] += 1
    else:
        at = st["bits_at"] + 2 * st["n_words"] + (r >> 6)
        if bits[at] & bit(r & 63) != ZERO:
            return answer(q, links, pkts, p, PK_ACK, r)
        bits[at] |= bit(r & 63)
        if st["path_step"] != 0 or st["qp_n"] > 1:
            note_order(streams, bits, s, r)
    st["n_got"] += 1
    if q[LOSSY] != 0:
        links[st["queue_at"]]["coming"] -= pkt["bytes"]
    node = nodes[st["dst"]]
    node["got_bytes"] += st["rec_payload"] if r < st["n_recs"] - 1 else st["last_payload"]
    if st["n_got"] == st["n_recs"]:
        node["done_ps"] = q[NOW]
        settle(q, items, deps, st["item"], RECEIVED)
    return answer(q, links, pkts, p, PK_ACK, st["expected"] if q[TRANSPORT] == ROCE else r)


@kernel
def note_order(streams: Rows, bits: U64, s: int, r: int) -> None:
    """Where packets take many paths: how many came ahead of the first that is awaited.

    Records of a queue pair of several streams are dealt to them in turn.
    """
    st = streams[s]
    if st["expected"] == r:
        base = st["bits_at"] + 2 * st["n_words"]
        x = r
        while x < st["n_recs"] and bits[base + (x >> 6)] & bit(x & 63) != ZERO:
            x += 1
        st["expected"] = x
    first, n = st["qp_first"], st["qp_n"]
    n_got, in_order = 1, NEVER_PS
    for k in range(n):
        one = streams[first + k]
        n_got += one["n_got"]
        if one["expected"] < one["n_recs"]:
            in_order = min(in_order, one["expected"] * n + k)
    st["depth"] = max(st["depth"], n_got - min(in_order, n_got))


@kernel
def on_answer(
    q: I64,
    links: Rows,
    pkts: Rows,
    senders: Senders,
    items: Rows,
    deps: I64,
    p: int,
) -> None:
    """An ACK, a NACK or a pull at the sender; the caller kicks its port."""
    pkt = pkts[p]
    streams, bits = senders.streams, senders.bits
    s = pkt["stream"]
    st = streams[s]
    kind = pkt["kind"]
    now = q[NOW]
    if kind == PK_PULL:
        st["credit"] += 1
    elif kind == PK_NACK:
        st["n_acks"] += 1
        if q[TRANSPORT] == ROCE:
            go_back(st, pkt["psn"])
        else:
            lose(st, bits, pkt["psn"])
    else:
        st["n_acks"] += pkt["n"]
        before = st["n_acked"]
        if q[TRANSPORT] == ROCE:
            st["n_acked"] = max(before, pkt["psn"])
            st["una"] = st["n_acked"]
            st["n_sent"] = max(st["n_sent"], st["una"])
        else:
            mark_acked(q, senders, pkt["stream"], pkt["psn"])
            if pkt["psn"] == st["probe"] and pkt["stamp"] >= st["probe_ps"]:
                st["probe"] = NONE
                lose_open(st, bits, st["probe_end"])
        if st["n_acked"] > before:
            note_round(senders.conns[st["conn"]], max(now - pkt["stamp"], 1))
            st["moved_ps"] = now
            st["backoff"] = 0
            if st["n_acked"] == st["n_recs"]:
                settle(q, items, deps, st["item"], ACKED)
    if may_send(q, st):
        join(links, streams, s)
    elif st["active"] != 0:  # what it waited to send again has come after all
        part(links, streams, s)


@kernel
def go_back(st: Row, expected: int) -> None:
    """RoCE: send everything again from the record the receiver waits for."""
    if expected >= st["una"]:
        st["una"] = expected
        st["n_acked"] = expected
        st["n_sent"] = expected


@kernel
def lose(st: Row, bits: U64, r: int) -> None:
    """Note a record as lost, unless it is acknowledged or noted already."""
    at = st["bits_at"] + (r >> 6)
    b = bit(r & 63)
    if bits[at] & b == ZERO and bits[at + st["n_words"]] & b == ZERO:
        bits[at + st["n_words"]] |= b
        st["n_lost"] += 1


@kernel
def lose_open(st: Row, bits: U64, end: int) -> None:
    """Note as lost all records below ``end`` that are not acknowledged."""
    for r in range(end):
        lose(st, bits, r)


@kernel
def probe(st: Row, bits: U64, now_ps: int) -> None:
    """Send the first open record again, to hear whether anything still gets through."""
    for r in range(st["n_sent"]):
        if bits[st["bits_at"] + (r >> 6)] & bit(r & 63) == ZERO:
            st["probe"], st["probe_ps"], st["probe_end"] = r, now_ps, st["n_sent"]
            lose(st, bits, r)
            return


@kernel
def mark_acked(q: I64, senders: Senders, s: int, r: int) -> None:
    """One record is acknowledged; what lies far below it and is not was lost.

    Other paths, and those of answers, may be longer by what stands in their queues: it is lost
    when no answer has come for as long as round trips differ (RFC 8985 6.2 step 4), if the
    stream has lost anything.
    """
    st, bits = senders.streams[s], senders.bits
    at = st["bits_at"] + (r >> 6)
    b = bit(r & 63)
    if bits[at] & b != ZERO:
        return
    bits[at] |= b
    st["n_acked"] += 1
    if bits[at + st["n_words"]] & b != ZERO:
        bits[at + st["n_words"]] &= ~b
        st["n_lost"] -= 1
    if q[LOSSY] == 0 or q[TRANSPORT] == NDP or q[q[AT_LOST] + s] == 0:
        return
    conn = senders.conns[st["conn"]]
    if st["passed"] <= st["seen"]:
        st["passed"], st["passed_ps"] = r - q[REORDER], q[NOW]
    if q[NOW] < st["passed_ps"] + DEVIATIONS * conn["var_ps"]:
        return
    while st["seen"] < st["passed"]:
        x = st["seen"]
        lose(st, bits, x)
        st["seen"] = x + 1


@kernel
def patience(q: I64, conn: Row) -> int:
    """How long a connection waits: longer while it knows no round trip (RFC 6298 2.1)."""
    if conn["srtt_ps"] == 0:
        return i64(UNKNOWN * q[RTO_PS])
    return i64(max(q[RTO_PS], conn["srtt_ps"] + DEVIATIONS * conn["var_ps"]))


@kernel
def on_retry(q: I64, links: Rows, senders: Senders, s: int) -> bool:
    """A stream's timer: nothing moved for too long, and not for a queue (RFC 8985 7).

    One that has lost nothing waits on while anything moves: what senders find out later, by
    time stamps (RFC 3522, RFC 5682), they know here at once. RoCE's receiver drops what comes
    out of order, so its silence may be its own. At first one record asks whether it is a loss
    or a queue: when it is acknowledged, or the wait ends again, all that was open is lost.
    """
    streams, bits = senders.streams, senders.bits
    st = streams[s]
    if st["n_acked"] >= st["n_recs"]:
        st["timer_ps"] = 0
        return False
    wait = patience(q, senders.conns[st["conn"]]) << min(st["backoff"], MAX_BACKOFF)
    due = max(st["moved_ps"] + wait, due_by(links, st, q[NOW], wait))
    if q[q[AT_LOST] + s] == 0 and q[TRANSPORT] != ROCE and q[N_HOPS] > st["hops"]:
        due = max(due, q[NOW] + wait)
    st["hops"] = q[N_HOPS]
    if q[NOW] < due:
        st["timer_ps"] = due
        push(q, st["timer_ps"], s * N_KINDS + EV_RETRY)
        return False
    st["backoff"] += 1
    if st["backoff"] > MAX_TRIES:
        st["timer_ps"] = NONE  # never set again: the item stays open, and is named
        return False
    st["moved_ps"] = q[NOW]
    if q[TRANSPORT] == ROCE:
        st["n_sent"] = st["una"]
    else:
        if st["backoff"] > 1 or st["n_lost"] > 0:
            lose_open(st, bits, st["n_sent"])
        else:
            probe(st, bits, q[NOW])
        st["credit"] = max(st["credit"], 1)
    st["timer_ps"] = q[NOW] + wait
    push(q, st["timer_ps"], s * N_KINDS + EV_RETRY)
    if may_send(q, st):
        join(links, streams, s)
        return True
    return False


@kernel
def due_by(links: Rows, st: Row, now_ps: int, wait_ps: int) -> int:
    """When what a stream has sent, and word of it, has come through the queues on its way.

    Others' packets may have gone ahead of its own: once after each move it waits for what is
    still coming, and half as long.
    """
    queue = queue_ps(links, st)
    if st["waited_ps"] != st["moved_ps"] and queue > wait_ps:
        st["waited_ps"] = st["moved_ps"]
        st["due_ps"] = max(st["due_ps"], now_ps + queue + queue // 2)
    return i64(st["due_ps"])


@kernel
def ask_for_more(q: I64, nodes: Rows, streams: Rows, pkt: Row) -> None:
    """NDP: each packet that came, whole or cut, is worth one more."""
    s = pkt["stream"]
    if q[TRANSPORT] == NDP and streams[s]["n_got"] < streams[s]["n_recs"]:
        want_pull(q, nodes, streams, s)


@kernel
def want_pull(q: I64, nodes: Rows, streams: Rows, s: int) -> None:
    """Let a receiver pull one more record of a stream, in its turn."""
    st = streams[s]
    node = nodes[st["dst"]]
    st["pulls"] += 1
    if st["pulls"] == 1:
        st["next_pull"] = NONE
        if node["first_pull"] == NONE:
            node["first_pull"] = s
        else:
            streams[node["last_pull"]]["next_pull"] = s
        node["last_pull"] = s
    if node["pulling"] == 0:
        node["pulling"] = 1
        push(q, max(q[NOW], node["pull_ps"]), st["dst"] * N_KINDS + EV_PULL)


@kernel
def on_pull(q: I64, nodes: Rows, pkts: Rows, streams: Rows, h: int) -> int:
    """A receiver's next pull is due: one packet to the stream whose turn it is.

    Returns:
        The packet to post, NONE when nobody is to be pulled.
    """
    node = nodes[h]
    s = node["first_pull"]
    if s == NONE:
        node["pulling"] = 0
        return NONE
    st = streams[s]
    node["first_pull"] = st["next_pull"]
    st["pulls"] -= 1
    if st["n_got"] >= st["n_recs"]:
        st["pulls"] = 0
    if st["pulls"] > 0:
        st["next_pull"] = NONE
        if node["first_pull"] == NONE:
            node["first_pull"] = s
        else:
            streams[node["last_pull"]]["next_pull"] = s
        node["last_pull"] = s
    if node["first_pull"] == NONE:
        node["pulling"] = 0
    node["pull_ps"] = q[NOW] + q[PULL_PS]
    if node["pulling"] != 0:
        push(q, node["pull_ps"], h * N_KINDS + EV_PULL)
    a = take_pkt(q, pkts)
    pull = pkts[a]
    pull["kind"], pull["stream"], pull["psn"], pull["n"] = PK_PULL, s, 0, 1
    pull["bytes"], pull["head"] = q[ACK_BYTES], q[ACK_BYTES]
    pull["span_ps"], pull["trimmed"], pull["again"], pull["marked"] = 0, 0, 0, 0
    pull["stamp"], pull["path"] = q[NOW], st["n_got"] * 7 + s * 13
    pull["link"] = node["first_out"]
    return a
