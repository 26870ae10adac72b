import naive
import numpy as np
import pytest
from kernel_nodes import (
    BFIR,
    BFIR_ADDR,
    BIFT_ID,
    FLOW_PORT,
    data,
    feedback,
    plain_node,
    word_of,
)

from fanfold.kernels import collect as c
from fanfold.kernels.layout import FLAG_REPAIR
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.speak import WHOLE_ROW, speak
from fanfold.kernels.state import build_fold
from fanfold.streams import stream
from fanfold.wire.packet import parse

STRIDE, N_PSN = 8, 4
REORDER_PS, IDLE_PS, AGAIN_PS = 100, 1000, 300
ONE = 1  # BitString of the receiver alone


class Receiver:
    """A node that collects flow 7 of BFIR 9, n_bytes long."""

    def __init__(self, n_bytes=100, *, n_blocks=4, is_known=True, room=STRIDE * N_PSN):
        self.node = plain_node(folds=False)
        self.state = c.build_collect(n_blocks, room, 2, 80)
        self.state.timing[:] = REORDER_PS, IDLE_PS
        self.object = stream(n_bytes, "tests/object").bytes(n_bytes)
        self.n_blocks = -(-n_bytes // (STRIDE * N_PSN))
        self.drops = self.node.counters.drops
        row = self.state.follow[1]
        row["used"], row["bfir_id"], row["flow"] = 1, BFIR, 7
        row["newest"] = row["front"] = -1
        row["map_at"], row["map_len"] = 10, 70
        if is_known:
            last = n_bytes - (self.n_blocks - 1) * STRIDE * N_PSN
            row["stride"], row["n_psn"], row["n_blocks"] = STRIDE, N_PSN, self.n_blocks
            row["last_n_psn"] = -(-last // STRIDE)
            row["last_bytes"] = last - (int(row["last_n_psn"]) - 1) * STRIDE

    def psns(self, block):
        n = min(len(self.object) - block * STRIDE * N_PSN, STRIDE * N_PSN)
        return -(-n // STRIDE)

    def packet(self, block, psn, **more):
        at = (block * N_PSN + psn) * STRIDE
        flags = more.pop("flags", 0) | 2 * (block == self.n_blocks - 1)
        more = {"n_psn": self.psns(block), "payload": self.object[at : at + STRIDE]} | more
        return data(ONE, block=block, psn=psn, stride=STRIDE, flags=flags, **more)

    def take(self, *packets, now_ps=0):
        for packet in packets:
            self.node.forward([packet], now_ps=now_ps)
            self.collect_pass(now_ps)

    def collect_pass(self, now_ps=0):
        node = self.node
        n = len(node.block)
        c.collect_pass(node.block, 0, node.seg, n, now_ps, node.plan, self.state, self.drops)

    def events(self):
        found = self.state.events[: self.state.n_events[0]].tolist()
        self.state.n_events[0] = 0
        return [tuple(event) for event in found]

    def block_of(self, r):
        row = self.state.blocks[r]
        n = (int(row["n_psn"]) - 1) * STRIDE + int(row["tail"])
        return self.state.room[r, :n].tobytes()

    def row(self, block):
        rows = self.state.blocks
        (r,) = np.flatnonzero((rows["state"] != c.FREE) & (rows["block"] == block))
        return rows[r]

    def due(self, now_ps):
        out = np.zeros(8, np.int64)
        n = c.due_reports(self.state, now_ps, AGAIN_PS, out)
        return sorted(int(self.state.blocks[r]["block"]) for r in out[:n])

    def keep(self, r):
        """What the role does with a whole block."""
        row = self.state.blocks[r]
        self.state.have[10 + int(row["block"])] = 1
        row["state"] = c.FREE


def test_a_block_is_whole_when_its_last_packet_is_in():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn) for psn in (2, 0, 3)))
    assert rx.events() == []
    rx.take(rx.packet(0, 1))
    ((kind, r, block),) = rx.events()
    assert (kind, block) == (c.EVENT_WHOLE, 0)
    assert rx.block_of(r) == rx.object[: STRIDE * N_PSN]
    assert rx.row(0)["report_ps"] == NEVER_PS
    assert rx.node.drops() == {}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_come_together_from_any_order_with_duplicates(seed, is_known):
    rx = Receiver(n_blocks=5, is_known=is_known, n_bytes=5 * 32 - 13)
    rng = stream(seed, "tests/collect")
    twin = naive.Collector(len(rx.object), STRIDE, N_PSN)
    places = [(b, p) for b in range(rx.n_blocks) for p in range(rx.psns(b))]
    order = [places[int(i)] for i in rng.permutation(len(places))]
    extra = [order[int(rng.integers(0, len(order)))] for _ in range(6)]
    whole = {}
    for block, psn in [*order, *extra]:
        rx.take(rx.packet(block, psn))
        twin.take(block, psn, rx.object[(block * N_PSN + psn) * STRIDE :][:STRIDE])
        whole |= {b: rx.block_of(r) for kind, r, b in rx.events() if kind == c.EVENT_WHOLE}
        if block not in twin.whole:
            gaps = naive.members(2 ** rx.psns(block) - 1 & ~int(rx.row(block)["have"]))
            assert gaps == twin.gaps(block)
    assert whole == twin.whole
    assert b"".join(whole[b] for b in sorted(whole)) == rx.object
    assert rx.node.drops() == {"duplicate": twin.n_duplicates}


