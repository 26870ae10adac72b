"""Every header of this folder; the laws of tests/property/test_codec_laws.py cover each row."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from fanfold.wire import (
    ask,
    bier,
    bier_mpls,
    close,
    fan,
    feedback,
    fold,
    handshake,
    hello,
    inner,
    link_bandwidth,
    notice,
    report,
)


class Codec(NamedTuple):
    """One header.

    `decode` raises WireError and nothing else; `min_bytes` is the fixed part; the value
    has `size_bytes`; `is_prefix` says that a payload may follow.
    """

    name: str
    module: ModuleType
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    min_bytes: int
    is_prefix: bool


MPLS_BSL = 3
"""The label map of the MPLS row: every label stands for BSL code 3, 256 bits."""

CATALOG: tuple[Codec, ...] = (
    Codec("bier", bier, bier.decode, bier.encode, bier.FIXED_BYTES, True),
    Codec(
        "bier_mpls",
        bier_mpls,
        partial(bier_mpls.decode, bsl=MPLS_BSL),
        bier_mpls.encode,
        bier.FIXED_BYTES,
        True,
    ),
    Codec("inner", inner, inner.decode, inner.encode, inner.FIXED_BYTES, False),
    Codec("fan", fan, fan.decode, fan.encode, fan.FIXED_BYTES, True),
    Codec("feedback", feedback, feedback.decode, feedback.encode, feedback.FIXED_BYTES, False),
    Codec("ask", ask, ask.decode, ask.encode, ask.FIXED_BYTES, False),
    Codec("report", report, report.decode, report.encode, report.FIXED_BYTES, False),
    Codec("close", close, close.decode, close.encode, close.FIXED_BYTES, False),
    Codec("fold", fold, fold.decode, fold.encode, fold.FIXED_BYTES, True),
    Codec("hello", hello, hello.decode, hello.encode, hello.FIXED_BYTES, False),
    Codec("notice", notice, notice.decode, notice.encode, notice.FIXED_BYTES, False),
    Codec(
        "handshake",
        handshake,
        handshake.decode,
        handshake.encode,
        handshake.FIXED_BYTES,
        False,
    ),
    Codec(
        "link_bandwidth",
        link_bandwidth,
        link_bandwidth.decode,
        link_bandwidth.encode,
        link_bandwidth.FIXED_BYTES,
        False,
    ),
)

NO_HEADER = frozenset(
    {"bitstring", "captures", "catalog", "checksum", "kinds", "link", "offline", "packet"}
    | {"bgp_update", "bmp", "pcapng", "underlay", "width"}
)
"""Files of this folder that define no header of ours; those of BGP and BMP are read only."""
