"""The pending set: buckets of time below the shortest lookahead, and two heaps beside them.

Events of one bucket are sorted once when it comes up, by time, equal times in the order in
which they were pushed: the order is total, (time, sequence). What is pushed into the bucket in
hand goes to the side heap, what lies beyond the last bucket to the far heap. One flat integer
array ``q`` holds it all: its head (rows.py), then the regions the head points to. A packet
under way is its own entry in a bucket's list: its row has to be read anyway. An entry of a list
is 2 * row of the pool, or 2 * packet + 1.
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.sim.loop.rows import (
    AT_FAR,
    AT_HEADS,
    AT_POOL,
    AT_READY,
    AT_SIDE,
    AT_SPARE,
    BASE,
    END,
    EV_ARRIVE,
    FREE,
    HORIZON,
    I64,
    I_READY,
    MASK,
    N_FAR,
    N_KINDS,
    N_POOL,
    N_READY,
    N_SIDE,
    NONE,
    SEQ,
    SHIFT,
    Rows,
)

SMALL = 40
"""Events of a bucket that are sorted by insertion; more by radix."""
RADIX_BITS = 8
RADIX = 1 << RADIX_BITS


@kernel
def push(q: I64, at_ps: int, what: int) -> None:
    """Let ``what`` happen at ``at_ps``, after all that is pushed for then already."""
    if q[END] <= at_ps < q[HORIZON]:
        into_list(q, at_ps, what)
    else:
        push_aside(q, at_ps, what)


@kernel
def into_list(q: I64, at_ps: int, what: int) -> None:
    """First in the list of its bucket, with a row of the pool."""
    row = q[FREE]
    at = q[AT_POOL] + 3 * row
    q[FREE] = q[at + 2]
    head = q[AT_HEADS] + ((at_ps >> q[SHIFT]) & q[MASK])
    q[at] = at_ps
    q[at + 1] = what
    q[at + 2] = q[head]
    q[head] = 2 * row
    q[N_POOL] += 1


@kernel
def push_pkt(q: I64, pkts: Rows, at_ps: int, p: int) -> None:
    """Let packet ``p`` arrive at ``at_ps``."""
    if q[END] <= at_ps < q[HORIZON]:
        into_bucket(q, pkts, at_ps, p)
    else:
        push_aside(q, at_ps, p * N_KINDS + EV_ARRIVE)


@kernel
def into_bucket(q: I64, pkts: Rows, at_ps: int, p: int) -> None:
    """First in the list of its bucket: lists stand in reverse order."""
    head = q[AT_HEADS] + ((at_ps >> q[SHIFT]) & q[MASK])
    pkts[p]["at_ps"] = at_ps
    pkts[p]["next"] = q[head]
    q[head] = 2 * p + 1
    q[N_POOL] += 1


@kernel
def push_aside(q: I64, at_ps: int, what: int) -> None:
    """Into the side heap, or into the far heap."""
    q[SEQ] += 1
    if at_ps < q[END]:
        heap_push(q, q[AT_SIDE], q[N_SIDE], at_ps, q[SEQ], what)
        q[N_SIDE] += 1
    else:
        heap_push(q, q[AT_FAR], q[N_FAR], at_ps, q[SEQ], what)
        q[N_FAR] += 1


@kernel
def heap_push(q: I64, at: int, n: int, when: int, seq: int, what: int) -> None:
    """Add to a binary heap of n rows (time, sequence, what) at offset ``at``."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        other = at + 3 * up
        if q[other] < when or (q[other] == when and q[other + 1] < seq):
            break
        here = at + 3 * i
        q[here] = q[other]
        q[here + 1] = q[other + 1]
        q[here + 2] = q[other + 2]
        i = up
    here = at + 3 * i
    q[here] = when
    q[here + 1] = seq
    q[here + 2] = what


@kernel
def heap_pop(q: I64, at: int, n: int) -> None:
    """Remove the first of n rows; the caller has read it."""
    last = at + 3 * (n - 1)
    when, seq, what = q[last], q[last + 1], q[last + 2]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n - 1:
            break
        here = at + 3 * child
        if child + 1 < n - 1 and (
            q[here + 3] < q[here] or (q[here + 3] == q[here] and q[here + 4] < q[here + 1])
        ):
            child += 1
            here += 3
        if when < q[here] or (when == q[here] and seq < q[here + 1]):
            break
        there = at + 3 * i
        q[there] = q[here]
        q[there + 1] = q[here + 1]
        q[there + 2] = q[here + 2]
        i = child
    there = at + 3 * i
    q[there] = when
    q[there + 1] = seq
    q[there + 2] = what


