"""The loop: take the next event, do what it says, until something stops it."""

from fanfold.kernels.bift import HERE
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.loop.events import heap_pop, next_bucket, push_pkt
from fanfold.sim.loop.fans import Bier, on_fan, on_slots, on_word
from fanfold.sim.loop.folds import on_arrays, on_fold
from fanfold.sim.loop.nic import kick, post
from fanfold.sim.loop.ports import drop, enqueue, free_pkt, port_free, send, serve_port
from fanfold.sim.loop.ranks import close_sum, on_rank, on_timer
from fanfold.sim.loop.receivers import Receivers, on_fan_data, on_report, speak_up
from fanfold.sim.loop.rows import (
    AT_READY,
    AT_SIDE,
    CAP,
    CUT,
    DONE,
    EMPTY,
    EV_ARRAYS,
    EV_ARRIVE,
    EV_CABLE,
    EV_NIC,
    EV_PAUSE,
    EV_PORT,
    EV_PULL,
    EV_RANK,
    EV_REPORT,
    EV_RESUME,
    EV_RETRY,
    EV_SLOTS,
    EV_START,
    EV_WAKE,
    FULL,
    I64,
    I_READY,
    LATE,
    MAX_OUT,
    N_BODIES,
    N_DONE,
    N_EVENTS,
    N_FAR,
    N_FREE_PKT,
    N_HOSTS,
    N_ITEMS,
    N_KINDS,
    N_POOL,
    N_READY,
    N_SETS,
    N_SIDE,
    N_TOLD,
    N_UPCALLS,
    NONE,
    NOW,
    PER_PACKET,
    PK_ARRAY,
    PK_DATA,
    PK_FAN,
    SILENT_PS,
    STOP_PS,
    TRACE_STREAM,
    TURN,
    UPCALL,
    UPCALL_WAKE,
    Rows,
    Senders,
    World,
)
from fanfold.sim.loop.sum_rows import Sums
from fanfold.sim.loop.trace import trace
from fanfold.sim.loop.trains import place_train
from fanfold.sim.loop.unicast import (
    ACKED,
    RECEIVED,
    ask_for_more,
    on_answer,
    on_data,
    on_pull,
    on_retry,
    settle,
    start_item,
)
from fanfold.sim.loop.upcall import upcall
from fanfold.sim.loop.words import echo, on_word_home


@kernel
def run(
    q: I64,
    world: World,
    senders: Senders,
    bier: Bier | None,
    receivers: Receivers | None,
    sums: Sums | None,
    queued: I64 | None,
    turns: int,
) -> int:
    """Work through at most ``turns`` events.

    Without fans and sums ``bier`` and ``receivers`` are None, without sums ``sums``, without
    queued ports ``queued`` is, an array otherwise that nobody reads: numba leaves out all that
    is theirs, which halves the time to compile.

    Returns:
        DONE: every item is done, and no BFR is still to hear of it. EMPTY: nothing is pending.
        FULL: an array must grow. TURN: that many events. UPCALL: upcalls wait. LATE: the next
        event is past the stop time.
    """
    while turns > 0:
        if q[N_UPCALLS] > 0:
            return UPCALL
        if q[N_DONE] == q[N_ITEMS] and q[N_TOLD] == 0:
            return DONE
        if is_full(q):
            return FULL
        when = q[q[AT_READY] + 2 * q[I_READY]] if q[I_READY] < q[N_READY] else NEVER_PS
        if q[N_SIDE] > 0 and q[q[AT_SIDE]] < when:
            at = q[AT_SIDE]
            when, what = q[at], q[at + 2]
            if when > q[STOP_PS]:
                return LATE
            heap_pop(q, at, q[N_SIDE])
            q[N_SIDE] -= 1
        elif when < NEVER_PS:
            if when > q[STOP_PS]:
                return LATE
            what = q[q[AT_READY] + 2 * q[I_READY] + 1]
            q[I_READY] += 1
        else:
            if not next_bucket(q, world.pkts):
                return EMPTY
            continue
        q[NOW] = when
        q[N_EVENTS] += 1
        turns -= 1
        i = what // N_KINDS
        kind = what % N_KINDS
        if kind == EV_ARRIVE:
            arrive(q, world, senders, bier, receivers, sums, queued, i)
        elif kind == EV_NIC:
            link = world.links[i]
            if link["pending"] != 0 and link["wake_ps"] == when:
                link["pending"] = 0
                kick(q, world.links, world.pkts, senders, i)
        else:
            turn_to(q, world, senders, bier, receivers, sums, queued, kind, i)
    return TURN


