"""PIM sparse mode: the handlers of trees/pim_sm.py, where members only join and paths stay."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import code, process, put, send, send_to
from fanfold.trees.loop.rows import (
    BACK,
    BYTES_B,
    CENTRE,
    EV_SWITCH,
    EV_UPDATE,
    FIRST,
    FIRST_HOP,
    FLAGS,
    FORWARD_PS,
    HAS_SPT,
    HAS_TABLE,
    IS_ALIVE,
    IS_ASKED,
    JOINED,
    K_RPT,
    K_SOURCE,
    K_STAR,
    M_JOIN,
    M_JOIN_RPT,
    M_JOIN_S,
    M_PRUNE,
    M_PRUNE_RPT,
    M_PRUNE_S,
    M_STOP,
    MEMBERS,
    NEXT_C,
    NEXT_S,
    NONE,
    PLAN_REGISTERS,
    PRUNED,
    PUT_REGISTER,
    REGISTERS,
    SOURCE_LINK,
    SPAN_B,
    STAR,
    SWITCHES,
    UP,
    UP_R,
    UP_S,
    WANT,
    Loop,
)
from fanfold.trees.loop.tables import TUNNEL, came_by, put_entry, way_of

N_STAR, N_SHARED_OUT, N_JOINED, N_OLIST, N_PRUNED, N_LOCAL = range(6)


@kernel
def sizes(w: Loop, node: int) -> tuple[int, int, int, int, int, int]:
    """Links in star, in star and not pruned, joined, in either of both, pruned, members'."""
    links = w.links
    star = shared = joined = either = pruned = local = 0
    for k in range(w.nodes[FIRST, node], w.nodes[FIRST, node + 1]):
        is_shared = links[STAR, k] and not links[PRUNED, k]
        star += links[STAR, k]
        joined += links[JOINED, k]
        pruned += links[PRUNED, k]
        local += links[MEMBERS, k]
        if is_shared:
            shared += 1
        if is_shared or links[JOINED, k]:
            either += 1
    return star, shared, joined, either, pruned, local


@kernel
def on_sparse_member(w: Loop, node: int, out: int) -> None:
    """A local member is an oif of (*,G)."""
    w.links[MEMBERS, out] = 1
    w.links[STAR, out] = 1
    update(w, node)


@kernel
def on_sparse(w: Loop, node: int, link: int, message: int) -> None:
    """Joins and prunes come from downstream, Register-Stop from the rendezvous point."""
    links = w.links
    if message == M_STOP:
        w.nodes[FLAGS, node] &= ~REGISTERS
        update(w, node)
        return
    out = links[BACK, link]
    if message == M_JOIN or message == M_PRUNE:
        links[STAR, out] = 1 if message == M_JOIN else 0
        links[PRUNED, out] = 0
    elif message == M_JOIN_S or message == M_PRUNE_S:
        links[JOINED, out] = 1 if message == M_JOIN_S else 0
    else:
        links[PRUNED, out] = 1 if message == M_PRUNE_RPT else 0
    update(w, node)


@kernel
def waits_sparse(w: Loop, node: int, in_link: int) -> bool:
    """RFC 7761 4.2: the first packet makes state; SPTbit is set by the first native one."""
    h, nodes = w.h, w.nodes
    if in_link == TUNNEL:
        return True
    if in_link == h[SOURCE_LINK]:
        return bool(nodes[HAS_TABLE + K_SOURCE, node] == 0)
    flags = nodes[FLAGS, node]
    is_native = nodes[UP_S, node] != NONE and in_link == came_by(w, nodes[NEXT_S, node])
    if is_native and flags & HAS_SPT == 0:
        flags |= HAS_SPT
        process(w, node, code(EV_UPDATE, 0, 0, node))
    if h[SWITCHES] and flags & IS_ASKED == 0 and sizes(w, node)[N_LOCAL] > 0:
        flags |= IS_ASKED
        process(w, node, code(EV_SWITCH, 0, 0, node))
    nodes[FLAGS, node] = flags
    return False