def test_a_flow_is_learnt_from_its_packets():
    rx = Receiver(is_known=False)
    rx.take(rx.packet(1, 0), now_ps=50)
    row = rx.state.follow[1]
    assert (row["stride"], row["n_psn"], row["n_blocks"]) == (STRIDE, N_PSN, 0)
    assert (row["heard_ps"], row["newest"], row["bift_id"]) == (50, 1, BIFT_ID)
    assert (row["flow_port"], row["bfir_addr"]) == (FLOW_PORT, BFIR_ADDR)
    rx.take(rx.packet(3, 0, n_psn=1, payload=b"1234"))
    assert (row["n_blocks"], row["last_n_psn"], row["newest"]) == (4, 1, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"n_psn": 3},
        {"n_psn": 5},
        {"stride": 7, "payload": b"1234567"},
        {"stride": 9, "payload": b"123456789"},
        {"payload": b"1234567"},
        {"flags": 2},
        {"block": 70},
        {"block": 4},
    ],
    ids=str,
)
def test_wrong_geometry_is_refused_and_counted(change):
    rx = Receiver()
    fields = {"block": 0, "psn": 0, "n_psn": N_PSN, "stride": STRIDE, "payload": b"12345678"}
    rx.take(data(ONE, **fields))
    rx.take(data(ONE, **(fields | {"psn": 1} | change)))
    assert rx.node.drops() == {"bad_fan": 1}
    assert int(rx.row(0)["have"]) == 1


@pytest.mark.parametrize(
    "change",
    [{"n_psn": 2}, {"payload": b"12345"}, {"flags": 0}, {"block": 2, "flags": 2}],
    ids=str,
)
def test_wrong_geometry_of_the_last_block_is_refused(change):
    rx = Receiver(100)  # block 3: one packet of 4 bytes
    fields = {
        "block": 3,
        "psn": 0,
        "n_psn": 1,
        "stride": STRIDE,
        "payload": b"1234",
        "flags": 2,
    }
    rx.take(data(ONE, **(fields | change)))
    assert rx.node.drops() == {"bad_fan": 1}
    assert rx.events() == []
    rx.take(data(ONE, **fields))
    assert [event[0] for event in rx.events()] == [c.EVENT_WHOLE]


@pytest.mark.parametrize(
    ("place", "octet"),
    [(15, 0), (2, 0), (2, 65), (3, 4)],
    ids=["stride 0", "n_psn 0", "n_psn 65", "psn 4 of 4"],
)
def test_fields_that_the_codec_refuses_are_refused(place, octet):
    rx = Receiver(is_known=False)
    packet = np.array([*rx.packet(0, 0)], np.uint8)
    packet[48 + place] = octet
    fix_checksum(packet)
    rx.take(packet.tobytes())
    assert rx.node.drops() == {"bad_fan": 1}


def fix_checksum(packet):
    packet[46:48] = 0
    pseudo = packet[32:40].tobytes() + b"\0\x11" + packet[44:46].tobytes()
    checksum = 0xFFFF - naive.sum_octets(pseudo + packet[40:].tobytes()) or 0xFFFF
    packet[46:48] = checksum >> 8, checksum & 0xFF


def test_an_empty_payload_is_refused():
    rx = Receiver()
    rx.take(rx.packet(0, 0, payload=b""))
    assert rx.node.drops() == {"bad_fan": 1}


def test_a_block_larger_than_the_room_is_refused():
    rx = Receiver(is_known=False, room=STRIDE * N_PSN - 1)
    rx.take(rx.packet(0, 0))
    assert rx.node.drops() == {"bad_fan": 1}


