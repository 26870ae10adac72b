"""Arrays at BFRs: figure 1 of draft-song-ina-00 step by step, and all that it leaves open."""

import numpy as np
import pytest
from vat_nodes import (
    BIFT_ID,
    GROUP,
    Said,
    VatFabric,
    VatNode,
    figure_one,
    message,
    said,
    sealed,
)

from fanfold.kernels import vat as v
from fanfold.kernels.absorb import fold_at
from fanfold.kernels.vat_rows import IDLE_PS
from fanfold.wire.fold import Fold, FoldFlag, FoldOp, FoldScope, FoldWhat, FoldWord
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import parse

W1, W2, W3, W4 = 1, 2, 4, 8
S1, S7, S6 = W1 | W2, W3 | W4, W1 | W2 | W3 | W4
"""A-BMs of the figure; it writes 11000000, 00110000, 11110000, BIER counts from the right."""


def mirrored(bits: int) -> str:
    """A BitString as the figure writes it, w1 leftmost."""
    return f"{bits:08b}"[::-1]


def armed(figure: VatFabric) -> VatFabric:
    """Rows of the figure by configuration: s2 and s5 pass on, s1, s7 and s6 join."""
    ways = {"s1": "s5", "s2": "s5", "s5": "s7", "s7": "s6"}
    for name, a_bm in (("s1", S1), ("s2", 0), ("s5", 0), ("s7", S7)):
        figure.nodes[name].arm(figure.fabric.port_to(name, ways[name]), a_bm)
    figure.nodes["s6"].arm(0, S6, is_root=True)
    return figure


def test_figure_one() -> None:
    assert [mirrored(b) for b in (S1, S7, S6)] == ["11000000", "00110000", "11110000"]
    net = armed(VatFabric(figure_one()))
    for worker, bits, words in (("w3", W3, [30, 3]), ("w1", W1, [10, 1])):
        net.send(worker, message(bits, words))
    ups = [row for row in net.trace if row[0][0] == "s"]
    # w3 passes s2 and s5, whose A-BM is zero, and ends at s7; w1 ends at s1.
    assert [(a, b) for a, b, _ in ups] == [("s2", "s5"), ("s5", "s7")]
    net.trace.clear()
    net.send("w2", message(W2, [20, 2]))
    # s1 is whole: one partial, P-BM = A-BM 11000000. At s7 the AND is zero; s6 takes it.
    ups = [row for row in net.trace if row[0][0] == "s"]
    assert [(a, b, mirrored(what.bits), what.words) for a, b, what in ups] == [
        ("s1", "s5", "11000000", (30, 3)),
        ("s5", "s7", "11000000", (30, 3)),
        ("s7", "s6", "11000000", (30, 3)),
    ]
    net.trace.clear()
    net.send("w4", message(W4, [40, 4]))
    by_link = {(a, b): what for a, b, what in net.trace}
    assert mirrored(by_link["s7", "s6"].bits) == "00110000"
    assert by_link["s7", "s6"].words == (70, 7)
    # s6 is whole once and fans out; the BitString is its A-BM, narrowed hop by hop.
    assert mirrored(by_link["s6", "s7"].bits) == "11110000"
    assert mirrored(by_link["s5", "s1"].bits) == "11000000"
    assert mirrored(by_link["s5", "s2"].bits) == "00110000"
    for name in ("w1", "w2", "w3", "w4"):
        (packet,) = net.inbox[name]
        assert said(packet).words == (100, 10)
        assert said(packet).n_merged == 4
    assert net.nodes["s6"].said_by() == {"armed": 1, "absorbed": 2, "complete": 1}
    assert net.nodes["s1"].said_by() == {"armed": 1, "absorbed": 2, "complete": 1}
    assert net.nodes["s7"].said_by() == {"armed": 1, "absorbed": 2, "complete": 1, "passed": 1}
    assert not any(net.inbox[f"w{i}"] for i in range(5, 9))


