"""A census between two steps: every packet is somewhere, once, and every link's sums hold.

Letters: P = packet rows, L = links, F = streams. Looks only. Where
packets may be lost, or several words go up for one slot, sums that would need a count of their
own are left out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.codes import FOLD_MERGED, FOLD_UNFOLDED
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.sum_rows import R_HERE, values_of_block
from fanfold.sim.loop.words import SIZE
from fanfold.sim.simulate import Simulation

I64 = NDArray[np.int64]
MAX_LINES = 20
FEEDBACK = 3
"""Column of the link counters."""


class Places(NamedTuple):
    """Packet rows by where they are.

    free, under_way, posted: rows. queued, port: rows and the link whose port each waits at.
    n_listed: entries of the buckets' lists. n_rows: rows of the pool that are free or in use.
    """

    free: I64
    under_way: I64
    posted: I64
    queued: I64
    port: I64
    n_listed: int
    n_rows: int


def take_census(sim: Simulation) -> list[str]:
    """What does not add up, a line each; empty when all does."""
    places = _find(sim)
    wrong = [*_rows(sim, places), *_links(sim, places), *_routers(sim, places)]
    return [*wrong, *_ports(sim, places), *_streams(sim, places), *_hosts(sim)][:MAX_LINES]


def _chain(first: int, following: list[int], most: int) -> list[int]:
    """Rows of a linked list; one more than ``most`` where it has no end."""
    found: list[int] = []
    while first != r.NONE and len(found) <= most:
        found.append(first)
        first = following[first]
    return found


def _find(sim: Simulation) -> Places:
    q, links, pkts = sim.q, sim.world.links, sim.world.pkts
    following: list[int] = pkts["next"].tolist()
    free = _chain(int(q[r.FREE_PKT]), following, pkts.size)
    listed, n_rows = _listed(q, following)
    ready = q[q[r.AT_READY] + 2 * q[r.I_READY] : q[r.AT_READY] + 2 * q[r.N_READY]]
    heaps = [(q[r.AT_SIDE], q[r.N_SIDE]), (q[r.AT_FAR], q[r.N_FAR])]
    others = np.concatenate([ready[1::2], *(q[at + 2 : at + 3 * n : 3] for at, n in heaps)])
    arrivals = others[others % r.N_KINDS == r.EV_ARRIVE] // r.N_KINDS
    queued: list[int] = []
    port: list[int] = []
    for name in ("first_ctl", "first"):
        for at in np.nonzero(links[name] != r.NONE)[0].tolist():
            waiting = _chain(int(links[name][at]), following, pkts.size)
            queued.extend(waiting)
            port.extend([at] * len(waiting))
    upcalls = q[q[r.AT_UPCALLS] : q[r.AT_UPCALLS] + 3 * q[r.N_UPCALLS]].reshape(-1, 3)
    posted = upcalls[upcalls[:, 0] == r.UPCALL_WORD, 2] // SIZE
    return Places(
        np.array(free, np.int64),
        np.concatenate([np.array([e >> 1 for e in listed if e & 1], np.int64), arrivals]),
        posted,
        np.array(queued, np.int64),
        np.array(port, np.int64),
        len(listed),
        n_rows,
    )


def _listed(q: I64, following: list[int]) -> tuple[list[int], int]:
    """Entries of all buckets, and rows of the pool that are free or in one of them."""
    heads = q[q[r.AT_HEADS] : q[r.AT_HEADS] + q[r.MASK] + 1]
    pool = int(q[r.AT_POOL])
    found: list[int] = []
    most = len(following) + int(q[r.CAP])
    for head in heads[heads != r.NONE].tolist():
        entry = head
        while entry != r.NONE and len(found) <= most:
            found.append(entry)
            row = entry >> 1
            entry = following[row] if entry & 1 else int(q[pool + 3 * row + 2])
    n_rows = sum(1 for entry in found if not entry & 1)
    row = int(q[r.FREE])
    while row != r.NONE and n_rows <= q[r.CAP]:
        n_rows += 1
        row = int(q[pool + 3 * row + 2])
    return found, n_rows


def _rows(sim: Simulation, places: Places) -> list[str]:
    """Every row of packets, events and words is free or in use, once."""
    q, pkts = sim.q, sim.world.pkts
    used = np.concatenate([places.under_way, places.queued, places.posted])
    wrong = []
    times = np.bincount(np.concatenate([places.free, used]), minlength=pkts.size)
    for p in np.nonzero(times != 1)[0][:3].tolist():
        wrong.append(f"packet row {p}: in {times[p]} places")
    for name, got, due in (
        ("free packet rows", places.free.size, int(q[r.N_FREE_PKT])),
        ("entries of buckets", places.n_listed, int(q[r.N_POOL])),
        ("rows of events", places.n_rows, int(q[r.CAP])),
    ):
        if got != due:
            wrong.append(f"{name}: {got} found, {due} counted")
    if not sim.program.many:
        return wrong
    at = int(q[r.AT_BODIES])
    free = q[at : at + int(q[r.N_BODIES])]
    kinds = pkts["kind"][used]
    words = pkts["path"][used[(kinds == r.PK_FEEDBACK) | (kinds >= r.PK_ARRAY)]]
    words = words[words >= 0]  # others say what they say without a row (alone.py)
    n = np.bincount(np.concatenate([free, words]), minlength=r.MAX_BODIES)
    if (n != 1).any():
        wrong.append(f"row {int(np.argmax(n != 1))} of words: in {n[np.argmax(n != 1)]} places")
    return wrong


def _links(sim: Simulation, places: Places) -> list[str]:
    """What went onto a link has arrived, was lost, or is on it."""
    links, pkts = sim.world.links, sim.world.pkts
    on_it = _sum_by(pkts["link"][places.under_way], pkts["n"][places.under_way], links.size)
    sent = links["pkts"].sum(axis=1, dtype=np.int64)
    gone = links["arrived"] + links["lost"]
    return [
        f"link {_name(sim, at)}: {sent[at]} sent, {links['arrived'][at]} arrived, "
        f"{links['lost'][at]} lost, {on_it[at]} on it"
        for at in np.nonzero(sent != gone + on_it)[0].tolist()
    ]


def _routers(sim: Simulation, places: Places) -> list[str]:
    """What came to a router left it, was refused, waits, led nowhere, or was folded."""
    net, links, pkts, nodes = sim.net, sim.world.links, sim.world.pkts, sim.world.nodes
    came = _sum_by(net.dst, links["arrived"], net.n_nodes)
    went = _sum_by(net.src, links["pkts"].sum(axis=1) + links["drops"], net.n_nodes)
    went += _sum_by(net.src[places.port], pkts["n"][places.queued], net.n_nodes)
    went += nodes["n_dead"]
    if sim.program.many:
        return _folds(sim, places)
    return [
        f"router {net.node_name(node)}: {came[node]} came, {went[node]} went"
        for node in range(net.n_hosts, net.n_nodes)
        if came[node] != went[node]
    ]


def _folds(sim: Simulation, places: Places) -> list[str]:
    """Words that came to a BFR were folded or passed on, where none was lost on the way."""
    net, links, pkts = sim.net, sim.world.links, sim.world.pkts
    if not sim.program.folds:
        return []
    words = places.under_way[pkts["kind"][places.under_way] == r.PK_FEEDBACK]
    on_it = _sum_by(pkts["link"][words], pkts["n"][words], links.size)
    came = _sum_by(net.dst, links["pkts"][:, FEEDBACK] - on_it, net.n_nodes)
    was_lost = _sum_by(net.dst, links["lost"], net.n_nodes) > 0
    events = sim.fans.bier.events
    return [
        f"router {net.node_name(node)}: {came[node]} words came, {heard} were heard"
        for node, heard in enumerate(
            (events[:, FOLD_MERGED] + events[:, FOLD_UNFOLDED]).tolist(), net.n_hosts
        )
        if came[node] != heard and not was_lost[node]
    ]


def _ports(sim: Simulation, places: Places) -> list[str]:
    """Bytes that wait at queued ports, and those that PFC holds against a link."""
    q, links, pkts = sim.q, sim.world.links, sim.world.pkts
    is_data = np.ones(places.queued.size, np.bool_)
    if q[r.TRIM]:
        is_data = (pkts["kind"] == r.PK_DATA)[places.queued]
        is_data &= (pkts["trimmed"] == 0)[places.queued]
    is_data &= places.port >= sim.net.first_out[sim.net.n_hosts]
    rows = places.queued[is_data]
    waits = _sum_by(places.port[is_data], pkts["bytes"][rows], links.size)
    wrong = [
        f"port {_name(sim, at)}: {waits[at]} bytes wait, {links['queued'][at]} counted"
        for at in np.nonzero(waits != links["queued"])[0].tolist()
    ]
    if q[r.PFC_HIGH]:
        held = _sum_by(pkts["link"][rows], pkts["bytes"][rows], links.size)
        busy = np.nonzero((links["busy"] != 0) & (links["came"] != r.NONE))[0]
        held += _sum_by(links["came"][busy], links["left_bytes"][busy], links.size)
        wrong += [
            f"link {_name(sim, at)}: {held[at]} bytes wait, {links['ingress'][at]} counted"
            for at in np.nonzero(held != links["ingress"])[0].tolist()
        ]
    return wrong


def _streams(sim: Simulation, places: Places) -> list[str]:
    """Where nothing was lost, trimmed or sent again: what was sent has come or is under way."""
    q, links, pkts = sim.q, sim.world.links, sim.world.pkts
    if (links["lost"] + links["drops"] + links["trims"]).any() or q[r.REPAIR_PKTS]:
        return []
    streams = sim.senders.streams
    used = np.concatenate([places.under_way, places.queued])
    kinds = pkts["kind"][used]
    counts = {
        kind: np.bincount(pkts["stream"][used[kinds == kind]], minlength=streams.size)
        for kind in (r.PK_DATA, r.PK_ACK)
    }
    wrong = []
    for s in np.nonzero(streams["fan"] == r.NONE)[0].tolist():
        st = streams[s]
        data, acks = int(counts[r.PK_DATA][s]), int(counts[r.PK_ACK][s])
        if st["n_sent"] != st["n_got"] + data or st["n_got"] != st["n_acked"] + acks:
            wrong.append(
                f"stream {s}: {st['n_sent']} sent, {data} under way, {st['n_got']} got, "
                f"{acks} ACKs under way, {st['n_acked']} acknowledged"
            )
    return wrong


def _hosts(sim: Simulation) -> list[str]:
    """Bytes that a host got are those of records and packets that it marked as received."""
    net, senders = sim.net, sim.senders
    got = np.zeros(net.n_hosts, np.int64)
    for st in senders.streams[senders.streams["fan"] == r.NONE]:
        n = int(st["n_got"])
        last = int(st["n_recs"]) - 1
        has_last = n > last
        if st["n_words"]:
            at = int(st["bits_at"] + 2 * st["n_words"])
            bits = senders.bits[at : at + int(st["n_words"])]
            n = sum(int(word).bit_count() for word in bits)
            has_last = bool(int(bits[last >> 6]) >> (last & 63) & 1)
        got[st["dst"]] += n * st["rec_payload"]
        got[st["dst"]] += has_last * (st["last_payload"] - st["rec_payload"])
    blocks, follow = sim.fans.receivers.collect.blocks, sim.fans.receivers.collect.follow
    for b in np.nonzero(blocks["state"])[0].tolist():
        block = blocks[b]
        fan = senders.fans[follow[block["follow"]]["map_at"]]
        have = int(block["have"])
        n_bytes = have.bit_count() * int(fan["stride"])
        if block["block"] == fan["n_blocks"] - 1 and have >> int(fan["last_n_psn"] - 1) & 1:
            n_bytes += int(fan["last_bytes"] - fan["stride"])
        got[follow[block["follow"]]["flow_port"]] += n_bytes
    _add_sums(sim, got)
    counted = sim.world.nodes["got_bytes"]
    return [
        f"host {net.node_name(h)}: {got[h]} bytes marked, {counted[h]} counted"
        for h in np.nonzero(got != counted[: net.n_hosts])[0].tolist()
    ]


def _add_sums(sim: Simulation, got: I64) -> None:
    """Add blocks of sums that ranks have marked as here."""
    ranks = sim.fans.ranks
    for rank in ranks.rows[ranks.rows["keeps"] != 0]:
        one = ranks.sums[rank["sum"]]
        ring = ranks.ring[int(rank["ring_at"]) :]
        blocks = [*range(int(rank["floor"]))]
        blocks += [
            i
            for i in range(int(rank["floor"]), int(rank["next"]))
            if ring[i % int(rank["window"]), R_HERE]
        ]
        n_agreed = int(one["n_agreed"])
        got[rank["host"]] += sum(values_of_block(one, i) for i in blocks if i >= n_agreed)


def _sum_by(keys: NDArray[np.int64], values: NDArray[np.int64], n: int) -> I64:
    found = np.zeros(n, np.int64)
    np.add.at(found, keys, values)
    return found


def _name(sim: Simulation, at: int) -> str:
    net = sim.net
    return f"{net.node_name(int(net.src[at]))} > {net.node_name(int(net.dst[at]))}"
