import itertools

import naive
import numpy as np
import pytest

from fanfold.core.effects import DropReason
from fanfold.kernels.codes import N_DROPS
from fanfold.kernels.impairment import build_impairments, draw, impair, release
from fanfold.kernels.jit import JIT
from fanfold.kernels.slots import NEVER_PS
from fanfold.streams import stream

SEG = 40
ALWAYS = 2**32
N = 20_000 if JIT else 4_000


def chance(parts: float) -> int:
    return round(parts * 2**32)


def packet(i: int, size: int = SEG) -> bytes:
    return i.to_bytes(4, "big") + bytes(size - 4)


def number(octets: bytes) -> int:
    return int.from_bytes(octets[:4], "big")


class Link:
    """Packets into a port that has impairments; what comes out at once, and later."""

    def __init__(self, seed=1, n_held=64, n_bytes=200, **impairments):
        self.impairments = build_impairments(3, n_held, n_bytes)
        for port in (1, 2):
            row = self.impairments.ports[port]
            row["rng"] = np.uint64(seed)
            for name, value in impairments.items():
                row[name] = value
        self.drops = np.zeros(N_DROPS, np.int64)
        self.found = np.zeros(3, np.int64)

    def give(self, packets, now_ps=0, port=1, came_ps=None):
        """came_ps: when they came, now where nothing is said."""
        came_ps = now_ps if came_ps is None else came_ps
        block = np.array([*b"".join(packets)], np.uint8)
        seg = len(packets[0])
        n = impair(block, len(block), seg, port, now_ps, self.impairments, self.drops, came_ps)
        return [block[at : at + seg][: n - at].tobytes() for at in range(0, n, seg)]

    def later(self, now_ps):
        """All packets due, by call: (port, packets)."""
        out, buf = [], np.zeros(1 << 17, np.uint8)
        while True:
            n = release(buf, now_ps, self.impairments, self.found)
            if n == 0:
                return out
            size = int(self.found[1])
            out.append(
                (
                    int(self.found[0]),
                    [buf[at : at + size].tobytes() for at in range(0, n, size)],
                )
            )

    def dropped(self):
        names = zip(DropReason, self.drops.tolist(), strict=True)
        return {reason.value: n for reason, n in names if n}


def blocks(n, per=16):
    numbers = iter(range(n))
    while some := list(itertools.islice(numbers, per)):
        yield [packet(i) for i in some]


def test_without_mishaps_nothing_changes():
    link = Link()
    for block in blocks(64):
        assert link.give(block) == block
    assert (link.dropped(), link.later(10**12)) == ({}, [])
    assert int(link.impairments.ports[1]["rng"]) == 1  # nothing was drawn


def test_random_words_are_those_of_splitmix64():
    for seed in (0, 1, 2**64 - 1, 0x9E3779B97F4A7C15):
        link = Link(seed)
        row = link.impairments.ports[1]
        assert [int(draw(row)) for _ in range(20)] == naive.split_mix(seed, 20)


@pytest.mark.parametrize("parts", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["drop", "duplicate", "corrupt", "reorder"])
def test_mishaps_are_as_frequent_as_asked(kind, parts):
    """Within five standard deviations."""
    link = Link(seed=7, n_held=16, **{kind: chance(parts), "reorder_ps": 5})
    n_hit = 0
    for block in blocks(N):
        left = link.give(block)
        n_later = sum(len(packets) for _, packets in link.later(10**12))
        hit = {
            "drop": len(block) - len(left),
            "duplicate": n_later,
            "reorder": n_later,
            "corrupt": sum(a != b for a, b in zip(block, left, strict=False)),
        }
        n_hit += hit[kind]
    deviation = (N * parts * (1 - parts)) ** 0.5
    assert abs(n_hit - N * parts) <= 5 * deviation
    assert link.dropped() == ({"impaired": n_hit} if kind == "drop" else {})


