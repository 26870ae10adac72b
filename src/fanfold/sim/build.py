"""Arrays of the compiled loop from a net, its routes, a program and settings.

Streams stand in an order that does not depend on the order of a program's lines: by source,
destination, start and size. Destinations count from the source on, so that hosts that send to
all do not all begin with the same one. So do links and their random streams, one for each link.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.by_hand import push_all
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.events import RADIX
from fanfold.sim.queue_pairs import NO_LINK, QueuePairs, deal_messages
from fanfold.sim.waits import message_wait_ps
from fanfold.streams import stream_key
from fanfold.topo.byte_time import ByteTimes, byte_times
from fanfold.topo.net import Net
from fanfold.topo.plane_paths import planes_asked
from fanfold.topo.routes import FAR, Routes
from fanfold.units import NEVER

I64 = NDArray[np.int64]
Rows = NDArray[np.void]
N_BUCKETS = 1 << 16
TRANSPORTS = {"roce": r.ROCE, "ndp": r.NDP, "plain": r.PLAIN}
SPRAY_REORDER = 64
"""Records that a later one may overtake on other paths before they count as lost."""
PATH_REORDER = 2
FLOWLET_STEP = 0x1E3779B1
"""A next flowlet's path says nothing of the one before."""
PACKET_STEP = 3361739
"""Of packets that go all ways in turn: a prime, so that as many in a row as a switch has links
take one each, at the switches further on too: each picks by a digit of the path's number. Found
by trial over sets of 2 to 128 links in three tiers."""
PULL_PER_MILLE = 990
"""Pulls ask for a little less than the link carries."""


class Streams(NamedTuple):
    """Streams of messages and their parts.

    rows: (F,) STREAM_ROW. bits: bitmaps. conns: CONN_ROW. first, n: (I,) streams of each item.
    """

    rows: Rows
    bits: NDArray[np.uint64]
    conns: Rows
    first: I64
    n: I64


def build_queue(
    net: Net, settings: Settings, n_events: int, margin: int, n_streams: int = 0
) -> I64:
    """An empty pending set with room for ``n_events``; its buckets fit this net's links.

    Args:
        n_streams: of messages; what each has lost is counted.
    """
    full_bytes = settings.payload_bytes + settings.header_bytes
    full = int(byte_times(net).all(full_bytes).min())
    gap = max(min(int(net.prop_ps.min()) + settings.switch_ps, full), 1024)
    fixed = r.HEAD_FIELDS + 3 * r.MAX_UPCALLS + r.MAX_BODIES + n_streams
    q = np.full(fixed + N_BUCKETS + RADIX + 13 * n_events, -1, np.int64)
    q[: r.HEAD_FIELDS] = 0
    q[r.N_STREAMS] = n_streams
    q[r.SHIFT] = min(gap.bit_length() - 1, 20)
    q[r.MASK] = N_BUCKETS - 1
    width = 1 << int(q[r.SHIFT])
    q[r.BASE], q[r.END], q[r.HORIZON] = -width, 0, width * (N_BUCKETS - 1)
    place(q, n_events)
    q[q[r.AT_LOST] : q[r.AT_HEADS]] = 0
    q[r.FREE] = 0
    pool = int(q[r.AT_POOL])
    q[pool + 2 : pool + 3 * n_events : 3] = [*range(1, n_events), -1]
    q[r.MAX_OUT], q[r.N_BODIES] = margin, r.MAX_BODIES
    q[r.STOP_PS] = NEVER
    q[r.TRACE_STREAM] = r.NONE
    return q


def place(q: I64, n_events: int) -> None:
    """Offsets of the regions of a queue array."""
    q[r.CAP] = n_events
    q[r.AT_UPCALLS] = r.HEAD_FIELDS
    q[r.AT_BODIES] = q[r.AT_UPCALLS] + 3 * r.MAX_UPCALLS
    q[r.AT_LOST] = q[r.AT_BODIES] + r.MAX_BODIES
    q[r.AT_HEADS] = q[r.AT_LOST] + q[r.N_STREAMS]
    q[r.AT_POOL] = q[r.AT_HEADS] + N_BUCKETS + RADIX
    q[r.AT_READY] = q[r.AT_POOL] + 3 * n_events
    q[r.AT_SPARE] = q[r.AT_READY] + 2 * n_events
    q[r.AT_SIDE] = q[r.AT_SPARE] + 2 * n_events
    q[r.AT_FAR] = q[r.AT_SIDE] + 3 * n_events


