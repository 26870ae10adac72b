"""Tags of trailers: the hash of what a packet's tag covers, and masks by AES for a whole call.

docs/wire/link-keys.md section 2. A trailer is three words: the receiver's number of the session
and the counter's high half; its low half and 4 octets of the tag; the other 8.
"""

import numpy as np

from fanfold.kernels.codes import CLASS_DATA, CLASS_REPAIR
from fanfold.kernels.frame import classify
from fanfold.kernels.jit import call_at, i64, kernel
from fanfold.kernels.layout import BITS_AT, FAN_BYTES, INNER_BYTES
from fanfold.kernels.octets import swap_word
from fanfold.kernels.state import U8, U64
from fanfold.kernels.umac import (
    BLOCK_BYTES,
    GROUP_BYTES,
    N_HASHES,
    U32,
    end_hash,
    hash_block,
)
from fanfold.live.link_table import LinkTable
from fanfold.live.sock import AES_AT, Sock
from fanfold.live.syscalls import copy_memory

OUT, IN = 0, 1
HEAD_BYTES = 104
"""Headers of DATA with BitStrings of 256 bits, and more."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


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
def hash_packet(table: LinkTable, first: U32, later: U64, source: np.uint64, size: int) -> int:
    """Hash what a trailer covers of a packet into ``table.hashes``; how many octets that is.

    ``source``: address of the packet.
    """
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
    return covered


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
def place(sock: Sock, at: int) -> np.uint64:
    """Address of an offset of ``buf``."""
    return np.uint64(sock.buf.ctypes.data) + np.uint64(at)
