"""Links and the ports that feed them.

A *fused* port is one FIFO: when a record comes, its departure is already known, so a hop is one
event. The time the port becomes free gives its backlog, and with it tail drop and marks. A
*queued* port holds its packets: it serves control first, can be paused (PFC) and cuts packets
to their headers (NDP-like); a hop is two events. docs/simulator.md sections 2 and 3.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import plus, times
from fanfold.sim.loop.events import push, push_pkt
from fanfold.sim.loop.rows import (
    ACK_BYTES,
    AT_BODIES,
    AT_LOST,
    CUT_BYTES,
    EV_PAUSE,
    EV_PORT,
    EV_RESUME,
    FREE_PKT,
    I64,
    LIMIT_BYTES,
    N_BODIES,
    N_FREE_PKT,
    N_HOPS,
    N_KINDS,
    N_TOLD,
    NONE,
    NOW,
    PFC_HIGH,
    PFC_LOW,
    PK_ACK,
    PK_ARRAY,
    PK_DATA,
    PK_ECHO,
    PK_FAN,
    PK_FEEDBACK,
    PK_FOLD_WORD,
    PK_PULL,
    QUEUED,
    SWITCH_PS,
    TRIM,
    Row,
    Rows,
)

PPB_ONE = 1_000_000_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def draw(link: Row) -> int:
    """Next number of a link's own stream, 0..2**63-1 (SplitMix64, Steele et al. 2014)."""
    z = plus(link["rng"], _GOLDEN)
    link["rng"] = z
    z = times(z ^ (z >> _S30), _MIX_A)
    z = times(z ^ (z >> _S27), _MIX_B)
    return i64((z ^ (z >> _S31)) >> np.uint64(1))


@kernel
def take_pkt(q: I64, pkts: Rows) -> int:
    """A free packet row; the loop sees to it that there always are some."""
    p = q[FREE_PKT]
    q[FREE_PKT] = pkts[p]["next"]
    q[N_FREE_PKT] -= 1
    return p


@kernel
def free_pkt(q: I64, pkts: Rows, p: int) -> None:
    """Give a packet row back, and that of its bytes, where it has one."""
    kind = pkts[p]["kind"]
    if (kind == PK_FEEDBACK or kind >= PK_ARRAY) and pkts[p]["path"] >= 0:
        q[q[AT_BODIES] + q[N_BODIES]] = pkts[p]["path"]
        q[N_BODIES] += 1
        if kind == PK_FOLD_WORD:
            q[N_TOLD] -= 1
    pkts[p]["next"] = q[FREE_PKT]
    q[FREE_PKT] = p
    q[N_FREE_PKT] += 1


@kernel
def drop(q: I64, pkts: Rows, p: int) -> None:
    """A packet is lost: its row goes back, and a message's stream has lost one more."""
    if pkts[p]["kind"] <= PK_PULL:
        q[q[AT_LOST] + pkts[p]["stream"]] += 1
    free_pkt(q, pkts, p)


@kernel
def traffic_class(pkt: Row) -> int:
    """Column of the link counters: data, sent again, other control, fan feedback."""
    kind = pkt["kind"]
    if kind == PK_FEEDBACK or kind == PK_ECHO:
        return 3
    if kind != PK_DATA and kind != PK_FAN and kind != PK_ARRAY:
        return 2
    return 1 if pkt["again"] != 0 else 0


@kernel
def count(q: I64, link: Row, pkt: Row) -> None:
    """A record goes onto a link."""
    c = traffic_class(pkt)
    link["pkts"][c] += pkt["n"]
    link["bytes"][c] += pkt["bytes"]
    q[N_HOPS] += pkt["n"]