def test_a_broken_payload_is_refused():
    rx = Receiver()
    packet = rx.packet(0, 0)
    rx.take(packet[:-1] + bytes([packet[-1] ^ 0x10]))
    assert rx.node.drops() == {"bad_checksum": 1}


def test_a_flow_that_nobody_follows_is_told_once_for_a_block():
    rx = Receiver()
    strange = [data(ONE, flow=8), data(ONE, bfir_id=8), data(ONE, flow=8)]
    rx.node.forward(strange)
    rx.collect_pass()
    assert rx.events() == [(c.EVENT_UNKNOWN, 0, 0)]
    assert rx.node.drops() == {"unknown_flow": 3}
    rx.state.follow[1]["used"] = 0
    rx.take(rx.packet(0, 0))
    assert rx.node.drops() == {"unknown_flow": 4}


def test_what_is_not_data_is_left_alone():
    rx = Receiver()
    rx.take(feedback(naive.Word(BIFT_ID, 4, heard=1, done=1, rows={}), outer_bits=ONE))
    assert (rx.node.drops(), rx.events()) == ({}, [])


def test_without_a_free_buffer_a_block_waits_for_a_repair():
    rx = Receiver(n_blocks=2)
    rx.take(rx.packet(0, 0), rx.packet(1, 0), rx.packet(2, 0))
    assert rx.node.drops() == {"no_buffer": 1}
    rx.take(*(rx.packet(1, psn) for psn in (1, 2, 3)))
    ((_, r, block),) = rx.events()
    assert block == 1
    rx.keep(r)
    rx.take(rx.packet(2, 0))
    assert rx.node.drops() == {"no_buffer": 1}
    assert int(rx.row(2)["have"]) == 1


def test_a_block_that_is_kept_comes_again_only_as_a_question():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn) for psn in range(4)))
    rx.keep(rx.events()[0][1])
    rx.take(rx.packet(0, 1))
    assert rx.events() == []
    rx.take(rx.packet(0, 3, flags=1))
    assert rx.events() == [(c.EVENT_AGAIN, 1, 0)]
    assert rx.node.drops() == {"duplicate": 2}


def test_a_lost_event_of_a_whole_block_comes_back_with_a_poll():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn) for psn in range(4)))
    (lost,) = rx.events()
    rx.take(rx.packet(0, 3))
    assert rx.events() == []
    rx.take(rx.packet(0, 3, flags=1))
    assert rx.events() == [lost]


def test_events_past_the_end_are_lost_and_nothing_else():
    rx = Receiver()
    rx.state.n_events[0] = len(rx.state.events)
    rx.take(*(rx.packet(0, psn) for psn in range(4)))
    assert rx.state.n_events[0] == len(rx.state.events)
    assert rx.row(0)["state"] == c.WHOLE


# When gaps are due.


def test_a_poll_makes_the_gaps_due_after_the_time_of_reordering():
    rx = Receiver()
    rx.take(rx.packet(0, 3, flags=1), now_ps=10)
    assert rx.due(10 + REORDER_PS - 1) == []
    rx.take(rx.packet(0, 2, flags=1), now_ps=50)  # asked again: not later than at first
    assert rx.due(10 + REORDER_PS) == [0]


def test_without_a_poll_silence_makes_the_gaps_due():
    rx = Receiver()
    rx.take(rx.packet(0, 0), now_ps=10)
    rx.take(rx.packet(0, 2), now_ps=30)
    assert rx.due(30 + IDLE_PS - 1) == []
    assert rx.due(30 + IDLE_PS) == [0]


def test_what_may_not_have_been_sent_yet_is_no_gap():
    """A slow sender's block stands still between two pieces; nothing of it is lost."""
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(0, 1), now_ps=10)
    assert rx.due(10 + IDLE_PS) == []
    assert rx.row(0)["report_ps"] == 10 + 2 * IDLE_PS
    rx.take(rx.packet(0, 3, flags=1), now_ps=20)
    assert rx.due(20 + REORDER_PS) == [0]
    assert set(word_of(said(rx, 0, is_whole=False)).rows) == {2}


def test_a_block_two_further_on_makes_the_gaps_due():
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(1, 0), now_ps=10)
    assert rx.due(10 + REORDER_PS) == []
    rx.take(rx.packet(2, 0), now_ps=20)
    assert rx.due(10 + REORDER_PS - 1) == []
    assert rx.due(10 + REORDER_PS) == [0]


