"""SR-P2MP: the handlers of trees/sr_p2mp.py, where members only join and unicast paths stay."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import code, push, put, send_to
from fanfold.trees.loop.rows import (
    BACK,
    BELOW,
    BYTES_A,
    COMPUTE_PS,
    DOWN_HOPS,
    DOWN_PS,
    END,
    EV_COMPUTED,
    FIRST,
    FIRST_HOP,
    FLAGS,
    FORWARD_PS,
    HAS_BRANCH,
    IN_PHASE,
    IS_BUSY,
    IS_LEAF,
    IS_OPEN,
    IS_POINT,
    IS_STALE,
    K_SEG,
    M_ANSWER,
    M_INSTALL,
    M_LEAF,
    MEMBERS,
    N_HOSTS,
    N_NODES,
    N_OPEN,
    N_OUT,
    NEXT_C,
    NEXT_S,
    NONE,
    NOW,
    PHASE,
    PLAN,
    PUT_LINK,
    QUEUE,
    SEG,
    SPAN_A,
    WANT,
    WAS_POINT,
    Loop,
)
from fanfold.trees.loop.search import way_down
from fanfold.trees.loop.tables import join_set, put_has, put_out, way_of

FRESH, CHANGED, REMOVED = 1, 2, 3


@kernel
def on_leaf(w: Loop, node: int, out: int) -> None:
    """A leaf reports its first member; others are its own matter."""
    is_first = w.nodes[N_OUT, node] == 0
    join_set(w, MEMBERS, node, out)
    if is_first:
        to_controller(w, M_LEAF, node)
    if w.nodes[FLAGS, node] & HAS_BRANCH:
        put_out(w, 0, node, out)


@kernel
def to_controller(w: Loop, message: int, node: int) -> None:
    """A report or an answer by unicast."""
    h = w.h
    n_hops, span_ps = way_of(w, node, NEXT_C, SPAN_A)
    span_ps += max(n_hops - 1, 0) * h[FORWARD_PS]
    send_to(w, message, node, n_hops, span_ps, h[BYTES_A])


@kernel
def on_segment(w: Loop, node: int, message: int) -> None:
    """Reports and answers come to the controller, installs to routers."""
    h, nodes = w.h, w.nodes
    if message == M_LEAF:
        nodes[IS_LEAF, node] = 1
        compute(w)
    elif message == M_INSTALL:
        on_install(w, node)
        to_controller(w, M_ANSWER, node)
    else:
        h[N_OPEN] -= nodes[IS_OPEN, node]
        nodes[IS_OPEN, node] = 0
        if h[N_OPEN] == 0:
            next_phase(w)


@kernel
def on_install(w: Loop, node: int) -> None:
    """A router takes its branches over."""
    nodes, links = w.nodes, w.links
    is_kept = w.h[PHASE] != REMOVED
    nodes[FLAGS, node] = HAS_BRANCH if is_kept else 0
    for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
        seg = links[SEG, k] if is_kept else 0
        member = links[MEMBERS, k] if is_kept else 0
        if links[PLAN + K_SEG, k] != seg:
            links[PLAN + K_SEG, k] = seg
            put(w, PUT_LINK + K_SEG, k, seg)
        if links[PLAN, k] != member:
            links[PLAN, k] = member
            put(w, PUT_LINK, k, member)
    put_has(w, 0, node, 1 if is_kept else 0)


@kernel
def compute(w: Loop) -> None:
    """Begin a computation, or another one after that which is under way."""
    h = w.h
    h[IS_STALE] = h[IS_BUSY]
    if not h[IS_BUSY]:
        h[IS_BUSY] = 1
        push(w, h[NOW] + h[COMPUTE_PS], code(EV_COMPUTED, 0, 0, 0))


@kernel
def on_computed(w: Loop) -> None:
    """The new tree; who is new to it, who changes, who leaves."""
    h, nodes, links = w.h, w.nodes, w.links
    plan_below(w)
    for k in range(links.shape[1]):
        links[WANT, k] = 0
    for node in range(h[N_HOSTS], h[N_NODES]):
        if nodes[IS_POINT, node] and node != h[FIRST_HOP]:
            up, link = node, NONE
            while link == NONE or not nodes[IS_POINT, up]:
                link = links[BACK, nodes[NEXT_S, up]]
                up = links[END, nodes[NEXT_S, up]]
            links[WANT, link] = node + 1
    for node in range(h[N_HOSTS], h[N_NODES]):
        is_new = False
        for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
            is_new = is_new or links[WANT, k] != links[SEG, k]
            links[SEG, k] = links[WANT, k]
        was, now = nodes[WAS_POINT, node] != 0, nodes[IS_POINT, node] != 0
        nodes[IN_PHASE, node] = 0
        if now and not was:
            nodes[IN_PHASE, node] = FRESH
        elif was and not now:
            nodes[IN_PHASE, node] = REMOVED
        elif now and is_new:
            nodes[IN_PHASE, node] = CHANGED
        nodes[WAS_POINT, node] = nodes[IS_POINT, node]
    h[PHASE] = 0
    next_phase(w)


@kernel
def plan_below(w: Loop) -> None:
    """Links of the tree, and its replication points: the root, leaves, where paths part."""
    h, nodes, links = w.h, w.nodes, w.links
    root = h[FIRST_HOP]
    n_leaves = 0
    for node in range(h[N_HOSTS], h[N_NODES]):
        nodes[IS_POINT, node] = nodes[QUEUE, node] = 0
        for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
            links[BELOW, k] = 0
    for leaf in range(h[N_HOSTS], h[N_NODES]):
        if nodes[IS_LEAF, leaf] and (nodes[NEXT_S, leaf] != NONE or leaf == root):
            n_leaves += 1
            nodes[IS_POINT, leaf] = 1
            node = leaf
            while node != root:
                down = links[BACK, nodes[NEXT_S, node]]
                node = links[END, nodes[NEXT_S, node]]
                if links[BELOW, down]:
                    break
                links[BELOW, down] = 1
                nodes[QUEUE, node] += 1
                if nodes[QUEUE, node] > 1:
                    nodes[IS_POINT, node] = 1
    if n_leaves > 0:
        nodes[IS_POINT, root] = 1


@kernel
def next_phase(w: Loop) -> None:
    """Go on to the next phase that has something to do."""
    h, nodes = w.h, w.nodes
    while h[PHASE] < REMOVED:
        h[PHASE] += 1
        for node in range(h[N_HOSTS], h[N_NODES]):
            if nodes[IN_PHASE, node] == h[PHASE]:
                nodes[IS_OPEN, node] = 1
                h[N_OPEN] += 1
        if h[N_OPEN] > 0:
            order(w)
            return
    h[IS_BUSY] = 0
    if h[IS_STALE]:
        compute(w)


@kernel
def order(w: Loop) -> None:
    """Tell all routers of the phase."""
    h, nodes = w.h, w.nodes
    for node in range(h[N_HOSTS], h[N_NODES]):
        if nodes[IS_OPEN, node]:
            if nodes[DOWN_HOPS, node] == NONE:
                way_down(w, node)
            span_ps = nodes[DOWN_PS, node] + max(nodes[DOWN_HOPS, node] - 1, 0) * h[FORWARD_PS]
            send_to(w, M_INSTALL, node, nodes[DOWN_HOPS, node], span_ps, h[BYTES_A])