def enlarge_queue(q: I64) -> I64:
    """The same pending set with room for twice as many events."""
    n = int(q[r.CAP])
    big = np.full(q.size + 13 * n, -1, np.int64)
    big[: r.HEAD_FIELDS] = q[: r.HEAD_FIELDS]
    place(big, 2 * n)
    fixed = slice(r.HEAD_FIELDS, int(q[r.AT_POOL]))
    big[fixed] = q[fixed]
    for field, width in ((r.AT_POOL, 3), (r.AT_READY, 2), (r.AT_SIDE, 3), (r.AT_FAR, 3)):
        at, to = int(q[field]), int(big[field])
        big[to : to + width * n] = q[at : at + width * n]
    pool = int(big[r.AT_POOL])
    big[pool + 3 * n + 2 : pool + 6 * n : 3] = [*range(n + 1, 2 * n), q[r.FREE]]
    big[r.FREE] = n
    return big


def lines(n: int, dtype: np.dtype[np.void]) -> Rows:
    """N zero rows that begin at a line of cache."""
    raw = np.zeros(n * dtype.itemsize + 64, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at : at + n * dtype.itemsize].view(dtype)


def build_links(net: Net, settings: Settings, seed: int) -> Rows:
    """LINK_ROW of each link, idle."""
    rows = lines(net.n_links, r.LINK_ROW)
    rows["dst"], rows["reverse"], rows["prop_ps"] = net.dst, net.reverse, net.prop_ps
    times = byte_times(net)
    rows["byte_num"], rows["byte_den"] = times
    is_router = net.src >= net.n_hosts
    rows["limit_ps"] = times.all(settings.queue_bytes) * is_router
    rows["mark_ps"] = times.all(settings.ecn_bytes) * is_router
    rows["loss_ppb"] = settings.loss_ppb
    rows["up"] = net.is_up
    for name in ("ring", "first_ctl", "last_ctl", "first", "last", "came"):
        rows[name] = r.NONE
    if settings.loss_ppb:
        key = np.uint64(stream_key(seed, "sim/links") & (2**64 - 1))
        spread = np.arange(1, net.n_links + 1, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
        rows["rng"] = key ^ spread
    return rows


def build_nodes(net: Net, routes: Routes) -> Rows:
    """NODE_ROW of each node."""
    rows = np.zeros(net.n_nodes, r.NODE_ROW)
    rows["first_out"] = net.first_out[:-1]
    rows["n_out"] = np.diff(net.first_out)
    rows["group"][: net.n_hosts] = routes.group
    rows["first_pull"] = rows["last_pull"] = rows["slot"] = r.NONE
    rows["slots_ps"] = rows["arrays_ps"] = NEVER
    return rows


def uplinks(net: Net, routes: Routes, settings: Settings, src: I64, dst: I64) -> list[I64]:
    """Links by which each source may begin a shortest path: a list for each message."""
    chosen = []
    asked = planes_asked(settings.planes, net)
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        mine = np.arange(net.first_out[a], net.first_out[a + 1])
        if asked is not None:
            mine = mine[np.isin(net.plane[mine], asked)]
        hops = routes.hops[net.dst[mine] - net.n_hosts, routes.group[b]]
        best = hops.min(initial=FAR)
        if best >= FAR:
            ends = f"{net.node_name(a)} to {net.node_name(b)}"
            raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")
        chosen.append(mine[hops == best])
    return chosen


def build_streams(
    net: Net, routes: Routes, program: Program, settings: Settings, seg: int, seed: int
) -> Streams:
    """Streams of all messages; one that may take several of its host's links is split."""
    src, dst = program.src, program.dst
    away = (dst - src) % net.n_hosts
    order = np.lexsort((np.arange(src.size), program.n_bytes, program.start_ps, away, src))
    n_out = np.diff(net.first_out)[: net.n_hosts]
    if settings.is_dealt:
        return _by_pairs(net, routes, program, order, (settings, seg, seed))
    if src.size and n_out[src].max() > 1:
        links = uplinks(net, routes, settings, src[order], dst[order])
        if settings.routing == "ecmp":
            links = [each[i % each.size : i % each.size + 1] for i, each in enumerate(links)]
        most = -(-program.n_bytes[order] // settings.payload_bytes)
        links = [each[:n] for each, n in zip(links, most.tolist(), strict=True)]
        count = np.array([each.size for each in links], np.int64)
        nic = np.concatenate(links).astype(np.int64)
    else:
        check_paths(net, routes, src, dst)
        count = np.ones(src.size, np.int64)
        nic = net.first_out[src[order]]
    owner = np.repeat(order, count)
    part = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    first = np.zeros(program.n_items, np.int64)
    n = np.zeros(program.n_items, np.int64)
    first[order], n[order] = np.cumsum(count) - count, count
    rows = np.zeros(owner.size, r.STREAM_ROW)
    rows["item"], rows["src"], rows["dst"], rows["nic"] = owner, src[owner], dst[owner], nic
    fill_sizes(rows, program.n_bytes[owner], np.repeat(count, count), part, settings, seg)
    fill_paths(rows, settings, byte_times(net), seed)
    rows["qp_first"], rows["qp_n"] = np.arange(rows.size), 1
    return _finished(net, routes, settings, rows, Parts(first, n, rows["nic"].astype(np.int64)))


class Parts(NamedTuple):
    """Streams of items. first, n: (I,). lane: (F,) tells connections of two hosts apart."""

    first: I64
    n: I64
    lane: I64


def _by_pairs(
    net: Net, routes: Routes, program: Program, order: I64, how: tuple[Settings, int, int]
) -> Streams:
    """Streams of messages that are dealt to queue pairs of planes by weight."""
    settings, seg, seed = how
    src, dst, n_bytes = program.src[order], program.dst[order], program.n_bytes[order]
    payload = settings.payload_bytes
    pkts = -(-n_bytes // payload)
    dealt = deal_messages(QueuePairs(net, routes, settings, seed), src, dst, pkts)
    rows = np.zeros(dealt.owner.size, r.STREAM_ROW)
    owner = dealt.owner
    rows["item"], rows["src"], rows["dst"] = order[owner], src[owner], dst[owner]
    rows["nic"], rows["legs"] = dealt.nic, 1
    is_last = np.diff(owner, append=-1) != 0
    short = pkts[owner] * payload - n_bytes[owner]
    fill_records(rows, dealt.n_pkts * payload - short * is_last, settings, seg)
    fill_paths(rows, settings, byte_times(net), seed)
    rows["path"] = dealt.path
    rows["path_step"] = step_of(settings)
    rows["qp_first"], rows["qp_n"] = dealt.first, dealt.n
    count = np.bincount(owner, minlength=order.size)
    first, n = np.zeros(program.n_items, np.int64), np.zeros(program.n_items, np.int64)
    first[order], n[order] = np.cumsum(count) - count, count
    lane = dealt.pair * net.n_links + dealt.nic
    streams = _finished(net, routes, settings, rows, Parts(first, n, lane))
    rows["dst_link"] = np.where(dealt.last == NO_LINK, rows["dst_link"], dealt.last)
    return streams


def step_of(settings: Settings) -> int:
    """From one path of a queue pair to the next one; 0: it has one."""
    if settings.routing == "flowlets":
        return FLOWLET_STEP
    return PACKET_STEP if (settings.in_plane or settings.routing) == "packets" else 0


def _finished(
    net: Net, routes: Routes, settings: Settings, rows: Rows, parts: Parts
) -> Streams:
    """Streams that know what they send, with their ends, bitmaps and connections."""
    first, n, lane = parts
    fill_ends(rows, net, routes)
    for name in ("ring", "back", "next_pull", "next_conn", "fan", "first_job", "last_job"):
        rows[name] = r.NONE
    rows["nacked"] = rows["rank"] = rows["probe"] = rows["waited_ps"] = r.NONE
    words = np.zeros(rows.size, np.int64)
    if settings.transport != "roce":
        words = -(-rows["n_recs"] // 64)
    rows["n_words"], rows["bits_at"] = words, 3 * (np.cumsum(words) - words)
    bits = np.zeros(3 * int(words.sum()) + 1, np.uint64)
    pairs = np.stack([rows["src"], rows["dst"], lane])
    _, conn = np.unique(pairs, axis=1, return_inverse=True)
    rows["conn"] = conn.reshape(-1)
    conns = np.full(int(conn.max(initial=-1)) + 1, r.NONE, np.int64)
    table = np.zeros(conns.size, r.CONN_ROW)
    for name in ("now", "first", "last"):
        table[name] = r.NONE
    return Streams(rows, bits, table, first, n)


def check_paths(net: Net, routes: Routes, src: I64, dst: I64) -> None:
    """Raise ConfigError for a message to a host that cannot be reached, or to itself."""
    if (src == dst).any():
        name = net.node_name(int(src[np.argmax(src == dst)]))
        raise ConfigError("receiver", f"{name} sends to itself", "another host")
    first = net.dst[net.first_out[src]] - net.n_hosts
    far = routes.hops[first, routes.group[dst]] >= FAR
    if far.any():
        i = int(np.argmax(far))
        ends = f"{net.node_name(int(src[i]))} to {net.node_name(int(dst[i]))}"
        raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")


def fill_ends(rows: Rows, net: Net, routes: Routes) -> None:
    """What routers ask of a stream: group of either end, and its last link where it has one."""
    n_out = np.diff(net.first_out)
    last = net.reverse[slowest_ports(net)]
    rows["queue_at"], rows["home_at"] = last[rows["dst"]], last[rows["src"]]
    for end in ("src", "dst"):
        rows[f"{end}_group"] = routes.group[rows[end]]
        last = net.reverse[net.first_out[rows[end]]]
        rows[f"{end}_link"] = np.where(n_out[rows[end]] == 1, last, r.NONE)


def slowest_ports(net: Net) -> I64:
    """Of each host the slowest of its links, the first of several."""
    ups = slice(0, int(net.first_out[net.n_hosts]))
    by_rate = np.lexsort((net.bps[ups], net.src[ups]))
    return np.asarray(by_rate[net.first_out[: net.n_hosts]], np.int64)


def fill_sizes(
    rows: Rows, n_bytes: I64, parts: I64, part: I64, settings: Settings, seg: int
) -> None:
    """Records of each stream: whole packets to each part, what is left to the first ones."""
    payload = settings.payload_bytes
    pkts = -(-n_bytes // payload)
    share = pkts // parts + (part < pkts % parts)
    is_last = part == parts - 1
    before = part * (pkts // parts) + np.minimum(part, pkts % parts)
    mine = np.where(is_last, n_bytes - before * payload, share * payload)
    fill_records(rows, mine, settings, seg)


def fill_records(rows: Rows, mine: I64, settings: Settings, seg: int) -> None:
    """Records of each stream that sends so many bytes, (F,)."""
    payload = settings.payload_bytes
    rows["pkt_payload"], rows["rec_pkts"], rows["rec_payload"] = payload, seg, seg * payload
    rows["n_recs"] = -(-mine // (seg * payload))
    rows["last_payload"] = mine - (rows["n_recs"] - 1) * seg * payload
    rows["window"] = -(-settings.window_pkts // seg)
    if settings.transport == "ndp":
        rows["credit"], rows["window"] = max(-(-settings.window_pkts // seg), 1), 0


def fill_paths(rows: Rows, settings: Settings, times: ByteTimes, seed: int) -> None:
    """Pace of an open loop, and the numbers that pick paths: of the two ends and the seed."""
    header = settings.header_bytes * rows["rec_pkts"]
    rows["gap_ps"] = times.at(rows["nic"], rows["rec_payload"] + header)
    rows["path"] = path_codes(rows["src"], rows["dst"], rows["nic"], seed)
    rows["path_step"] = 1 if settings.routing == "spray" else 0


def path_codes(src: I64, dst: I64, nic: I64, seed: int) -> I64:
    """(F,) numbers that pick paths: of the two ends, the first link and the seed."""
    code = (src * 1_000_003 + dst * 7919 + nic * 31).astype(np.uint64)
    code ^= np.uint64(stream_key(seed, "sim/paths") & (2**64 - 1))
    code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((code ^ (code >> np.uint64(31))) >> np.uint64(33)).astype(np.int64)


def build_items(program: Program, streams: Streams) -> Rows:
    """ITEM_ROW of each message, fan, sum and pause, with its streams."""
    rows = np.zeros(program.n_items, r.ITEM_ROW)
    n = program.src.size
    rows["needs"], rows["fan"] = program.n_needs, r.NONE
    rows["start_ps"][:n] = program.start_ps
    n_sent = program.n_sent
    rows["start_ps"][n:n_sent] = [one.start_ps for one in program.many]
    rows["fan"][n : program.first_sum] = np.arange(len(program.fans))
    rows["pause_ps"][n_sent:] = program.pauses_ps
    rows["first"], rows["n_streams"] = streams.first, streams.n
    rows["unreceived"] = rows["unacked"] = streams.n
    rows["unreceived"][n:] = rows["unacked"][n:] = 1
    for name in ("started_ps", "got_ps", "done_ps"):
        rows[name] = r.NONE
    return rows


def start_ranks(items: Rows, streams: Streams) -> I64:
    """(I,) who goes first of those that start at one time, whatever their numbers."""
    n = streams.rows.size
    ranks = np.where(items["fan"] == r.NONE, items["first"], n + items["fan"])
    pauses = np.nonzero((items["fan"] == r.NONE) & (items["n_streams"] == 0))[0]
    ranks[pauses] = ranks.max(initial=0) + 1 + np.arange(pauses.size)
    return ranks


def sort_deps(deps: I64, ranks: I64) -> None:
    """Let those that wait for one item start in the order of their ranks, in place."""
    n = ranks.size
    of = np.repeat(np.arange(n), np.diff(deps[: n + 1]))
    waiting = deps[n + 1 :]
    waiting[:] = waiting[np.lexsort((ranks[waiting], of))]


def push_starts(q: I64, items: Rows, streams: Streams) -> None:
    """Let every item that waits for nothing start, in the order of the streams."""
    free = np.nonzero(items["needs"] == 0)[0]
    order = free[np.argsort(start_ranks(items, streams)[free], kind="stable")]
    when = items["start_ps"][order] + items["pause_ps"][order]
    push_all(q, when, order * r.N_KINDS + r.EV_START)


def is_queued(settings: Settings) -> bool:
    """Routers hold their packets: ports can be paused, or cut packets to headers."""
    return settings.pfc_pkts[0] > 0 or settings.transport == "ndp"


def set_scalars(
    q: I64, net: Net, program: Program, settings: Settings, n_sets: int, rtt_ps: int
) -> None:
    """Numbers of the timing model in the queue's head."""
    q[r.N_HOSTS], q[r.N_SETS], q[r.N_ITEMS] = net.n_hosts, n_sets, program.n_items
    q[r.TRANSPORT] = TRANSPORTS[settings.transport]
    q[r.SWITCH_PS], q[r.ACK_BYTES] = settings.switch_ps, settings.ack_bytes
    q[r.HEADER_BYTES], q[r.UNDERLAY] = settings.header_bytes, settings.underlay_bytes
    q[r.CUT_BYTES] = settings.header_bytes if settings.cut_through else 0
    q[r.LIMIT_BYTES] = settings.queue_bytes
    high, low = settings.pfc_pkts
    q[r.PFC_HIGH], q[r.PFC_LOW] = high * settings.payload_bytes, low * settings.payload_bytes
    q[r.TRIM] = int(settings.transport == "ndp")
    q[r.QUEUED] = int(is_queued(settings))
    is_lossy = settings.loss_ppb or settings.failures
    q[r.LOSSY] = int(bool(is_lossy or (settings.queue_bytes and not q[r.TRIM])))
    q[r.RTO_PS] = message_wait_ps(rtt_ps, settings.rto_ps)
    is_spread = settings.routing == "spray" or (settings.is_dealt and step_of(settings) != 0)
    q[r.REORDER] = SPRAY_REORDER if is_spread else PATH_REORDER
    full = settings.payload_bytes + settings.header_bytes
    pull = int(byte_times(net).at(slice(max(int(net.first_out[net.n_hosts]), 1)), full).min())
    q[r.PULL_PS] = pull * 1000 // PULL_PER_MILLE
    if settings.routing == "flowlets":
        q[r.FLOWLET_PS] = settings.flowlet_ps or max(rtt_ps, 1)
    q[r.ON] = program.on
