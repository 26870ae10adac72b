"""A sender's side of DATA: payload of a block to packets with headers (RFC 8296 section 3).

One packet for each PSN asked for, equal sizes, so that UDP_SEGMENT can carry them.
"""

import numpy as np

from fanfold.kernels.frame import seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FAN_BYTES, FLAG_POLL, FLAG_REPAIR, INNER_BYTES
from fanfold.kernels.octets import ZERO, copy_octets, write_bits
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import U8, U64


@kernel
def impose(
    out: U8,
    head: U8,
    payload: U8,
    n_payload: int,
    n_words: int,
    stride: int,
    bits: U64,
    wanted: np.uint64,
    psn: int,
    max_bytes: int,
) -> int:
    """Write packets for the wanted PSNs from ``psn`` on, until ``max_bytes``.

    Args:
        out: (max_bytes,), packets back to back. head: headers up to and with the DATA header,
            with flags, n_psn, flow, block, round and stride already in place. payload: the
            block, (n_payload,). bits: BitString of each PSN, (n_psn, W). wanted: word of PSNs.
            psn: first PSN to look at. POLL in the head is written on the last packet only
            unless REPAIR is set too.

    Returns:
        Bytes written * 128 + next PSN to look at (n_psn when the block is done).
    """
    head_bytes = BITS_AT + 8 * n_words + INNER_BYTES + FAN_BYTES
    fan = head_bytes - FAN_BYTES
    n_psn = i64(head[fan + 2])
    flags = i64(head[fan + 1])
    at = 0
    while psn < n_psn:
        if wanted & bit(psn) == ZERO:
            psn += 1
            continue
        size = min(stride, n_payload - psn * stride)
        if at + head_bytes + size > max_bytes:
            break
        copy_octets(out, at, head, 0, head_bytes)
        write_bits(out, at + BITS_AT, n_words, bits[psn])
        copy_octets(out, at + head_bytes, payload, psn * stride, size)
        out[at + fan + 3] = psn
        if flags & FLAG_REPAIR == 0 and has_more(wanted, psn):
            out[at + fan + 1] = flags & ~FLAG_POLL
        seal_inner(out, at, head_bytes + size, n_words)
        at += head_bytes + size
        psn += 1
    return at * 128 + psn


@kernel
def has_more(wanted: np.uint64, psn: int) -> bool:
    """A PSN after this one is wanted too."""
    return psn + 1 < 64 and wanted >> np.uint64(psn + 1) != ZERO
