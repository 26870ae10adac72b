"""Trailers of links with keys: written behind packets that leave, checked and taken off.

docs/wire/link-keys.md section 2. A trailer is three words: the receiver's number of the session
and the counter's high half; its low half and 4 octets of the tag; the other 8. AES makes the
masks of a whole call at once; hashes are of kernels/umac.py. Nothing here enters Python.
"""

import numpy as np

from fanfold.kernels.codes import (
    CLASS_DATA,
    CLASS_REPAIR,
    DROP_BAD_HANDSHAKE,
    DROP_BAD_LINK_MAC,
    DROP_LINK_FLOOD,
    DROP_LINK_NO_KEY,
    DROP_LINK_REPLAYED,
)
from fanfold.kernels.frame import classify
from fanfold.kernels.jit import call_at, i64, kernel
from fanfold.kernels.layout import (
    BIER_PORT,
    BITS_AT,
    FAN_BYTES,
    HANDSHAKE,
    INNER_BYTES,
    LINK_BYTES,
    LINK_WORD,
    MAX_PSN,
    TRAILER_BYTES,
)
from fanfold.kernels.octets import copy_octets, read_u32, read_word, swap_word
from fanfold.kernels.state import I64, U8, U64
from fanfold.kernels.umac import (
    BLOCK_BYTES,
    GROUP_BYTES,
    N_HASHES,
    U32,
    end_hash,
    hash_block,
)
from fanfold.live.link_table import (
    LIVE,
    NEW,
    NONE,
    ROW_BITS,
    WINDOW_PKTS,
    WINDOW_WORDS,
    LinkTable,
)
from fanfold.live.sock import (
    AES_AT,
    BARE,
    BASE,
    BUF_BYTES,
    END,
    KEYED,
    LINKS,
    NEXT,
    PORT,
    REST_AT,
    REST_END,
    REST_SEG,
    SEG,
    SEND_BYTES,
    Sock,
)
from fanfold.live.syscalls import copy_memory

