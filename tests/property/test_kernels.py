"""Laws of the kernels: they are their slow twins, and no bytes and no table upset them."""

import struct

import naive
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_nodes import (
    BFIR,
    BIFT_ID,
    FOLD_PS,
    KernelNode,
    data,
    feedback,
    plain_node,
    table,
    word_of,
)

from fanfold.errors import WireError
from fanfold.kernels import collect as c
from fanfold.kernels import due
from fanfold.kernels.feedback import is_feedback_sound
from fanfold.kernels.forward import plan_pass
from fanfold.kernels.frame import seal_inner
from fanfold.kernels.jit import JIT
from fanfold.kernels.replicate import TOO_MANY, replicate
from fanfold.streams import stream
from fanfold.wire import bitstring as bs
from fanfold.wire import feedback as wire_feedback
from fanfold.wire.feedback import Feedback
from fanfold.wire.packet import parse

LAW = settings(max_examples=400 if JIT else 60)


# Replication.


@st.composite
def node_tables(draw, *, is_right: bool):
    """n_words, BFR-NBR of each bit, F-BM by BFR-NBR, ports."""
    n_words = draw(st.sampled_from([1, 2, 4]))
    n_ports = draw(st.integers(1, 6))
    n_bits = 64 * n_words
    rng = stream(draw(st.integers(0, 2**32)), "tests/tables")
    nbr_of = rng.integers(-1, n_ports, n_bits).tolist()
    f_bm = {
        nbr: naive.bits_of(k for k in range(n_bits) if nbr_of[k] == nbr)
        for nbr in range(-1, n_ports)
    }
    if not is_right:
        for k in rng.integers(0, n_bits, 4).tolist():
            nbr_of[k] = draw(st.sampled_from([-(2**40), -2, n_ports, n_ports + 1, 2**40, 0]))
        full = 2**n_bits - 1
        for nbr, mask in f_bm.items():
            f_bm[nbr] = draw(st.sampled_from([mask, 0, full, mask << 1 & full]))
    return n_words, nbr_of, f_bm, n_ports


def walk(n_words, nbr_of, f_bm, n_ports, bits, n_room):
    words = np.array(bs.to_words(bits, n_words.bit_length()), np.uint64)
    masks = np.array(
        [bs.to_words(f_bm[n], n_words.bit_length()) for n in sorted(f_bm)], np.uint64
    )
    out_nbr = np.full(n_room, 77, np.int64)
    out_bits = np.full(
        (n_room, n_words), 2**64 - 1, np.uint64
    )  # what was there does not matter
    n = replicate(words, n_words, np.array(nbr_of, np.int64), masks, out_nbr, out_bits)
    if n == TOO_MANY:
        return None
    assert not words.any()
    assert len({*out_nbr[:n].tolist()}) == n
    return {int(out_nbr[i]): bs.from_words(out_bits[i]) for i in range(n)}


@LAW
@given(node_tables(is_right=True), st.data())
def test_replication_is_that_of_sets(table_of, data_of):
    n_words, nbr_of, _, n_ports = table_of
    bits = data_of.draw(st.integers(0, 2 ** (64 * n_words) - 1))
    copies = walk(*table_of, bits, n_ports + 1)
    null = copies.pop(-1, 0)
    sets = naive.replicate(naive.members(bits), dict(enumerate(nbr_of)))
    assert {nbr: naive.members(share) for nbr, share in copies.items()} == sets
    assert null == naive.bits_of(k for k in naive.members(bits) if nbr_of[k] == -1)


@LAW
@given(node_tables(is_right=False), st.data())
def test_replication_ends_on_any_table_and_loses_only_what_it_says(table_of, data_of):
    n_words, nbr_of, f_bm, n_ports = table_of
    bits = data_of.draw(st.integers(0, 2 ** (64 * n_words) - 1))
    copies = walk(*table_of, bits, n_ports + 1)
    nowhere = copies.pop(-1, 0)
    assert (copies, nowhere) == naive.replicate_any(bits, nbr_of, f_bm)
    every = nowhere
    for share in copies.values():
        assert share
        assert not share & every
        every |= share
    assert every == bits


