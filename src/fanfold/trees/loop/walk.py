"""The tree that stands at an instant: all links that a packet would cross (trees/tree.py)."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.rows import (
    BACK,
    CENTRE,
    CHANGED_PS,
    COUNT,
    END,
    FIRST,
    INNER,
    IS_SEEN,
    K_SEG,
    LIST,
    LOOKS,
    N_HOSTS,
    N_LIST,
    N_REACHED,
    N_REPEATS,
    N_STACK,
    NEXT_C,
    NEXT_S,
    NONE,
    NOW,
    PROTOCOL,
    REACHED_PS,
    SEEN,
    SIDE,
    SOURCE_LINK,
    SR,
    STACK,
    TABLE,
    UP,
    Loop,
)
from fanfold.trees.loop.tables import NOTHING, NOWHERE, TUNNEL, find, is_out, is_registered

WAITS = UP
"""Of a host, which has no upstream link: 1 while the tree has not reached it yet."""


@kernel
def look(w: Loop) -> None:
    """See which tree stands, whether it is another one, and whom it reaches."""
    h, links = w.h, w.links
    side = 1 - h[SIDE]
    h[LOOKS] += 1
    h[N_LIST + side] = h[N_REPEATS + side] = h[N_STACK] = 0
    touch(w, side, h[SOURCE_LINK], 0)
    follow(w, side, links[END, h[SOURCE_LINK]], h[SOURCE_LINK])
    while h[N_STACK] > 0:
        h[N_STACK] -= 1
        at = links[STACK, h[N_STACK]]
        if at < 0:
            step(w, side, -1 - at, TUNNEL)
        else:
            step(w, side, links[END, at], at)
    settle(w, side)


@kernel
def touch(w: Loop, side: int, link: int, inner: int) -> None:
    """A copy on a link."""
    h, links = w.h, w.links
    if links[COUNT + side, link] == 0:
        links[LIST + side, h[N_LIST + side]] = link
        h[N_LIST + side] += 1
    links[COUNT + side, link] += 1
    links[INNER + side, link] += inner


@kernel
def follow(w: Loop, side: int, node: int, in_link: int) -> None:
    """A copy comes to a router by a link, or as a payload: go on from there, once."""
    h = w.h
    seen = w.nodes[SEEN, node] if in_link == TUNNEL else w.links[IS_SEEN, in_link]
    if seen == h[LOOKS]:
        h[N_REPEATS + side] += 1
        return
    if in_link == TUNNEL:
        w.nodes[SEEN, node] = h[LOOKS]
    else:
        w.links[IS_SEEN, in_link] = h[LOOKS]
    w.links[STACK, h[N_STACK]] = -1 - node if in_link == TUNNEL else in_link
    h[N_STACK] += 1


@kernel
def step(w: Loop, side: int, node: int, in_link: int) -> None:
    """Copies that one router makes."""
    h, links, nodes = w.h, w.links, w.nodes
    found = find(w, node, in_link, False)
    if found == NOTHING:
        return
    came = NOWHERE if in_link == TUNNEL else links[BACK, in_link]
    for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
        if is_out(w, node, found, k) and k != came:
            touch(w, side, k, 0)
            if links[END, k] >= h[N_HOSTS]:
                follow(w, side, links[END, k], k)
        if h[PROTOCOL] == SR and links[TABLE + K_SEG, k]:
            tunnel_up(w, side, node, links[TABLE + K_SEG, k] - 1)
    if is_registered(w, node, found):
        tunnel_to_centre(w, side, node)


@kernel
def tunnel_up(w: Loop, side: int, node: int, end: int) -> None:
    """A segment to a router further on; its links are those of that router's way up."""
    up, inner = end, 0
    while up != node:
        link = w.nodes[NEXT_S, up]
        touch(w, side, w.links[BACK, link], inner)
        up, inner = w.links[END, link], 1
    follow(w, side, end, TUNNEL)


@kernel
def tunnel_to_centre(w: Loop, side: int, node: int) -> None:
    """A register on its way."""
    link = w.nodes[NEXT_C, node]
    while link != NONE:
        after = w.nodes[NEXT_C, w.links[END, link]]
        touch(w, side, link, 0 if after == NONE else 1)
        link = after
    follow(w, side, w.h[CENTRE], TUNNEL)


@kernel
def settle(w: Loop, side: int) -> None:
    """Compare with the tree of the look before, and forget that one."""
    h, links, nodes = w.h, w.links, w.nodes
    old = h[SIDE]
    is_same = h[LOOKS] > 1 and h[N_LIST] == h[N_LIST + 1] and h[N_REPEATS] == h[N_REPEATS + 1]
    for i in range(h[N_LIST + side]):
        k = links[LIST + side, i]
        is_same = is_same and links[COUNT, k] == links[COUNT + 1, k]
        is_same = is_same and links[INNER, k] == links[INNER + 1, k]
        if links[END, k] < h[N_HOSTS] and nodes[WAITS, links[END, k]] == 1:
            nodes[WAITS, links[END, k]] = 0
            h[N_REACHED] += 1
            h[REACHED_PS] = h[NOW]
    for i in range(h[N_LIST + old]):
        links[COUNT + old, links[LIST + old, i]] = 0
        links[INNER + old, links[LIST + old, i]] = 0
    if not is_same:
        h[CHANGED_PS] = h[NOW]
    h[SIDE] = side
