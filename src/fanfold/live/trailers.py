"""Trailers of links with keys, checked and taken off a block that came.

docs/wire/link-keys.md section 2. Nothing here enters Python.
"""

import numpy as np

from fanfold.kernels.codes import (
    DROP_BAD_HANDSHAKE,
    DROP_BAD_LINK_MAC,
    DROP_LINK_FLOOD,
    DROP_LINK_NO_KEY,
    DROP_LINK_REPLAYED,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BIER_PORT,
    HANDSHAKE,
    LINK_BYTES,
    LINK_WORD,
    MAX_PSN,
    TRAILER_BYTES,
)
from fanfold.kernels.octets import copy_octets, read_u32, read_word, swap_word
from fanfold.kernels.state import I64, U8
from fanfold.live.link_table import (
    LIVE,
    NEW,
    NONE,
    ROW_BITS,
    WINDOW_PKTS,
    WINDOW_WORDS,
    LinkTable,
)
from fanfold.live.link_tags import IN, hash_packet, make_pads, place, set_nonce
from fanfold.live.sock import (
    BARE,
    BASE,
    BUF_BYTES,
    CAME_AT,
    END,
    KEYED,
    LINKS,
    NEXT,
    OPENED_AT,
    PORT,
    REST_AT,
    REST_END,
    REST_SEG,
    SEG,
    Sock,
)
from fanfold.live.syscalls import copy_memory

