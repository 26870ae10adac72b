"""Laws of joined arrays: kernels against a slow twin, and a fabric that loses and repeats."""

from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from kernel_nodes import three_levels
from vat_nodes import GROUP, VatFabric, VatNode, figure_one, message, said

from fanfold.kernels import vat as v
from fanfold.kernels.jit import JIT
from fanfold.topo.fabric import Fabric
from fanfold.wire.fold import Fold, FoldFlag, FoldWhat
from fanfold.wire.packet import parse

N_SLOTS = 4
WINDOW = N_SLOTS // 2
STEP_PS = 2_000_000_000
"""Between two acts; an array may be sent again after less."""


class Slot:
    """A slot of the slow twin: arrays by who is inside."""

    def __init__(self, block: int) -> None:
        self.block, self.is_done = block, False
        self.heard: set[int] = set()
        self.flushed: set[int] = set()
        self.total = 0


class SlowVat:
    """One row of a BFR in Python's own integers and sets; arrays have one word."""

    def __init__(self, a_bm: set[int], *, is_root: bool) -> None:
        self.a_bm, self.is_root = a_bm, is_root
        self.slots: dict[int, Slot] = {}

    def take(self, bits: set[int], word: int, block: int, *, retry: bool) -> list[object]:
        """What is sent: (kind, ranks, sum)."""
        if not bits & self.a_bm:
            return [] if self.is_root else [("pass", bits, word)]
        slot = self.slots.get(block % N_SLOTS)
        if slot is None or slot.block < block:
            slot = self.slots[block % N_SLOTS] = Slot(block)
        if slot.block > block or not bits <= self.a_bm:
            return []
        if bits & (slot.heard | slot.flushed):
            return self._again(slot, bits, word, retry=retry)
        slot.heard |= bits
        slot.total += word
        if slot.heard | slot.flushed != self.a_bm:
            return []
        slot.is_done = True
        return [("result" if self.is_root else "up", slot.heard, slot.total)]

    def _again(self, slot: Slot, bits: set[int], word: int, *, retry: bool) -> list[object]:
        if not retry:
            return []
        if bits <= slot.flushed:
            return [] if self.is_root else [("pass", bits, word)]
        if not bits <= slot.heard or not slot.is_done:
            return []
        return [
            ("result", bits, slot.total) if self.is_root else ("up", slot.heard, slot.total)
        ]

    def flush(self) -> list[object]:
        """Deadlines of all slots."""
        out: list[object] = []
        for _, slot in sorted(self.slots.items()):
            if slot.heard and not slot.is_done and not self.is_root:
                out.append(("up", slot.heard, slot.total))
                slot.flushed |= slot.heard
                slot.heard, slot.total = set(), 0
        return out


def ranks_of(bits: int) -> set[int]:
    return {i for i in range(64) if bits >> i & 1}


def told(found: list[tuple[int, bytes]], *, is_root: bool) -> list[object]:
    """What a kernel node sent, in the twin's words; copies of one result as one."""
    packets = [packet for _, packet in found]
    if is_root and packets:
        bits = [parse(packet).header.bitstring for packet in packets]
        (total,) = {said(packet).words[0] for packet in packets}
        return [("result", ranks_of(sum(bits)), total)]
    return [
        (
            "pass" if parse(p).header.ttl == 63 else "up",
            ranks_of(said(p).bits),
            said(p).words[0],
        )
        for p in packets
    ]