REQUIRED = 2
"""Of a port's ``keys``: nothing passes without a trailer but handshakes."""
OUT, IN = 0, 1
HEAD_BYTES = 104
"""Headers of DATA with BitStrings of 256 bits, and more."""
UDP_BYTES = 65_500
"""Payload of one send with trailers."""
MOST_TOKENS = 32
TOKEN_PS = 15_625_000_000
"""A port lets 64 handshakes a second in, MOST_TOKENS at once; of others than the node too."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_WORD_BITS = 64


@kernel
def trailer_of(sock: Sock) -> int:
    """Octets that a packet may grow by when it leaves."""
    return TRAILER_BYTES if sock.ints[KEYED] != 0 else 0


@kernel
def send_room(sock: Sock) -> int:
    """Octets of one send, trailers included."""
    return UDP_BYTES if sock.ints[KEYED] != 0 else SEND_BYTES


@kernel
def find_link(sock: Sock, port: int, dport: int) -> int:
    """Row of the session that is spoken by to a UDP port behind a port, or -1."""
    for r in range(sock.ints[LINKS]):
        row = sock.links.rows[r]
        if row["sends"] != 0 and row["port"] == port and row["dport"] == dport:
            return r
    return -1


@kernel
def seal_iov(sock: Sock, link: int, n_iov: int, seg: int) -> int:
    """Put a trailer behind each packet of the iovecs; how many iovecs, 0: it cannot be.

    ``unseal_iov`` gives the iovecs back as they were.
    """
    table, iov = sock.links, sock.iov_out
    for i in range(2 * n_iov):
        table.plain[i] = iov[i]
    row = table.rows[link]
    n = 0
    for i in range(n_iov):
        at, left = table.plain[2 * i], i64(table.plain[2 * i + 1])
        while left > 0 and n < MAX_PSN:
            size = min(seg, left)
            iov[4 * n], iov[4 * n + 1] = at, np.uint64(size)
            set_nonce(table, n, row["sent"] + 1 + n, size)
            at += np.uint64(size)
            left -= size
            n += 1
    if not make_pads(sock, row["cipher_out"], n):
        unseal_iov(sock, n_iov)
        return 0
    first, later = table.first[link, OUT], table.later[link, OUT]
    tails = np.uint64(table.tails.ctypes.data)
    for k in range(n):
        hash_packet(table, first, later, iov[4 * k], i64(iov[4 * k + 1]))
        write_tail(table, k, row["peer_id"], row["sent"] + 1 + k)
        iov[4 * k + 2] = tails + np.uint64(TRAILER_BYTES * k)
        iov[4 * k + 3] = np.uint64(TRAILER_BYTES)
    row["sent"] += n
    return 2 * n


@kernel
def unseal_iov(sock: Sock, n_iov: int) -> None:
    """Let the iovecs be what they were before ``seal_iov``."""
    for i in range(2 * n_iov):
        sock.iov_out[i] = sock.links.plain[i]


@kernel
def set_nonce(table: LinkTable, k: int, counter: int, size: int) -> None:
    """Let the k-th mask be of this counter and size."""
    table.nonces[2 * k] = swap_word(np.uint64(counter))
    table.nonces[2 * k + 1] = swap_word(np.uint64(size) << _HALF)


@kernel
def make_pads(sock: Sock, cipher: np.uint64, n: int) -> bool:
    """AES of ``n`` nonces in one call."""
    table = sock.links
    code = call_at(
        np.uint64(sock.ints[AES_AT]),
        cipher,
        np.uint64(table.pads.ctypes.data),
        np.uint64(table.told.ctypes.data),
        np.uint64(table.nonces.ctypes.data),
        np.uint64(16 * n),
    )
    return bool(code & 0xFFFFFFFF == 1 and table.told[0] & 0xFFFFFFFF == 16 * n)


@kernel
def write_tail(table: LinkTable, k: int, peer_id: int, counter: int) -> None:
    """The k-th trailer, of the hash that was made last."""
    number = np.uint64(counter)
    low, high = swap_word(table.pads[2 * k]), swap_word(table.pads[2 * k + 1])
    tag = table.hashes[0] ^ (low >> _HALF)
    rest = ((table.hashes[1] ^ (low & _LOW)) << _HALF) | (table.hashes[2] ^ (high >> _HALF))
    table.tails[3 * k] = swap_word((np.uint64(peer_id) << _HALF) | (number >> _HALF))
    table.tails[3 * k + 1] = swap_word(((number & _LOW) << _HALF) | tag)
    table.tails[3 * k + 2] = swap_word(rest)


@kernel
def hash_packet(table: LinkTable, first: U32, later: U64, source: np.uint64, size: int) -> None:
    """Hash what a trailer covers of a packet at an address into ``table.hashes``."""
    room = np.uint64(table.octets.ctypes.data)
    n = min(size, HEAD_BYTES)
    copy_memory(room, source, n)
    covered = covered_bytes(table.octets, source, size)
    at = n_blocks = 0
    while n_blocks == 0 or at < covered:
        part = min(covered - at, BLOCK_BYTES)
        if at > 0:
            copy_memory(room, source + np.uint64(at), part)
        elif part > n:
            copy_memory(room + np.uint64(n), source + np.uint64(n), part - n)
        for i in range(part, max((part + GROUP_BYTES - 1) & ~(GROUP_BYTES - 1), GROUP_BYTES)):
            table.octets[i] = 0
        hash_block(table.words, part, first, table.blocks, N_HASHES * n_blocks)
        at += part
        n_blocks += 1
    end_hash(table.blocks, n_blocks, later, table.hashes)


@kernel
def covered_bytes(head: U8, source: np.uint64, size: int) -> int:
    """Octets of a packet that its tag covers: all but the payload of a push's content.

    That has its hashes in the manifest, whose packets are covered whole. All that this depends
    on is covered itself. ``head``: HEAD_BYTES of the packet, filled up where it takes more.
    """
    if size < BITS_AT:
        return size
    bsl = i64(head[0]) >> 4
    if bsl < 1 or bsl > 7:
        return size
    n_words = 1 << (bsl - 1)
    end = BITS_AT + 8 * n_words + INNER_BYTES + FAN_BYTES
    if size < end:
        return size
    if end > HEAD_BYTES:
        copy_memory(np.uint64(head.ctypes.data), source, end)
    is_data = classify(head, 0, size, n_words) in (CLASS_DATA, CLASS_REPAIR)
    is_content = i64(head[end - FAN_BYTES + 7]) & 1 != 0  # of a push, an odd flow
    return end if is_data and is_content else size


@kernel
def open_run(sock: Sock, drops: I64, when: int) -> None:
    """Check trailers of the block in hand and take them off.

    The block in hand becomes the packets of one session, or those without any, that stand at
    its beginning and are let in; what follows is looked at next.
    """
    ints = sock.ints
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
    here, to, n_sound = ints[NEXT], ints[NEXT], 0
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
    if n_sound > 0:
        row["n_in"] += n_sound
        row["heard_ps"] = when
        if row["state"] == NEW:
            speak_by(sock, link)
    return at


@kernel
def place(sock: Sock, at: int) -> np.uint64:
    """Address of an offset of ``buf``."""
    return np.uint64(sock.buf.ctypes.data) + np.uint64(at)


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


@kernel
def seal_one(sock: Sock, port: int, dport: int, packet: U8, out: U8) -> int:
    """Write one packet and its trailer into ``out``; octets, 0: there is no key. For Python."""
    link = find_link(sock, port, dport)
    n: int = packet.shape[0]
    if link < 0:
        return 0
    sock.iov_out[0], sock.iov_out[1] = np.uint64(packet.ctypes.data), np.uint64(n)
    if seal_iov(sock, link, 1, n) == 0:
        return 0
    copy_octets(out, 0, packet, 0, n)
    tail = sock.links.tails[0:3].view(np.uint8)
    copy_octets(out, n, tail, 0, TRAILER_BYTES)
    return n + TRAILER_BYTES