@LAW
@given(node_tables(is_right=True), st.data())
def test_too_little_room_is_said(table_of, data_of):
    n_words, nbr_of, _, _ = table_of
    bits = data_of.draw(st.integers(1, 2 ** (64 * n_words) - 1))
    n_needed = len({nbr_of[k] for k in naive.members(bits)})
    assert walk(*table_of, bits, n_needed - 1) is None
    assert len(walk(*table_of, bits, n_needed)) == n_needed


# Slots and folding.

KEYS = st.tuples(st.sampled_from([1, BFIR]), st.integers(6, 7), st.integers(0, 2))
BITS = st.integers(0, 255)


@st.composite
def words(draw):
    heard = draw(BITS)
    n_psn = draw(st.sampled_from([4, 4, 4, 5]))
    psns = sorted(draw(st.sets(st.integers(0, n_psn - 1), max_size=3)))
    return naive.Word(
        bift_id=draw(st.sampled_from([BIFT_ID, BIFT_ID, BIFT_ID, BIFT_ID | 1])),
        n_psn=n_psn,
        heard=heard,
        done=heard & draw(BITS),
        rows={psn: heard & draw(BITS) for psn in psns},
        round=draw(st.integers(0, 255)),
        queue=draw(st.integers(0, 255)),
        room=draw(st.integers(0, 255)),
        worst=draw(st.integers(0, 9)),
        n_merged=draw(st.integers(0, 65_535)),
        behind=draw(st.integers(0, 4095)),
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), KEYS, st.integers(1, 255)),
        st.tuples(st.just("fold"), KEYS, words()),
        st.tuples(st.just("wait"), st.integers(0, 3000), st.none()),
    ),
    max_size=30,
)


@LAW
@given(STEPS, st.sampled_from([9000, 130, 160]))
def test_slots_are_sets_that_wait(steps, mtu):
    """Arm, merge, complete and expire in any order; whatever goes up is what the twin says."""
    rows = [[1] * 64, [1] * 64]
    node = KernelNode(
        table(rows, 4, bift_ids=[BIFT_ID, BIFT_ID | 1]),
        [0, 0, 0, 0],
        depth=2,
        n_slots=256,
        mtu=mtu,
    )
    twin = naive.Slots(FOLD_PS)
    now = 0
    for step, what, value in steps:
        if step == "wait":
            now += what
            node.expire(now)
            gone = sorted(word_of(packets) for _, packets in node.send_ready())
            assert gone == sorted(twin.expire(now).values())
        elif step == "arm":
            bfir_id, flow, block = what
            packet = data(value, flow=flow, block=block, bfir_id=bfir_id, ttl=63)
            node.forward([packet], port=2, now_ps=now)
            twin.arm(what, BIFT_ID, 4, value, now)
        else:
            found = node.forward([feedback(value, what, outer_bift=BIFT_ID)], 3, now)
            up = [(port, word_of(packets)) for port, packets in node.send_ready()]
            wanted = twin.fold(what, value, now)
            assert (list(found) == [1]) == (wanted == "passes")
            assert up == ([(2, wanted)] if isinstance(wanted, naive.Word) else [])
        assert node.n_armed() == len(twin.slots)
    assert node.drops() == {}


@st.composite
def doubtful_feedback(draw):
    """A message that is sound, or wrong in about one field."""
    n_psn = draw(st.sampled_from([1, 4, 4, 4, 64, 0, 65]))
    psns = draw(st.lists(st.integers(0, 4), max_size=4))
    heard, subset = draw(BITS), draw(st.sampled_from([True, True, True, False]))
    done = draw(BITS) & (heard if subset else 255)
    rows = [(psn, draw(BITS) & (heard if subset else 255)) for psn in sorted(psns)]
    n_rows = len(rows) + draw(st.sampled_from([0, 0, 0, 0, 1, -1, 200])) & 0xFF
    bift_id = draw(st.sampled_from([BIFT_ID, BIFT_ID, BIFT_ID, 0, 0x80000, 0x20000]))
    fixed = struct.pack(
        "!BBBBIIBBBBIHH", 0x12, 0, n_psn, n_rows, 7, 0, 0, 0, 0, 0, bift_id << 12, 0, 1
    )
    body = struct.pack("!QQ", heard, done)
    body += b"".join(struct.pack("!BBHQ", psn, 0, 0, bits) for psn, bits in rows)
    more = draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    return (fixed + body)[:more] if more < 0 else fixed + body + bytes(more)