def test_an_arming_fan_makes_the_tree() -> None:
    net = VatFabric(figure_one())
    net.send("w1", message(S6, what=FoldWhat.ARM, n_slots=4))
    rows = {
        name: (mirrored(int(node.vats.a_bm[0, 0])), int(node.vats.rows[0]["is_root"]))
        for name, node in net.nodes.items()
        if node.vats.rows[0]["used"]
    }
    assert rows == {"s1": ("11110000", 1), "s5": ("00110000", 0), "s2": ("00110000", 0)}
    armings = [said(packet) for name in ("w1", "w4") for packet in net.inbox[name]]
    assert [a.what for a in armings] == [FoldWhat.ARM] * 2
    for i, bits in enumerate((W1, W2, W3, W4), 1):
        net.send(f"w{i}", message(bits, [i]))
    assert all(said(net.inbox[f"w{i}"][-1]).words == (10,) for i in range(1, 5))


def test_the_root_may_lie_further_up() -> None:
    net = VatFabric(figure_one())
    net.send("w1", message(S6 | 1 << 6, what=FoldWhat.ARM, n_slots=4, root_level=2))
    assert [n for n, node in net.nodes.items() if node.vats.rows[0]["is_root"]] == ["s7"]
    assert int(net.nodes["s1"].vats.a_bm[0, 0]) == S1
    alone = VatFabric(figure_one())  # nobody is behind another BFR: the first one it is
    alone.send("w1", message(S1, what=FoldWhat.ARM, n_slots=4, root_level=3))
    assert [n for n, node in alone.nodes.items() if node.vats.rows[0]["is_root"]] == ["s1"]


def node(*, is_root: bool = False, a_bm: int = S1, n_slots: int = 4) -> VatNode:
    """s1 with w1 and w2 below; its third port leads up."""
    made = VatNode(figure_one(), "s1")
    made.arm(0 if is_root else UP, a_bm, is_root=is_root, n_slots=n_slots)
    return made


UP = 1  # neighbours by name: s5, w1, w2
UP_S5 = 3  # s1, s2, s7


def sent(found: list[tuple[int, bytes]]) -> list[tuple[int, int, int, tuple[int, ...]]]:
    return [(port, s.what, s.bits, s.words) for port, p in found for s in (said(p),)]


def test_a_rank_heard_twice_is_added_once() -> None:
    s1 = node()
    for _ in range(3):
        assert s1.take(message(W1, [5]), 2) == []
    assert sent(s1.take(message(W2, [7]), 3)) == [(UP, 0, S1, (12,))]
    assert s1.take(message(W2, [7]), 3) == []
    assert s1.said_by()["duplicate"] == 3


def test_partial_overlap_is_refused_and_counted() -> None:
    s6 = VatNode(figure_one(), "s6", is_checked=False)
    s6.arm(0, S6, is_root=True)
    s6.take(message(S1, [3]), 1)
    assert s6.take(message(W2 | W3, [100]), 1) == []  # w2 would count twice
    assert s6.take(message(W3 | 1 << 6, [100]), 1) == []  # w7 is not expected here
    assert s6.said_by() == {"armed": 1, "absorbed": 1, "overlap": 2}
    found = s6.take(message(S7, [4]), 1)
    assert {said(p).words for _, p in found} == {(7,)}


def test_what_is_unlike_is_refused() -> None:
    s1 = node()
    s1.take(message(W1, [5, 6]), 2)
    for other in (
        message(W2, [7]),
        message(W2, [7, 8], op=FoldOp.MAX),
        message(W2, [7], word=FoldWord.I64),
        message(W2, [7, 8], scope=FoldScope.ONLY, only=1),
        message(W2, [7, 8], scope=FoldScope.BUT, only=1),
    ):
        assert s1.take(other, 3) == []
    assert s1.said_by()["unlike"] == 5
    for_one = node()
    for_one.take(message(W1, [5], scope=FoldScope.ONLY, only=1), 2)
    assert for_one.take(message(W2, [7], scope=FoldScope.ONLY, only=2), 3) == []
    assert for_one.said_by()["unlike"] == 1
    assert sent(s1.take(message(W2, [7, 8]), 3)) == [(UP, 0, S1, (12, 14))]


