"""Rows and codes of the compiled loop of tree protocols; ``at_once.py`` fills them.

Letters: N = nodes (hosts first), L = directed links, K = keys of a table. A set of a router's
links is a row over all links with 1 where one is in it: each link leaves one node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
NONE = -1
FAR = 2**30
N_KEYS = 3
N_LANES = 4

UNSEEN = -(2**62)
"""In place of the time of the last change: it was before LOOK_PS."""

# What run() ends with.
DONE, FULL = 0, 1

# Protocols.
MLDP, MP2MP, BIDIR, PIM_SM, PIM_DM, SR = range(6)

# An event is kind | message << 4 | value << 8 | index << 24.
EV_JOIN = 0  # a host asks
EV_ASKED = 1  # its report is at its router
EV_MEMBER = 2  # and its router has looked at it
EV_ARRIVE = 3  # a message, at the end of a link
EV_HANDLE = 4  # its router has it
EV_ARRIVE_AT = 5  # a message that was unicast
EV_HANDLE_AT = 6
EV_SEND = 7  # packets of the source
EV_EMIT = 8  # one of them
EV_CROSS = 9  # a copy goes on a link
EV_REGISTER = 10  # a copy goes to the rendezvous point
EV_DATA = 11  # a copy, at the end of a link
EV_PUNT = 12  # and a router's processor has it
EV_UPDATE = 13  # a router's processor comes to something it has put off
EV_SWITCH = 14  # the same: to the source's tree; of dense mode: an assert
EV_COMPUTED = 15

# Messages; the first one goes toward the root in every protocol.
M_JOIN = 0  # mLDP: mapping
M_PRUNE = 1
M_JOIN_S = 2
M_PRUNE_S = 3
M_JOIN_RPT = 4
M_PRUNE_RPT = 5
M_STOP = 6
M_GRAFT = 7
M_GRAFT_ACK = 8
M_ASSERT = 9
M_UP = 10
M_LEAF = 11
M_INSTALL = 12
M_ANSWER = 13

# A change of a table is kind + 8 * index: of a link for a key, of a node for a key, other.
PUT_LINK = 0
PUT_HAS = N_KEYS
PUT_REGISTER = 2 * N_KEYS

# Scalars.
(
    NOW,
    SEQ,
    N_EVENTS,
    N_HEAP,
    LOG_HEAD,
    LOG_TAIL,
    MARGIN,
    IS_DIRTY,
    PROTOCOL,
    N_HOSTS,
    N_LINKS,
    N_NODES,
    GROUP,
    FIRST_HOP,
    SOURCE_LINK,
    CENTRE,
    PROCESS_PS,
    INSTALL_PS,
    FORWARD_PS,
    COMPUTE_PS,
    SWITCHES,
    BYTES_A,
    BYTES_B,
    BYTES_IGMP,
    BYTES_REGISTER,
    IS_JOIN_SHARED,
    N_PROBES,
    GAP_PS,
    LOOK_PS,  # changes of the tree before are not looked at
    LATE_PS,  # a tree that changes then or later is not the one that is looked for
    N_MESSAGES,
    N_BYTES,
    N_SHARED,
    SHARED_BYTES,
    N_REACHED,
    REACHED_PS,
    CHANGED_PS,
    LOOKS,
    SIDE,
    N_STACK,
    N_LIST,
    N_LIST_1,
    N_REPEATS,
    N_REPEATS_1,
    PLAN_REGISTERS,
    TABLE_REGISTERS,
    IS_BUSY,
    IS_STALE,
    PHASE,
    N_OPEN,
    LANE_HEAD,  # N_LANES: first of a lane, and how many
    LANE_HEAD_1,
    LANE_HEAD_2,
    LANE_HEAD_3,
    LANE_N,
    LANE_N_1,
    LANE_N_2,
    LANE_N_3,
    N_SCALARS,
) = range(59)

# Of a node.
(
    FIRST,  # its first link; those of the next node follow
    FREE_PS,  # when its processor has done all it was given
    HOPS_C,  # to the centre, and the link that leads there
    NEXT_C,
    HOPS_S,  # to the source's router
    NEXT_S,
    UP,  # where it joined
    UP_S,
    UP_R,
    FLAGS,
    N_OUT,  # links in its sets
    SEEN,
    STAMP,
    QUEUE,
    HAS_PLAN,  # K: entries that are decided
    HAS_PLAN_1,
    HAS_PLAN_2,
    HAS_TABLE,  # K: and those in the table
    HAS_TABLE_1,
    HAS_TABLE_2,
    IS_LEAF,  # as the controller knows
    IS_POINT,
    WAS_POINT,
    IN_PHASE,
    IS_OPEN,
    DOWN_PS,  # from the controller, NONE: not known yet
    DOWN_HOPS,
    N_NODE_ROWS,
) = range(28)

# Flags of a router, each protocol's own.
IS_ALIVE, HAS_SPT, IS_ASKED, REGISTERS = 1, 2, 4, 8
IS_MADE, HAS_PRUNED = 1, 2
HAS_UP, IS_SENDER = 1, 2
HAS_BRANCH = 1

# Of a link.
(
    END,
    BACK,
    SPAN_A,  # time of a message with BYTES_A, ...
    SPAN_B,
    SPAN_IGMP,
    SPAN_DATA,
    SPAN_REGISTER,
    MEMBERS,
    SET_1,
    SET_2,
    SET_3,
    WANT,  # outs that an entry is to have
    PLAN,  # K: outs that are decided
    PLAN_1,
    PLAN_2,
    TABLE,  # K: and those in the table
    TABLE_1,
    TABLE_2,
    STACK,
    IS_SEEN,
    COUNT,  # copies on it, now and at the look before, in turn
    COUNT_1,
    INNER,  # those that go on as unicast
    INNER_1,
    LIST,  # links with copies
    LIST_1,
    N_LINK_ROWS,
) = range(27)

STAR, PRUNED, JOINED = SET_1, SET_2, SET_3  # sparse mode
CUT, LOST, ASSERTED = SET_1, SET_2, SET_3  # dense mode: pruned, lost by assert, asserted on
DOWNS, TOLD = SET_1, SET_2  # mLDP
BELOW, SEG = SET_1, SET_2  # SR: links of the tree; a segment's end by its first link, plus 1

K_SOURCE, K_RPT, K_STAR = 0, 1, 2
K_SEG = 1


class Loop(NamedTuple):
    """One run.

    h: (N_SCALARS,). nodes: (N_NODE_ROWS, N + 1). links: (N_LINK_ROWS, L). heap: (C, 3) time,
    sequence, event. log: (C, 4) time, sequence, change of a table, value. lanes:
    (N_LANES, C, 3) as the heap, each in order and in a circle, C a power of two.
    """

    h: I64
    nodes: I64
    links: I64
    heap: I64
    log: I64
    lanes: I64
