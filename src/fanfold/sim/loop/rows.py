"""Rows and codes of the compiled event loop, declared once; ``fanfold.sim.build`` fills them.

Letters: N = nodes (hosts first), L = directed links, F = streams of packets, I = items,
P = packets under way, K = ECMP sets. A *record* is a run of ``n`` packets that move as one: one
packet at packet fidelity, more in a train. Sizes are bytes on the wire, times picoseconds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Rows = NDArray[np.void]
Row = np.void
NONE = -1

# What comes next; an event's code is index * N_KINDS + kind.
N_KINDS = 16
EV_ARRIVE = 0  # a packet, at the end of its link
EV_NIC = 1  # a host's link, free again or due
EV_START = 2  # an item
EV_RETRY = 3  # a stream's retransmit timer
EV_PULL = 4  # a host's next pull
EV_PORT = 5  # a queued port, free again
EV_PAUSE = 6  # PFC: stop a link
EV_RESUME = 7
EV_CABLE = 8  # a link changes state
EV_SLOTS = 9  # a BFR's slots, deadline
EV_REPORT = 10  # a receiver's block, report due
EV_WAKE = 11  # a fan's sender, deadline
EV_ARRAYS = 12  # a BFR's arrays, deadline
EV_RANK = 13  # a rank of a sum, deadline

# What a packet is.
PK_DATA = 0
PK_ACK = 1
PK_NACK = 2
PK_PULL = 3
PK_FAN = 4
PK_FEEDBACK = 5
PK_ECHO = 6  # a receiver's ACK of one packet of a fan
PK_ARRAY = 7  # of a sum
PK_FOLD_WORD = 8  # REQUEST, HEARD, ARM, CLOSE

CUT = -1
"""Of a link that is cut, or that of a node that has ended or stands still."""

# When receivers of a fan speak.
PER_BLOCK = 0
PER_PACKET = 1
PER_LOSS = 2

# Transports of unicast streams.
ROCE = 0
NDP = 1
PLAIN = 2

LINK_ROW = np.dtype(
    [
        # What every packet touches: two lines of cache.
        ("free_ps", np.int64),  # when its port has sent all it took
        ("prop_ps", np.int64),
        ("limit_ps", np.int64),  # deepest backlog, 0 = any
        ("mark_ps", np.int64),  # backlog above which packets are marked, 0 = never
        ("peak_ps", np.int64),
        ("arrived", np.int64),
        ("byte_num", np.int32),  # a byte takes byte_num / byte_den ps
        ("byte_den", np.int32),
        ("dst", np.int32),
        ("reverse", np.int32),
        ("bytes", np.int64, (4,)),
        ("pkts", np.int32, (4,)),
        ("lost", np.int32),  # on the way
        ("drops", np.int32),  # refused at its port
        ("loss_ppb", np.int32),
        ("up", np.int32),  # 0: takes nothing more; CUT: what is under way is lost too
        # A host's port.
        ("ring", np.int64),  # stream whose turn comes last, NONE
        ("waits", np.int64),  # that one is not the one being sent
        ("first_ctl", np.int64),  # queue served first
        ("last_ctl", np.int64),
        ("wake_ps", np.int64),
        ("pending", np.int64),  # an EV_NIC is on its way, due at wake_ps
        # A queued port.
        ("first", np.int64),
        ("last", np.int64),
        ("queued", np.int64),  # bytes in the data queue
        ("trims", np.int64),
        ("busy", np.int64),  # a packet is being sent
        ("came", np.int64),  # over which link it had come, NONE
        ("left_bytes", np.int64),  # what it held there
        ("paused", np.int64),
        ("ingress", np.int64),  # bytes that came over this link and still wait
        ("held", np.int64),  # this link was told to pause
        ("rng", np.uint64),
        ("rest", np.int64),  # parts of byte_den of a ps that its port owes
        ("ahead", np.int64),  # bytes of trains beyond its even share of them
        ("coming", np.int64),  # bytes of messages on their way to its host
        ("heard_ps", np.int64),  # when something came last, where links fail
    ]
)
NODE_ROW = np.dtype(
    [
        ("first_out", np.int64),
        ("n_out", np.int64),
        ("group", np.int64),  # a host's
        ("got_bytes", np.int64),
        ("done_ps", np.int64),
        ("first_pull", np.int64),  # a host's streams with pulls to send
        ("last_pull", np.int64),
        ("pull_ps", np.int64),  # no pull before
        ("pulling", np.int64),
        ("n_dead", np.int64),  # packets that no table leads on
        ("bfr_id", np.int64),
        ("slot", np.int64),  # a BFR's: slot armed last
        ("slots_ps", np.int64),  # a BFR's: when its EV_SLOTS comes
        ("arrays_ps", np.int64),  # and its EV_ARRAYS
        # Of a receiver of fans, where links fail.
        ("data_ps", np.int64),  # when DATA came last
        ("gap_ps", np.int64),  # when DATA came before the first silence of SILENT_PS, NONE
        ("back_ps", np.int64),  # and after it
        ("mended", np.int64),  # packets that it has by repairs
        ("spare_bytes", np.int64),  # of repairs that it had already
    ]
)
PKT_ROW = np.dtype(
    [
        # One line of cache: hundreds of thousands may wait in deep queues.
        ("at_ps", np.int64),  # when it is at the end of its link
        ("stamp", np.int64),  # when its sender sent it; a fan's round
        ("span_ps", np.int64),  # from its first packet's arrival to its last one's
        (
            "path",
            np.int32,
        ),  # of FEEDBACK and FOLD: the row of its bytes; of a fan's DATA: its table
        ("stream", np.int32),
        ("psn", np.int32),  # record of its stream; a fan's block
        ("link", np.int32),
        ("next", np.int32),  # of its queue; in a bucket as events.py has it
        ("bytes", np.int32),  # of all n packets
        ("head", np.int32),  # of its first packet, all that cut-through waits for
        ("n", np.int16),
        ("ttl", np.int16),
        ("si", np.int16),  # of a fan's DATA; of FEEDBACK and FOLD: bytes without underlay
        ("kind", np.int8),
        ("marked", np.int8),
        ("trimmed", np.int8),
        ("again", np.int8),
        (
            "poll",
            np.int8,
        ),  # a fan's DATA asks for a word; 2: only of those it helps; FEEDBACK: its way
        ("labels", np.int8),  # bytes that it has for the sake of a tree
    ]
)
STREAM_ROW = np.dtype(
    [
        # What routers look at.
        ("src", np.int64),
        ("dst", np.int64),
        ("src_group", np.int64),
        ("dst_group", np.int64),
        ("src_link", np.int64),  # the last link to it, NONE where it has several
        ("dst_link", np.int64),
        ("queue_at", np.int64),  # the slowest link to its receiver
        ("home_at", np.int64),  # and to its sender
        ("item", np.int64),
        ("nic", np.int64),
        ("n_recs", np.int64),
        ("rec_pkts", np.int64),  # packets of a full record
        ("rec_payload", np.int64),
        ("pkt_payload", np.int64),
        ("last_payload", np.int64),  # of the last record
        ("gap_ps", np.int64),  # between two records of an open loop
        ("next_ps", np.int64),  # no new record before
        ("window", np.int64),  # records under way, 0 = any
        ("credit", np.int64),  # NDP: records that may go
        ("n_sent", np.int64),  # next new record
        ("una", np.int64),  # every record before it is acknowledged
        ("n_acked", np.int64),
        ("high", np.int64),  # one past the highest acknowledged
        ("seen", np.int64),  # records below it were looked at for loss
        ("passed", np.int64),  # one far above these was acknowledged
        ("passed_ps", np.int64),  # when
        ("again", np.int64),  # where the search for a lost record goes on
        ("expected", np.int64),  # receiver: next in order
        ("n_got", np.int64),
        ("nacked", np.int64),  # receiver: gap already told
        ("bits_at", np.int64),  # three bitmaps of n_words: acknowledged, lost, received
        ("n_words", np.int64),
        ("n_lost", np.int64),
        ("path", np.int64),
        ("path_step", np.int64),  # 0: one path
        ("went_ps", np.int64),  # when its last record set out, where that counts
        ("ring", np.int64),  # neighbours in its port's round, NONE outside
        ("back", np.int64),
        ("active", np.int64),
        ("waited_ps", np.int64),  # when it moved last, when a queue was waited for
        ("timer_ps", np.int64),
        ("moved_ps", np.int64),  # when a record was sent or acknowledged last
        ("due_ps", np.int64),  # by then the queue at its receiver has let through what was sent
        ("backoff", np.int64),
        ("hops", np.int64),  # that the whole net had counted when its timer was looked at
        ("probe", np.int64),  # record that asks after a silence, NONE
        ("probe_ps", np.int64),  # since when
        ("probe_end", np.int64),  # records sent by then
        ("n_again", np.int64),
        ("pulls", np.int64),
        ("next_pull", np.int64),
        ("n_acks", np.int64),
        ("conn", np.int64),
        ("next_conn", np.int64),  # next stream of its connection
        ("fan", np.int64),  # a lane of this fan, NONE; OF_SUM: a rank's blocks
        ("rank", np.int64),  # of a sum, NONE
        ("first_job", np.int64),
        ("last_job", np.int64),
        ("legs", np.int64),  # the last router takes any of several links to its host
        ("qp_first", np.int64),  # streams of its queue pair, next to each other
        ("qp_n", np.int64),
        ("depth", np.int64),  # receiver: most records that came ahead of one still awaited
    ]
)
JOB_ROW = np.dtype(
    [
        ("next", np.int64),
        ("fan", np.int64),
        ("block", np.int64),
        ("psns", np.uint64),
        ("left", np.uint64),  # of the SI in hand, still to be sent
        ("bits_at", np.int64),  # row of its BitStrings
        ("n_rows", np.int64),  # one for all PSNs, or one for each
        ("si", np.int64),
        ("round", np.int64),
        ("again", np.int64),
        ("table", np.int64),  # of all ECMP tables and trees
        ("poll", np.int64),  # of its packets that ask
    ]
)
FAN_ROW = np.dtype(
    [
        ("item", np.int64),
        ("host", np.int64),
        ("bfir_id", np.int64),
        ("flow", np.int64),  # 2 * its index + 1
        ("flow_port", np.int64),
        ("addr", np.int64),
        ("nic", np.int64),
        ("n_si", np.int64),
        ("entropy", np.int64),
        ("n_blocks", np.int64),
        ("n_psn", np.int64),
        ("last_n_psn", np.int64),
        ("stride", np.int64),
        ("last_bytes", np.int64),  # payload of the very last packet
        ("recv_at", np.int64),  # follow row of bit 0
        ("block_at", np.int64),  # block row of bit 0, block 0
        ("unreceived", np.int64),  # receivers that lack a block
        ("n_feedback", np.int64),  # packets that reached the source
        ("head", np.int64),  # bytes of a packet's headers on the source's link
        ("is_tree", np.int64),  # labels change on the way, words go by unicast
        ("word", np.int64),  # bytes of a receiver's word without gaps
        ("speaks", np.int64),  # PER_...
        ("n_back", np.int64),  # blocks back that one by the same link may be, 2 over one plane
    ]
)
CONN_ROW = np.dtype(
    [
        ("now", np.int64),
        ("first", np.int64),
        ("last", np.int64),
        ("srtt_ps", np.int64),  # 0 before the first round trip
        ("var_ps", np.int64),
    ]
)
ITEM_ROW = np.dtype(
    [
        ("needs", np.int64),
        ("start_ps", np.int64),
        ("pause_ps", np.int64),  # its whole time, where it sends nothing
        ("first", np.int64),  # its streams
        ("n_streams", np.int64),
        ("fan", np.int64),  # or its fan, NONE; neither: a pause
        ("unreceived", np.int64),  # streams, receivers of a fan, ranks of a sum
        ("unacked", np.int64),
        ("started_ps", np.int64),
        ("got_ps", np.int64),
        ("done_ps", np.int64),
    ]
)


OF_SUM = -2
"""In place of a stream's fan."""


