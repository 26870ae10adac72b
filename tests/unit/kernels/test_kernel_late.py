"""Blocks that end without a rank that is late: docs/wire/fold.md section 5."""

import numpy as np
import pytest
from vat_nodes import VatFabric, VatNode, figure_one, message, said, sealed

from fanfold.kernels.absorb import fold_at
from fanfold.kernels.vat import SOON_PART
from fanfold.kernels.vat_packet import expire_arrays
from fanfold.wire import bitstring as bs
from fanfold.wire.fold import Fold, FoldFlag, FoldWhat
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import parse

W1, W2, W3, W4 = 1, 2, 4, 8
ALL = W1 | W2 | W3 | W4
S1, S7 = W1 | W2, W3 | W4
MS = 10**9
PATIENCE = 800
ROOT = "s6"


@pytest.fixture
def net() -> VatFabric:
    """Seed 002 figure 1: s1 has w1 and w2, s7 w3 and w4, s6 both and is the root."""
    made = VatFabric(figure_one())
    made.nodes["s1"].arm(1, S1)
    made.nodes["s2"].arm(1, 0)
    made.nodes["s5"].arm(3, 0)
    made.nodes["s7"].arm(2, S7)
    made.nodes["s6"].arm(0, ALL, is_root=True)
    return made


def array(bit: int, block: int, word: int, now: int = PATIENCE, **kwargs: int) -> bytes:
    fields = {"block": block, **kwargs}
    packet = bytearray(message(bit, [word], **fields))
    fan = fold_at(1)
    packet[fan + 22 : fan + 24] = now.to_bytes(2)
    return sealed(bytes(packet))


def result(packet: bytes) -> tuple[tuple[int, ...], int, int]:
    """Words, arrays inside and P-BM of a partial result."""
    found = parse(packet)
    fold = found.message
    assert isinstance(fold, Fold)
    assert fold.kind == Kind.SPREAD
    assert fold.flags & FoldFlag.PARTIAL
    words = np.frombuffer(found.payload[:-8], "<i4").tolist()
    return tuple(words), fold.n_merged, bs.from_bytes(found.payload[-8:])


def end_of(net: VatFabric, now_ms: int) -> None:
    for name in ("s1", "s7", "s6"):
        net.flush(name, now_ms * MS)


def test_half_of_the_patience_is_waited_below_the_root_and_all_of_it_there(
    net: VatFabric,
) -> None:
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 0, 10 * bit))
    end_of(net, PATIENCE // 2 - 1)
    assert net.nodes["s1"].said_by().get("partial", 0) == 0
    end_of(net, PATIENCE // 2)
    assert net.nodes["s1"].said_by()["partial"] == 1
    end_of(net, PATIENCE - 1)
    assert not net.inbox["w1"]
    end_of(net, PATIENCE)
    found = {result(net.inbox[f"w{i}"][0]) for i in (1, 2, 3, 4)}
    assert found == {((130,), 3, W1 | W3 | W4)}


def test_what_comes_after_the_decision_changes_nothing_and_gets_the_same(
    net: VatFabric,
) -> None:
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 0, bit))
    end_of(net, PATIENCE // 2)
    end_of(net, PATIENCE)
    first = result(net.inbox["w2"][0])
    net.send("w2", array(W2, 0, 1000), PATIENCE * MS)
    assert net.nodes["s6"].said_by()["stale"] == 1
    assert [result(p) for p in net.inbox["w2"]] == [first, first]
    assert len(net.inbox["w1"]) == 1


def test_who_was_late_is_not_waited_for_until_it_is_heard(net: VatFabric) -> None:
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 0, bit))
    end_of(net, PATIENCE // 2)
    end_of(net, PATIENCE)
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 1, bit), PATIENCE * MS)
    assert result(net.inbox["w1"][1]) == ((13,), 3, W1 | W3 | W4)  # at once
    net.send("w2", array(W2, 1, 7), PATIENCE * MS)
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 2, bit), PATIENCE * MS)
    assert len(net.inbox["w1"]) == 2
    net.send("w2", array(W2, 2, 2), PATIENCE * MS)
    last = said(net.inbox["w1"][2])
    assert (last.words, last.n_merged, last.flags) == ((15,), 4, 0)