def test_slots_are_used_again_and_old_blocks_are_stale() -> None:
    s1 = node(n_slots=2)
    for block in (0, 1, 2, 2**32 - 1, 5):
        made = node(n_slots=2)
        made.take(message(W1, [1], block=block), 2)
        assert len(made.take(message(W2, [2], block=block), 3)) == 1
    s1.take(message(W1, [1], block=2**32 - 2), 2)
    s1.take(message(W1, [1], block=0), 2)  # two blocks later: the numbers have wrapped
    assert s1.take(message(W2, [9], block=2**32 - 2), 3) == []
    assert sent(s1.take(message(W2, [2], block=0), 3)) == [(UP, 0, S1, (3,))]
    assert (s1.said_by()["stale"], s1.said_by()["evicted"]) == (1, 1)


def test_empty_arrays_are_bits_only_and_results_reach_whom_they_are_for() -> None:
    for scope, with_words in (
        (FoldScope.ALL, {1, 2}),
        (FoldScope.ONLY, {2}),
        (FoldScope.BUT, {1}),
    ):
        only = 2 if scope else 0
        root = node(is_root=True)
        root.take(message(W1, scope=scope, only=only), 2)
        found = root.take(message(W2, [4, 4], scope=scope, only=only), 3)
        got = {parse(p).header.bitstring: said(p) for _, p in found}
        assert set(got) == {W1, W2}
        assert {b for b, s in got.items() if s.words == (4, 4)} == with_words
        assert all(s.words or s.flags & FoldFlag.EMPTY for s in got.values())


def test_exponents_and_flags_are_folded() -> None:
    s1 = node()
    s1.take(message(W1, [2**31 - 1], exponent=7, flags=FoldFlag.NOT_FINITE), 2)
    ((_, packet),) = s1.take(message(W2, [1], exponent=9), 3)
    fold = parse(packet).message
    assert isinstance(fold, Fold)
    assert (fold.exponent, fold.n_merged) == (9, 2)
    assert fold.flags == FoldFlag.NOT_FINITE | FoldFlag.OVERFLOW
    assert said(packet).words == (-(2**31),)
    assert s1.said_by()["overflow"] == 1


def fixed(bits: int, codes: bytes, words: list[int], **told: int) -> bytes:
    """An array with exponents of a byte before its words."""
    body = [*codes, *np.array(words, "<i4").tobytes()]
    packet = bytearray(message(bits, body, word=3, exponent=len(codes), **told))
    packet[fold_at(1) + 3] = told.get("op", 0) << 4 | FoldWord.FIX32
    if not words:
        packet[fold_at(1) + 2] |= FoldFlag.EMPTY
    return sealed(bytes(packet))


def test_words_are_added_and_the_exponents_before_them_are_the_largest() -> None:
    s1 = node()
    assert s1.take(fixed(W1, b"\x07\xfe", [5, -1]), 2) == []
    ((_, packet),) = s1.take(fixed(W2, b"\x09\x01", [2, -1]), 3)
    found = parse(packet)
    assert isinstance(found.message, Fold)
    assert (found.message.word, found.message.exponent) == (FoldWord.FIX32, 2)
    assert found.payload == b"\x09\xfe" + np.array([7, -2], "<i4").tobytes()


def test_exponents_of_who_takes_no_part_count_whenever_they_come() -> None:
    out = fixed(W1, b"\x05\x06", [], flags=FoldFlag.OUT, n_merged=0)
    own = fixed(W2, b"\x04\x07", [3, 4])
    for first, second, ports in ((out, own, (2, 3)), (own, out, (3, 2))):
        s1 = node()
        sent = [*s1.take(first, ports[0]), *s1.take(second, ports[1])]
        arrays = [parse(p) for _, p in sent if not said(p).flags & FoldFlag.OUT]
        assert [a.payload for a in arrays] == [b"\x05\x07" + np.array([3, 4], "<i4").tobytes()]


