"""The loop of a rank whose group is at one host: arrays are joined in shared memory (ADR 0070).

Each rank writes its block, waits until all have, joins its own part of the block from all of
them, waits until all have, and reads the result; up to a window of blocks is under way. What is
little, and what is only moved, has no parts: each rank reads what all wrote, and waits once.
Values become words and words values as in the network (words.py), so a sum has the same bits.

Letters: n = ranks, g = number of a block.
"""

import numpy as np

from fanfold.kernels.absorb import FLAG_OVERFLOW
from fanfold.kernels.jit import fence, i64, kernel, load_word, store_word
from fanfold.kernels.reduce import (
    CODE_BYTES_OF,
    OP_MOVE,
    WORD_BYTES_OF,
    join,
    join_codes,
)
from fanfold.kernels.state import U8
from fanfold.kernels.words import (
    code_values,
    mark_block,
    pack_block,
    pack_values,
    unmark_block,
    unpack_block,
    unpack_values,
)
from fanfold.live import host_state as h
from fanfold.live.host_state import (
    HostState,
    block_at,
    least_of,
    line_place,
    place_of,
    word_place,
)
from fanfold.live.rank_loop import DONE, GONE, LATE, WOKEN
from fanfold.live.rank_state import B_BYTES, B_DST, B_SRC, NOTHING, width_of
from fanfold.live.syscalls import copy_memory, monotonic_ps, sleep_at, wake_at

LOOK = 5
"""Nothing has moved for LOOK_PS: somebody may have died."""
LOOK_PS = 100_000_000_000
WHOLE_BYTES = 32 << 10
"""Operations of so many bytes of all ranks together have no parts."""
STUCK = 0
MOVED = 1
UNLIKE = 2


@kernel
def begin_host(host: HostState) -> None:
    """Say what this rank is about to do."""
    ints = host.ints
    rank, end = ints[h.RANK], ints[h.BASE] + ints[h.N_BLOCKS]
    ints[h.POSTED] = ints[h.JOINED] = ints[h.TAKEN] = 0
    ints[h.IS_CHECKED] = ints[h.FLAGS] = 0
    n_bytes = 0
    for i in range(min(ints[h.N_BLOCKS], 2)):
        n_bytes += host.blocks[i, B_BYTES]
    is_little = ints[h.N_BLOCKS] < 2 and n_bytes * ints[h.N_RANKS] <= WHOLE_BYTES
    ints[h.IS_WHOLE] = 1 if is_little or ints[h.OP] == OP_MOVE else 0
    store_word(word_place(host, rank, h.IS_WHOLE_AT), ints[h.IS_WHOLE])
    store_word(word_place(host, rank, h.END_AT), end)


@kernel
def end_host(host: HostState, n_past: int) -> None:
    """Go on behind so many blocks."""
    ints = host.ints
    ints[h.BASE] += n_past
    for what in (h.POSTED_AT, h.JOINED_AT, h.TAKEN_AT, h.END_AT):
        store_word(word_place(host, ints[h.RANK], what), ints[h.BASE])
    wake_others(host)


@kernel
def post(host: HostState) -> None:
    """Write this rank's next block."""
    ints = host.ints
    i, rank = ints[h.POSTED], ints[h.RANK]
    g = ints[h.BASE] + i
    start, n = host.blocks[i, B_SRC], host.blocks[i, B_BYTES]
    store_word(line_place(host, g, rank, h.ASKED_AT), ints[h.ASKED])
    store_word(line_place(host, g, rank, h.HAS_AT), 1 if start != NOTHING else 0)
    if start != NOTHING:
        source = np.uint64(host.src.ctypes.data) + np.uint64(start)
        copy_memory(place_of(host, block_at(host, g, rank)), source, n)
    ints[h.POSTED] = i + 1
    store_word(word_place(host, rank, h.POSTED_AT), g + 1)


