"""One event after the other, until nothing is left to happen."""

from fanfold.kernels.jit import kernel
from fanfold.trees.loop.clockwork import (
    FOREVER,
    IN_LOG,
    code,
    count,
    next_from,
    process,
    push,
    take,
)
from fanfold.trees.loop.labels import on_branch, on_label, on_sender
from fanfold.trees.loop.pim_dm import (
    assert_on,
    on_dense,
    on_dense_member,
    punt_dense,
    waits_dense,
)
from fanfold.trees.loop.pim_sm import (
    on_sparse,
    on_sparse_member,
    punt_sparse,
    switch,
    update,
    waits_sparse,
)
from fanfold.trees.loop.rows import (
    BACK,
    BYTES_IGMP,
    BYTES_REGISTER,
    CENTRE,
    CHANGED_PS,
    DONE,
    END,
    EV_ARRIVE,
    EV_ARRIVE_AT,
    EV_ASKED,
    EV_COMPUTED,
    EV_CROSS,
    EV_DATA,
    EV_EMIT,
    EV_HANDLE,
    EV_JOIN,
    EV_MEMBER,
    EV_PUNT,
    EV_REGISTER,
    EV_SEND,
    EV_SWITCH,
    EV_UPDATE,
    FIRST,
    FIRST_HOP,
    FORWARD_PS,
    FULL,
    GAP_PS,
    HAS_TABLE,
    IS_DIRTY,
    LATE_PS,
    LOG_HEAD,
    LOG_TAIL,
    LOOK_PS,
    M_INSTALL,
    M_JOIN_S,
    M_STOP,
    MARGIN,
    MEMBERS,
    MP2MP,
    N_BYTES,
    N_EVENTS,
    N_HEAP,
    N_HOSTS,
    N_KEYS,
    N_LINKS,
    N_MESSAGES,
    N_PROBES,
    N_SHARED,
    NEXT_C,
    NONE,
    NOW,
    PIM_DM,
    PIM_SM,
    PROTOCOL,
    PUT_HAS,
    PUT_REGISTER,
    SHARED_BYTES,
    SOURCE_LINK,
    SPAN_DATA,
    SPAN_IGMP,
    SPAN_REGISTER,
    SR,
    TABLE,
    TABLE_REGISTERS,
    UNSEEN,
    Loop,
)
from fanfold.trees.loop.sr_p2mp import on_computed, on_leaf, on_segment
from fanfold.trees.loop.tables import (
    NOTHING,
    NOWHERE,
    TUNNEL,
    find,
    is_out,
    is_registered,
    way_of,
)
from fanfold.trees.loop.walk import look


@kernel
def start(w: Loop) -> None:
    """Before anything happens to the group."""
    if w.h[PROTOCOL] == MP2MP:
        on_sender(w, w.h[FIRST_HOP])


@kernel
def run(w: Loop) -> int:
    """Work until nothing is left, DONE, or there may be no room for what comes next, FULL."""
    h, heap, log = w.h, w.heap, w.log
    while True:
        if h[LOG_HEAD] == h[LOG_TAIL]:
            h[LOG_HEAD] = h[LOG_TAIL] = 0
        room = min(heap.shape[0] - h[N_HEAP], log.shape[0] - h[LOG_TAIL])
        if room < h[MARGIN]:
            return FULL
        found, now_ps = next_from(w)
        if found == NONE:
            break
        if now_ps > h[NOW]:
            see(w, now_ps)
            if h[CHANGED_PS] >= h[LATE_PS]:
                return DONE
        h[NOW] = now_ps
        h[N_EVENTS] += 1
        if found == IN_LOG:
            apply(w)
        else:
            what = take(w, found)
            turn_to(w, what & 15, what >> 4 & 15, what >> 8 & 65535, what >> 24)
    see(w, FOREVER)
    return DONE


@kernel
def see(w: Loop, next_ps: int) -> None:
    """Look at what the instant made of the tree, if changes are looked at by then.

    The first look at a tree that stood before says nothing of when it changed.
    """
    h = w.h
    if h[NOW] >= h[LOOK_PS]:
        if h[IS_DIRTY]:
            look(w)
    elif next_ps >= h[LOOK_PS]:
        look(w)
        h[CHANGED_PS] = UNSEEN
    h[IS_DIRTY] = 0


@kernel
def apply(w: Loop) -> None:
    """A decision is in a table."""
    h = w.h
    at = h[LOG_HEAD]
    h[LOG_HEAD] += 1
    h[IS_DIRTY] = 1
    what, value = w.log[at, 2], w.log[at, 3]
    kind, index = what & 7, what >> 3
    if kind < PUT_HAS:
        w.links[TABLE + kind, index] = value
    elif kind < PUT_REGISTER:
        w.nodes[HAS_TABLE + kind - N_KEYS, index] = value
    else:
        h[TABLE_REGISTERS] = value