DONE_OUTSIDE_HEARD = struct.pack(
    "!BBBBIIBBBBIHHQQ", 0x12, 0, 4, 0, 7, 0, 0, 0, 0, 0, BIFT_ID << 12, 0, 1, 0b01, 0b10
)


@settings(max_examples=1000 if JIT else 300)
@given(doubtful_feedback())
@example(DONE_OUTSIDE_HEARD)
def test_kernel_and_codec_take_the_same_feedback(said):
    """Folded exactly where the codec reads it."""
    try:
        wire_feedback.decode(said)
        is_taken = True
    except WireError:
        is_taken = False
    buf = np.array([*said], np.uint8)
    assert bool(is_feedback_sound(buf, 0, len(buf))) == is_taken
    node = plain_node()
    node.forward([data(0b10)], port=2)
    header = feedback(naive.Word(BIFT_ID, 4, heard=1, done=1, rows={}))[:48]
    packet = np.array([*header, *said], np.uint8)
    seal_inner(packet, 0, len(packet), 1)
    node.forward([packet.tobytes()], port=1)
    assert node.drops().get("bad_feedback", 0) == (not is_taken)


# Any bytes.


@st.composite
def hostile(draw):
    """Random bytes, or a sound packet with some bytes changed, sealed again or cut."""
    base = draw(
        st.sampled_from(
            [
                draw(st.binary(max_size=120)),
                data(1, n_psn=4),
                data(0xFF, flags=draw(st.integers(0, 7)), block=draw(st.integers(0, 200))),
                feedback(draw(words()), outer_bits=1),
                feedback(draw(words())),
            ]
        )
    )
    packet = np.array([*base], np.uint8)
    for _ in range(draw(st.integers(0, 4))):
        if len(packet):
            place = draw(st.integers(0, len(packet) - 1))
            packet[place] = draw(st.integers(0, 255))
    if draw(st.booleans()) and len(packet) >= 48:
        seal_inner(packet, 0, len(packet), 1)
    return packet[: draw(st.integers(0, len(packet)))] if draw(st.booleans()) else packet


@LAW
@given(st.lists(hostile(), min_size=1, max_size=5), st.integers(1, 3), st.booleans())
def test_no_bytes_upset_a_node(packets, port, folds):
    """No exception, no byte touched outside, and nothing vanishes without being counted."""
    node = plain_node(folds=folds, n_slots=2)
    state = c.build_collect(2, 40, 1, 8)
    state.follow[0]["used"], state.follow[0]["flow"], state.follow[0]["bfir_id"] = 1, 7, BFIR
    state.follow[0]["map_len"], state.follow[0]["newest"] = 8, -1
    for packet in packets:
        if not len(packet):
            continue
        n = len(packet)
        block = np.full(n + 64, 0xEE, np.uint8)
        block[32 : 32 + n] = packet
        before = counts(node)
        plan_pass(
            block,
            32,
            32 + n,
            n,
            port,
            5,
            node.row,
            node.bifts,
            node.ports,
            node.fold,
            node.counters,
            node.plan,
            node.vats,
        )
        assert node.plan.n.any() or counts(node) != before
        c.collect_pass(block, 32, n, 32 + n, port, 5, node.plan, state, node.counters.drops)
        assert (block[:32] == 0xEE).all()
        assert (block[32 + n :] == 0xEE).all()
        changed = np.flatnonzero(block[32 : 32 + n] != packet)
        assert set(changed.tolist()) <= {3}  # the TTL
        node.seg, node.block = n, block[32 : 32 + n].copy()
        for copies in node.copies().values():
            assert all(copy.bits for copy in copies)
        for _, up in node.send_ready():
            assert all(isinstance(parse(p).message, Feedback) for p in up)
        due.due_reports(state, 10**15, 10**9, np.zeros(2, np.int64))
    node.expire(10**15)
    for _, up in node.send_ready():
        assert all(isinstance(parse(p).message, Feedback) for p in up)
    assert state.n_events[0] <= len(packets)