@kernel
def is_full(q: I64) -> bool:
    """One more event might not find room."""
    used = q[N_POOL] + q[N_SIDE] + q[N_FAR] + q[N_READY] - q[I_READY]
    if q[CAP] - used < q[MAX_OUT] or q[N_BODIES] < q[MAX_OUT]:
        return True
    return q[N_FREE_PKT] < q[MAX_OUT]


@kernel
def arrive(
    q: I64,
    world: World,
    senders: Senders,
    bier: Bier | None,
    receivers: Receivers | None,
    sums: Sums | None,
    queued: I64 | None,
    p: int,
) -> None:
    """A packet at the end of its link: on through a router, or to its host."""
    links, pkts = world.links, world.pkts
    pkt = pkts[p]
    node = links[pkt["link"]]["dst"]
    if links[pkt["link"]]["up"] == CUT:
        links[pkt["link"]]["lost"] += pkt["n"]
        drop(q, pkts, p)
        return
    if q[SILENT_PS] > 0:
        links[pkt["link"]]["heard_ps"] = q[NOW]
    if q[TRACE_STREAM] != NONE:
        trace(q, world, senders.pkt_bits, p, node)
    if node < q[N_HOSTS] and pkt["span_ps"] > 0:  # the rest of a record
        push_pkt(q, pkts, q[NOW] + pkt["span_ps"], p)
        pkt["span_ps"] = 0
        return
    links[pkt["link"]]["arrived"] += pkt["n"]
    if pkt["kind"] < PK_FAN:
        if node >= q[N_HOSTS]:
            forward(q, world, senders.streams, queued, p, node)
        else:
            at_host(q, world, senders, queued, p)
    elif bier is not None and receivers is not None:
        if pkt["kind"] < PK_ARRAY:
            arrive_fan(q, world, senders, bier, receivers, p, node)
        elif sums is not None:
            arrive_fold(q, world, senders, bier, sums, p, node)


@kernel
def arrive_fan(
    q: I64,
    world: World,
    senders: Senders,
    bier: Bier,
    receivers: Receivers,
    p: int,
    node: int,
) -> None:
    """A packet of a fan at a BFR or a host."""
    links, pkts = world.links, world.pkts
    pkt = pkts[p]
    is_data = pkt["kind"] == PK_FAN
    if node >= q[N_HOSTS]:
        if is_data:
            on_fan(q, links, world.nodes, pkts, senders.pkt_bits, senders.fans, bier, p, node)
        else:
            on_word(q, links, world.nodes, pkts, senders.pkt_bits, senders.fans, bier, p, node)
    elif is_data:
        b = on_fan_data(
            q, world.nodes, pkts, senders.pkt_bits, senders.fans, receivers, p, node
        )
        finish_fan(q, world, senders, pkt["stream"])
        answer(q, world, senders, p, b)
        if b != NONE:
            say(q, world, senders, bier, receivers, b)
    else:
        on_word_home(q, pkts, senders.fans, p)


@kernel
def arrive_fold(
    q: I64, world: World, senders: Senders, bier: Bier, sums: Sums, p: int, node: int
) -> None:
    """A packet of a sum at a BFR or at a rank."""
    if node >= q[N_HOSTS]:
        on_fold(q, world, bier, sums, senders.ranks.sums, p, node)
        return
    m = on_rank(q, world, senders, p)
    free_pkt(q, world.pkts, p)
    if m != NONE:
        a = senders.ranks.rows[m]["sum"]
        item = senders.ranks.sums[a]["item"]
        settle(q, world.items, world.deps, item, RECEIVED)
        settle(q, world.items, world.deps, item, ACKED)
        if senders.ranks.sums[a]["n_open"] == 0:
            close_sum(q, world.links, world.pkts, senders, a)


