"""Laws of a fabric of kernels: packets down through three tiers, their feedback up again."""

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_nodes import BFIR_ADDR, FLOW_PORT, KernelFabric, feedback, three_levels

from fanfold.kernels.impose import impose
from fanfold.kernels.jit import JIT
from fanfold.streams import stream
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import build, parse

N_PACKETS = 10_000 if JIT else 2_500


def head_of(fabric, block, n_psn, stride, bsl, flags=1):
    header = BierHeader(
        bift_id=bs.bift_id(bsl, fabric.sub_domain, 0),
        ttl=64,
        bfir_id=13,
        bitstring=1,
        entropy=block,
    )
    said = Data(7, block, n_psn, 0, stride, 64, flags)
    packet = build(header, BFIR_ADDR, GROUP_ADDRESS, FLOW_PORT, said, b"x")
    return np.array([*packet[:-1]], np.uint8)


def impose_block(fabric, block, sets, bsl=1, flags=1):
    """Packets of one block, each to its own BitString."""
    stride = 4
    head = head_of(fabric, block, len(sets), stride, bsl, flags)
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
    for later in (2, 3, 4):  # a late slot waits again for those beside the first it hears
        world.expire(later * 10**9)
    assert {name for name, _ in world.delivered} <= {"h0"}
    packets = [packet for _, packet in world.delivered]
    for block in range(n_blocks):
        bits = naive.bits_of(i - 1 for i in said.get(block, ()))
        mine = [p for p in packets if parse(p).message.block == block]
        assert union(mine) == (bits, bits, {}, naive.n_bits(bits))
