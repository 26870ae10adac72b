"""Laws of the kernels: they are their slow twins, and no bytes and no table upset them."""

import struct

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_nodes import (
    BFIR,
    BFIR_ADDR,
    BIFT_ID,
    FLOW_PORT,
    KernelFabric,
    KernelNode,
    data,
    feedback,
    plain_node,
    table,
    three_levels,
    word_of,
)

from fanfold.errors import WireError
from fanfold.kernels import collect as c
from fanfold.kernels.feedback import is_feedback_sound
from fanfold.kernels.forward import plan_pass
from fanfold.kernels.frame import seal_inner
from fanfold.kernels.impose import impose
from fanfold.kernels.jit import JIT
from fanfold.kernels.replicate import TOO_MANY, replicate
from fanfold.streams import stream
from fanfold.wire import bitstring as bs
from fanfold.wire import feedback as wire_feedback
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import build, parse

LAW = settings(max_examples=400 if JIT else 60)
N_PACKETS = 10_000 if JIT else 2_500


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
    twin = naive.Slots()
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
            twin.arm(what, BIFT_ID, 4, value, now + 1000)
        else:
            found = node.forward([feedback(value, what, outer_bift=BIFT_ID)], 3, now)
            up = [(port, word_of(packets)) for port, packets in node.send_ready()]
            wanted = twin.fold(what, value)
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


@settings(max_examples=1000 if JIT else 300)
@given(doubtful_feedback())
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
        )
        assert node.plan.n.any() or counts(node) != before
        c.collect_pass(block, 32, n, 32 + n, 5, node.plan, state, node.counters.drops)
        assert (block[:32] == 0xEE).all()
        assert (block[32 + n :] == 0xEE).all()
        changed = np.flatnonzero(block[32 : 32 + n] != packet)
        assert set(changed.tolist()) <= {3}  # the TTL
        node.seg, node.block = n, block[32 : 32 + n].copy()
        for copies in node.copies().values():
            assert all(copy.bits for copy in copies)
        for _, up in node.send_ready():
            assert all(isinstance(parse(p).message, Feedback) for p in up)
        c.due_reports(state, 10**15, np.zeros(2, np.int64))
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
    )
    assert end >= len(block) or end == 128 * seg
    assert node.counters.drops.sum() + node.plan.n.sum() > 0


# A block is no more than its packets.


@st.composite
def runs(draw):
    """Packets of one size, most of them like the one before, some changed in a byte or two."""
    bits = draw(st.sampled_from([0b110, 0b111, 0b1, 0b1111111, 0b1000, 0b10000010]))
    ttl = draw(st.sampled_from([0, 1, 2, 60]))
    first = data(bits, ttl=ttl, n_psn=64, flags=draw(st.sampled_from([0, 2, 4])))
    packets = [first]
    for psn in range(1, draw(st.integers(2, 9))):
        packet = np.array([*packets[-1]], np.uint8)
        packet[51] = psn
        if draw(st.integers(0, 3)) == 0:
            packet[49] ^= 1  # POLL
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            place = draw(st.integers(0, 63))
            packet[place] ^= 1 << draw(st.integers(0, 7))
        if draw(st.integers(0, 4)) == 0:
            packet = np.array([*first], np.uint8)  # back to what it was
        packets.append(packet.tobytes())
    if draw(st.booleans()):
        word = naive.Word(BIFT_ID, 4, heard=2, done=2, rows={})
        packets[draw(st.integers(0, len(packets) - 1))] = feedback(word)[: len(first)]
    packets[-1] = packets[-1][: draw(st.sampled_from([len(first), len(first), 70, 30]))]
    return packets


@settings(max_examples=1500 if JIT else 250)
@given(runs(), st.integers(0, 3), st.booleans())
def test_a_block_is_planned_as_its_packets_are_one_by_one(packets, port, folds):
    """Copies, drops, counters and slots: what a run of like packets saves is time only."""
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


# A fabric of nodes.


def head_of(fabric, block, n_psn, stride, bsl):
    header = BierHeader(
        bift_id=bs.bift_id(bsl, fabric.sub_domain, 0),
        ttl=64,
        bfir_id=13,
        bitstring=1,
        entropy=block,
    )
    said = Data(7, block, n_psn, 0, stride, 64, 1)
    packet = build(header, BFIR_ADDR, GROUP_ADDRESS, FLOW_PORT, said, b"x")
    return np.array([*packet[:-1]], np.uint8)


def impose_block(fabric, block, sets, bsl=1):
    """Packets of one block, each to its own BitString."""
    stride = 4
    head = head_of(fabric, block, len(sets), stride, bsl)
    rows = np.array([bs.to_words(bits, bsl) for bits in sets], np.uint64)
    payload = np.array([*range(stride * len(sets))], np.uint8)
    out = np.zeros(1 << 16, np.uint8)
    wanted = naive.bits_of(p for p, bits in enumerate(sets) if bits)
    coded = impose(
        out,
        head,
        payload,
        len(payload),
        1 << (bsl - 1),
        stride,
        rows,
        np.uint64(wanted),
        0,
        1 << 16,
    )
    size, psn = divmod(int(coded), 128)
    assert psn == len(sets)
    seg = len(head) + stride
    return [out[at : at + seg].tobytes() for at in range(0, size, seg)]