@kernel
def forward(q: I64, world: World, streams: Rows, queued: I64 | None, p: int, node: int) -> None:
    """A unicast packet at a router: to its host, or to one of the next hops."""
    if world.pkts[p]["n"] > 1:
        place_train(q, world, streams, p, node)
    at = next_link(world, q, streams, p, node)
    if at == NONE:
        world.nodes[node]["n_dead"] += world.pkts[p]["n"]
        drop(q, world.pkts, p)
    elif queued is not None:
        enqueue(q, world.links, world.pkts, p, at)
    else:
        send(q, world.links, world.pkts, p, at)


@kernel
def next_link(world: World, q: I64, streams: Rows, p: int, node: int) -> int:
    """Link by which a router passes a unicast packet on, NONE when there is none."""
    pkt = world.pkts[p]
    st = streams[pkt["stream"]]
    down = pkt["kind"] == PK_DATA
    group = st["dst_group"] if down else st["src_group"]
    k = world.way[node - q[N_HOSTS], group]
    if k >= 0:
        n = world.sets[k + 1] - world.sets[k]
        at = q[N_SETS] + 1 + world.sets[k]
        if n > 1:
            at += pkt["path"] % n
            pkt["path"] //= n
        return i64(world.sets[at])
    if k == HERE:
        last = st["dst_link"] if down else st["src_link"]
        if last != NONE:
            return i64(last)
        host = st["dst"] if down else st["src"]
        return link_down(world, host, node, i64(pkt["path"]) if st["legs"] != 0 else NONE)
    return NONE


@kernel
def link_down(world: World, host: int, node: int, path: int) -> int:
    """Link of a router to a host that hangs on it: the first, or by path one that is up.

    path: a number that picks it, NONE for the first.
    """
    out = world.nodes[host]["first_out"]
    n_up, first = 0, NONE
    for u in range(out, out + world.nodes[host]["n_out"]):
        if world.links[u]["dst"] == node:
            if first == NONE:
                first = i64(world.links[u]["reverse"])
            if path == NONE:
                return first
            n_up += i64(world.links[world.links[u]["reverse"]]["up"] > 0)
    if n_up == 0:
        return first
    left = path % n_up
    for u in range(out, out + world.nodes[host]["n_out"]):
        if world.links[u]["dst"] == node and world.links[world.links[u]["reverse"]]["up"] > 0:
            if left == 0:
                return i64(world.links[u]["reverse"])
            left -= 1
    return first


@kernel
def at_host(q: I64, world: World, senders: Senders, queued: I64 | None, p: int) -> None:
    """A unicast packet at the host it is for."""
    links, pkts = world.links, world.pkts
    pkt = pkts[p]
    if pkt["kind"] == PK_DATA:
        if queued is not None:
            ask_for_more(q, world.nodes, senders.streams, pkt)
        a = on_data(
            q,
            links,
            world.nodes,
            pkts,
            senders.streams,
            senders.bits,
            world.items,
            world.deps,
            p,
        )
        if a != NONE:
            post(q, links, pkts, senders, pkts[a]["link"], a)
    else:
        on_answer(q, links, pkts, senders, world.items, world.deps, p)
        at = senders.streams[pkt["stream"]]["nic"]
        if links[at]["ring"] != NONE:
            kick(q, links, pkts, senders, at)
    free_pkt(q, pkts, p)


@kernel
def finish_fan(q: I64, world: World, senders: Senders, f: int) -> None:
    """A fan whose last receiver has all of it counts as received."""
    fan = senders.fans[f]
    if fan["unreceived"] == 0:
        fan["unreceived"] = NONE
        settle(q, world.items, world.deps, fan["item"], 0)