@kernel
def turn_to(w: Loop, kind: int, message: int, value: int, index: int) -> None:
    """Do what an event says."""
    h, links = w.h, w.links
    if kind < EV_SEND:
        speak(w, kind, message, value, index)
    elif kind == EV_SEND:
        for i in range(h[N_PROBES]):
            push(w, h[NOW] + i * h[GAP_PS], code(EV_EMIT, 0, 0, 0))
    elif kind == EV_EMIT:
        cross(w, h[SOURCE_LINK])
    elif kind == EV_CROSS:
        cross(w, index)
    elif kind == EV_REGISTER:
        register(w, index)
    elif kind == EV_DATA or kind == EV_PUNT:
        is_tunnel = index == h[N_LINKS]
        in_link = TUNNEL if is_tunnel else index
        on_data(w, kind == EV_PUNT, h[CENTRE] if is_tunnel else links[END, index], in_link)
    elif kind == EV_UPDATE:
        update(w, index)
    elif kind == EV_SWITCH and h[PROTOCOL] == PIM_DM:
        assert_on(w, links[END, links[BACK, index]], index)
    elif kind == EV_SWITCH:
        switch(w, index)
    elif kind == EV_COMPUTED:
        on_computed(w)


@kernel
def speak(w: Loop, kind: int, message: int, value: int, index: int) -> None:
    """Reports of members, and messages; a host's link is known by the link to it."""
    h, links = w.h, w.links
    what = code(kind + 1, message, value, index)
    if kind == EV_JOIN:
        h[N_MESSAGES] += 1
        h[N_SHARED] += 1
        h[N_BYTES] += h[BYTES_IGMP]
        h[SHARED_BYTES] += h[BYTES_IGMP]
        h[IS_DIRTY] = 1
        push(w, h[NOW] + links[SPAN_IGMP, links[BACK, index]], what)
    elif kind == EV_ASKED:
        process(w, links[END, links[BACK, index]], what)
    elif kind == EV_MEMBER:
        on_member(w, links[END, links[BACK, index]], index)
    elif kind == EV_ARRIVE:
        if links[END, index] >= h[N_HOSTS]:
            process(w, links[END, index], what)
    elif kind == EV_HANDLE:
        on_message(w, links[END, index], index, message, value)
    elif kind == EV_ARRIVE_AT:
        process(w, target_of(w, message, index), what)
    elif message == M_STOP:
        on_sparse(w, h[FIRST_HOP], TUNNEL, message)
    else:
        on_segment(w, index, message)


@kernel
def target_of(w: Loop, message: int, node: int) -> int:
    """Where a message goes by unicast; node: its other end, or it is told that one."""
    if message == M_STOP:
        return int(w.h[FIRST_HOP])
    return node if message == M_INSTALL else int(w.h[CENTRE])


@kernel
def on_member(w: Loop, node: int, out: int) -> None:
    """A host behind a link wants the group."""
    protocol = w.h[PROTOCOL]
    if protocol == PIM_SM:
        on_sparse_member(w, node, out)
    elif protocol == PIM_DM:
        on_dense_member(w, node, out)
    elif protocol == SR:
        on_leaf(w, node, out)
    else:
        on_branch(w, MEMBERS, node, out)


@kernel
def on_message(w: Loop, node: int, link: int, message: int, value: int) -> None:
    """A message that came over a link."""
    protocol = w.h[PROTOCOL]
    if protocol == PIM_SM:
        on_sparse(w, node, link, message)
    elif protocol == PIM_DM:
        on_dense(w, node, link, message, value)
    else:
        on_label(w, node, link, message)


@kernel
def cross(w: Loop, link: int) -> None:
    """A copy goes on a link; at a host it leads to nothing."""
    if w.links[END, link] >= w.h[N_HOSTS]:
        push(w, w.h[NOW] + w.links[SPAN_DATA, link], code(EV_DATA, 0, 0, link))


@kernel
def register(w: Loop, node: int) -> None:
    """A copy goes to the rendezvous point as the payload of a register."""
    h = w.h
    n_hops, span_ps = way_of(w, node, NEXT_C, SPAN_REGISTER)
    count(w, M_JOIN_S, n_hops, h[BYTES_REGISTER])
    span_ps += (n_hops - 1) * h[FORWARD_PS]
    push(w, h[NOW] + span_ps, code(EV_DATA, 0, 0, h[N_LINKS]))


@kernel
def on_data(w: Loop, is_punted: bool, node: int, in_link: int) -> None:
    """A packet is at a router, or had its turn at the processor there."""
    h = w.h
    is_sparse = h[PROTOCOL] == PIM_SM
    if is_punted:
        goes_on = True
        if is_sparse:
            goes_on = punt_sparse(w, node, in_link)
        else:
            punt_dense(w, node, in_link)
        if goes_on:
            forward(w, node, in_link, find(w, node, in_link, True))
        return
    waits = waits_sparse(w, node, in_link) if is_sparse else waits_dense(w, node, in_link)
    if waits:
        at = h[N_LINKS] if in_link == TUNNEL else in_link
        process(w, node, code(EV_PUNT, 0, 0, at))
    else:
        forward(w, node, in_link, find(w, node, in_link, False))


@kernel
def forward(w: Loop, node: int, in_link: int, found: int) -> None:
    """Copies of a packet; those to hosts lead to nothing and are left out."""
    if found == NOTHING:
        return
    h, nodes, links = w.h, w.nodes, w.links
    came = NOWHERE if in_link == TUNNEL else links[BACK, in_link]
    at_ps = h[NOW] + h[FORWARD_PS]
    for k in range(nodes[FIRST, node], nodes[FIRST, node + 1]):
        if links[END, k] >= h[N_HOSTS] and k != came and is_out(w, node, found, k):
            push(w, at_ps, code(EV_CROSS, 0, 0, k))
    if is_registered(w, node, found):
        push(w, at_ps, code(EV_REGISTER, 0, 0, node))
