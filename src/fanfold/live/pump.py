"""The compiled socket loop: blocks in, kernels over their headers, blocks out (ADR 0005).

One ``recvmsg`` with UDP_GRO brings up to 64 KB of equal-size packets, one ``sendmsg`` with
UDP_SEGMENT for each neighbour sends them on. Python is entered when a block leaves something
for a role: never for each packet.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.codes import CLASS_FEEDBACK, DROP_SOCKET_FULL, DROP_UNKNOWN_PEER, OF_LINK
from fanfold.kernels.collect import Collect, collect_pass, is_call
from fanfold.kernels.due import next_report
from fanfold.kernels.feedback import raise_queue, write_feedback
from fanfold.kernels.forward import patch, plan_pass
from fanfold.kernels.frame import check_bier, classify
from fanfold.kernels.impairment import Impairments, impair, release
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import BIER_PORT, MAX_PSN, UNDERLAY_BYTES
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.slots import expire, let_go
from fanfold.kernels.state import U8, Counters, Fold, Plan, Ports, Rows
from fanfold.kernels.store import has_store, is_worth, keep_pass
from fanfold.kernels.tables import Bifts
from fanfold.kernels.vat import Vats
from fanfold.live.arrays import end_arrays, fold_pass, seal_came, seal_run
from fanfold.live.exits import (
    aim,
    count_sent,
    drain,
    flow_row,
    note_drops,
    pressure_at,
    put_run,
    send_end,
    send_packet,
    send_run,
)
from fanfold.live.life import has_other, note_traffic, take_in
from fanfold.live.mending import send_mends
from fanfold.live.rings import next_in, ring_owed, wait_for
from fanfold.live.sock import (
    BASE,
    BUF_BYTES,
    DROPS_SEEN,
    EMPTY_PS,
    END,
    FD,
    FIRST,
    HELD_DUE,
    LATER,
    NEXT,
    PEER_ADDR,
    PORT,
    REST_AT,
    REST_END,
    ROOM_CAME,
    SEG,
    STIRRED,
    TAP_IN,
    TAP_OUT,
    TAP_USED,
    TAPPING,
    Sock,
    came_at,
    now,
    tap_packets,
)
from fanfold.live.syscalls import (
    SO_MEMINFO,
    SOL_SOCKET,
    getsockopt,
)
from fanfold.live.trailers import open_run

IDLE = 0
LOCAL = 1
EVENTS = 2
BUSY = 3
SLOT_REST_PS = 1_000_000_000
"""Between two looks at all slots: a deadline is 60 ms at least, and may come this much late."""


class Node(NamedTuple):
    """Everything a node's loop works on."""

    row: Rows
    bifts: Bifts
    ports: Ports
    fold: Fold
    counters: Counters
    plan: Plan
    collect: Collect
    impairments: Impairments
    vats: Vats


@kernel
def port_of(ports: Ports, addr: int) -> int:
    """Port of a neighbour's address, 0 of a rank at this host, or -1."""
    for p in range(1, ports.addr.shape[0]):
        if ports.addr[p] == addr:
            return p
    return 0 if ports.addr[0] == addr and ports.bfr_id[0] != 0 else -1


