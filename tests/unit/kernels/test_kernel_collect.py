import naive
import numpy as np
import pytest
from collect_world import AGAIN_PS, N_PSN, ONE, REORDER_PS, STRIDE, Receiver
from kernel_nodes import (
    BFIR,
    BFIR_ADDR,
    BIFT_ID,
    FLOW_PORT,
    data,
    feedback,
)

from fanfold.kernels import collect as c
from fanfold.kernels import due
from fanfold.kernels.slots import NEVER_PS
from fanfold.streams import stream
from fanfold.wire.fan import DataFlag


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


def test_blocks_of_another_port_say_nothing_of_what_is_lost():
    """Planes go at paces of their own: only a later block of the same one has passed."""
    for port, is_told in ((1, True), (2, False)):
        rx = Receiver(200, n_blocks=8)
        rx.take(rx.packet(0, 0), rx.packet(0, 1), now_ps=10, port=1)
        rx.take(rx.packet(2, 0), now_ps=20, port=port)
        rows = np.zeros(8, np.int64)
        n = due.due_reports(rx.state, 20 + REORDER_PS, AGAIN_PS, rows)
        assert n == int(is_told)
        assert rx.row(0)["port"] == 1
        assert rx.row(2)["port"] == rx.state.follow[1]["port"] == port


def test_gaps_are_not_told_while_packets_of_a_repair_still_come():
    """Each packet of a repair asks; one that brings nothing new puts nothing off."""
    rx = Receiver(N_PSN * STRIDE, n_blocks=8)
    asks = {"flags": DataFlag.POLL | DataFlag.REPAIR}
    for psn, at in ((0, 10), (1, 10 + REORDER_PS)):
        rx.take(rx.packet(0, psn, **asks), now_ps=at)
        assert rx.due(at + REORDER_PS - 1) == []
    rx.take(rx.packet(0, 1, **asks), now_ps=9 + 2 * REORDER_PS)
    assert rx.due(10 + 2 * REORDER_PS) == [0]


def test_a_repair_of_what_is_here_is_answered_once_a_turn():
    rx = Receiver(N_PSN * STRIDE, n_blocks=8)
    whole = [rx.packet(0, psn) for psn in range(N_PSN)]
    rx.take(*whole)
    assert len(rx.events()) == 1
    asks = [rx.packet(0, psn, flags=DataFlag.POLL | DataFlag.REPAIR) for psn in range(N_PSN)]
    rx.take(*asks)
    ((kind, r, _),) = rx.events()
    assert kind == c.EVENT_WHOLE
    rx.keep(r)
    rx.take(*asks)
    assert rx.events() == [(c.EVENT_AGAIN, 1, 0)]
    rx.take(asks[0])
    assert len(rx.events()) == 1


LIES = [
    {"n_psn": 3},
    {"block": 40},
    {"block": 2},
    {"flags": 2, "n_psn": 1, "payload": b"1234"},
    {"stride": 4, "payload": b"1234"},
]


@pytest.mark.parametrize("lie", LIES, ids=["packets", "block", "end", "last", "stride"])
def test_geometry_of_a_damaged_packet_keeps_true_ones_out_for_a_while_only(lie):
    rx = Receiver(is_known=False, n_bytes=3 * 32 - 13)
    rx.take(
        data(ONE, **{"block": 0, "n_psn": N_PSN, "stride": STRIDE, "payload": b"?" * 8} | lie)
    )
    assert rx.node.drops() == {}
    true = [rx.packet(b, p) for b in range(3) for p in range(rx.psns(b))]
    whole = {}
    for _ in range(c.MOST_AGAINST):
        rx.take(*true)  # as repairs bring them again
        whole |= {b: rx.block_of(r) for kind, r, b in rx.events() if kind == c.EVENT_WHOLE}
    assert {0, 1, 2} <= whole.keys()
    assert b"".join(whole[b] for b in (1, 2)) == rx.object[32:]


def test_what_speaks_against_the_geometry_in_a_row_is_counted():
    rx = Receiver(is_known=False, n_bytes=3 * 32 - 13)
    rx.take(rx.packet(0, 0))
    wrong = rx.packet(0, 1, n_psn=3)
    rx.take(*[wrong] * (c.MOST_AGAINST - 1), rx.packet(0, 2), *[wrong] * (c.MOST_AGAINST - 1))
    assert rx.state.follow[1]["n_psn"] == N_PSN
    assert int(rx.row(0)["have"]) == 0b101
    rx.take(wrong)
    assert rx.state.follow[1]["n_psn"] == 0
    assert (rx.state.blocks["state"] == c.FREE).all()


def test_geometry_that_a_manifest_told_is_not_doubted():
    rx = Receiver()
    rx.state.follow[1]["is_told"] = 1
    rx.take(rx.packet(0, 0), *[rx.packet(0, 1, n_psn=3)] * 3 * c.MOST_AGAINST)
    assert rx.state.follow[1]["n_psn"] == N_PSN
    assert int(rx.row(0)["have"]) == 1