@kernel
def next_bucket(q: I64, pkts: Rows) -> bool:
    """Go to the next bucket that holds anything and sort it; False when nothing is pending."""
    width = 1 << q[SHIFT]
    if q[N_POOL] == 0:
        if q[N_FAR] == 0:
            return False
        first = q[q[AT_FAR]]
        q[BASE] = ((first >> q[SHIFT]) << q[SHIFT]) - width
        q[HORIZON] = q[BASE] + width * (q[MASK] + 1)
    while True:
        q[BASE] += width
        q[END] = q[BASE] + width
        q[HORIZON] = q[BASE] + width * (q[MASK] + 1)
        while q[N_FAR] > 0 and q[q[AT_FAR]] < q[HORIZON]:
            at = q[AT_FAR]
            when, what = q[at], q[at + 2]
            heap_pop(q, at, q[N_FAR])
            q[N_FAR] -= 1
            if what % N_KINDS == EV_ARRIVE:
                into_bucket(q, pkts, when, what // N_KINDS)
            else:
                into_list(q, when, what)
        head = q[AT_HEADS] + ((q[BASE] >> q[SHIFT]) & q[MASK])
        if q[head] != NONE:
            gather(q, pkts, head)
            return True


@kernel
def gather(q: I64, pkts: Rows, head: int) -> None:
    """Empty a bucket's list into the ready rows, in order."""
    n = 0
    spare = q[AT_SPARE]
    entry = q[head]
    q[head] = NONE
    while entry != NONE:
        row = entry >> 1
        if entry & 1:
            q[spare + 2 * n] = pkts[row]["at_ps"]
            q[spare + 2 * n + 1] = row * N_KINDS + EV_ARRIVE
            entry = i64(pkts[row]["next"])
        else:
            at = q[AT_POOL] + 3 * row
            q[spare + 2 * n] = q[at]
            q[spare + 2 * n + 1] = q[at + 1]
            entry = q[at + 2]
            q[at + 2] = q[FREE]
            q[FREE] = row
        n += 1
    q[N_POOL] -= n
    ready = q[AT_READY]
    if n <= SMALL:
        for k in range(n):  # the list's end was pushed first
            when = q[spare + 2 * (n - 1 - k)]
            what = q[spare + 2 * (n - 1 - k) + 1]
            i = ready + 2 * k
            while i > ready and q[i - 2] > when:
                q[i] = q[i - 2]
                q[i + 1] = q[i - 1]
                i -= 2
            q[i] = when
            q[i + 1] = what
    else:
        for k in range(n):
            q[ready + 2 * k] = q[spare + 2 * (n - 1 - k)]
            q[ready + 2 * k + 1] = q[spare + 2 * (n - 1 - k) + 1]
        sort_radix(q, n)
    q[N_READY] = n
    q[I_READY] = 0


@kernel
def sort_radix(q: I64, n: int) -> None:
    """Stable sort of the ready rows by time within the bucket, eight bits at a time."""
    src, dst = q[AT_READY], q[AT_SPARE]
    counts = q[AT_HEADS] + q[MASK] + 1  # RADIX integers behind the heads
    shift = 0
    while shift < q[SHIFT]:
        for d in range(RADIX):
            q[counts + d] = 0
        for k in range(n):
            q[counts + ((q[src + 2 * k] >> shift) & (RADIX - 1))] += 1
        total = 0
        for d in range(RADIX):
            here = q[counts + d]
            q[counts + d] = total
            total += here
        for k in range(n):
            d = counts + ((q[src + 2 * k] >> shift) & (RADIX - 1))
            to = dst + 2 * q[d]
            q[d] += 1
            q[to] = q[src + 2 * k]
            q[to + 1] = q[src + 2 * k + 1]
        src, dst = dst, src
        shift += RADIX_BITS
    q[AT_READY], q[AT_SPARE] = src, dst