def test_who_was_late_earlier_stays_late_when_another_is(net: VatFabric) -> None:
    """Each block that ends without somebody adds to who is not waited for."""
    for block, bits in ((0, (1, 2, 3)), (1, (1, 3, 4))):
        for i in bits:
            net.send(f"w{i}", array(1 << (i - 1), block, 1))
    end_of(net, PATIENCE // 2)
    end_of(net, PATIENCE)
    assert [result(p)[2] for p in net.inbox["w1"]] == [W1 | W2 | W3, W1 | W3 | W4]
    for bit, name in ((W1, "w1"), (W3, "w3")):
        net.send(name, array(bit, 2, bit), PATIENCE * MS)
    assert result(net.inbox["w1"][2]) == ((W1 + W3,), 2, W1 | W3)  # at once: both are late
    net.send("w4", array(W4, 2, 9), PATIENCE * MS)  # one is back, the other is not
    for bit, name in ((W1, "w1"), (W3, "w3")):
        net.send(name, array(bit, 3, bit), PATIENCE * MS)
    assert len(net.inbox["w1"]) == 3
    net.send("w4", array(W4, 3, W4), PATIENCE * MS)
    assert result(net.inbox["w1"][3]) == ((13,), 3, W1 | W3 | W4)


def test_one_who_waits_makes_all_wait(net: VatFabric) -> None:
    net.send("w1", array(W1, 0, 1))
    net.send("w3", array(W3, 0, 1, now=0))
    net.send("w4", array(W4, 0, 1))
    for now_ms in (1000, 2000, 60_000):
        end_of(net, now_ms)
    assert not net.inbox["w1"]
    net.send("w2", array(W2, 0, 1), 60_000 * MS)
    assert said(net.inbox["w1"][0]).words == (4,)


def test_a_rank_that_says_out_is_not_inside_and_not_waited_for(net: VatFabric) -> None:
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 0, bit))
    out = message(W2, flags=FoldFlag.OUT, n_merged=0, exponent=99)
    net.send("w2", out)
    assert result(net.inbox["w2"][0]) == ((13,), 3, W1 | W3 | W4)
    told = parse(net.inbox["w1"][0]).message
    assert isinstance(told, Fold)
    assert told.exponent == 99


def test_a_block_of_nobody_is_no_result(net: VatFabric) -> None:
    for bit, name in ((W1, "w1"), (W2, "w2"), (W3, "w3"), (W4, "w4")):
        net.send(name, message(bit, flags=FoldFlag.OUT, n_merged=0))
    end_of(net, 10_000)
    assert not net.inbox["w1"]


def test_a_root_armed_after_blocks_were_sent_decides_nothing() -> None:
    """All four ranks are beyond s7, the third neighbour of s6."""
    root = VatNode(figure_one(), "s6")
    anew = message(ALL, what=FoldWhat.ARM, n_slots=4, flags=FoldFlag.RETRY)
    root.take(anew, 3)
    assert int(root.vats.rows[0]["is_anew"]) == 1
    root.take(array(W3, 9, 3), 3)
    assert root.flush(10 * PATIENCE * MS) == []
    fresh = VatNode(figure_one(), "s6")
    fresh.take(message(ALL, what=FoldWhat.ARM, n_slots=4), 3)
    fresh.take(array(W3, 9, 3), 3)
    assert fresh.flush(PATIENCE * MS - 1) == []
    assert fresh.flush(PATIENCE * MS)


def test_who_asks_for_what_is_no_longer_kept_is_told(net: VatFabric) -> None:
    for block in (0, 4):  # four slots: block 4 takes the place of block 0
        for bit, name in ((W1, "w1"), (W2, "w2"), (W3, "w3"), (W4, "w4")):
            net.send(name, array(bit, block, bit))
    net.send("w2", message(W2, what=FoldWhat.REQUEST, block=0))
    told = said(net.inbox["w2"][-1])
    assert (told.what, told.flags, told.words) == (FoldWhat.HEARD, FoldFlag.OUT, (ALL,))


def test_a_narrower_a_bm_keeps_what_was_joined_and_tells_who_is_out(net: VatFabric) -> None:
    for bit, name in ((W1, "w1"), (W2, "w2"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 0, bit))
    left = W1 | W3 | W4
    again = message(left, what=FoldWhat.ARM, n_slots=4, flags=FoldFlag.RETRY)
    net.send("w1", again)
    assert int(net.nodes["s6"].vats.a_bm[0, 0]) == left
    net.send("w3", message(W3, what=FoldWhat.REQUEST, block=0))
    assert said(net.inbox["w3"][-1]).words == (15,)
    net.send("w2", message(W2, what=FoldWhat.REQUEST, block=0))
    told = said(net.inbox["w2"][-1])
    assert (told.what, told.flags, told.words) == (FoldWhat.HEARD, FoldFlag.OUT, (left,))
    for bit, name in ((W1, "w1"), (W3, "w3"), (W4, "w4")):
        net.send(name, array(bit, 1, bit))
    last = said(net.inbox["w4"][-1])
    assert (last.words, last.flags) == ((13,), 0)


def test_a_part_hurries_its_parent_within_the_patience() -> None:
    s7 = VatNode(figure_one(), "s7")
    s7.arm(2, ALL)
    s7.take(array(W1, 0, 1, now=80, flags=FoldFlag.PARTIAL), 1, 0)
    soon = 80 * MS // SOON_PART
    assert expire_arrays(s7.vats, s7.row, soon - 1) == soon
    assert s7.flush(soon)
