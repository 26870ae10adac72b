"""mLDP and bidirectional PIM: whoever has a member tells the next router to the root.

The handlers of mldp_p2mp.py, mldp_mp2mp.py and bidir_pim.py, where members only join and
unicast paths stay. Forwarders of bidirectional PIM were elected before.
"""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import send
from fanfold.trees.loop.rows import (
    BACK,
    BIDIR,
    CENTRE,
    DOWNS,
    FIRST,
    FLAGS,
    HAS_UP,
    IS_SENDER,
    M_JOIN,
    M_UP,
    MEMBERS,
    MLDP,
    MP2MP,
    N_OUT,
    NEXT_C,
    NEXT_S,
    NONE,
    PROTOCOL,
    TOLD,
    UP,
    Loop,
)
from fanfold.trees.loop.tables import join_set, put_has, put_out


@kernel
def on_branch(w: Loop, row: int, node: int, out: int) -> None:
    """A member, or a router below, is behind a link."""
    if join_set(w, row, node, out) or w.h[PROTOCOL] != BIDIR:
        put_out(w, 0, node, out)
    ask(w, node)
    if w.h[PROTOCOL] == MP2MP:
        tell(w, node)


@kernel
def ask(w: Loop, node: int) -> None:
    """Tell the next router to the root, once."""
    nodes = w.nodes
    protocol = w.h[PROTOCOL]
    is_used = nodes[N_OUT, node] > 0 or nodes[FLAGS, node] & IS_SENDER != 0
    up = nodes[NEXT_S if protocol == MLDP else NEXT_C, node] if is_used else NONE
    if up == nodes[UP, node]:
        return
    nodes[UP, node] = up
    send(w, up, M_JOIN, 0)
    if protocol == BIDIR:
        put_out(w, 0, node, up)


@kernel
def tell(w: Loop, node: int) -> None:
    """Answer routers below, once there is a label from above; the root needs none."""
    links, nodes = w.links, w.nodes
    if nodes[FLAGS, node] & HAS_UP == 0 and node != w.h[CENTRE]:
        return
    for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
        if links[DOWNS, k] and not links[TOLD, k]:
            links[TOLD, k] = 1
            send(w, k, M_UP, 0)


@kernel
def on_sender(w: Loop, node: int) -> None:
    """The source's router becomes a leaf of a tree of both ways."""
    w.nodes[FLAGS, node] |= IS_SENDER
    ask(w, node)
    put_has(w, 0, node, 1)


@kernel
def on_label(w: Loop, node: int, link: int, message: int) -> None:
    """A message has come to a router over a link."""
    out = w.links[BACK, link]
    if message == M_UP:
        if out == w.nodes[UP, node]:
            w.nodes[FLAGS, node] |= HAS_UP
            put_out(w, 0, node, out)
        tell(w, node)
    else:
        on_branch(w, DOWNS if w.h[PROTOCOL] == MP2MP else MEMBERS, node, out)