@kernel
def is_alike(host: HostState) -> bool:
    """All ranks were asked for the same, as the first block of each says."""
    for r in range(host.ints[h.N_RANKS]):
        asked = load_word(line_place(host, host.ints[h.BASE], r, h.ASKED_AT))
        if asked != host.ints[h.ASKED]:
            return False
    return True


@kernel
def join_part(host: HostState) -> None:
    """Join this rank's part of the next block, from all ranks into the result."""
    ints = host.ints
    i, rank, n = ints[h.JOINED], ints[h.RANK], ints[h.N_RANKS]
    g = ints[h.BASE] + i
    width = width_of(ints[h.KIND])
    n_values = host.blocks[i, B_BYTES] // width
    share = (((n_values + n - 1) // n + 15) & ~15) * width
    first = min(rank * share, n_values * width)
    last = min(first + share, n_values * width)
    at = block_at(host, g, n)
    flags = join_bytes_of(host, g, first, last, host.mem[at + first : at + last])
    store_word(line_place(host, g, rank, h.FLAGS_AT), flags)
    ints[h.JOINED] = i + 1
    store_word(word_place(host, rank, h.JOINED_AT), g + 1)


@kernel
def join_bytes_of(host: HostState, g: int, first: int, last: int, out: U8) -> int:
    """Join bytes ``first`` to ``last`` of block g of all ranks; flags of the result."""
    width = width_of(host.ints[h.KIND])
    step = h.PART_WORDS * min(width, 4)
    flags, at = 0, first
    while at < last:
        n = min(step, last - at)
        flags |= join_values(host, g, at, n, out[at - first : at - first + n])
        at += n
    return flags


@kernel
def join_values(host: HostState, g: int, at: int, n: int, out: U8) -> int:
    """Join ``n`` bytes of values, few enough for the scratch; flags of the result."""
    word, n_values = host.ints[h.WORD], n // width_of(host.ints[h.KIND])
    n_bytes = n_values * WORD_BYTES_OF[word]
    total, own = host.words[0, :n_bytes], host.words[1, :n_bytes]
    codes = host.codes[0, : n_values * CODE_BYTES_OF[word]]
    bad = agree_codes(host, g, at, n, codes) if codes.shape[0] > 0 else 0
    flags, n_joined = 0, 0
    for r in range(host.ints[h.N_RANKS]):
        if load_word(line_place(host, g, r, h.HAS_AT)) == 0:
            continue
        from_at = block_at(host, g, r) + at
        pack(host, codes, host.mem[from_at : from_at + n], total if n_joined == 0 else own)
        if n_joined > 0:
            flags |= join(host.ints[h.OP], word, total, own) * FLAG_OVERFLOW
        n_joined += 1
    if n_joined > 0:
        unpack(host, codes, total, out)
    if bad != 0:
        mend(host, g, at, n, out)
    return flags


@kernel
def pack(host: HostState, codes: U8, src: U8, words: U8) -> None:
    """Values of one rank to words; codes: agreed ones, none where values have none."""
    kind, op, n_ranks = host.ints[h.KIND], host.ints[h.OP], host.ints[h.N_RANKS]
    if codes.shape[0] > 0:
        pack_values(kind, n_ranks, codes, src, words, host.wide)
    else:
        pack_block(kind, op, n_ranks, 0, src, words, host.wide, host.pow2)


@kernel
def unpack(host: HostState, codes: U8, words: U8, out: U8) -> None:
    """Joined words to values."""
    kind, op, n_ranks = host.ints[h.KIND], host.ints[h.OP], host.ints[h.N_RANKS]
    share = host.share[0]
    if codes.shape[0] > 0:
        unpack_values(kind, n_ranks, codes, words, out, host.wide, share)
    else:
        unpack_block(kind, op, n_ranks, 0, words, out, host.wide, host.pow2, share)


@kernel
def agree_codes(host: HostState, g: int, at: int, n: int, codes: U8) -> int:
    """Largest code of each value over all ranks; not 0 where some value is not finite."""
    kind, word = host.ints[h.KIND], host.ints[h.WORD]
    own = host.codes[1, : codes.shape[0]]
    bad, n_joined = 0, 0
    for r in range(host.ints[h.N_RANKS]):
        if load_word(line_place(host, g, r, h.HAS_AT)) == 0:
            continue
        from_at = block_at(host, g, r) + at
        src = host.mem[from_at : from_at + n]
        bad |= code_values(kind, src, codes if n_joined == 0 else own, host.wide)
        if n_joined > 0:
            join_codes(word, codes, own)
        n_joined += 1
    return bad


@kernel
def mend(host: HostState, g: int, at: int, n: int, out: U8) -> None:
    """Write infinities and not-a-numbers of all ranks over the sums."""
    ints = host.ints
    marks = host.marks[: n // width_of(ints[h.KIND])]
    for j in range(marks.shape[0]):
        marks[j] = 0
    for r in range(ints[h.N_RANKS]):
        if load_word(line_place(host, g, r, h.HAS_AT)) != 0:
            from_at = block_at(host, g, r) + at
            add_marks(host, ints[h.KIND], host.mem[from_at : from_at + n], marks)
    unmark_block(ints[h.KIND], marks, out)
    ints[h.N_BAD] += 1


@kernel
def add_marks(host: HostState, kind: int, src: U8, marks: U8) -> None:
    """Add the marks of one rank's values to those of others."""
    own = host.codes[1, : marks.shape[0]]
    for j in range(own.shape[0]):
        own[j] = 0
    mark_block(kind, src, own, host.wide)
    for j in range(own.shape[0]):
        marks[j] |= own[j]


@kernel
def take(host: HostState) -> None:
    """Read the next result."""
    ints = host.ints
    i, rank, n_ranks = ints[h.TAKEN], ints[h.RANK], ints[h.N_RANKS]
    g = ints[h.BASE] + i
    start, n = host.blocks[i, B_DST], host.blocks[i, B_BYTES]
    if ints[h.IS_WHOLE] == 0:
        if start != NOTHING:
            copy_out(host, block_at(host, g, n_ranks), start, n)
        for r in range(n_ranks):
            ints[h.FLAGS] |= load_word(line_place(host, g, r, h.FLAGS_AT))
    elif start != NOTHING and ints[h.OP] == OP_MOVE:
        for r in range(n_ranks):
            if load_word(line_place(host, g, r, h.HAS_AT)) != 0:
                copy_out(host, block_at(host, g, r), start, n)
    elif start != NOTHING:
        ints[h.FLAGS] |= join_bytes_of(host, g, 0, n, host.dst[start : start + n])
    ints[h.TAKEN] = i + 1
    store_word(word_place(host, rank, h.TAKEN_AT), g + 1)


@kernel
def copy_out(host: HostState, at: int, start: int, n: int) -> None:
    """Copy bytes of the memory into this rank's array."""
    to = np.uint64(host.dst.ctypes.data) + np.uint64(start)
    copy_memory(to, place_of(host, at), n)


@kernel
def step(host: HostState) -> int:
    """Do all that can be done now: STUCK, MOVED or UNLIKE."""
    ints = host.ints
    base, end, moved = ints[h.BASE], ints[h.N_BLOCKS], STUCK
    taken = least_of(host, h.TAKEN_AT)
    while ints[h.POSTED] < end and base + ints[h.POSTED] - ints[h.WINDOW] < taken:
        post(host)
        moved = MOVED
    posted = least_of(host, h.POSTED_AT)
    if posted <= base:
        return moved
    if ints[h.IS_CHECKED] == 0:
        if not is_alike(host):
            return UNLIKE
        ints[h.IS_CHECKED] = 1
    joined = posted
    if ints[h.IS_WHOLE] == 0:
        while ints[h.JOINED] < end and base + ints[h.JOINED] < posted:
            join_part(host)
            moved = MOVED
        joined = least_of(host, h.JOINED_AT)
    while ints[h.TAKEN] < end and base + ints[h.TAKEN] < joined:
        take(host)
        moved = MOVED
    return moved


@kernel
def has_work(host: HostState, r: int, posted: int, joined: int, taken: int) -> bool:
    """A rank can go on.

    Args:
        posted, joined, taken: least of all ranks.
    """
    end = load_word(word_place(host, r, h.END_AT))
    own = load_word(word_place(host, r, h.POSTED_AT))
    if own < end and own - host.ints[h.WINDOW] < taken:
        return True
    is_whole = load_word(word_place(host, r, h.IS_WHOLE_AT)) != 0
    own = load_word(word_place(host, r, h.JOINED_AT))
    if not is_whole and own < end and own < posted:
        return True
    own = load_word(word_place(host, r, h.TAKEN_AT))
    return own < end and own < (posted if is_whole else joined)


@kernel
def wake_others(host: HostState) -> None:
    """Wake every rank that sleeps and can go on."""
    fence()  # either it is seen asleep here, or it sees what was written before it sleeps
    posted, joined = least_of(host, h.POSTED_AT), least_of(host, h.JOINED_AT)
    taken = least_of(host, h.TAKEN_AT)
    for r in range(host.ints[h.N_RANKS]):
        place = word_place(host, r, h.ASLEEP_AT)
        if r == host.ints[h.RANK] or load_word(place) == 0:
            continue
        if has_work(host, r, posted, joined, taken):
            store_word(place, 0)
            wake_at(place)


@kernel
def sleep(host: HostState, time_ps: int) -> None:
    """Sleep until another rank has something to do for this one, or so long."""
    place = word_place(host, host.ints[h.RANK], h.ASLEEP_AT)
    store_word(place, 1)
    fence()
    posted, joined = least_of(host, h.POSTED_AT), least_of(host, h.JOINED_AT)
    taken = least_of(host, h.TAKEN_AT)
    called = load_word(np.uint64(host.ints[h.CALLED :].ctypes.data))
    if called == 0 and not has_work(host, host.ints[h.RANK], posted, joined, taken):
        host.spec[0] = time_ps // 1_000_000_000_000
        host.spec[1] = time_ps % 1_000_000_000_000 // 1000
        host.ints[h.N_SLEEPS] += 1
        sleep_at(place, 1, np.uint64(host.spec.ctypes.data))
    store_word(place, 0)


@kernel
def call_host(host: HostState) -> None:
    """Call this rank out of its sleep, from another thread; no memory, no sleep."""
    store_word(np.uint64(host.ints[h.CALLED :].ctypes.data), 1)
    if host.mem.shape[0] == 0:
        return
    place = word_place(host, host.ints[h.RANK], h.ASLEEP_AT)
    store_word(place, 0)
    wake_at(place)


@kernel
def serve_host(host: HostState, until_ps: int) -> int:
    """Work on an operation until it is over.

    Returns:
        DONE: every result is here. LATE: ``until_ps`` has come. WOKEN: somebody else calls.
        GONE: ranks were asked for different things. LOOK: nothing has moved for long.
    """
    ints = host.ints
    moved_ps = monotonic_ps(host.spec)
    while True:
        if load_word(np.uint64(ints[h.CALLED :].ctypes.data)) != 0:
            return WOKEN
        moved = step(host)
        if moved == UNLIKE:
            return GONE
        if ints[h.TAKEN] == ints[h.N_BLOCKS]:
            return DONE
        wake_others(host)
        when = monotonic_ps(host.spec)
        if moved == MOVED:
            moved_ps = when
            continue
        if when >= until_ps:
            return LATE
        if when >= moved_ps + LOOK_PS:
            return LOOK
        sleep(host, i64(min(until_ps, moved_ps + LOOK_PS) - when))