class Ranks(NamedTuple):
    """What ranks of sums send from and keep; sum_rows.py has the rows.

    Letters: A = sums, N = ranks of all sums, Z = windows of all ranks, B = rows of bytes, V =
    words that stand for those of a block, W = words of a BitString.

    rows: (N,). sums: (A,). ring: (Z, 4). heads: (N, bytes) headers of a packet. own: (N,
    V) what a rank's words are made of; want: (A, V) their sum. members:
    (A, W). seats: (A, bits) rank of each bit of a BitString, NONE. bodies: (B, bytes).
    """

    rows: Rows
    sums: Rows
    ring: I64
    heads: U8
    own: I64
    want: I64
    members: U64
    seats: I32
    bodies: U8


class Senders(NamedTuple):
    """What hosts send from: streams (F,) and their bitmaps, connections, jobs of fans.

    job_bits: (B, n_si * W) BitStrings that jobs point to. pkt_bits: (P, W + 1) BitString of
    each packet of a fan, and the word of its PSNs. ranks: of sums.
    """

    streams: Rows
    bits: U64
    conns: Rows
    jobs: Rows
    job_bits: U64
    fans: Rows
    pkt_bits: U64
    ranks: Ranks


class World(NamedTuple):
    """What everything else needs: links (L,), nodes (N,), pkts (P,), items (I,).

    deps: first (I + 1,), then who waits. way: (R, G) ECMP set toward a group, HERE where its
    hosts hang on the router, NONE where there is no path. sets: first (K + 1,), then links.
    log: (rows, 6) what happened to the traced packet.
    """

    links: Rows
    nodes: Rows
    pkts: Rows
    items: Rows
    deps: I64
    way: I32
    sets: I32
    log: I64