@pytest.mark.parametrize("is_root", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_node_does_what_its_slow_twin_does(seed: int, *, is_root: bool) -> None:
    random = Random(seed)
    node = VatNode(figure_one(), "s1" if not is_root else "s6", is_checked=False)
    a_bm = 0b1111
    node.arm(0 if is_root else 1, a_bm, is_root=is_root, n_slots=N_SLOTS)
    twin = SlowVat(ranks_of(a_bm), is_root=is_root)
    now = 0
    for _ in range(300):
        now += STEP_PS
        if random.random() < 0.03 and not is_root:
            now += v.WAIT_PS
            assert told(node.flush(now), is_root=False) == twin.flush()
            continue
        bits = random.choice([1, 2, 4, 8, 3, 12, 6, 16, 9])
        block = max(0, now // STEP_PS // 8 % 500 + random.randrange(-2, 2))
        word, retry = random.randrange(1000), random.random() < 0.3
        flags = FoldFlag.RETRY if retry else 0
        packet = message(bits, [word], block=block, flags=flags, n_merged=99)
        got = told(node.take(packet, 2, now), is_root=is_root)
        assert got == twin.take(ranks_of(bits), word, block, retry=retry), (block, bits)


class Rank:
    """A rank of the law: its own words, what it has, and the protocol in a few lines."""

    def __init__(self, name: str, index: int, words: list[int]) -> None:
        self.name, self.bit, self.words = name, 1 << index, words
        self.next, self.have = 0, {}
        self.asked = 0
        self.is_armed = False

    def send(self, net: VatFabric, now: int) -> None:
        while self.next < len(self.words) and (
            self.next < WINDOW or self.next - WINDOW in self.have
        ):
            net.send(self.name, self.array(self.next), now)
            self.next += 1

    def array(self, block: int, flags: int = 0) -> bytes:
        return message(self.bit, [self.words[block]], block=block, flags=flags)

    def ask(self, net: VatFabric, now: int) -> None:
        for block in range(self.next):
            if block not in self.have:
                what = message(self.bit, what=FoldWhat.REQUEST, block=block, n_merged=0)
                net.send(self.name, what, now)

    def hear(self, net: VatFabric, sums: list[int], now: int) -> None:
        inbox, net.inbox[self.name] = net.inbox[self.name], []
        for packet in inbox:
            what = said(packet)
            self.is_armed = True
            if what.what == FoldWhat.ARRAY:
                assert what.words == (sums[what.block],), "a rank counts twice, or not at all"
                assert what.n_merged == net.n_ranks  # type: ignore[attr-defined]
                self.have[what.block] = what.words
            elif what.what == FoldWhat.HEARD and self.is_lacking(what.block, what.words[0]):
                net.send(self.name, self.array(what.block, FoldFlag.RETRY), now)

    def is_lacking(self, block: int, heard: int) -> bool:
        return block < self.next and block not in self.have and not heard & self.bit


class Storm(NamedTuple):
    """What befalls packets until it ends."""

    random: Random
    held: list[bytes]
    state: dict[str, bool]

    def befall(self, src: str, dst: str, packet: bytes) -> list[bytes]:
        if not self.state["on"]:
            return [packet]
        chance = self.random.random()
        if chance < 0.15:
            return []
        if chance < 0.25:
            return [packet, packet]
        return [packet]


def ranks_at(fabric: Fabric, ids: list[int], random: Random) -> list[Rank]:
    """Ranks with words of their own at hosts of these BFR-ids."""
    prefix = "w" if "w1" in fabric.by_name else "h"
    return [
        Rank(f"{prefix}{i}", i - 1, [random.randrange(-(2**20), 2**20) for _ in range(8)])
        for i in ids
    ]


def sum_in_a_storm(fabric: Fabric, ranks: list[Rank], random: Random, root_level: int) -> None:
    """Let all ranks get all sums, in any order, whatever is lost, repeated or flushed."""
    storm = Storm(random, [], {"on": True})
    net = VatFabric(fabric, storm.befall)
    net.n_ranks = len(ranks)  # type: ignore[attr-defined]
    members = sum(r.bit for r in ranks)
    sums = [sum(r.words[b] for r in ranks) for b in range(8)]
    armer = ranks[0].bit.bit_length()
    arm = message(
        members, what=FoldWhat.ARM, n_slots=N_SLOTS, root_level=root_level, armer=armer
    )
    now = 0
    for turn in range(400):
        now += STEP_PS
        storm.state["on"] = turn < 60
        if turn % 40 == 0:
            net.send(ranks[0].name, arm, now)
        if random.random() < 0.02:
            now += v.WAIT_PS
        rank = random.choice(ranks)
        rank.hear(net, sums, now)
        if rank.is_armed:
            rank.send(net, now)
            if random.random() < 0.5:
                rank.ask(net, now)
        if random.random() < 0.05:
            net.flush(random.choice(list(net.nodes)), now)
        if all(len(r.have) == 8 for r in ranks):
            break
    assert [len(r.have) for r in ranks] == [8] * len(ranks), "no progress after the storm"
    assert all(node.said_by().get("unlike", 0) == 0 for node in net.nodes.values())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [figure_one, three_levels], ids=["figure_one", "three_levels"])
def test_sums_are_exact_whatever_is_lost_or_repeated(seed: int, make: object) -> None:
    fabric = make()  # type: ignore[operator]
    assert isinstance(fabric, Fabric)
    random = Random(seed)
    ranks = ranks_at(fabric, random.sample(range(1, 9), 4), random)
    sum_in_a_storm(fabric, ranks, random, seed % 3)


def test_storms_leave_the_same_words() -> None:
    fabric, seen = figure_one(), set()
    for seed in range(50 if JIT else 10):
        ranks = ranks_at(fabric, [1, 2, 3, 6], Random(1))
        sum_in_a_storm(fabric, ranks, Random(seed), 1)
        seen |= {tuple(r.have[b] for b in range(8)) for r in ranks}
    assert len(seen) == 1


def test_a_bfr_that_starts_anew_is_armed_again_and_nothing_counts_twice() -> None:
    net = VatFabric(figure_one())
    arm = message(0b1111, what=FoldWhat.ARM, n_slots=N_SLOTS)
    net.send("w1", arm)
    for i in (3, 4):
        net.send(f"w{i}", message(1 << (i - 1), [i]))
    net.nodes["s2"].vats = v.build_vats(8, 64, 1, 8972)
    net.send("w1", message(1, [1]))
    net.send("w3", message(4, what=FoldWhat.REQUEST, n_merged=0))
    assert net.nodes["s2"].said_by() == {"unknown": 1}
    net.send("w1", arm)
    net.send("w3", message(4, [3], flags=FoldFlag.RETRY))
    net.send("w4", message(8, [4], flags=FoldFlag.RETRY))
    net.send("w2", message(2, [2]))
    results = [
        said(packet).words
        for i in range(1, 5)
        for packet in net.inbox[f"w{i}"]
        if said(packet).what == FoldWhat.ARRAY
    ]
    assert results == [(10,)] * 4


def test_fifty_shuffled_arrivals_leave_the_same_bytes() -> None:
    random = Random(11)
    words = {
        f"w{i}": [random.randrange(-(2**28), 2**28) for _ in range(16)] for i in range(1, 5)
    }
    seen = set()
    for _ in range(50):
        net = VatFabric(figure_one())
        net.send("w1", message(0b1111, what=FoldWhat.ARM, n_slots=N_SLOTS, root_level=1))
        names = [*words, *random.sample([*words], 2)]
        random.shuffle(names)
        for name in names:
            net.send(name, message(1 << (int(name[1]) - 1), words[name]))
        fold = parse(net.inbox["w1"][-1])
        assert isinstance(fold.message, Fold)
        assert fold.message.group == GROUP
        seen.add(fold.payload)
    assert seen == {np.sum([*words.values()], axis=0).astype("<i4").tobytes()}