def test_a_group_that_changes_with_every_packet_costs_nothing():
    """Each packet to a random set, through three tiers: to those, and to each once."""
    fabric = three_levels()
    world = KernelFabric(fabric)
    rng = stream(3, "tests/moe")
    wanted = []
    for block in range(-(-N_PACKETS // 64)):
        sets = [int(b) for b in rng.integers(1, 2**12, 64)]
        for psn, bits in enumerate(sets):
            wanted += [(k + 1, block, psn) for k in naive.members(bits)]
        world.send("h0", impose_block(fabric, block, sets))
    got = []
    for name, packet in world.delivered:
        said = parse(packet).message
        got.append((fabric.by_name[name].bfr_id, said.block, said.psn))
    assert sorted(got) == sorted(wanted)
    assert all(node.drops() == {} for node in world.nodes.values())


def report(fabric, name, block, n_psn, lacks):
    bit = 1 << (fabric.by_name[name].bfr_id - 1)
    word = naive.Word(
        bs.bift_id(1, 0, 0),
        n_psn,
        heard=bit,
        done=0 if lacks else bit,
        rows=dict.fromkeys(sorted(lacks), bit),
    )
    return feedback(word, (13, 7, block), outer_bits=1 << 12)


def union(packets):
    """What all FEEDBACK together says: heard, done, rows, reports."""
    said = [parse(p).message for p in packets]
    heard = done = n_merged = 0
    rows = {}
    for one in said:
        heard, done, n_merged = heard | one.heard, done | one.done, n_merged + one.n_merged
        for row in one.rows:
            rows[row.psn] = rows.get(row.psn, 0) | row.lacking
    return heard, done, {p: b & ~done for p, b in rows.items() if b & ~done}, n_merged


@settings(max_examples=60 if JIT else 12)
@given(st.data())
def test_the_source_hears_one_message_for_each_block(data_of):
    """Whoever reports what in whatever order: one packet comes back, and it says it all."""
    fabric = three_levels()
    world = KernelFabric(fabric)
    receivers = data_of.draw(st.sets(st.integers(1, 12), min_size=1))
    lacks = {f"h{i}": data_of.draw(st.sets(st.integers(0, 3))) for i in receivers}
    bits = naive.bits_of(i - 1 for i in receivers)
    world.send("h0", impose_block(fabric, 5, [bits] * 4))
    world.delivered.clear()
    down, world.n_on_link = world.n_on_link, {}
    for name in data_of.draw(st.permutations(sorted(lacks))):
        for _ in range(data_of.draw(st.integers(1, 2))):  # now and then one comes twice
            world.up(name, [report(fabric, name, 5, 4, lacks[name])])
    heard, done, rows, n_merged = union(p for _, p in world.delivered)
    assert {name for name, _ in world.delivered} == {"h0"}
    assert (heard, n_merged >= len(lacks)) == (bits, True)
    assert done == naive.bits_of(i - 1 for i in receivers if not lacks[f"h{i}"])
    assert rows == {
        psn: naive.bits_of(i - 1 for i in receivers if psn in lacks[f"h{i}"])
        for psn in set().union(*lacks.values())
    }
    assert set(down.values()) == {4}
    if n_merged == len(lacks):  # nothing came twice
        assert world.n_on_link == {(child, parent): 1 for parent, child in down}


@settings(max_examples=60 if JIT else 12)
@given(st.data())
def test_no_word_is_lost_however_little_the_nodes_remember(data_of):
    """Silent receivers, deadlines and full tables: what was said arrives, folded or not."""
    fabric = three_levels()
    world = KernelFabric(fabric)
    for node in world.nodes.values():
        taken = node.fold.rows[data_of.draw(st.sampled_from([0, 1, 64])) :]
        taken["armed"], taken["deadline_ps"] = 1, 10**18  # slots of somebody else
    n_blocks = data_of.draw(st.integers(1, 3))
    for block in range(n_blocks):
        world.send("h0", impose_block(fabric, block, [2**12 - 1] * 2))
    world.delivered.clear()
    said = {}
    for block in range(n_blocks):
        for i in data_of.draw(st.lists(st.integers(1, 12), unique=True)):
            said.setdefault(block, set()).add(i)
            world.up(f"h{i}", [report(fabric, f"h{i}", block, 2, set())])
        if data_of.draw(st.booleans()):
            world.expire(10**9)
    world.expire(10**9)
    assert {name for name, _ in world.delivered} <= {"h0"}
    packets = [packet for _, packet in world.delivered]
    for block in range(n_blocks):
        bits = naive.bits_of(i - 1 for i in said.get(block, ()))
        mine = [p for p in packets if parse(p).message.block == block]
        assert union(mine) == (bits, bits, {}, naive.n_bits(bits))
