"""Sets of links, what a router decides, and what it finds for a packet."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import put
from fanfold.trees.loop.rows import (
    BACK,
    BIDIR,
    CENTRE,
    END,
    FIRST,
    FIRST_HOP,
    HAS_PLAN,
    HAS_TABLE,
    K_RPT,
    K_SOURCE,
    K_STAR,
    MEMBERS,
    N_HOSTS,
    N_KEYS,
    N_OUT,
    NEXT_C,
    NEXT_S,
    NONE,
    PIM_DM,
    PIM_SM,
    PLAN,
    PLAN_REGISTERS,
    PROTOCOL,
    PUT_HAS,
    PUT_LINK,
    SOURCE_LINK,
    TABLE,
    TABLE_REGISTERS,
    WANT,
    Loop,
)

TUNNEL = -2
"""In place of a link: it came as the payload of a unicast packet."""
NOWHERE = -3
# What a router finds: a key of its table, N_KEYS more for what is decided, or one of these.
NOTHING = -1
BY_REGISTER = -2  # the first packet of all, without state yet
BY_UP = -3  # toward the rendezvous point, by state of the fabric
BY_FLOOD = -4  # everywhere


@kernel
def join_set(w: Loop, row: int, node: int, link: int) -> bool:
    """Have a link in a set of a router; whether it is new there."""
    links = w.links
    if links[row, link] == 1:
        return False
    links[row, link] = 1
    w.nodes[N_OUT, node] += 1
    return True


@kernel
def put_out(w: Loop, key: int, node: int, link: int) -> None:
    """Have a router copy to a link, and to those that it has."""
    if w.links[PLAN + key, link] == 0:
        w.links[PLAN + key, link] = 1
        put(w, PUT_LINK + key, link, 1)
    put_has(w, key, node, 1)


@kernel
def put_has(w: Loop, key: int, node: int, value: int) -> None:
    """Have an entry or none."""
    if w.nodes[HAS_PLAN + key, node] != value:
        w.nodes[HAS_PLAN + key, node] = value
        put(w, PUT_HAS + key, node, value)


@kernel
def put_entry(w: Loop, key: int, node: int, has: bool) -> None:
    """Have an entry with the outs that are wanted, or none."""
    links = w.links
    for k in range(w.nodes[FIRST, node], w.nodes[FIRST, node + 1]):
        want = links[WANT, k] if has else 0
        if links[PLAN + key, k] != want:
            links[PLAN + key, k] = want
            put(w, PUT_LINK + key, k, want)
    put_has(w, key, node, 1 if has else 0)


@kernel
def came_by(w: Loop, out: int) -> int:
    """The other way of a cable, NOWHERE for none."""
    return NOWHERE if out == NONE else int(w.links[BACK, out])


@kernel
def from_source(w: Loop, node: int) -> int:
    """The link that data of the source must come in over."""
    if node == w.h[FIRST_HOP]:
        return int(w.h[SOURCE_LINK])
    return came_by(w, w.nodes[NEXT_S, node])


@kernel
def from_centre(w: Loop, node: int) -> int:
    """The link that data on the shared tree must come in over."""
    if node == w.h[CENTRE]:
        return TUNNEL
    return came_by(w, w.nodes[NEXT_C, node])


@kernel
def find(w: Loop, node: int, in_link: int, is_planned: bool) -> int:
    """What a router does with a packet, by its table or by what is decided."""
    h = w.h
    has = HAS_PLAN if is_planned else HAS_TABLE
    more = N_KEYS if is_planned else 0
    if h[PROTOCOL] == PIM_SM:
        return find_sparse(w, node, in_link, has, more)
    if h[PROTOCOL] == PIM_DM:
        return find_dense(w, node, in_link, has, more)
    if w.nodes[has, node]:
        return more
    return BY_UP if h[PROTOCOL] == BIDIR and w.nodes[NEXT_C, node] != NONE else NOTHING


@kernel
def find_sparse(w: Loop, node: int, in_link: int, has: int, more: int) -> int:
    """The first entry that takes the packet; the first packet of all would be registered."""
    h, nodes = w.h, w.nodes
    shared = from_centre(w, node)
    if nodes[has + K_SOURCE, node] and in_link == from_source(w, node):
        return more + K_SOURCE
    is_first = in_link == h[SOURCE_LINK]
    if in_link == shared or (is_first and node == h[CENTRE]):
        if nodes[has + K_RPT, node]:
            return more + K_RPT
        if nodes[has + K_STAR, node]:
            return more + K_STAR
    return BY_REGISTER if is_first and node != h[CENTRE] else NOTHING


@kernel
def find_dense(w: Loop, node: int, in_link: int, has: int, more: int) -> int:
    """Without an entry the processor decides, which floods where it has no state."""
    if in_link != from_source(w, node):
        return NOTHING
    if w.nodes[has, node]:
        return more
    return N_KEYS if w.nodes[HAS_PLAN, node] else BY_FLOOD


@kernel
def is_out(w: Loop, node: int, found: int, link: int) -> bool:
    """A copy goes over a link."""
    links = w.links
    if found >= 0:
        row = PLAN + found - N_KEYS if found >= N_KEYS else TABLE + found
        return bool(links[row, link])
    if found == BY_UP:
        return bool(link == w.nodes[NEXT_C, node])
    if found == BY_FLOOD:
        is_router = links[END, link] >= w.h[N_HOSTS]
        return bool(links[MEMBERS, link] or (is_router and link != w.nodes[NEXT_S, node]))
    return False


@kernel
def is_registered(w: Loop, node: int, found: int) -> bool:
    """A copy goes to the rendezvous point as the payload of a register."""
    h = w.h
    if h[PROTOCOL] != PIM_SM or node != h[FIRST_HOP]:
        return False
    if found == K_SOURCE:
        return bool(h[TABLE_REGISTERS])
    if found == N_KEYS + K_SOURCE:
        return bool(h[PLAN_REGISTERS])
    return bool(found == BY_REGISTER and w.nodes[NEXT_C, node] != NONE)


@kernel
def way_of(w: Loop, node: int, next_row: int, span_row: int) -> tuple[int, int]:
    """Links from a router to the root that a row of next links leads to, and their time."""
    n_hops = span_ps = 0
    link = w.nodes[next_row, node]
    while link != NONE:
        n_hops += 1
        span_ps += w.links[span_row, link]
        link = w.nodes[next_row, w.links[END, link]]
    return n_hops, span_ps