@kernel
def measure_queue(sock: Sock, node: Node) -> None:
    """Fill of the receive queue into ``queue``; 255 when the socket dropped since last time."""
    sock.mem[8] = 36
    mem = np.uint64(sock.mem.ctypes.data)
    fd = sock.ints[FD]
    if getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, mem + np.uint64(64)) < 0:
        return
    used = sock.mem[0] & 0xFFFFFFFF
    room = max(sock.mem[0] >> 32, 1)
    drops = sock.mem[4] & 0xFFFFFFFF
    fill = min(used * 255 // room, 254)
    if drops != sock.ints[DROPS_SEEN]:
        node.counters.drops[DROP_SOCKET_FULL] += (drops - sock.ints[DROPS_SEEN]) & 0xFFFFFFFF
        sock.ints[DROPS_SEEN] = drops
        fill = 255
    node.row[0]["queue"] = max(fill, node.row[0]["queue"] - 8)


@kernel
def tap_sent(
    sock: Sock, buf: U8, first: int, seg: int, n: int, port: int, lo: int, hi: int, node: Node
) -> None:
    """Capture copies ``lo`` to ``hi`` of a port."""
    plan = node.plan
    for i in range(lo, hi):
        at = first + plan.pkt[port, i] * seg
        size = min(seg, n - at)
        addr, dport = node.ports.addr[port], plan.dport[port, i]
        tap_packets(sock, buf, at, size, seg, port, TAP_OUT, dport, addr)


@kernel
def send_plan(sock: Sock, buf: U8, first: int, seg: int, n: int, node: Node) -> None:
    """Send every planned copy, one call for each run of packets to one port."""
    plan = node.plan
    for port in range(1, plan.n.shape[0]):
        total = plan.n[port]
        if total == 0:
            continue
        patch(buf, first, seg, port, plan)
        lo = 0
        while lo < total:
            hi = send_end(sock, plan, port, lo, seg, n - first)
            if sock.ints[TAPPING] != 0:
                tap_sent(sock, buf, first, seg, n, port, lo, hi, node)
            if not put_run(sock, buf, port, lo, hi, first, seg, n, plan, node.counters):
                if first >= BUF_BYTES:
                    seal_run(buf, first, seg, n, port, lo, hi, plan)
                aim(sock, node.ports.addr[port], plan.dport[port, lo])
                send_run(sock, buf, port, lo, hi, first, seg, n, plan, node.counters)
            lo = hi


@kernel
def send_ready(sock: Sock, node: Node) -> None:
    """Send up the word of every slot that is complete or past its deadline, and free it."""
    fold = node.fold
    for i in range(fold.ready[0]):
        slot = fold.ready[1 + i]
        row = fold.rows[slot]
        port = row["port"]
        if node.row[0]["queue"] > row["queue"]:
            row["queue"] = node.row[0]["queue"]
        psn = 0
        while psn < MAX_PSN:
            coded = write_feedback(
                fold, slot, node.row[0]["addr"], node.row[0]["mtu"], psn, sock.out
            )
            size = coded // 128
            psn = coded % 128
            send_up(sock, node, port, row["bfir_id"], row["flow_port"], row["flow"], size)
        let_go(row)
    fold.ready[0] = 0


@kernel
def mend(sock: Sock, node: Node) -> None:
    """Send the repairs that this BFR makes itself."""
    send_mends(sock, node.fold.store, node.bifts, node.ports, node.counters, node.plan)


@kernel
def keep_block(sock: Sock, node: Node, first: int, when: int) -> None:
    """Keep the pass in hand to repair from, where something was lost lately."""
    if is_worth(node.row, when):
        n, seg = min(sock.ints[NEXT], sock.ints[END]), sock.ints[SEG]
        keep_pass(sock.buf, first, seg, n, node.plan, node.counters, node.fold)


@kernel
def send_up(
    sock: Sock, node: Node, port: int, bfir_id: int, flow_port: int, flow: int, size: int
) -> None:
    """Send the FEEDBACK in ``sock.out`` toward the BFIR through ``port``."""
    dport = flow_port if node.ports.bfr_id[port] == bfir_id else BIER_PORT
    aim(sock, node.ports.addr[port], dport)
    if sock.ints[TAPPING] != 0:
        tap_packets(sock, sock.out, 0, size, size, port, TAP_OUT, dport, node.ports.addr[port])
    if send_packet(sock, port, sock.out, size):
        key = (bfir_id << 32) | flow
        count_sent(node.counters, port, CLASS_FEEDBACK, flow_row(node.counters, key), size)


@kernel
def next_block(sock: Sock, node: Node, when: int) -> bool:
    """Bring the next block into hand: a held one that is due, else one from a neighbour."""
    ints = sock.ints
    if ints[REST_AT] < ints[REST_END]:
        open_run(sock, node.counters.drops, when)
        show_block(sock, node, when)
        return True
    if node.impairments.n_held[0] > 0 and ints[HELD_DUE] <= when:
        n = release(sock.buf, when, node.impairments, sock.found)
        ints[HELD_DUE] = sock.found[2]
        if n > 0:
            ints[SEG], ints[PORT] = sock.found[1], sock.found[0]
            ints[NEXT], ints[END] = 0, n
            sock.name_in[2], sock.name_in[3] = 0, 0  # who sent it is not known any more
            open_run(sock, node.counters.drops, when)
            return True
    n = next_in(sock)
    if n < 0:
        ints[EMPTY_PS] = when
        return False
    ints[NEXT], ints[END] = ints[BASE], ints[BASE] + n
    ints[PORT] = port_of(node.ports, ints[PEER_ADDR])
    if ints[PORT] < 0:
        node.counters.drops[DROP_UNKNOWN_PEER] += (n + ints[SEG] - 1) // ints[SEG]
        ints[END] = ints[NEXT]
        return True
    if node.impairments.ports[ints[PORT]]["active"] != 0:
        if ints[BASE] != 0:
            copy_octets(sock.buf, 0, sock.buf, ints[BASE], n)
        ints[NEXT] = 0
        ints[END] = impair(
            sock.buf,
            n,
            ints[SEG],
            ints[PORT],
            when,
            node.impairments,
            node.counters.drops,
            came_at(sock, when),
        )
        if node.impairments.n_held[0] > 0:
            ints[HELD_DUE] = min(ints[HELD_DUE], when)
    open_run(sock, node.counters.drops, when)
    show_block(sock, node, when)
    return True


@kernel
def show_block(sock: Sock, node: Node, when: int) -> None:
    """Capture the block in hand, and mark FEEDBACK that comes from behind a full port."""
    ints = sock.ints
    if sock.ints[TAPPING] != 0 and ints[END] > ints[NEXT]:
        if ints[NEXT] >= BUF_BYTES:
            seal_came(sock, node.bifts)
        tap_packets(
            sock,
            sock.buf,
            ints[NEXT],
            ints[END] - ints[NEXT],
            ints[SEG],
            ints[PORT],
            TAP_IN,
            BIER_PORT,
            ints[PEER_ADDR],
        )
    if node.row[0]["folds"] != 0:
        tell_pressure(sock, node, when)


@kernel
def tell_pressure(sock: Sock, node: Node, when: int) -> None:
    """Who speaks from behind a port whose queue is full: its FEEDBACK says so on its way up.

    So a sender hears of a full queue with the words of those behind it, however late they are,
    and a lane is slowed by queues on its own way only.
    """
    port, seg, end = sock.ints[PORT], sock.ints[SEG], sock.ints[END]
    pressure = pressure_at(sock, port, when)
    at = sock.ints[NEXT]
    while pressure > 0 and at < end:
        size = min(seg, end - at)
        t = check_bier(sock.buf, at, size, node.bifts.ids, node.bifts.n_words)
        if t >= 0:
            n_words = node.bifts.n_words[t]
            if classify(sock.buf, at, size, n_words) == CLASS_FEEDBACK:
                raise_queue(sock.buf, at, size, n_words, pressure, node.row[0]["bfr_id"])
        at += seg


@kernel
def count_received(sock: Sock, node: Node, first: int) -> None:
    """Count the packets of the pass in hand by port and class."""
    seg = sock.ints[SEG]
    rx = node.counters.rx[sock.ints[PORT]]
    k = 0
    at = first
    while at < min(sock.ints[NEXT], sock.ints[END]):
        n_pkts = node.plan.run[k]
        kind = node.plan.kind[k]
        if kind != OF_LINK:
            rx[kind, 0] += n_pkts
            rx[kind, 1] += min(n_pkts * seg, sock.ints[END] - at) + n_pkts * UNDERLAY_BYTES
        at += n_pkts * seg
        k += n_pkts


@kernel
def pump(sock: Sock, node: Node, turns: int) -> int:
    """Work until nothing waits, a role is needed, or ``turns`` blocks are done.

    Returns:
        IDLE: nothing waits. LOCAL: packets for a role stand in the block in hand, listed by
        the plan's port 0. EVENTS: blocks of a followed flow need attention. BUSY: more waits.
    """
    ints = sock.ints
    when = now(sock)
    note_drops(node.counters, ints[PORT])  # of what a role refused
    measure_queue(sock, node)
    note_drops(node.counters, 0)
    for _ in range(turns):
        drain(sock)
        if ints[NEXT] >= ints[END] and not next_block(sock, node, when):
            end_slots(sock, node, when)
            return EVENTS if node.collect.n_events[0] > 0 else IDLE
        take_in(sock, node.counters.drops, when)
        note_drops(node.counters, ints[PORT])
        if ints[NEXT] >= ints[END]:
            continue
        first = ints[NEXT]
        ints[FIRST] = first
        ints[NEXT] = plan_pass(
            sock.buf,
            first,
            ints[END],
            ints[SEG],
            ints[PORT],
            when,
            node.row,
            node.bifts,
            node.ports,
            node.fold,
            node.counters,
            node.plan,
            node.vats,
        )
        note_traffic(sock, node.plan)
        count_received(sock, node, first)
        send_plan(sock, sock.buf, first, ints[SEG], ints[END], node)
        if has_store(node.fold.store):
            mend(sock, node)
            keep_block(sock, node, first, when)
        if node.fold.ready[0] > 0:
            send_ready(sock, node)
        if node.plan.n[0] > 0:
            take_local(sock, node, first, when)
        note_drops(node.counters, ints[PORT])
        if node.plan.n[0] > 0:
            if has_other(sock, node.plan, first):
                return LOCAL
            if is_call(node.collect):
                return EVENTS
        if ints[TAPPING] != 0 and ints[TAP_USED] * 2 > sock.tap.shape[0]:
            return BUSY
        when = now(sock)
    end_slots(sock, node, when)
    return BUSY


@kernel
def take_local(sock: Sock, node: Node, first: int, when: int) -> None:
    """Take in what the pass in hand has for this node: arrays and DATA of followed flows."""
    if node.vats.rows.shape[0] > 1:
        fold_pass(
            sock,
            first,
            when,
            node.row,
            node.bifts,
            node.ports,
            node.counters,
            node.plan,
            node.vats,
        )
    collect_pass(
        sock.buf,
        first,
        sock.ints[SEG],
        sock.ints[END],
        sock.ints[PORT],
        when,
        node.plan,
        node.collect,
        node.counters.drops,
    )


@kernel
def end_slots(sock: Sock, node: Node, when: int) -> None:
    """Send up what slots past their deadline have heard, at most once in SLOT_REST_PS."""
    row = node.row[0]
    if row["next_ps"] <= when:
        row["next_ps"] = max(expire(node.fold, node.row, when), when + SLOT_REST_PS)
        mend(sock, node)
        send_ready(sock, node)
    end_arrays(
        sock,
        when,
        SLOT_REST_PS,
        node.row,
        node.bifts,
        node.ports,
        node.counters,
        node.plan,
        node.vats,
    )


@kernel
def serve(sock: Sock, node: Node, turns: int, until_ps: int) -> int:
    """Pump and wait, pump and wait, until a role is needed or ``until_ps`` has come.

    Entering compiled code costs as much as forwarding a block, so a BFR stays in here.

    Returns:
        LOCAL, EVENTS or BUSY as ``pump``; IDLE at ``until_ps``, when gaps are to be reported,
        when the wake-up descriptor is readable or a signal came.
    """
    sock.ints[LATER] = 1
    code = serve_on(sock, node, turns, until_ps)
    sock.ints[LATER] = 0
    ring_owed(sock)
    return code


@kernel
def serve_on(sock: Sock, node: Node, turns: int, until_ps: int) -> int:
    """``serve``, with neighbours that are to be woken at its end."""
    while True:
        code = pump(sock, node, turns)
        when = now(sock)
        if code == LOCAL or code == EVENTS or sock.ints[TAPPING] != 0 or when >= until_ps:
            return code
        if sock.ints[ROOM_CAME] != 0 or sock.ints[STIRRED] != 0:
            return code
        if code == BUSY:
            ring_owed(sock)
            continue
        report_ps = next_report(node.collect)
        until = min(until_ps, node.row[0]["next_ps"], sock.ints[HELD_DUE], report_ps)
        until = min(until, node.vats.clock[0])
        if until > when and wait_for(sock, until - when):
            return IDLE
        if report_ps <= now(sock):
            return IDLE


@kernel
def transmit(sock: Sock, node: Node, buf: U8, n: int, seg: int) -> int:
    """Send a block of packets imposed here along this node's own BIFT.

    Returns:
        Packets that left, over all ports.
    """
    when = now(sock)
    at = 0
    sent = 0
    while at < n:
        following = plan_pass(
            buf,
            at,
            n,
            seg,
            0,
            when,
            node.row,
            node.bifts,
            node.ports,
            node.fold,
            node.counters,
            node.plan,
            node.vats,
        )
        send_plan(sock, buf, at, seg, n, node)
        for port in range(1, node.plan.n.shape[0]):
            sent += node.plan.n[port]
        at = following
    return sent