@kernel
def answer(q: I64, world: World, senders: Senders, p: int, b: int) -> None:
    """A receiver's ACKs of packets, where it sends such; a word on a block is one too."""
    pkt = world.pkts[p]
    fan = senders.fans[pkt["stream"]]
    n = pkt["n"] - (1 if b != NONE else 0)
    if fan["speaks"] == PER_PACKET and n > 0:
        at = world.links[pkt["link"]]["reverse"]
        echo(q, world.pkts, fan, p, n)
        post(q, world.links, world.pkts, senders, at, p)
    else:
        free_pkt(q, world.pkts, p)


@kernel
def say(
    q: I64, world: World, senders: Senders, bier: Bier, receivers: Receivers, b: int
) -> None:
    """Send a receiver's word on a block."""
    at = world.links[receivers.collect.blocks[b]["port"]]["reverse"]
    p = speak_up(q, world.pkts, senders.pkt_bits, senders.fans, bier, receivers, b)
    while p != NONE:
        following = world.pkts[p]["next"]
        post(q, world.links, world.pkts, senders, at, p)
        p = following


@kernel
def turn_to(
    q: I64,
    world: World,
    senders: Senders,
    bier: Bier | None,
    receivers: Receivers | None,
    sums: Sums | None,
    queued: I64 | None,
    kind: int,
    i: int,
) -> None:
    """Events other than a packet's arrival and a port that is free."""
    links, pkts = world.links, world.pkts
    if kind == EV_START:
        start_item(q, links, pkts, senders, world.items, world.deps, i)
    elif kind == EV_RETRY:
        if on_retry(q, links, senders, i):
            kick(q, links, pkts, senders, senders.streams[i]["nic"])
    elif kind == EV_CABLE:
        links[i // 2]["up"] = i % 2
        start_again(q, world, senders, queued, i // 2)
    elif queued is not None and EV_PULL <= kind <= EV_RESUME:
        turn_to_port(q, world, senders, queued, kind, i)
    elif sums is not None and bier is not None and kind >= EV_ARRAYS:
        if kind == EV_RANK:
            on_timer(q, links, pkts, senders, i)
        else:
            on_arrays(q, world, bier, sums, senders.ranks.sums, i)
    elif bier is not None and receivers is not None:
        turn_to_fan(q, world, senders, bier, receivers, kind, i)


@kernel
def turn_to_port(
    q: I64, world: World, senders: Senders, queued: I64, kind: int, i: int
) -> None:
    """What only nets of queued ports know: pulls, ports that are free, pauses."""
    links, pkts = world.links, world.pkts
    if kind == EV_PULL:
        a = on_pull(q, world.nodes, pkts, senders.streams, i)
        if a != NONE:
            post(q, links, pkts, senders, pkts[a]["link"], a)
    elif kind == EV_PORT:
        port_free(q, links, pkts, i)
    elif kind == EV_PAUSE:
        links[i]["paused"] = 1
    else:
        links[i]["paused"] = 0
        start_again(q, world, senders, queued, i)


@kernel
def turn_to_fan(
    q: I64,
    world: World,
    senders: Senders,
    bier: Bier,
    receivers: Receivers,
    kind: int,
    i: int,
) -> None:
    """Deadlines of fans: of a BFR's slots, a receiver's report, a sender."""
    if kind == EV_SLOTS:
        on_slots(
            *(q, world.links, world.nodes, world.pkts, senders.pkt_bits, senders.fans),
            *(bier, i),
        )
    elif kind == EV_REPORT:
        if on_report(q, senders.fans, receivers, i):
            say(q, world, senders, bier, receivers, i)
    elif kind == EV_WAKE:
        upcall(q, UPCALL_WAKE, i, 0)


@kernel
def start_again(q: I64, world: World, senders: Senders, queued: I64 | None, at: int) -> None:
    """A link that was stopped may send again."""
    source = world.links[world.links[at]["reverse"]]["dst"]
    if source < q[N_HOSTS]:
        kick(q, world.links, world.pkts, senders, at)
    elif queued is not None:
        serve_port(q, world.links, world.pkts, at)
