"""Bytes of a fan's packets and of its feedback on the wire, by BIER and along a tree.

By BIER: the underlay, the BIER header, inner IPv4 and UDP, and our own header. Along a tree a
packet is an ordinary multicast datagram, beside labels that routers give it; a receiver's word
is an ordinary datagram that says nothing of anybody else.
"""

import msgspec

from fanfold.errors import ConfigError
from fanfold.kernels.layout import (
    BITS_AT,
    FAN_BYTES,
    FEEDBACK_BYTES,
    INNER_BYTES,
)
from fanfold.scenario.settings import Settings
from fanfold.scenario.width import WIDTHS, with_width
from fanfold.schemes.program import Program


def with_room(settings: Settings, program: Program, n_ids: int) -> Settings:
    """The same settings with a length of BitStrings; for a tree one that has all hosts.

    Raises:
        ConfigError: more hosts than the longest BitString has bits, and trees.
    """
    if not program.trees:
        return with_width(settings, n_ids)
    for bits in WIDTHS:
        if bits >= n_ids:
            return msgspec.structs.replace(settings, bitstring_bits=bits)
    raise ConfigError("fidelity", f"trees over {n_ids} hosts", f"flow above {WIDTHS[-1]}")


def fan_head_bytes(settings: Settings, *, is_tree: bool) -> int:
    """Headers of a fan's packet: underlay, BIER, inner UDP, DATA; along a tree the last two."""
    inner = INNER_BYTES + FAN_BYTES
    if is_tree:
        return inner
    return settings.underlay_bytes + BITS_AT + settings.bitstring_bits // 8 + inner


def feedback_bytes(settings: Settings, *, is_tree: bool) -> int:
    """FEEDBACK without rows: its headers, then ``heard`` and ``done``, which a tree has not."""
    inner = INNER_BYTES + FEEDBACK_BYTES
    if is_tree:
        return inner
    l_bytes = settings.bitstring_bits // 8
    return settings.underlay_bytes + BITS_AT + l_bytes + inner + 2 * l_bytes