def counts(node):
    return (*node.counters.drops.tolist(), *node.fold.events.tolist())


@LAW
@given(st.binary(min_size=1, max_size=400), st.integers(1, 90))
def test_no_block_upsets_a_pass(octets, seg):
    node = plain_node()
    block = np.array([*octets], np.uint8)
    end = plan_pass(
        block,
        0,
        len(block),
        seg,
        1,
        5,
        node.row,
        node.bifts,
        node.ports,
        node.fold,
        node.counters,
        node.plan,
        node.vats,
    )
    assert end >= len(block) or end == 128 * seg
    assert node.counters.drops.sum() + node.plan.n.sum() > 0


# A block is no more than its packets.


WATCHED = [0, 2, 3, 4, 7, 11, 19, 20, 29, 35, 41, 43, 48, 49, 50, 55, 59, 61]
"""Bytes of DATA that a BFR looks at, one of each field."""


def run_of(rng):
    """Packets of one size, most of them like the one before, some changed in a byte or two."""
    bits = [0b110, 0b111, 0b1, 0b1111111, 0b1000, 0b10000010][rng.integers(6)]
    ttl = [62, 62, 62, 2, 1, 0][rng.integers(6)]
    payload = bytes((8, int(rng.integers(1, 12)))[rng.integers(2)])
    flags = int(rng.integers(8))
    first = data(bits, ttl=ttl, n_psn=64, flags=flags, stride=len(payload), payload=payload)
    packets = [first]
    for psn in range(1, int(rng.integers(2, 9))):
        packet = np.array([*packets[-1]], np.uint8)
        packet[51] = psn
        packet[49] ^= rng.integers(4) == 0  # POLL
        match rng.integers(8):
            case 0:
                packet = np.array([*first], np.uint8)  # back to what it was
            case 1:
                packet[19] = rng.integers(256)  # other receivers
            case 2 | 3:
                packet[WATCHED[rng.integers(len(WATCHED))]] ^= 1 << rng.integers(3)
            case 4:
                packet[rng.integers(64)] ^= 1 << rng.integers(8)
        packets.append(packet.tobytes())
    if rng.integers(4) == 0:
        word = naive.Word(BIFT_ID, 4, heard=2, done=2, rows={})
        packets[rng.integers(len(packets))] = feedback(word)[: len(first)]
    packets[-1] = packets[-1][: (len(first), len(first), 70, 30)[rng.integers(4)]]
    return packets


@settings(max_examples=1500 if JIT else 700)
@given(st.integers(0, 2**32))
def test_a_block_is_planned_as_its_packets_are_one_by_one(seed):
    """Copies, drops, counters and slots: what a run of like packets saves is time only."""
    rng = stream(seed, "tests/runs")
    packets, port, folds = run_of(rng), int(rng.integers(4)), bool(rng.integers(4))
    together, apart = plain_node(folds=folds), plain_node(folds=folds)
    found = together.forward(packets, port, 7)
    one_by_one = {}
    for k, packet in enumerate(packets):
        for out_port, copies in apart.forward([packet], port, 7).items():
            one_by_one.setdefault(out_port, []).extend(c._replace(k=k) for c in copies)
        assert apart.plan.kind[0] == together.plan.kind[k]
        assert apart.plan.flow[0] == together.plan.flow[k]
    assert found == one_by_one
    assert (together.drops(), together.events()) == (apart.drops(), apart.events())
    assert together.fold.rows.tobytes() == apart.fold.rows.tobytes()
    assert together.fold.words.tobytes() == apart.fold.words.tobytes()
    assert together.row.tobytes() == apart.row.tobytes()
