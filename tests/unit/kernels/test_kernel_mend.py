"""A BFR answers gaps from what it keeps: to whom, how often, and what goes up instead."""

import naive
import numpy as np
import pytest
from kernel_nodes import BFIR, BIFT_ID, FOLD_PS, KernelNode, data, feedback, plain_node, word_of

from fanfold.core.effects import StoreEvent
from fanfold.kernels.mend import LEAST_PART, most_gaps
from fanfold.kernels.octets import ONE
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import MAX_SEGS, MAX_TODO, SEG_BYTES, build_store
from fanfold.kernels.store import KEEP_PS, NOT_KEPT, find_kept, keep
from fanfold.wire.packet import parse

STORE = 1 << 20
H1, H2, H3 = 0b0010, 0b0100, 0b1000  # 1 and 2 behind port 1, 3 behind port 2
ALL = H1 | H2 | H3
N_PSN = 32
STRIDE, RUN = 200, range(1, 12)
FIRST_WAIT = 4 * (FOLD_PS // LEAST_PART)


def word(heard, rows=None, **more):
    done = heard if rows is None else heard & ~sum_of(rows)
    more.setdefault("n_merged", 1)
    return naive.Word(BIFT_ID, N_PSN, heard=heard, done=done, rows=rows or {}, **more)


def sum_of(rows):
    bits = 0
    for each in rows.values():
        bits |= each
    return bits


def sent(psns=range(N_PSN), bits=ALL, **more):
    """A BFR that a block went by."""
    node = plain_node(store_bytes=STORE)
    for psn in psns:
        node.forward([data(bits, psn=psn, n_psn=N_PSN, **more)], port=4)
    return node


def say(node, *words, now_ps=1):
    """What a BFR sends down for some words: (PSN, to whom, whether it asks) of each."""
    found = []
    for said in words:
        assert node.forward([feedback(said)], port=1, now_ps=now_ps) == {}
        found += told(node.mended)
    return found


def told(mended):
    found = []
    for mend in mended:
        message = parse(next(iter(mend.copies.values()))).message
        assert message.flags & 4
        found.append((message.psn, mend.bits, message.flags & 1))
    return found


def events(node):
    counts = zip(StoreEvent, node.fold.store.events.tolist(), strict=True)
    return {event.value: n for event, n in counts if n and event != StoreEvent.KEPT}


def up(node):
    return [word_of(packets) for _, packets in node.send_ready()]


def test_a_gap_is_answered_to_who_lacks_it_and_the_word_goes_up_when_it_is_mended():
    node = sent()
    assert say(node, word(H1), word(H2, {3: H2, 9: H2}), word(H3)) == [(3, H2, 0), (9, H2, 1)]
    assert up(node) == []  # all were heard, one is mending
    assert say(node, word(H2)) == []
    assert up(node) == [word(ALL, n_merged=4)]
    assert events(node) == {"hit": 2}


def test_where_nothing_was_lost_for_long_nothing_is_kept_until_a_gap_is_named():
    node = plain_node(store_bytes=STORE)
    begun = KEEP_PS - 1

    def pass_by(block, now_ps):
        for psn in range(N_PSN):
            packet = data(ALL, block=block, psn=psn, n_psn=N_PSN)
            node.forward([packet], port=4, now_ps=now_ps)

    def mended(block, now_ps):
        said = feedback(word(H2, {3: H2}), (BFIR, 7, block))
        node.forward([said], port=1, now_ps=now_ps)
        return told(node.mended)

    pass_by(0, begun)
    assert mended(0, begun + 1) == [(3, H2, 1)]
    pass_by(1, begun + 1 + KEEP_PS)
    assert mended(1, begun + 1 + KEEP_PS) == []  # the source's to fill
    pass_by(2, begun + 2 + KEEP_PS)
    assert mended(2, begun + 2 + KEEP_PS) == [(3, H2, 1)]
    node.forward([feedback(word(ALL), (BFIR, 7, 2))], port=1, now_ps=begun + 3 * KEEP_PS)
    pass_by(3, begun + 3 * KEEP_PS)
    assert mended(3, begun + 3 * KEEP_PS) == []  # a word without a gap is no reason


def test_a_repair_is_the_packet_that_passed_but_for_its_flags_and_bitstring():
    node = sent(ttl=60, round_=5)
    (copy,) = node.forward([data(ALL, psn=7, n_psn=N_PSN, round_=5)], port=4)[2]
    say(node, word(H3, {7: H3}))
    ((bits, copies),) = node.mended
    was, now = parse(copy.packet), parse(copies[2])  # its checksums hold
    assert (bits, [*copies], now.header) == (H3, [2], was.header)
    assert (now.message.flags, was.message.flags) == (5, 0)
    assert (now.message.round, now.payload) == (5, was.payload)
    assert (now.inner.src, now.inner.sport) == (was.inner.src, was.inner.sport)


def test_what_is_not_kept_goes_up_at_once_and_what_is_on_its_way_is_no_gap():
    node = sent(psns=range(1, N_PSN))  # packet 0 was lost above
    assert say(node, word(H1, {0: H1}), word(H2, {0: H2, 4: H2})) == [(4, H2, 0)]
    assert say(node, word(H3, {0: H3})) == []
    assert up(node) == [word(ALL, {0: ALL}, n_merged=3)]
    assert events(node) == {"hit": 1, "miss": 3}


def test_a_repair_that_was_lost_goes_once_more_and_then_the_source_is_told():
    node = sent()
    assert say(node, word(H1), word(H3), word(H2, {3: H2})) == [(3, H2, 1)]
    assert say(node, word(H2, {3: H2}), now_ps=2) == [(3, H2, 1)]
    assert say(node, word(H2, {3: H2}), now_ps=3) == []
    ((_, packets),) = node.send_ready()
    assert word_of(packets) == word(ALL, {3: H2}, n_merged=5)
    assert [parse(p).message.flags for p in packets] == [2]
    assert events(node) == {"hit": 2, "spent": 1}


def test_a_next_word_stands_for_what_was_lacking_before():
    node = sent()
    say(node, word(H1), word(H3), word(H2, {3: H2, 5: H2}))
    assert say(node, word(H2, {5: H2})) == [(5, H2, 1)]
    say(node, word(H2, {5: H2}))
    assert up(node)[0].rows == {5: H2}


def test_silence_after_a_repair_is_answered_by_another_and_ends():
    node = sent()
    say(node, word(H1), word(H3), word(H2, {3: H2}))
    assert node.expire(FIRST_WAIT) == 1 + FIRST_WAIT
    assert node.mended == []
    assert node.expire(1 + FIRST_WAIT) == 1 + 2 * FIRST_WAIT
    assert told(node.mended) == [(3, H2, 1)]
    assert up(node) == []
    node.expire(1 + 2 * FIRST_WAIT)
    assert up(node) == [word(ALL, {3: H2}, n_merged=3)]
    assert node.n_armed() == 0
    assert 2 * FIRST_WAIT < FOLD_PS  # much sooner than a slot's deadline


def test_a_deadline_tells_the_source_what_is_mending():
    node = sent()
    say(node, word(H2, {3: H2}))
    deadline = int(node.fold.rows[node.fold.rows["armed"] != 0]["deadline_ps"][0])
    say(node, word(H1), now_ps=deadline - 1)
    node.expire(deadline)
    assert up(node) == [word(H1 | H2, {3: H2}, n_merged=2, is_partial=True)]


@pytest.mark.parametrize(
    ("n_psn", "most"), [(64, 21), (32, 10), (17, 5), (8, 2), (4, 2), (1, 2)]
)
def test_who_lacks_more_than_a_third_is_left_to_the_source(n_psn, most):
    assert most_gaps(n_psn) == most


def test_heavy_loss_is_told_to_the_source_and_to_nobody_else():
    node = sent()
    most = most_gaps(N_PSN)
    assert len(say(node, word(H1, dict.fromkeys(range(most), H1)))) == most
    assert say(node, word(H2, dict.fromkeys(range(most + 1), H2))) == []
    assert say(node, word(H3), word(H1)) == []
    ((_, packets),) = node.send_ready()
    assert word_of(packets).rows == dict.fromkeys(range(most + 1), H2)
    assert parse(packets[0]).message.flags == 2
    assert events(node) == {"hit": most, "heavy": 1}


@pytest.mark.parametrize(("now_ps", "n"), [(FOLD_PS, 1), (FOLD_PS + 1, 0)])
def test_who_tells_of_a_gap_late_has_a_deep_queue_and_is_left_to_the_source(now_ps, n):
    node = sent()
    say(node, word(H1), word(H3))
    assert len(say(node, word(H2, {3: H2}), now_ps=now_ps)) == n
    assert len(up(node)) == 1 - n
    assert events(node) == ({"hit": 1} if n else {"late": 1})


def test_who_lost_two_repairs_by_chance_is_answered_in_the_next_block():
    node = sent()
    say(node, word(H1), word(H3), word(H2, {3: H2}), word(H2, {3: H2}), word(H2, {3: H2}))
    assert events(node)["spent"] == 1
    up(node)
    node.forward([data(ALL, psn=3, n_psn=N_PSN, block=1)], port=4, now_ps=2)
    node.forward([feedback(word(H2, {3: H2}), (BFIR, 7, 1))], port=1, now_ps=2)
    assert len(node.mended) == 1


def test_who_lost_much_is_left_to_the_source_for_a_while():
    for wait_ps, n in ((16 * FOLD_PS, 0), (16 * FOLD_PS + 1, 1)):
        node = sent()
        say(node, word(H1), word(H3), word(H2, dict.fromkeys(range(1 + most_gaps(N_PSN)), H2)))
        up(node)
        later = 1 + wait_ps - 1
        node.forward([data(ALL, psn=3, n_psn=N_PSN, block=1)], port=4, now_ps=later)
        said = feedback(word(H2, {3: H2}), (BFIR, 7, 1))
        node.forward([said], port=1, now_ps=later)
        assert len(node.mended) == n


def test_a_word_that_a_bfr_below_gave_up_goes_up_as_it_is():
    node = sent()
    packet = np.array([*feedback(word(ALL, {3: H2}))], np.uint8)
    fan = 12 + 8 + 28
    packet[fan + 1] |= 2
    from fanfold.kernels.frame import seal_inner  # noqa: PLC0415 - of this test alone

    seal_inner(packet, 0, len(packet), 1)
    node.forward([packet.tobytes()], port=1)
    assert node.mended == []
    ((_, packets),) = node.send_ready()
    assert parse(packets[0]).message.flags == 2


def test_a_word_that_another_bfr_passed_on_is_not_answered():
    for hops, n in ((0, 1), (1, 0)):
        node = sent()
        packet = bytearray(feedback(word(H2, {3: H2})))
        packet[3] -= hops
        node.forward([bytes(packet)], port=1)
        assert len(node.mended) == n
        say(node, word(H1), word(H3))
        assert len(up(node)) == 1 - n


def test_what_its_source_repairs_alone_is_not_kept():
    node = sent(flags=8)
    assert say(node, word(ALL, {3: H2})) == []
    assert up(node)[0].rows == {3: H2}
    assert events(node) == {"miss": 1}


def test_a_packet_that_does_not_add_up_is_never_sent_again():
    node = sent()
    node.fold.store.room[:, 60] ^= 1  # in the first packet of each segment: its payload
    assert say(node, word(ALL, {0: H2, 1: H3})) == [(1, H3, 1)]
    assert events(node) == {"hit": 1, "miss": 1, "corrupt": 1}


def payload_of(psn, size=STRIDE):
    return bytes([psn + 1]) * size


@pytest.mark.parametrize("seg_bytes", [SEG_BYTES, 8 * STRIDE], ids=["together", "one by one"])
def test_each_packet_of_a_run_is_kept_as_itself(seg_bytes):
    node = plain_node(store_bytes=STORE)
    node.fold.store.segs["most"] = seg_bytes
    run = [
        data(ALL, psn=psn, n_psn=N_PSN, stride=STRIDE, payload=payload_of(psn)) for psn in RUN
    ]
    short = data(ALL, psn=N_PSN - 1, n_psn=N_PSN, stride=STRIDE, payload=payload_of(31, 40))
    node.forward([*run, short], port=4)
    node.forward([data(ALL, psn=0, n_psn=N_PSN, stride=STRIDE, payload=payload_of(0))], port=4)
    lacking = dict.fromkeys((0, 3, RUN[-1], N_PSN - 1), H2)
    node.forward([feedback(word(H2, lacking))], port=1, now_ps=1)
    came = {}
    for mend in node.mended:
        packet = parse(next(iter(mend.copies.values())))
        came[packet.message.psn] = packet.payload
    assert came == {psn: payload_of(psn, 40 if psn == 31 else STRIDE) for psn in lacking}
    assert events(node) == {"hit": 4}
    kept = node.fold.store.events.tolist()[list(StoreEvent).index(StoreEvent.KEPT)]
    assert kept == len(RUN) + 2


def test_runs_begin_where_copies_are_fast_and_no_segment_has_more_than_its_entries():
    node = plain_node(store_bytes=2 * SEG_BYTES)
    store = node.fold.store
    n_entries, n_runs = store.entries.shape[1], 30
    assert n_runs * len(RUN) > 2 * n_entries
    for block in range(n_runs):
        node.forward([data(ALL, block=block, psn=psn, n_psn=N_PSN) for psn in RUN], port=4)
        assert (store.segs["n"] <= n_entries).all()
        n = int(store.segs["n"].max())
        assert not (store.entries["at"][store.segs["n"].argmax(), : n : len(RUN)] % 16).any()


def test_one_that_came_over_again_takes_the_place_of_one_that_does_not_add_up():
    node = sent()
    node.fold.store.room[:, 60] ^= 1
    node.forward([data(ALL, psn=0, n_psn=N_PSN, flags=4)], port=4)
    assert say(node, word(ALL, {0: H2})) == [(0, H2, 1)]


def test_a_flow_that_no_data_armed_is_answered_nothing():
    """Words alone never make a BFR send: no slot, no repair."""
    node = sent()
    say(node, word(ALL))
    up(node)
    for _ in range(3):
        found = node.forward([feedback(word(H2, {3: H2}))], port=1)
        assert ([*found], node.mended) == ([], [])  # no table leads to the BFIR here
    assert events(node) == {}


def test_what_one_host_sets_off_is_bounded_by_the_data_that_passed():
    """A host that says again and again that it lacks all it may: two repairs of each packet."""
    node, n = sent(), 0
    most = most_gaps(N_PSN)
    for i in range(100):
        rows = dict.fromkeys(sorted((i + k) % N_PSN for k in range(most)), H2)
        n += len(say(node, word(H2, rows), now_ps=i))
    assert n == 2 * most
    assert node.fold.store.events[5] > 0  # counted: spent


def test_repairs_that_find_no_room_in_the_list_are_left_to_the_source():
    node = KernelNode(plain_node().bifts, [1, 0, 4, 0], store_bytes=STORE)
    for psn in range(N_PSN):
        node.forward([data(ALL, psn=psn, n_psn=N_PSN)], port=4)
    node.fold.store.n_todo[0] = MAX_TODO - 1
    node.fold.store.todo[:] = 0
    node.take_mends = list  # nobody sends meanwhile
    node.forward([feedback(word(ALL, {3: H2, 4: H2}))], port=1)
    assert node.fold.store.n_todo[0] == MAX_TODO - 1
    assert up(node)[0].rows == {3: H2, 4: H2}
    assert events(node) == {"full": 1}


def test_without_a_store_nothing_is_kept_and_gaps_go_up_as_they_came():
    node = plain_node()
    node.forward([data(ALL, psn=3, n_psn=N_PSN)], port=4)
    assert say(node, word(ALL, {3: H2})) == []
    assert up(node) == [word(ALL, {3: H2}, n_merged=1)]


# The store.


class SlowStore:
    """What a store of few segments remembers, as lists."""

    def __init__(self, n_segs, most, n_entries):
        self.segs = [{"key": -1, "at": -1, "kept": []} for _ in range(n_segs)]
        self.most, self.n_entries, self.n = most, n_entries, 0

    def keep(self, key, block, psn, size):
        if size > self.most:
            return
        own = [s for s in self.segs if s["key"] == key]
        for seg in own:
            used = sum(each[2] for each in seg["kept"])
            if used + size <= self.most and len(seg["kept"]) < self.n_entries:
                break
        else:
            half = max(len(self.segs) // 2, 1)
            seg = min(own if len(own) >= half else self.segs, key=lambda s: s["at"])
            seg.update(key=key, kept=[])
        seg["kept"].append((block, psn, size))
        self.n += 1
        seg["at"] = self.n

    def has(self, key, block, psn):
        rows = (each for s in self.segs if s["key"] == key for each in s["kept"])
        return any(each[:2] == (block, psn) for each in rows)

    def used(self):
        return sum(each[2] for s in self.segs for each in s["kept"])


@pytest.mark.parametrize("seed", range(6))
def test_a_store_keeps_what_its_slow_twin_keeps(seed):
    rng = np.random.default_rng(seed)
    store = build_store(4 * SEG_BYTES, 1, has_bytes=False)
    slow = SlowStore(4, SEG_BYTES, store.entries.shape[1])
    for i in range(1500):
        key, size = int(rng.integers(0, 6)), int(rng.choice([8, 512, 9000, SEG_BYTES + 8]))
        keep(store, key, BIFT_ID, i, np.uint64(bit(i % 64)), 1, size)
        slow.keep(key, i, i % 64, size)
        assert store.held[0] == slow.used() <= 4 * SEG_BYTES
        at = i - int(rng.integers(0, 40))
        found = find_kept(store, key, BIFT_ID, at, at % 64, 1) != NOT_KEPT
        assert found == slow.has(key, at, at % 64)
    assert store.events[1] > 100


def test_a_fan_has_half_of_a_store_at_most():
    store = build_store(MAX_SEGS * SEG_BYTES, 1, has_bytes=False)
    keep(store, 7, BIFT_ID, 0, ONE, 1, 1000)
    for i in range(1000):
        keep(store, 8, BIFT_ID, i, ONE, 1, 9000)
    assert (store.segs["key"] == 8).sum() == MAX_SEGS // 2
    assert find_kept(store, 7, BIFT_ID, 0, 0, 1) != NOT_KEPT


def test_another_set_of_receivers_has_packets_of_its_own():
    store = build_store(SEG_BYTES, 1, has_bytes=False)
    keep(store, (BFIR << 32) | 7, BIFT_ID, 0, ONE, 1, 1000)
    assert find_kept(store, (BFIR << 32) | 7, BIFT_ID | 1, 0, 0, 1) == NOT_KEPT
    assert find_kept(store, (BFIR << 32) | 6, BIFT_ID, 0, 0, 1) == NOT_KEPT