REQUIRED = 2
"""Of a port's ``keys``: nothing passes without a trailer but handshakes."""
MOST_TOKENS = 32
TOKEN_PS = 15_625_000_000
"""A port lets 64 handshakes a second in, MOST_TOKENS at once; of others than the node too."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_WORD_BITS = 64


@kernel
def open_run(sock: Sock, drops: I64, when: int) -> None:
    """Check trailers of the block in hand and take them off.

    The block in hand becomes the packets of one session, or those without any, that stand at
    its beginning and are let in; what follows is looked at next.
    """
    ints = sock.ints
    ints[CAME_AT] = -1
    if ints[REST_AT] < ints[REST_END]:
        ints[NEXT], ints[END], ints[SEG] = ints[REST_AT], ints[REST_END], ints[REST_SEG]
    at, end, seg = ints[NEXT], ints[END], ints[SEG]
    ints[REST_AT] = ints[REST_END] = ints[BARE] = 0
    if at >= end or at >= BUF_BYTES or sock.exits[ints[PORT]]["keys"] == 0:
        return  # memory is shared with processes of the same user only
    link = link_of(sock, at, min(seg, end - at))
    if link < 0:
        ints[BARE] = i64(sock.exits[ints[PORT]]["keys"] == REQUIRED)
        following = pass_bare(sock, drops, when)
    else:
        following = open_sealed(sock, link, drops, when)
    if following < end:
        ints[REST_AT], ints[REST_END], ints[REST_SEG] = following, end, seg


@kernel
def open_block(sock: Sock, n: int, drops: I64, when: int) -> int:
    """Bytes of the block in hand, or of what follows it, that are let in, without trailers."""
    ints = sock.ints
    ints[NEXT], ints[END] = ints[BASE], ints[BASE] + n
    open_run(sock, drops, when)
    ints[BASE] = ints[NEXT]
    left: int = ints[END] - ints[NEXT]
    return left


@kernel
def has_handshake(sock: Sock, n: int) -> bool:
    """The block in hand is not of this group but of keys."""
    if sock.ints[KEYED] == 0 or n <= 0:
        return False
    return is_handshake(sock.buf, sock.ints[BASE], min(sock.ints[SEG], n))


@kernel
def link_of(sock: Sock, at: int, size: int) -> int:
    """Row of the session that the packet at ``at`` says it is of, or -1."""
    if size <= TRAILER_BYTES:
        return -1
    number = read_u32(sock.buf, at + size - TRAILER_BYTES)
    r = number & ((1 << ROW_BITS) - 1)
    if r >= sock.ints[LINKS]:
        return -1
    row = sock.links.rows[r]
    is_it = row["state"] != NONE and row["id"] == number and row["port"] == sock.ints[PORT]
    return r if is_it else -1


@kernel
def pass_bare(sock: Sock, drops: I64, when: int) -> int:
    """Let packets without a trailer in, or not; past the last of them."""
    ints = sock.ints
    at: int = ints[NEXT]
    end, seg = ints[END], ints[SEG]
    row = sock.exits[ints[PORT]]
    source = (i64(sock.name_in[2]) << 8) | i64(sock.name_in[3])
    to = ints[NEXT]
    while at < end:
        size = min(seg, end - at)
        if link_of(sock, at, size) >= 0:
            break
        if is_handshake(sock.buf, at, size) and not is_own_port(sock.buf, at, source):
            is_in = False  # of who only heard it: no token of who means it
            drops[DROP_BAD_HANDSHAKE] += 1
        elif is_handshake(sock.buf, at, size):
            is_in = take_token(row, source == BIER_PORT, when)
            drops[DROP_LINK_FLOOD] += 0 if is_in else 1
        else:
            is_in = row["keys"] != REQUIRED
            drops[DROP_LINK_NO_KEY] += 0 if is_in else 1
        if is_in:
            if to != at:
                copy_octets(sock.buf, to, sock.buf, at, size)
            to += size
        at += size
    ints[END] = to
    return at


@kernel
def is_handshake(buf: U8, at: int, size: int) -> bool:
    """It begins as messages of neighbours do, and is of that kind."""
    if size <= LINK_BYTES or read_u32(buf, at) != LINK_WORD:
        return False
    return i64(buf[at + LINK_BYTES]) == HANDSHAKE


@kernel
def is_own_port(buf: U8, at: int, source: int) -> bool:
    """A handshake came from the UDP port that it names; source: 0, not known any more."""
    named = (i64(buf[at + LINK_BYTES + 2]) << 8) | i64(buf[at + LINK_BYTES + 3])
    return source in (0, named)


@kernel
def take_token(row: np.void, is_node: bool, when: int) -> bool:
    """One more handshake may come in by a port now.

    Who only has an address of the neighbour's machine cannot use up what is the node's own.
    """
    n = (when - row["token_ps"]) // TOKEN_PS
    if n > 0:
        row["tokens"] = min(row["tokens"] + n, MOST_TOKENS)
        row["push_tokens"] = min(row["push_tokens"] + n, MOST_TOKENS)
        row["token_ps"] += n * TOKEN_PS
    has_one: bool = row["tokens"] > 0 if is_node else row["push_tokens"] > 0
    if has_one and is_node:
        row["tokens"] -= 1
    elif has_one:
        row["push_tokens"] -= 1
    return has_one


@kernel
def open_sealed(sock: Sock, link: int, drops: I64, when: int) -> int:
    """Check packets of one session and move together what is sound; past the last of them."""
    ints, table = sock.ints, sock.links
    at: int = ints[NEXT]
    end, seg = ints[END], ints[SEG]
    n = 0
    while at < end and n < MAX_PSN and link_of(sock, at, min(seg, end - at)) == link:
        size = min(seg, end - at)
        table.sizes[n] = size - TRAILER_BYTES
        set_nonce(table, n, counter_at(sock.buf, at + size - TRAILER_BYTES), table.sizes[n])
        at += size
        n += 1
    row = table.rows[link]
    is_made = make_pads(sock, row["cipher_in"], n)
    came, n_sound = ints[NEXT], 0
    to = OPENED_AT if end <= OPENED_AT else came
    here, ints[NEXT] = came, to
    for k in range(n):
        size = table.sizes[k]
        counter = counter_at(sock.buf, here + size)
        if not is_fresh(table, link, counter):
            drops[DROP_LINK_REPLAYED] += 1
        elif not is_made or not is_sound(sock, link, k, here, size):
            drops[DROP_BAD_LINK_MAC] += 1
        else:
            note_seen(table, link, counter)
            if to != here:
                copy_memory(place(sock, to), place(sock, here), size)
            to += size
            n_sound += 1
        here += size + TRAILER_BYTES
    ints[END], ints[SEG] = to, seg - TRAILER_BYTES
    ints[CAME_AT] = came if n_sound == n and ints[NEXT] == OPENED_AT else -1
    if n_sound > 0:
        row["n_in"] += n_sound
        row["heard_ps"] = when
        if row["state"] == NEW:
            speak_by(sock, link)
    return at


@kernel
def counter_at(buf: U8, tail: int) -> int:
    """Counter of the trailer at ``tail``; below 0: it is too large to be one."""
    return i64(read_word(buf, tail + 4))


@kernel
def is_sound(sock: Sock, link: int, k: int, at: int, size: int) -> bool:
    """The k-th packet of a call, at ``at``, has the tag that its session gives it."""
    table = sock.links
    hash_packet(table, table.first[link, IN], table.later[link, IN], place(sock, at), size)
    low, high = swap_word(table.pads[2 * k]), swap_word(table.pads[2 * k + 1])
    tag = read_word(sock.buf, at + size + 8) & _LOW
    unlike = tag ^ table.hashes[0] ^ (low >> _HALF)
    rest = read_word(sock.buf, at + size + 16)
    unlike |= (rest >> _HALF) ^ table.hashes[1] ^ (low & _LOW)
    unlike |= (rest & _LOW) ^ table.hashes[2] ^ (high >> _HALF)
    return bool(unlike == np.uint64(0))


@kernel
def is_fresh(table: LinkTable, link: int, counter: int) -> bool:
    """A counter is inside the window or ahead of it, and did not come yet (RFC 6479)."""
    top = table.rows[link]["top"]
    if counter <= 0 or counter <= top - WINDOW_PKTS:
        return False
    if counter > top:
        return True
    word = table.seen[link, (counter // _WORD_BITS) & (WINDOW_WORDS - 1)]
    return bool((word >> np.uint64(counter % _WORD_BITS)) & _ONE == np.uint64(0))


@kernel
def note_seen(table: LinkTable, link: int, counter: int) -> None:
    """Note a counter whose packet was sound; words that the window moves into are cleared."""
    row = table.rows[link]
    if counter > row["top"]:
        was, now = row["top"] // _WORD_BITS, counter // _WORD_BITS
        for w in range(was + 1, min(now, was + WINDOW_WORDS) + 1):
            table.seen[link, w & (WINDOW_WORDS - 1)] = np.uint64(0)
        row["top"] = counter
    at = (counter // _WORD_BITS) & (WINDOW_WORDS - 1)
    table.seen[link, at] |= _ONE << np.uint64(counter % _WORD_BITS)


@kernel
def speak_by(sock: Sock, link: int) -> None:
    """Speak by this session from now on: the other end of the link has its key."""
    rows = sock.links.rows
    rows[link]["state"] = LIVE
    for r in range(sock.ints[LINKS]):
        if rows[r]["port"] == rows[link]["port"] and rows[r]["dport"] == rows[link]["dport"]:
            rows[r]["sends"] = 0
    rows[link]["sends"] = 1
