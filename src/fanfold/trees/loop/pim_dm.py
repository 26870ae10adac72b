"""PIM dense mode: the handlers of trees/pim_dm.py, where members only join and paths stay."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import code, process, send
from fanfold.trees.loop.rows import (
    ASSERTED,
    BACK,
    CUT,
    END,
    EV_SWITCH,
    FIRST,
    FIRST_HOP,
    FLAGS,
    HAS_PRUNED,
    HAS_TABLE,
    HOPS_S,
    IS_DIRTY,
    IS_MADE,
    LOST,
    M_ASSERT,
    M_GRAFT,
    M_GRAFT_ACK,
    M_PRUNE,
    MEMBERS,
    N_HOSTS,
    NEXT_S,
    NONE,
    UP,
    WANT,
    Loop,
)
from fanfold.trees.loop.tables import from_source, put_entry


@kernel
def on_dense_member(w: Loop, node: int, out: int) -> None:
    """A local member is an oif; the first one grafts."""
    w.links[MEMBERS, out] = 1
    update_dense(w, node)


@kernel
def on_dense(w: Loop, node: int, link: int, message: int, value: int) -> None:
    """Prunes, grafts and asserts of a neighbour."""
    links = w.links
    out = links[BACK, link]
    if message == M_GRAFT_ACK:
        return
    if message == M_PRUNE:
        links[CUT, out] = 1
    elif message == M_GRAFT:
        make(w, node)
        links[CUT, out] = links[LOST, out] = links[ASSERTED, out] = 0
        send(w, out, M_GRAFT_ACK, 0)
    else:
        on_assert(w, node, out, value)
    update_dense(w, node)


@kernel
def waits_dense(w: Loop, node: int, in_link: int) -> bool:
    """Wait where there is no state yet; assert where it came the wrong way."""
    if w.nodes[HAS_TABLE, node] == 0:
        return True
    out = w.links[BACK, in_link]
    if in_link != from_source(w, node) and not w.links[ASSERTED, out]:
        process(w, node, code(EV_SWITCH, 0, 0, out))
    return False


@kernel
def punt_dense(w: Loop, node: int, in_link: int) -> None:
    """The first packet makes state."""
    make(w, node)
    if in_link != from_source(w, node):
        assert_on(w, node, w.links[BACK, in_link])
    update_dense(w, node)


@kernel
def make(w: Loop, node: int) -> None:
    """Have state."""
    nodes = w.nodes
    if nodes[FLAGS, node] & IS_MADE == 0:
        nodes[FLAGS, node] |= IS_MADE
        nodes[UP, node] = nodes[NEXT_S, node]


@kernel
def is_oif(w: Loop, node: int, k: int) -> bool:
    """Data goes over a link to a router, if it is not pruned."""
    links = w.links
    is_router = links[END, k] >= w.h[N_HOSTS] and k != w.nodes[UP, node]
    return bool(is_router and not links[CUT, k] and not links[LOST, k])


@kernel
def update_dense(w: Loop, node: int) -> None:
    """Install the olist; prune upstream when it is empty, graft when it no longer is."""
    h, nodes, links = w.h, w.nodes, w.links
    if nodes[FLAGS, node] & IS_MADE == 0:
        h[IS_DIRTY] = 1
        return
    n_out = 0
    for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
        links[WANT, k] = 1 if links[MEMBERS, k] or is_oif(w, node, k) else 0
        n_out += links[WANT, k]
    up = nodes[UP, node]
    has_pruned = nodes[FLAGS, node] & HAS_PRUNED != 0
    if node != h[FIRST_HOP] and up != NONE and has_pruned == (n_out > 0):
        nodes[FLAGS, node] ^= HAS_PRUNED
        send(w, up, M_GRAFT if has_pruned else M_PRUNE, 0)
    put_entry(w, 0, node, True)


@kernel
def assert_on(w: Loop, node: int, out: int) -> None:
    """Say how near the source is, once on a link that data goes over."""
    links = w.links
    if is_oif(w, node, out) and not links[ASSERTED, out]:
        links[ASSERTED, out] = 1
        send(w, out, M_ASSERT, w.nodes[HOPS_S, node])


@kernel
def on_assert(w: Loop, node: int, out: int, hops: int) -> None:
    """Fewer hops win, then the higher address; the loser prunes the winner."""
    links, mine = w.links, w.nodes[HOPS_S, node]
    if hops > mine or (hops == mine and links[END, out] < node):
        assert_on(w, node, out)
    elif out != w.nodes[UP, node] and not links[LOST, out]:
        links[LOST, out] = 1
        send(w, out, M_PRUNE, 0)