def test_what_was_reported_is_not_due_again_before_its_time():
    """Also where the sender has passed on: each turn of a node would say it otherwise."""
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(2, 0, flags=1), now_ps=10)
    rx.row(2)["report_ps"] = 4999
    assert rx.due(200) == [0]
    assert rx.due(201) == []
    assert int(c.next_report(rx.state)) == 200 + AGAIN_PS
    assert rx.due(200 + AGAIN_PS - 1) == []
    assert rx.due(200 + AGAIN_PS) == [0]
    rx.take(rx.packet(0, 1, flags=1), now_ps=700)  # a repair asks for a word at once
    assert rx.due(700 + REORDER_PS) == [0]


def test_packets_still_coming_put_off_what_was_told():
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(2, 0), now_ps=10)
    assert rx.due(10 + REORDER_PS) == [0]
    again = 10 + REORDER_PS + AGAIN_PS
    rx.take(rx.packet(0, 3), now_ps=again - 1)
    assert rx.due(again - 2 + IDLE_PS) == []
    assert rx.due(again - 1 + IDLE_PS) == [0]


def test_a_pass_that_begins_anew_is_judged_by_itself():
    """A late comer gets the end of the blocks first, what went by after it."""
    rx = Receiver(n_blocks=20, n_bytes=20 * STRIDE * N_PSN)
    rx.take(*(rx.packet(9, psn) for psn in range(4)), now_ps=10)
    rx.take(rx.packet(2, 0), rx.packet(2, 1), now_ps=20)
    rx.take(rx.packet(9, 3, flags=FLAG_REPAIR), now_ps=25)  # of what came before
    assert rx.due(25 + REORDER_PS) == []
    assert set(word_of(said(rx, 2, is_whole=False)).rows) == set()
    rx.take(rx.packet(4, 0), now_ps=30)
    assert rx.due(30 + REORDER_PS) == [2]
    assert set(word_of(said(rx, 2, is_whole=False)).rows) == {2, 3}


def test_a_repair_of_an_earlier_block_begins_no_pass():
    rx = Receiver(n_blocks=20, n_bytes=20 * STRIDE * N_PSN)
    rx.take(rx.packet(3, 0), now_ps=10)
    rx.take(rx.packet(0, 0, flags=FLAG_REPAIR), rx.packet(5, 0), now_ps=20)
    assert rx.due(20 + REORDER_PS) == [0, 3]


@pytest.mark.parametrize("seed", range(8))
def test_the_next_report_is_due_exactly_when_it_is_said(seed):
    """Never earlier, or a node that waits for it would not wait at all."""
    rng = stream(seed, "tests/due")
    rx = Receiver(n_bytes=70 * 32, n_blocks=5)
    assert c.next_report(rx.state) == NEVER_PS
    now = 0
    for _ in range(40):
        now += int(rng.integers(1, 300))
        place = int(rng.integers(0, 6)), int(rng.integers(0, 4))
        rx.take(rx.packet(*place, flags=int(rng.integers(2))), now_ps=now)
        when = int(c.next_report(rx.state))
        assert rx.due(when - 1) == []
        rx.due(now)
        assert int(c.next_report(rx.state)) > now


def test_one_flow_cannot_have_two_geometries():
    rx = Receiver(is_known=False)
    rx.take(rx.packet(0, 0))
    rx.take(data(ONE, block=0, psn=1, n_psn=3, stride=STRIDE, payload=b"12345678", flags=2))
    assert rx.node.drops() == {"bad_fan": 1}


def test_no_more_are_due_than_there_is_room_for():
    rx = Receiver(n_blocks=5, n_bytes=5 * STRIDE * N_PSN)
    rx.take(*(rx.packet(b, 0) for b in range(5)), now_ps=10)
    out = np.zeros(2, np.int64)
    assert c.due_reports(rx.state, 10**6, AGAIN_PS, out) == 2
    assert c.due_reports(rx.state, 10**6, AGAIN_PS, out) == 1  # what found no room stays due
    assert c.due_reports(rx.state, 10**6, AGAIN_PS, out) == 0


def test_whole_blocks_are_never_due():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn, flags=1) for psn in range(4)))
    assert rx.due(10**9) == []


def test_a_block_remembers_the_latest_round():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn, round_=r) for psn, r in enumerate((2, 5, 3))))
    assert rx.row(0)["round"] == 5


# A receiver's word, straight from what it collects.