@kernel
def punt_sparse(w: Loop, node: int, in_link: int) -> bool:
    """The first-hop router registers; the rendezvous point takes registers apart (4.4)."""
    h, nodes = w.h, w.nodes
    if in_link == TUNNEL:
        is_native = nodes[FLAGS, node] & HAS_SPT != 0
        nodes[FLAGS, node] |= IS_ALIVE
        if is_native or sizes(w, node)[N_SHARED_OUT] == 0:
            n_hops, span_ps = way_of(w, node, NEXT_S, SPAN_B)
            if n_hops > 0 or node == h[FIRST_HOP]:
                span_ps += max(n_hops - 1, 0) * h[FORWARD_PS]
                send_to(w, M_STOP, node, n_hops, span_ps, h[BYTES_B])
        update(w, node)
        return not is_native
    if nodes[FLAGS, node] & IS_ALIVE == 0:
        nodes[FLAGS, node] |= IS_ALIVE | HAS_SPT
        if node == h[CENTRE]:
            nodes[FLAGS, node] &= ~REGISTERS
        else:
            nodes[FLAGS, node] |= REGISTERS
        update(w, node)
    return True


@kernel
def switch(w: Loop, node: int) -> None:
    """A last-hop router joins the source's tree."""
    w.nodes[FLAGS, node] |= IS_ALIVE
    update(w, node)


@kernel
def update(w: Loop, node: int) -> None:
    """Send and install what the macros of 4.1.5 now say."""
    h, nodes = w.h, w.nodes
    is_first, is_rp = node == h[FIRST_HOP], node == h[CENTRE]
    to_rp, to_source = nodes[NEXT_C, node], nodes[NEXT_S, node]
    star, shared, joined, either, pruned, _ = sizes(w, node)
    flags = nodes[FLAGS, node]
    if not (is_first or is_rp or either > 0):
        flags &= ~(IS_ALIVE | IS_ASKED)
    wants_star = star > 0 and not is_rp
    wants_source = joined > 0 or (flags & IS_ALIVE != 0 and either > 0)
    if not (wants_source or is_first):
        flags &= ~HAS_SPT
    nodes[FLAGS, node] = flags
    is_off = shared == 0 or (flags & HAS_SPT != 0 and to_rp != to_source)
    up = to_source if wants_source and not is_first else NONE
    nodes[UP_S, node] = say(w, nodes[UP_S, node], up, M_JOIN_S, M_PRUNE_S)
    up = to_rp if wants_star else NONE
    if up != nodes[UP, node]:
        nodes[UP_R, node] = NONE
    nodes[UP, node] = say(w, nodes[UP, node], up, M_JOIN, M_PRUNE)
    up = to_rp if wants_star and is_off else NONE
    nodes[UP_R, node] = say(w, nodes[UP_R, node], up, M_PRUNE_RPT, M_JOIN_RPT)
    install(w, node, joined > 0, star > 0, pruned > 0)


@kernel
def install(w: Loop, node: int, is_joined: bool, has_star: bool, is_pruned: bool) -> None:
    """(S,G), (S,G,rpt) and (*,G) as the macros say."""
    h, nodes, links = w.h, w.nodes, w.links
    flags = nodes[FLAGS, node]
    first, end = nodes[FIRST, node], nodes[FIRST, node + 1]
    for k in range(first, end):
        is_shared = links[STAR, k] and not links[PRUNED, k]
        links[WANT, k] = 1 if is_shared or links[JOINED, k] else 0
    has_source = is_joined or flags & IS_ALIVE != 0
    registers = 1 if has_source and flags & REGISTERS and nodes[NEXT_C, node] != NONE else 0
    if node == h[FIRST_HOP] and registers != h[PLAN_REGISTERS]:
        h[PLAN_REGISTERS] = registers
        put(w, PUT_REGISTER, 0, registers)
    put_entry(w, K_SOURCE, node, has_source)
    is_off = flags & HAS_SPT != 0 and node != h[CENTRE]
    is_off = is_off and nodes[NEXT_C, node] != nodes[NEXT_S, node]
    for k in range(first, end):
        links[WANT, k] = 1 if links[STAR, k] and not links[PRUNED, k] and not is_off else 0
    put_entry(w, K_RPT, node, is_pruned or nodes[UP_R, node] != NONE)
    for k in range(first, end):
        links[WANT, k] = links[STAR, k]
    put_entry(w, K_STAR, node, has_star)


@kernel
def say(w: Loop, old: int, new: int, join: int, prune: int) -> int:
    """Join the new upstream neighbour, leave the old one; the new one."""
    if old != new:
        if new != NONE:
            send(w, new, join, 0)
        if old != NONE:
            send(w, old, prune, 0)
    return new