def test_arrays_with_unlike_exponents_are_refused() -> None:
    for second in (b"\x01", b"\x01\x02\x03"):
        s1 = node()
        s1.take(fixed(W1, b"\x01\x01", [1]), 2)
        assert s1.take(fixed(W2, second, [1]), 3) == []
        assert s1.said_by()["unlike"] == 1
    for op in (1, 2, 3, 4):  # only sums have exponents
        s1 = node()
        assert s1.take(fixed(W1, b"\x01\x01", [1], op=op), 2) == []
        assert s1.said_by() == {"armed": 1}
        assert s1.counters.drops.sum() == 1


def test_who_gets_no_words_gets_the_exponents_all_the_same() -> None:
    root = node(is_root=True)
    root.take(fixed(W1, b"\x03\x01", [1], scope=1, only=1), 2)
    found = root.take(fixed(W2, b"\x02\x02", [1], scope=1, only=1), 3)
    got = {parse(p).header.bitstring: parse(p).payload for _, p in found}
    assert got == {W1: b"\x03\x02\x02\0\0\0", W2: b"\x03\x02"}


def test_request_is_answered_by_who_knows() -> None:
    s1 = node()
    ask = message(W1, what=FoldWhat.REQUEST, n_merged=0)
    # Nothing is here: w1 is told so, and the root is asked.
    assert sent(s1.take(ask, 2)) == [
        (2, FoldWhat.HEARD, W1, (0,)),
        (UP, FoldWhat.REQUEST, W1, ()),
    ]
    s1.take(message(W1, [5]), 2)
    assert sent(s1.take(ask, 2)) == [(UP, FoldWhat.REQUEST, W1, ())]
    root = node(is_root=True)
    root.take(message(W2, [5]), 3)
    assert sent(root.take(ask, 2)) == [(2, FoldWhat.HEARD, W1, (W2,))]
    root.take(message(W1, [6]), 2)
    again = root.take(ask, 2)
    assert sent(again) == [(2, 0, W1, (11,))]  # to w1 only
    assert said(again[0][1]).flags == FoldFlag.RETRY


def test_a_partial_that_got_lost_is_sent_again_by_who_made_it() -> None:
    s1 = node()
    s1.take(message(W1, [5]), 2, now_ps=10)
    s1.take(message(W2, [6]), 3, now_ps=10)
    above = message(W1, what=FoldWhat.HEARD, kind=Kind.SPREAD, heard=S7)
    late = 10 + 2_000_000_000
    found = sent(s1.take(above, UP, now_ps=late))
    # The array once more, and HEARD goes on with s1's own bits: w1 need not send again.
    assert found == [(UP, 0, S1, (11,)), (2, FoldWhat.HEARD, W1, (S1 | S7,))]
    found = sent(s1.take(above, UP, now_ps=late + 1))
    assert found == [(2, FoldWhat.HEARD, W1, (S1 | S7,))]  # asked by many, sent once
    known = message(W1, what=FoldWhat.HEARD, kind=Kind.SPREAD, heard=S1)
    assert sent(s1.take(known, UP, now_ps=3 * late)) == [(2, FoldWhat.HEARD, W1, (S1,))]


def test_deadline_sends_what_there_is_and_the_parent_finishes() -> None:
    s1, s6 = node(), VatNode(figure_one(), "s6", is_checked=False)
    s6.arm(0, S1, is_root=True)
    s1.take(message(W1, [5]), 2)
    assert s1.flush(v.WAIT_PS - 1) == []
    ((_, partial),) = s1.flush(v.WAIT_PS)
    assert (said(partial).bits, said(partial).words) == (W1, (5,))
    assert said(partial).flags == FoldFlag.PARTIAL
    assert s1.flush(3 * v.WAIT_PS) == []  # nothing new: nothing to send
    ((_, rest),) = s1.take(message(W2, [6]), 3)
    assert (said(rest).bits, said(rest).words) == (W2, (6,))
    s6.take(partial, 1)
    results = s6.take(rest, 1)
    assert {said(p).words for _, p in results} == {(11,)}
    assert all(said(p).flags == 0 for _, p in results)