def said(rx, block, *, is_whole, mtu=9000):
    rx.node.row[0]["mtu"] = mtu
    own = build_fold(1, 1)
    (r,) = np.flatnonzero(
        (rx.state.blocks["state"] != c.FREE) & (rx.state.blocks["block"] == block)
    )
    psn, packets, out = 0, [], np.zeros(1 << 12, np.uint8)
    while psn < 64:
        coded = speak(
            rx.state, 1, block, WHOLE_ROW if is_whole else int(r), rx.node.row, 5, own, psn, out
        )
        size, psn = divmod(int(coded), 128)
        packets.append(out[:size].tobytes())
    return packets


def test_a_word_names_the_gaps_of_a_block_and_how_full_the_receiver_is():
    rx = Receiver(n_blocks=4)
    rx.node.row[0]["queue"], rx.node.row[0]["bfr_id"] = 33, 6
    rx.take(rx.packet(0, 0), rx.packet(0, 2, round_=3, flags=1))
    packets = said(rx, 0, is_whole=False)
    assert word_of(packets) == naive.Word(
        BIFT_ID,
        N_PSN,
        heard=1 << 5,
        done=0,
        rows={1: 1 << 5, 3: 1 << 5},
        round=3,
        queue=33,
        room=3 * 255 // 4,
        worst=6,
        behind=0,
    )
    parsed = parse(packets[0])
    assert (parsed.message.flow, parsed.message.block, parsed.header.bfir_id) == (7, 0, BFIR)
    assert (parsed.inner.dst, parsed.inner.dport) == (BFIR_ADDR, FLOW_PORT)


def test_a_word_goes_on_in_a_further_packet_where_it_does_not_fit():
    rx = Receiver()
    rx.take(rx.packet(0, 0, flags=1))
    packets = said(rx, 0, is_whole=False, mtu=28 + 88 + 2 * 12)
    assert [len(parse(p).message.rows) for p in packets] == [2, 1]
    assert word_of(packets).rows == dict.fromkeys((1, 2, 3), 1 << 5)


@pytest.mark.parametrize("block", [0, 3])
def test_a_word_on_a_whole_block(block):
    rx = Receiver(100)
    rx.take(*(rx.packet(block, psn) for psn in range(rx.psns(block))))
    word = word_of(said(rx, block, is_whole=True))
    assert (word.n_psn, word.done, word.rows, word.round) == (rx.psns(block), 1 << 5, {}, 255)


def test_a_word_tells_how_far_back_the_oldest_gap_is():
    rx = Receiver(n_bytes=70 * 32, n_blocks=2)
    rx.take(rx.packet(60, 0))
    have = rx.state.have[10:80]
    assert word_of(said(rx, 60, is_whole=False)).behind == 60
    have[[0, 1, 2, 4]] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 57
    have[:60] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 0
    have[:70] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 0


@pytest.mark.parametrize("n_at_once", [1, 2])
def test_two_flows_with_the_same_block_numbers_never_mix(n_at_once):
    """Also where packets of both come in one pass, so that the last row is a hint."""
    rx = Receiver(n_blocks=6)
    other = rx.state.follow[0]
    other["used"], other["bfir_id"], other["flow"], other["newest"] = 1, BFIR, 8, -1
    other["map_at"], other["map_len"] = 0, 10
    flipped = bytes(b ^ 0xFF for b in rx.object)
    packets = []
    for psn in range(N_PSN):
        packets.append(rx.packet(0, psn))
        at = psn * STRIDE
        packets.append(rx.packet(0, psn, flow=8, payload=flipped[at : at + STRIDE]))
    for i in range(0, len(packets), n_at_once):
        rx.node.forward(packets[i : i + n_at_once])
        rx.collect_pass()
    got = {int(rx.state.blocks[r]["follow"]): rx.block_of(r) for _, r, _ in rx.events()}
    n = N_PSN * STRIDE
    assert got == {1: rx.object[:n], 0: flipped[:n]}
    assert rx.node.drops() == {}


def test_the_last_block_of_a_map_is_taken_and_the_one_after_it_refused():
    rx = Receiver(is_known=False)
    map_len = int(rx.state.follow[1]["map_len"])
    rx.take(data(ONE, block=map_len - 1, stride=STRIDE))
    assert rx.node.drops() == {}
    rx.take(data(ONE, block=map_len, stride=STRIDE))
    assert rx.node.drops() == {"bad_fan": 1}
    assert int(rx.state.follow[1]["newest"]) == map_len - 1
