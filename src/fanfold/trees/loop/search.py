"""Unicast paths between routers, as trees/paths.py has them: of equal ones the group's own."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.rows import (
    CENTRE,
    DOWN_HOPS,
    DOWN_PS,
    END,
    FAR,
    FIRST,
    GROUP,
    HOPS_C,
    N_HOSTS,
    N_NODES,
    NONE,
    QUEUE,
    SPAN_A,
    STAMP,
    Loop,
)


@kernel
def search(w: Loop, target: int, hops_row: int, next_row: int) -> None:
    """Hops of all routers to one, and the link that each takes; without a path FAR, NONE."""
    h, nodes, links = w.h, w.nodes, w.links
    hops, queue = nodes[hops_row], nodes[QUEUE]
    for node in range(h[N_NODES]):
        hops[node] = FAR
        nodes[next_row, node] = NONE
    hops[target] = 0
    queue[0] = target
    at, n = 0, 1
    while at < n:
        node = queue[at]
        at += 1
        for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
            to = links[END, k]
            if to >= h[N_HOSTS] and hops[to] == FAR:
                hops[to] = hops[node] + 1
                queue[n] = to
                n += 1
    for node in range(h[N_HOSTS], h[N_NODES]):
        if 0 < hops[node] < FAR:
            nodes[next_row, node] = pick(w, node, hops_row, hops[node] - 1, NONE)


@kernel
def pick(w: Loop, node: int, hops_row: int, hops: int, stamp: int) -> int:
    """Of a router's links to routers at a distance, with a stamp or any, the group's own."""
    h, nodes, links = w.h, w.nodes, w.links
    first, end = nodes[FIRST, node], nodes[FIRST, node + 1]
    n = 0
    for k in range(first, end):
        if is_way(w, k, hops_row, hops, stamp):
            n += 1
    left = h[GROUP] % n
    for k in range(first, end):
        if is_way(w, k, hops_row, hops, stamp):
            if left == 0:
                return int(k)
            left -= 1
    return int(links[END, first])  # never: there is one


@kernel
def is_way(w: Loop, k: int, hops_row: int, hops: int, stamp: int) -> bool:
    """A link leads to such a router."""
    to = w.links[END, k]
    if to < w.h[N_HOSTS] or w.nodes[hops_row, to] != hops:
        return False
    return bool(stamp == NONE or w.nodes[STAMP, to] == stamp)


@kernel
def way_down(w: Loop, target: int) -> None:
    """Links and time from the centre to a router: of all shortest ways the group's own.

    Routers on such ways are found from the target on, by their distance from the centre.
    """
    h, nodes, links = w.h, w.nodes, w.links
    hops, queue, stamp = nodes[HOPS_C], nodes[QUEUE], nodes[STAMP]
    queue[0] = target
    stamp[target] = target
    at, n = 0, 1
    while at < n:
        node = queue[at]
        at += 1
        for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
            to = links[END, k]
            if to >= h[N_HOSTS] and hops[to] == hops[node] - 1 and stamp[to] != target:
                stamp[to] = target
                queue[n] = to
                n += 1
    node, n_hops, span_ps = h[CENTRE], 0, 0
    while node != target:
        n_hops += 1
        k = pick(w, node, HOPS_C, n_hops, target)
        span_ps += links[SPAN_A, k]
        node = links[END, k]
    nodes[DOWN_HOPS, target] = n_hops
    nodes[DOWN_PS, target] = span_ps