def test_a_part_from_below_hurries_its_parent() -> None:
    s5 = VatNode(figure_one(), "s5")
    s5.arm(UP_S5, S6, n_slots=4)
    s5.take(message(W1, [5], flags=FoldFlag.PARTIAL), 1)
    assert s5.flush(v.SOON_PS - 1) == []
    ((_, part),) = s5.flush(v.SOON_PS)
    assert (said(part).bits, said(part).flags) == (W1, FoldFlag.PARTIAL)
    s5.take(message(W2, [6]), 1, now_ps=v.SOON_PS)
    assert s5.flush(2 * v.SOON_PS) == []  # nobody below gave up this time


def test_what_went_up_in_a_lost_partial_is_passed_on_raw() -> None:
    s1 = node()
    s1.take(message(W1, [5]), 2)
    s1.flush(v.WAIT_PS)
    assert s1.take(message(W1, [5]), 2) == []
    again = s1.take(message(W1, [5], flags=FoldFlag.RETRY), 2)
    assert sent(again) == [(UP, 0, W1, (5,))]


def test_without_slots_everything_is_passed_on_and_counted() -> None:
    s1 = VatNode(figure_one(), "s1", n_slots=8)
    assert s1.arm(UP, S1, n_slots=16) == 0
    assert sent(s1.take(message(W1, [5]), 2)) == [(UP, 0, W1, (5,))]
    assert s1.said_by() == {"armed": 1, "full": 1, "passed": 1}


def test_a_root_without_slots_says_so_when_armed() -> None:
    net = VatFabric(figure_one())
    net.nodes["s1"].vats = v.build_vats(8, 8, 1, 8972)
    net.send("w1", message(S1, what=FoldWhat.ARM, n_slots=16, block=16))
    fold = parse(net.inbox["w2"][0]).message
    assert isinstance(fold, Fold)
    assert (fold.what, fold.n_slots, fold.block) == (FoldWhat.ARM, 0, 16)


def test_rows_are_bounded_reused_and_closed() -> None:
    s1 = VatNode(figure_one(), "s1", n_rows=2)
    for group in (1, 2):
        arm = message(S1, what=FoldWhat.ARM, n_slots=4, group=group)
        s1.take(arm, 2)
    s1.take(message(S1, what=FoldWhat.ARM, n_slots=4, group=3), 2, now_ps=5)
    assert s1.said_by() == {"armed": 2, "full": 1}
    assert s1.take(message(W1, [1], group=3), 2) == []
    assert s1.said_by()["unknown"] == 1
    s1.take(message(S1, what=FoldWhat.ARM, n_slots=4, group=3), 2, now_ps=IDLE_PS)
    assert int(s1.vats.rows[0]["group"]) == 3  # group 1 was idle for long
    closing = s1.take(message(W1, what=FoldWhat.CLOSE, group=3), 2)
    assert {s[1] for s in sent(closing)} == {FoldWhat.CLOSE}
    assert int(s1.vats.rows[0]["used"]) == 0
    assert int((s1.vats.owner != 0).sum()) == 4