# Head of the queue array: one integer each.
(
    NOW,
    SHIFT,
    MASK,
    BASE,
    END,
    HORIZON,
    SEQ,
    N_POOL,
    CAP,
    FREE,
    AT_HEADS,
    AT_POOL,
    AT_READY,
    AT_SPARE,
    AT_SIDE,
    AT_FAR,
    N_READY,
    I_READY,
    N_SIDE,
    N_FAR,
    FREE_PKT,
    N_FREE_PKT,
    N_HOSTS,
    N_SETS,
    TRANSPORT,
    QUEUED,
    SWITCH_PS,
    CUT_BYTES,
    ACK_BYTES,
    HEADER_BYTES,
    UNDERLAY,
    TRIM,
    LIMIT_BYTES,
    PFC_HIGH,
    PFC_LOW,
    LOSSY,
    RTO_PS,
    REORDER,
    PULL_PS,
    ON,
    N_DONE,
    N_ITEMS,
    N_EVENTS,
    N_HOPS,
    STOP_PS,
    N_UPCALLS,
    TRACE_STREAM,
    TRACE_PSN,
    N_TRACE,
    N_UNDER_WAY,
    MAX_OUT,
    REPAIR_PKTS,
    REPAIR_BYTES,
    FEEDBACK_MTU,
    BLOCK_PSNS,
    AGAIN_PS,
    N_WORDS,
    N_SI,
    N_ECMP,
    N_BITS,
    BIFT_BASE,
    N_SLOTS,
    N_VAT_ROWS,
    N_VAT_SLOTS,
    SPEED,
    SINCE,
    N_OPEN,
    N_TOLD,
    SEG,
    AT_UPCALLS,
    AT_BODIES,
    N_BODIES,
    N_DEALT,
    SLOW,
    AT_LOST,
    N_STREAMS,
    SILENT_PS,
    FRR_AT,
    FLOWLET_PS,
    HEAD_FIELDS,
) = range(80)

# What the slow plane is told: kind, and two numbers.
UPCALL_SENT = 0  # fan, job: its last packet left
UPCALL_WORD = 1  # fan, row of a FEEDBACK packet's bytes
UPCALL_START = 2  # fan
UPCALL_WAKE = 3  # fan
MAX_UPCALLS = 4096
MAX_BODIES = 1 << 18
"""FEEDBACK and FOLD packets under way at once; their bytes stand in rows of their own."""

# Why the loop came back.
DONE = 0
EMPTY = 1
FULL = 2
TURN = 3
UPCALL = 4
LATE = 5