@pytest.mark.parametrize("kind", ["drop", "corrupt"])
def test_a_seed_says_what_happens(kind):
    def run(seed):
        link = Link(seed, **{kind: chance(0.2)})
        return [link.give(block) for block in blocks(200)]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_ports_do_not_disturb_one_another():
    alone, both = Link(3, drop=chance(0.3)), Link(3, drop=chance(0.3))
    both.impairments.ports[2]["rng"] = np.uint64(99)
    for block in blocks(320):
        both.give(block, port=2)
        assert alone.give(block) == both.give(block)


def test_always_is_always():
    link = Link(drop=ALWAYS)
    assert [link.give(block) for block in blocks(64)] == [[]] * 4
    assert link.dropped() == {"impaired": 64}


def test_corruption_turns_one_bit_of_one_packet():
    link = Link(corrupt=ALWAYS)
    seen = set()
    for block in blocks(N // 10):
        for before, after in zip(block, link.give(block), strict=True):
            turned = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
            assert naive.n_bits(turned) == 1
            seen.add(turned.bit_length())
    assert len(seen) > 0.9 * min(8 * SEG, N // 10 // 2)


def test_a_short_last_packet_keeps_its_length():
    for kind in ({}, {"drop": chance(0.5)}, {"corrupt": ALWAYS}):
        link = Link(**kind)
        for _ in range(20):
            left = link.give([packet(1), packet(2), packet(3, 9)])
            assert all(len(p) == (9 if number(p) == 3 or len(p) < SEG else SEG) for p in left)
    link = Link(delay_ps=5)
    link.give([packet(1), packet(2), packet(3, 9)])
    assert sorted(len(p) for _, packets in link.later(5) for p in packets) == [9, SEG, SEG]


def test_held_packets_all_come_out_exactly_once():
    link = Link(seed=4, n_held=256, duplicate=chance(0.3), reorder=chance(0.3), delay_ps=50)
    link.impairments.ports[1]["reorder_ps"] = 300
    now, out = 0, []
    for block in blocks(640):
        now += 40
        out += link.give(block, now)
        out += [p for _, packets in link.later(now) for p in packets]
    held = int(link.impairments.n_held[0])
    assert held == int(link.impairments.held["used"].sum()) > 0
    out += [p for _, packets in link.later(10**6) for p in packets]
    assert link.impairments.n_held[0] == 0
    counts = [sum(number(p) == i for p in out) for i in range(640)]
    assert set(counts) == {1, 2}
    assert 0.2 < counts.count(2) / 640 < 0.4
    assert link.dropped() == {}


def test_what_cannot_be_held_is_counted():
    link = Link(n_held=10, delay_ps=5)
    assert link.give([packet(i) for i in range(16)]) == []
    assert link.dropped() == {"held_full": 6}
    assert [number(p) for _, packets in link.later(5) for p in packets] == [*range(10)]
    assert link.give([packet(1, 201)]) == []
    assert link.dropped() == {"held_full": 7}  # larger than a place


def test_delay_keeps_the_order():
    link = Link(n_held=64, delay_ps=100)
    rng = stream(1, "tests/delay")
    out, now = [], 0
    for block in blocks(700, per=7):
        now += 30
        assert link.give(block, now) == []
        if rng.integers(0, 3) == 0:  # the node looks now and then
            out += [number(p) for _, packets in link.later(now) for p in packets]
    out += [number(p) for _, packets in link.later(now + 100) for p in packets]
    assert out == sorted(out)
    assert len(out) + sum(link.drops) == 700


def test_delay_is_as_long_as_asked():
    link = Link(delay_ps=100)
    link.give([packet(1)], now_ps=50)
    assert link.later(149) == []
    assert link.found[2] == 150
    assert len(link.later(150)) == 1
    assert link.found[2] == NEVER_PS


def test_reordered_packets_are_overtaken():
    link = Link(seed=2, reorder=chance(0.2), reorder_ps=5)
    order = []
    for now, block in enumerate(blocks(320)):
        order += [number(p) for p in link.give(block, 10 * now)]
        order += [number(p) for _, packets in link.later(10 * now + 5) for p in packets]
    assert sorted(order) == [*range(320)]
    assert order != sorted(order)


def test_a_block_that_comes_out_has_one_port_and_one_size():
    link = Link(delay_ps=5)
    link.give([packet(1), packet(2)])
    link.give([packet(3)], port=2)
    link.give([packet(4, 60)])
    link.give([packet(5)])
    out = link.later(5)
    assert sorted((port, [number(p) for p in packets]) for port, packets in out) == [
        (1, [1, 2, 5]),
        (1, [4]),
        (2, [3]),
    ]


SECOND = 10**12


def through(link, now_ps):
    """Numbers of the packets that are due, in order."""
    return [number(p) for _, packets in link.later(now_ps) for p in packets]


def test_a_limited_link_is_a_queue_by_departure_times():
    """40 bytes at 320 bit/s take one second: packet i leaves at second i + 1."""
    link = Link(rate_bps=320, queue_ps=3 * SECOND)
    assert link.give([packet(i) for i in range(4)]) == []
    assert through(link, SECOND - 1) == []
    assert through(link, SECOND) == [0]
    assert through(link, 3 * SECOND) == [1, 2]
    assert through(link, 4 * SECOND - 1) == []
    assert through(link, 4 * SECOND) == [3]
    assert link.dropped() == {}


def test_the_queue_of_a_limited_link_is_bounded_and_drops_the_newest():
    """What waits is three seconds at most: one on the line and three behind it."""
    link = Link(rate_bps=320, queue_ps=3 * SECOND)
    link.give([packet(i) for i in range(16)])
    assert through(link, 100 * SECOND) == [0, 1, 2, 3]
    assert link.dropped() == {"rate_full": 12}
    link.give([packet(99)], now_ps=101 * SECOND)
    assert through(link, 102 * SECOND - 1) == []
    assert through(link, 102 * SECOND) == [99]  # an idle link saves nothing up


def test_a_limited_link_holds_its_rate_whatever_is_offered():
    """1.5 times what it carries, for 200 s, looked at now and then."""
    link = Link(rate_bps=320, queue_ps=5 * SECOND, n_held=64)
    rng = stream(1, "tests/rate")
    out, now = [], 0
    for i in range(300):
        now = i * 2 * SECOND // 3
        link.give([packet(i)], now)
        if rng.integers(0, 3) == 0:
            out += through(link, now)
    n_by_then = len(out + through(link, now))
    assert abs(n_by_then - now / SECOND) <= 0.02 * now / SECOND
    assert out == sorted(out)
    assert link.dropped() == {"rate_full": 300 - 200 - 5}


@pytest.mark.parametrize("pause_s", [1, 4, 50])
def test_a_pause_of_the_process_costs_a_limited_link_nothing(pause_s):
    """Packets that came meanwhile, no faster than the link, are as far as it brought them."""
    link = Link(rate_bps=320, queue_ps=2 * SECOND, n_held=64)
    now = pause_s * SECOND
    at_once = [link.give([packet(i)], now, came_ps=i * SECOND) for i in range(pause_s)]
    assert [number(p) for some in at_once for p in some] == [*range(pause_s)]
    link.give([packet(77)], now)
    assert through(link, now + SECOND - 1) == []
    assert through(link, now + SECOND) == [77]
    assert link.dropped() == {}


def test_a_limited_link_with_delay_has_both():
    link = Link(rate_bps=320, queue_ps=9 * SECOND, delay_ps=5 * SECOND)
    link.give([packet(0), packet(1)])
    assert through(link, 6 * SECOND - 1) == []
    assert through(link, 6 * SECOND) == [0]
    assert through(link, 7 * SECOND) == [1]


@pytest.mark.parametrize("size", [32_700, 32_701, 65_400, 65_401, 65_507])
def test_held_packets_of_any_size_come_out(size):
    link = Link(n_held=3, n_bytes=65_507, delay_ps=5)
    sent = [packet(i, size) for i in range(3)]
    for one in sent:
        assert link.give([one]) == []
    calls = link.later(5)
    assert [one for _, some in calls for one in some] == sent
    assert max(len(some) for _, some in calls) == (2 if size == 32_700 else 1)
    assert int(link.impairments.n_held[0]) == 0
