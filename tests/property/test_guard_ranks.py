"""Nothing is written beside an array of a rank, whatever its neighbours' packets say.

As test_guard_zones.py has it for nodes: without JIT an index past an end raises; with JIT it
writes or reads, and the zones show what was written.
"""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hostile_packets import HostilePackets, sealed
from test_guard_zones import Zones

from fanfold.group.layout import Segment, build_blocks
from fanfold.kernels import reduce as r
from fanfold.kernels.absorb import FLAG_PARTIAL, WHAT_ARM, WHAT_ARRAY, WHAT_HEARD, fold_at
from fanfold.kernels.jit import JIT
from fanfold.kernels.layout import FOLD_BYTES, KIND_SPREAD
from fanfold.kernels.words import word_of_kind
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live import rank_words as words
from fanfold.live.rank import Batch, RankEnd
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring as bs

MS = PS_PER_SECOND // 1000
GROUP = 7
N_BLOCKS = 24
WINDOW = 8
N_VALUES = 64
N_PACKETS = 4000 if JIT else 600
LEAST_TAKEN = 20
"""Results that fit, by chance: else the packets would show nothing."""

KINDS = {
    "i32": (r.KIND_I32, r.OP_SUM, 4, None),
    "i64 largest": (r.KIND_I64, r.OP_MAX, 8, None),
    "f32 a value": (r.KIND_F32, r.OP_SUM, 4, r.WORD_FIX32),
    "f32 a block": (r.KIND_F32, r.OP_SUM, 4, None),
    "f64 a value": (r.KIND_F64, r.OP_SUM, 8, r.WORD_FIX64),
    "f64 a block": (r.KIND_F64, r.OP_SUM, 8, None),
    "bf16 a value": (r.KIND_BF16, r.OP_SUM, 2, r.WORD_FIX32),
    "f16 a block": (r.KIND_F16, r.OP_SUM, 2, None),
}


def batch_of(name: str, random: np.random.Generator) -> Batch:
    kind, op, width, word = KINDS[name]
    n = N_BLOCKS * N_VALUES * width
    src = random.integers(0, 256, n, np.uint8)
    blocks = build_blocks([Segment(0, 0, n)], N_VALUES * width)
    shared = np.zeros(0, np.int64)
    chosen = word_of_kind(kind, op) if word is None else word
    return Batch(kind, op, blocks, src, src.copy(), shared, 0.25, chosen)


def forged(maker: HostilePackets, state: st.RankState) -> bytes:
    """A packet that a root might send, every field of it drawn: mostly for blocks under way."""
    draw = maker.random
    row, job = state.row[0], state.job[0]
    bits_bytes = 8 * int(row["n_words"])
    fan = fold_at(int(row["n_words"]))
    buf = bytearray(state.head[: fan + FOLD_BYTES].tobytes())
    udp = fan - 8
    buf[udp : udp + 4] = buf[udp + 2 : udp + 4] + buf[udp : udp + 2]  # down
    i = draw.choice((int(job["floor"]), draw.randrange(N_BLOCKS + 4), 2**32 - 1))
    what = draw.choice((WHAT_ARRAY, WHAT_ARRAY, WHAT_ARRAY, WHAT_HEARD, WHAT_ARM, 4))
    flags = draw.choice((0, 0, FLAG_PARTIAL, draw.randrange(256)))
    codes = int(st.codes_bytes(state, i + int(row["window"])))
    exponent = draw.choice((codes, codes, codes, draw.randrange(1 << 16)))
    if not st.has_codes(state):
        exponent, codes = draw.randrange(1 << 16), 0
    size = codes + int(st.words_bytes(state, min(i, N_BLOCKS - 1)))
    if flags & FLAG_PARTIAL:
        size += bits_bytes
    size = bits_bytes if what == WHAT_HEARD else size if what == WHAT_ARRAY else 0
    buf[fan] = buf[fan] & 0xF0 | KIND_SPREAD
    buf[fan + 1 : fan + 4] = what, flags, int(job["op"]) << 4 | int(job["word"])
    buf[fan + 8 : fan + 12] = i.to_bytes(4, "big")
    buf[fan + 12 : fan + 14] = exponent.to_bytes(2, "big")
    buf[fan + 14 : fan + 16] = draw.choice((0, 3, 65_535)).to_bytes(2, "big")
    buf[fan + 16 : fan + 19] = bytes(3)
    buf[fan + 20 : fan + 22] = draw.choice((0, 1, 2, 16, 65_535)).to_bytes(2, "big")
    size = draw.choice((size, size, size, draw.randrange(2048)))
    return sealed(bytes(buf) + draw.randbytes(size), bits_bytes)


@pytest.fixture
def end() -> Iterator[RankEnd]:
    fabric = leaf_spine(1, 0, 3, name="ranks", prefix=213)
    made = RankEnd(fabric, ["h1", "h2", "h3"], 1, group=GROUP, port=31_213, window=WINDOW)
    yield made
    made.close()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # sums of what was forged
@pytest.mark.parametrize("name", KINDS)
def test_no_packet_writes_beside_an_array_of_a_rank(name: str, end: RankEnd) -> None:
    end.codes_of(batch_of(name, np.random.default_rng(1)))
    zones = Zones()
    state = zones.every(end.state)
    buf = zones.array("buf", np.zeros(1 << 16, np.uint8))
    io = end.io._replace(buf=buf)
    bsl = bs.bsl_of_bits(end.fabric.bitstring_bits)
    maker = HostilePackets(7, bsl=bsl, own=2, top=4, ports=(31_213,), groups=(GROUP,))
    random, taken = Random(7), 0
    row, job = state.row[0], state.job[0]
    row["armed"], row["srtt_ps"], row["least_ps"] = 1, MS, MS
    for n in range(N_PACKETS):
        when = (n + 1) * MS
        kind = random.randrange(4)
        packet = forged(maker, state) if kind < 3 else maker.mutated()
        if kind == 2:
            packet = maker.mutated(packet)
        buf[: len(packet)] = np.frombuffer(packet, np.uint8)
        before = int(job["n_done"])
        loop.take_packet(io, state, 0, len(packet), when)
        taken += int(job["n_done"]) - before
        loop.send_fresh(io, state)
        words.ask_due(io, state, when)
        words.probe_due(io, state, when)
        if job["gone"] or row["armed"] < 0 or random.random() < 0.02:
            anew(state, armed=random.choice((1, 1, 0)))
        if n % 50 == 0:
            assert zones.broken() == []
    assert zones.broken() == []
    assert taken > LEAST_TAKEN
    assert state.counts[st.C_REFUSED] > N_PACKETS // 8


def anew(state: st.RankState, armed: int) -> None:
    """The same operation from its start."""
    row, job = state.row[0], state.job[0]
    for field in ("next", "floor", "n_done", "gone", "n_partial"):
        job[field] = 0
    row["armed"], row["n_asked"] = armed, 0
    row["is_patient"], row["is_strict"] = 1 - armed, armed
    state.have[:] = 0
    state.ring[:] = 0
    st.code_first(state)
