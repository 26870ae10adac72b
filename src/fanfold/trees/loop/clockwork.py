"""Events, processors, messages and changes of tables, as trees/world.py has them.

Equal times are worked off in the order in which they were asked for. A change of a table takes
one time for all, so changes wait in one list beside the heap. So do most events: one that comes
no sooner than the last of a lane follows that one, others go to the heap.
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.trees.loop.rows import (
    BYTES_A,
    BYTES_B,
    END,
    EV_ARRIVE,
    EV_ARRIVE_AT,
    FREE_PS,
    INSTALL_PS,
    IS_JOIN_SHARED,
    LANE_HEAD,
    LANE_N,
    LOG_HEAD,
    LOG_TAIL,
    M_ASSERT,
    M_JOIN,
    N_BYTES,
    N_HEAP,
    N_LANES,
    N_MESSAGES,
    N_SHARED,
    NONE,
    NOW,
    PROCESS_PS,
    SEQ,
    SHARED_BYTES,
    SPAN_A,
    SPAN_B,
    Loop,
)

FOREVER = 2**62
IN_HEAP, IN_LOG = N_LANES, N_LANES + 1


@kernel
def code(kind: int, message: int, value: int, index: int) -> int:
    """An event."""
    return kind | message << 4 | value << 8 | index << 24


@kernel
def push(w: Loop, at_ps: int, what: int) -> None:
    """Let something happen at a time, after all that was asked for then already."""
    h, heap = w.h, w.heap
    h[SEQ] += 1
    lane = lane_for(w, at_ps)
    if lane != NONE:
        rows = w.lanes[lane]
        i = (h[LANE_HEAD + lane] + h[LANE_N + lane]) & (rows.shape[0] - 1)
        h[LANE_N + lane] += 1
        rows[i, 0] = at_ps
        rows[i, 1] = h[SEQ]
        rows[i, 2] = what
        return
    i = h[N_HEAP]
    h[N_HEAP] += 1
    while i > 0:
        up = (i - 1) >> 1
        if heap[up, 0] <= at_ps:
            break
        for c in range(3):
            heap[i, c] = heap[up, c]
        i = up
    heap[i, 0] = at_ps
    heap[i, 1] = h[SEQ]
    heap[i, 2] = what


@kernel
def lane_for(w: Loop, at_ps: int) -> int:
    """Of the lanes with room whose last event is no later, the one with the latest, or NONE."""
    h = w.h
    found, latest = NONE, -FOREVER
    for lane in range(N_LANES):
        rows = w.lanes[lane]
        n = h[LANE_N + lane]
        if n == 0:
            if found == NONE:
                found = lane
        elif n < rows.shape[0]:
            last = rows[(h[LANE_HEAD + lane] + n - 1) & (rows.shape[0] - 1), 0]
            if latest < last <= at_ps:
                found, latest = lane, last
    return found


@kernel
def is_sooner(at_ps: int, seq: int, other_ps: int, other_seq: int) -> bool:
    """The order of all that happens."""
    return at_ps < other_ps or (at_ps == other_ps and seq < other_seq)


@kernel
def next_from(w: Loop) -> tuple[int, int]:
    """Where what comes next is: a lane, IN_HEAP, IN_LOG, or NONE; and its time."""
    h, log, heap = w.h, w.log, w.heap
    found, at_ps, seq = NONE, FOREVER, 0
    for lane in range(N_LANES):
        row = w.lanes[lane, h[LANE_HEAD + lane]]
        if h[LANE_N + lane] > 0 and is_sooner(row[0], row[1], at_ps, seq):
            found, at_ps, seq = lane, row[0], row[1]
    if h[N_HEAP] > 0 and is_sooner(heap[0, 0], heap[0, 1], at_ps, seq):
        found, at_ps, seq = IN_HEAP, heap[0, 0], heap[0, 1]
    at = h[LOG_HEAD]
    if at < h[LOG_TAIL] and is_sooner(log[at, 0], log[at, 1], at_ps, seq):
        found, at_ps = IN_LOG, log[at, 0]
    return found, at_ps


@kernel
def take(w: Loop, lane: int) -> int:
    """The first event of a lane or of the heap, which has it no more."""
    h = w.h
    if lane == IN_HEAP:
        what = i64(w.heap[0, 2])
        pop(w)
        return what
    what = i64(w.lanes[lane, h[LANE_HEAD + lane], 2])
    h[LANE_HEAD + lane] = (h[LANE_HEAD + lane] + 1) & (w.lanes.shape[1] - 1)
    h[LANE_N + lane] -= 1
    return what


@kernel
def pop(w: Loop) -> None:
    """Take the first event of the heap away."""
    h, heap = w.h, w.heap
    n = h[N_HEAP] - 1
    h[N_HEAP] = n
    at_ps, seq = heap[n, 0], heap[n, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and is_before(w, child + 1, heap[child, 0], heap[child, 1]):
            child += 1
        if not is_before(w, child, at_ps, seq):
            break
        for c in range(3):
            heap[i, c] = heap[child, c]
        i = child
    for c in range(3):
        heap[i, c] = heap[n, c]


@kernel
def is_before(w: Loop, i: int, at_ps: int, seq: int) -> bool:
    """A row of the heap comes before a time and sequence."""
    when = w.heap[i, 0]
    return bool(when < at_ps or (when == at_ps and w.heap[i, 1] < seq))


@kernel
def process(w: Loop, node: int, what: int) -> None:
    """Let something happen when a router's processor has had its time."""
    h, free = w.h, w.nodes[FREE_PS]
    done_ps = max(h[NOW], free[node]) + h[PROCESS_PS]
    free[node] = done_ps
    push(w, done_ps, what)


@kernel
def count(w: Loop, message: int, n_hops: int, n_bytes: int) -> None:
    """Count a message and the links it crosses."""
    h = w.h
    h[N_MESSAGES] += 1
    h[N_BYTES] += n_hops * n_bytes
    if message == M_JOIN and h[IS_JOIN_SHARED]:
        h[N_SHARED] += 1
        h[SHARED_BYTES] += n_hops * n_bytes


@kernel
def send(w: Loop, link: int, message: int, value: int) -> None:
    """Send a message over one link."""
    h = w.h
    is_b = message == M_ASSERT
    count(w, message, 1, h[BYTES_B] if is_b else h[BYTES_A])
    span_ps = w.links[SPAN_B, link] if is_b else w.links[SPAN_A, link]
    push(w, h[NOW] + span_ps, code(EV_ARRIVE, message, value, link))


@kernel
def send_to(w: Loop, message: int, node: int, n_hops: int, span_ps: int, n_bytes: int) -> None:
    """Send a message by unicast; node: of the two ends the one that is not the usual one."""
    count(w, message, n_hops, n_bytes)
    push(w, w.h[NOW] + span_ps, code(EV_ARRIVE_AT, message, 0, node))


@kernel
def put(w: Loop, kind: int, index: int, value: int) -> None:
    """Have something in a table a little later."""
    h, log = w.h, w.log
    h[SEQ] += 1
    at = h[LOG_TAIL]
    log[at, 0] = h[NOW] + h[INSTALL_PS]
    log[at, 1] = h[SEQ]
    log[at, 2] = kind + 8 * index
    log[at, 3] = value
    h[LOG_TAIL] += 1


@kernel
def end_of(w: Loop, link: int) -> int:
    """Where a link leads."""
    return int(w.links[END, link])