def test_a_group_gets_no_more_slots_than_its_quota() -> None:
    s5 = VatNode(figure_one(), "s5")
    s5.vats = v.build_vats(8, 64, 1, 8972, most_of_group=12)
    s5.arm(UP_S5, W1, n_slots=8)
    s5.arm(2, W2, n_slots=4)  # another way of the same group: 12 in all
    assert s5.said_by() == {"armed": 2}
    s5.arm(1, W3, n_slots=1)
    assert s5.said_by() == {"armed": 3, "quota": 1}
    assert s5.vats.rows["n_slots"][:3].tolist() == [8, 4, 0]
    other = message(S1, what=FoldWhat.ARM, n_slots=12, group=3)
    s5.take(other, 1)
    assert s5.said_by() == {"armed": 4, "quota": 1}
    assert int(s5.vats.rows[3]["n_slots"]) == 12


def test_a_root_that_has_no_slots_passes_on_once_the_root_is_further_up() -> None:
    net = VatFabric(figure_one())
    net.nodes["s1"].vats = v.build_vats(8, 8, 1, 8972)
    net.send("w1", message(S6, what=FoldWhat.ARM, n_slots=16))
    net.send("w1", message(S6, what=FoldWhat.ARM, n_slots=16, root_level=1))
    for inbox in net.inbox.values():
        inbox.clear()
    for worker, bits in (("w1", W1), ("w2", W2), ("w3", W3), ("w4", W4)):
        net.send(worker, message(bits, [bits]))
    assert [said(net.inbox[w][0]).words for w in ("w1", "w2", "w3", "w4")] == [(15,)] * 4
    assert net.nodes["s1"].said_by() == {"armed": 2, "full": 2, "passed": 2}


def test_more_groups_than_may_have_slots_are_passed_on() -> None:
    s1 = VatNode(figure_one(), "s1")
    s1.vats = v.build_vats(8, 64, 1, 8972, most_with_slots=2)
    down = {"what": FoldWhat.ARM, "n_slots": 4, "kind": Kind.SPREAD}
    for group in (1, 2, 3):
        s1.take(message(S1, group=group, **down), UP)
    assert s1.said_by() == {"armed": 3, "full": 1}
    assert sent(s1.take(message(W1, [5], group=3), 2)) == [(UP, 0, W1, (5,))]
    assert s1.take(message(W1, [5], group=2), 2) == []
    s1.take(message(S1, what=FoldWhat.CLOSE, group=1, kind=Kind.SPREAD), UP)
    s1.take(message(S1, group=4, **down), UP)
    assert s1.said_by() == {"armed": 4, "full": 1, "passed": 1, "absorbed": 1}


def test_arming_again_keeps_slots_and_another_bitstring_starts_anew() -> None:
    s1 = node(is_root=True)
    s1.take(message(W1, [5]), 2)
    s1.arm(0, S1, is_root=True)
    assert s1.said_by()["armed"] == 1
    assert len(s1.take(message(W2, [5]), 3)) == 2
    s1.arm(0, S6, is_root=True)
    assert s1.said_by()["armed"] == 2
    assert s1.take(message(S1, [5]), 2) == []


@pytest.mark.parametrize(
    "packet",
    [
        message(W1, [1])[:-1] + b"\x09",
        message(W1, [1], group=77),
        message(W1, [1], ttl=0),
    ],
    ids=["checksum", "group", "ttl"],
)
def test_bad_packets_change_nothing(packet: bytes) -> None:
    s1 = node()
    assert s1.take(packet, 2) == []
    assert "absorbed" not in s1.said_by()


def test_a_loop_of_wrong_rows_ends() -> None:
    net = VatFabric(figure_one())
    net.nodes["s1"].arm(net.fabric.port_to("s1", "s5"), 0)
    net.nodes["s5"].arm(net.fabric.port_to("s5", "s1"), 0)
    net.send("w1", message(W1, [1]))
    assert len(net.trace) == 2
    drops = net.nodes["s1"].drops() | net.nodes["s5"].drops()
    assert drops == {"turned_back": 1}


def test_said_is_a_value() -> None:
    assert said(message(W1, [3])) == Said(0, 0, 1, (3,), 0, 1)
    assert parse(message(W1, [3])).header.bift_id == BIFT_ID
    assert parse(message(W1)).message.group == GROUP  # type: ignore[union-attr]
