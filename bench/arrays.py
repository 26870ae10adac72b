"""What joining two blocks of an array costs, against numpy's addition of the same bytes."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from measure import Part, spread

from fanfold.kernels import reduce as r
from fanfold.kernels import words

BLOCK_BYTES = 8192
BATCH = 2000
Call = Callable[[], Any]


def run(n_rounds: int) -> Part:
    """All kernels, each beside numpy in every round."""
    rows = [_row(name, call, plain, n_rounds) for name, call, plain in _cases()]
    return Part(
        name="arrays",
        title=f"Joining {BLOCK_BYTES} bytes on one core",
        columns={
            "what": "kernel",
            "ns": "ns a block",
            "numpy_ns": "numpy.add, ns a block",
            "ratio": "numpy / kernel",
            "ratio_spread": "over rounds",
            "gbytes_s": "GB/s read",
        },
        rows=rows,
        source=f"CPU time of {BATCH} calls; each round measures both; medians of {n_rounds}"
        " rounds. The addition tells overflows, numpy's does not",
        limits="Blocks lie in the cache, as packets just received do. Calls from Python are in"
        " both figures, not in the compiled loop.",
    )


def _cases() -> list[tuple[str, Call, Call]]:
    random = np.random.default_rng(1)
    ints = random.integers(-1000, 1000, BLOCK_BYTES // 4).astype(np.int32)
    other, out = ints.copy(), np.zeros_like(ints)
    longs = random.integers(-1000, 1000, BLOCK_BYTES // 8)
    long_out = np.zeros_like(longs)
    floats = random.standard_normal(BLOCK_BYTES // 4).astype(np.float32)
    float_out = np.zeros_like(floats)
    wide, pow2 = np.zeros(4 * BLOCK_BYTES, np.uint8), r.build_pow2()
    raw = floats.view(np.uint8)
    code = int(words.code_of_block(r.KIND_F32, raw, wide))
    packed = np.zeros(BLOCK_BYTES, np.uint8)

    def pack() -> None:
        words.pack_block(r.KIND_F32, r.OP_SUM, 8, code, raw, packed, wide, pow2)

    def unpack() -> None:
        room = float_out.view(np.uint8)
        words.unpack_block(r.KIND_F32, r.OP_SUM, 8, code, packed, room, wide, pow2, one)

    one = np.float64(1)
    codes, theirs = np.zeros((2, BLOCK_BYTES // 4), np.uint8)

    def pack_each() -> None:
        words.pack_values(r.KIND_F32, 8, codes, raw, packed, wide)

    def unpack_each() -> None:
        words.unpack_values(r.KIND_F32, 8, codes, packed, float_out.view(np.uint8), wide, one)

    def plain() -> Any:
        return np.add(floats, floats, out=float_out)

    return [
        ("add 32-bit words", lambda: r.add_i32(out, other), plain),
        ("add 64-bit words", lambda: r.add_i64(long_out, longs), plain),
        ("larger of 32-bit words", lambda: r.join_extreme(r.OP_MAX, out, other), plain),
        ("larger of 2,048 exponents", lambda: r.join_largest(codes, theirs), plain),
        (
            "exponents of float32",
            lambda: words.code_values(r.KIND_F32, raw, codes, wide),
            plain,
        ),
        ("float32 to words", pack_each, plain),
        ("words to float32", unpack_each, plain),
        ("exponent of a block", lambda: words.code_of_block(r.KIND_F32, raw, wide), plain),
        ("block to words", pack, plain),
        ("words to a block", unpack, plain),
    ]


def _row(name: str, call: Call, plain: Call, n_rounds: int) -> dict[str, Any]:
    call()
    ours, theirs = [], []
    for _ in range(n_rounds):
        ours.append(_ns(call))
        theirs.append(_ns(plain))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {
        "what": name,
        "ns": round(median(ours)),
        "numpy_ns": round(median(theirs)),
        "ratio": f"{median(ratios):.2f}",
        "ratio_spread": spread(ratios, 2),
        "gbytes_s": f"{2 * BLOCK_BYTES / median(ours):.1f}",
    }


def _ns(call: Call) -> float:
    began = time.process_time_ns()
    for _ in range(BATCH):
        call()
    return (time.process_time_ns() - began) / BATCH