@kernel
def send(q: I64, links: Rows, pkts: Rows, p: int, at: int) -> None:
    """Put a record onto link ``at`` now, or drop it there; its port is a router's, fused."""
    link = links[at]
    pkt = pkts[p]
    now = q[NOW]
    backlog = max(link["free_ps"] - now, 0)
    ser = time_of(link, pkt["bytes"])
    full = link["limit_ps"] > 0 and backlog + ser > link["limit_ps"]
    if full or link["up"] <= 0:
        link["drops"] += pkt["n"]
        drop(q, pkts, p)
        return
    if link["mark_ps"] > 0 and backlog > link["mark_ps"]:
        pkt["marked"] = 1
    if pkt["span_ps"] > 0 and q[CUT_BYTES] > 0 and is_faster(link, links[pkt["link"]]):
        backlog = max(backlog, pkt["span_ps"] // pkt["n"])  # else it would run dry
    launch(q, links, pkts, p, at, now + backlog)


@kernel
def pass_on(q: I64, links: Rows, pkts: Rows, p: int, at: int) -> None:
    """Give a record to a router's port, fused or queued."""
    if q[QUEUED] != 0:
        enqueue(q, links, pkts, p, at)
    else:
        send(q, links, pkts, p, at)


@kernel
def send_made(q: I64, links: Rows, pkts: Rows, p: int, at: int, of: int) -> None:
    """Put a record onto link ``at`` that was made of record ``of``, NONE for of none."""
    follow(q, pkts, p, of)
    pass_on(q, links, pkts, p, at)


@kernel
def follow(q: I64, pkts: Rows, p: int, of: int) -> None:
    """Let a record not overtake what it was made of: with cut-through that may still come in.

    In a queued port it counts for no link.
    """
    if of != NONE:
        pkts[p]["span_ps"] = pkts[of]["span_ps"]
        pkts[p]["link"] = pkts[of]["link"] if q[QUEUED] == 0 else NONE


@kernel
def is_faster(link: Row, other: Row) -> bool:
    """Whether a link sends a byte in less time than another."""
    ours = i64(link["byte_num"]) * i64(other["byte_den"])
    return bool(ours < i64(other["byte_num"]) * i64(link["byte_den"]))


@kernel
def time_of(link: Row, n_bytes: int) -> int:
    """Time of so many bytes on a link in ps, with what its port owes, rounded down."""
    if link["byte_den"] == 1:
        return i64(n_bytes) * i64(link["byte_num"])
    return (i64(n_bytes) * i64(link["byte_num"]) + link["rest"]) // i64(link["byte_den"])


@kernel
def occupy(link: Row, n_bytes: int) -> int:
    """Time that a port is taken by bytes.

    While it does not pause, what is below a picosecond is carried on to the next packet: all
    bytes since its last pause take their exact time, rounded down once.
    """
    if link["byte_den"] == 1:
        return i64(n_bytes) * i64(link["byte_num"])
    parts = i64(n_bytes) * i64(link["byte_num"]) + link["rest"]
    link["rest"] = parts % i64(link["byte_den"])
    return parts // i64(link["byte_den"])


@kernel
def launch(q: I64, links: Rows, pkts: Rows, p: int, at: int, start_ps: int) -> None:
    """Send a record from ``start_ps`` on: its port is taken until its last bit has left."""
    link = links[at]
    pkt = pkts[p]
    if start_ps > link["free_ps"]:
        link["rest"] = 0
    head = time_of(link, min(pkt["head"], pkt["bytes"]))  # a word may be shorter than a header
    left = start_ps + head
    free = start_ps + occupy(link, pkt["bytes"])
    if pkt["span_ps"] > 0:  # the rest of it is still coming in
        tail = 0 if q[CUT_BYTES] > 0 else head
        free = max(free, q[NOW] + pkt["span_ps"] + tail)
    link["free_ps"] = free
    link["peak_ps"] = max(link["peak_ps"], free - q[NOW])
    pkt["span_ps"] = 0 if pkt["kind"] == PK_ACK else free - left
    pkt["link"] = at
    count(q, link, pkt)
    if link["loss_ppb"] > 0 and draw(link) % PPB_ONE < link["loss_ppb"]:
        link["lost"] += pkt["n"]
        drop(q, pkts, p)
        return
    push_pkt(q, pkts, left + link["prop_ps"] + q[SWITCH_PS], p)


@kernel
def enqueue(q: I64, links: Rows, pkts: Rows, p: int, at: int) -> None:
    """Join the queue of a port; a full one cuts packets to headers, or drops them."""
    link = links[at]
    pkt = pkts[p]
    if link["up"] <= 0:
        link["drops"] += pkt["n"]
        drop(q, pkts, p)
        return
    is_data = traffic_class(pkt) < 2 and pkt["trimmed"] == 0
    if is_data and q[LIMIT_BYTES] > 0 and link["queued"] + pkt["bytes"] > q[LIMIT_BYTES]:
        if q[TRIM] == 0:
            link["drops"] += pkt["n"]
            drop(q, pkts, p)
            return
        trim(q, pkt)
        link["trims"] += 1
        is_data = False
    pkt["next"] = NONE
    if not is_data and q[TRIM] != 0:
        if link["first_ctl"] == NONE:
            link["first_ctl"] = p
        else:
            pkts[link["last_ctl"]]["next"] = p
        link["last_ctl"] = p
    else:
        if link["first"] == NONE:
            link["first"] = p
        else:
            pkts[link["last"]]["next"] = p
        link["last"] = p
        if link["mark_ps"] > 0 and time_of(link, link["queued"]) > link["mark_ps"]:
            pkt["marked"] = 1
        link["queued"] += pkt["bytes"]
        link["peak_ps"] = max(link["peak_ps"], time_of(link, link["queued"]))
        hold(q, links, pkt)
    serve_port(q, links, pkts, at)


@kernel
def trim(q: I64, pkt: Row) -> None:
    """Cut a packet to its header."""
    pkt["trimmed"] = 1
    pkt["bytes"] = q[ACK_BYTES] * pkt["n"]
    pkt["head"] = q[ACK_BYTES]


@kernel
def hold(q: I64, links: Rows, pkt: Row) -> None:
    """PFC: count what came over a link and waits here; above the mark, tell it to stop."""
    if q[PFC_HIGH] == 0 or pkt["link"] == NONE:
        return
    ingress = links[pkt["link"]]
    ingress["ingress"] += pkt["bytes"]
    if ingress["held"] == 0 and ingress["ingress"] > q[PFC_HIGH]:
        ingress["held"] = 1
        push(q, q[NOW] + ingress["prop_ps"], pkt["link"] * N_KINDS + EV_PAUSE)


@kernel
def let_go(q: I64, links: Rows, link_at: int, n_bytes: int) -> None:
    """PFC: ``n_bytes`` that came over a link have left; below the mark it goes on."""
    if q[PFC_HIGH] == 0 or link_at == NONE:
        return
    ingress = links[link_at]
    ingress["ingress"] -= n_bytes
    if ingress["held"] != 0 and ingress["ingress"] < q[PFC_LOW]:
        ingress["held"] = 0
        push(q, q[NOW] + ingress["prop_ps"], link_at * N_KINDS + EV_RESUME)


@kernel
def serve_port(q: I64, links: Rows, pkts: Rows, at: int) -> None:
    """Start the next packet of an idle queued port: control first, then data in order."""
    link = links[at]
    if link["busy"] != 0 or link["paused"] != 0:
        return
    p = link["first_ctl"]
    link["came"], link["left_bytes"] = NONE, 0
    if p != NONE:
        link["first_ctl"] = pkts[p]["next"]
    else:
        p = link["first"]
        if p == NONE:
            return
        link["first"] = pkts[p]["next"]
        link["queued"] -= pkts[p]["bytes"]
        link["came"], link["left_bytes"] = pkts[p]["link"], pkts[p]["bytes"]
    link["busy"] = 1
    launch(q, links, pkts, p, at, q[NOW])
    push(q, link["free_ps"], at * N_KINDS + EV_PORT)


@kernel
def port_free(q: I64, links: Rows, pkts: Rows, at: int) -> None:
    """A queued port has sent its packet."""
    link = links[at]
    link["busy"] = 0
    let_go(q, links, link["came"], link["left_bytes"])
    serve_port(q, links, pkts, at)
