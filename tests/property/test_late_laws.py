"""Laws of blocks that end without late ranks: one result for each block, of whom it says."""

from random import Random

import numpy as np
import pytest
from kernel_nodes import three_levels
from vat_nodes import VatFabric, figure_one, message, said, sealed

from fanfold.kernels.absorb import fold_at
from fanfold.topo.fabric import Fabric
from fanfold.wire import bitstring as bs
from fanfold.wire.fold import Fold, FoldFlag, FoldWhat
from fanfold.wire.packet import parse

N_SLOTS = 4
WINDOW = N_SLOTS // 2
N_BLOCKS = 12
STEP_PS = 2_000_000_000
PATIENCE_MS = 30

Result = tuple[tuple[int, ...], int, int]
"""Words, arrays inside, P-BM."""


def result_of(packet: bytes, everyone: int) -> Result:
    found = parse(packet)
    fold = found.message
    assert isinstance(fold, Fold)
    words, inside = found.payload, everyone
    if fold.flags & FoldFlag.PARTIAL:
        words, inside = words[:-8], bs.from_bytes(words[-8:])
    return tuple(np.frombuffer(words, "<i4").tolist()), fold.n_merged, inside


class Rank:
    """A rank that may sleep: its words, what it has, and whether it was left behind."""

    def __init__(self, name: str, index: int, random: Random) -> None:
        self.name, self.bit = name, 1 << index
        self.words = [random.randrange(-(2**20), 2**20) for _ in range(N_BLOCKS)]
        self.is_out = [random.random() < 0.1 for _ in range(N_BLOCKS)]
        self.next, self.have = 0, {}
        self.is_armed = self.is_gone = False
        self.wakes_ps = 0

    def array(self, block: int, flags: int = 0) -> bytes:
        words = [] if self.is_out[block] else [self.words[block]]
        if not words:
            flags |= FoldFlag.OUT
        n_merged = len(words)
        packet = message(self.bit, words, block=block, flags=flags, n_merged=n_merged)
        fan = fold_at(1)
        patient = bytearray(packet)
        patient[fan + 22 : fan + 24] = PATIENCE_MS.to_bytes(2)
        return sealed(bytes(patient))

    def work(self, net: VatFabric, results: dict[int, Result], everyone: int, now: int) -> None:
        inbox, net.inbox[self.name] = net.inbox[self.name], []
        for packet in inbox:
            told = said(packet)
            self.is_armed = True
            if told.what == FoldWhat.ARRAY:
                found = result_of(packet, everyone)
                assert results.setdefault(told.block, found) == found, "two results of a block"
                if told.block < self.next:
                    self.have[told.block] = found
            elif told.what == FoldWhat.HEARD:
                self.hear(net, told.block, told.words[0], told.flags, now)
        while self.is_armed and self.next < N_BLOCKS:
            if self.next >= WINDOW and self.next - WINDOW not in self.have:
                break
            net.send(self.name, self.array(self.next), now)
            self.next += 1

    def hear(self, net: VatFabric, block: int, heard: int, flags: int, now: int) -> None:
        if block >= self.next or block in self.have:
            return
        if flags & FoldFlag.OUT:
            self.is_gone = True
        elif not heard & self.bit:
            net.send(self.name, self.array(block, FoldFlag.RETRY), now)

    def ask(self, net: VatFabric, now: int) -> None:
        for block in range(self.next):
            if block not in self.have:
                what = message(self.bit, what=FoldWhat.REQUEST, block=block, n_merged=0)
                net.send(self.name, what, now)

    @property
    def is_over(self) -> bool:
        return self.is_gone or len(self.have) == N_BLOCKS


class World:
    """Four ranks of a fabric that loses and repeats for a while; some fall asleep."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        self.random, self.is_stormy, self.now = Random(seed), True, 0
        self.net = VatFabric(fabric, self._befall)
        prefix = "w" if "w1" in fabric.by_name else "h"
        ids = self.random.sample(range(1, 9), 4)
        self.ranks = [Rank(f"{prefix}{i}", i - 1, self.random) for i in ids]
        self.ranks[0].is_out = [False] * N_BLOCKS  # somebody is inside
        self.everyone = sum(rank.bit for rank in self.ranks)
        self.arm = message(
            self.everyone, what=FoldWhat.ARM, n_slots=N_SLOTS, root_level=seed % 3, armer=ids[0]
        )
        self.results: dict[int, Result] = {}

    def _befall(self, src: str, dst: str, packet: bytes) -> list[bytes]:
        chance = self.random.random() if self.is_stormy else 1.0
        return [] if chance < 0.1 else [packet, packet] if chance < 0.2 else [packet]

    def turn(self, n: int) -> None:
        self.now += STEP_PS
        self.is_stormy = n < 300
        if n % 40 == 0:
            self.net.send(self.ranks[0].name, self.arm, self.now)
        rank = self.random.choice(self.ranks)
        if self.is_stormy and self.random.random() < 0.02:
            rank.wakes_ps = self.now + self.random.randrange(4 * PATIENCE_MS) * 10**9
        if rank.wakes_ps <= self.now and not rank.is_gone:
            rank.work(self.net, self.results, self.everyone, self.now)
            if self.random.random() < 0.3:
                rank.ask(self.net, self.now)
        if self.random.random() < 0.5:
            self.net.flush(self.random.choice(list(self.net.nodes)), self.now)

    def check(self) -> None:
        for block, (words, n_merged, inside) in self.results.items():
            there = [rank for rank in self.ranks if rank.bit & inside]
            assert words == (sum(rank.words[block] for rank in there),), "not what it says"
            assert n_merged == len(there) == inside.bit_count() > 0
            assert not any(rank.is_out[block] for rank in there)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [figure_one, three_levels], ids=["figure_one", "three_levels"])
def test_a_block_has_one_result_and_says_whose_arrays_are_inside(
    seed: int, make: object
) -> None:
    fabric = make()  # type: ignore[operator]
    assert isinstance(fabric, Fabric)
    world = World(fabric, seed)
    for n in range(3000):
        world.turn(n)
        if all(rank.is_over for rank in world.ranks):
            break
    world.check()
    alive = [rank for rank in world.ranks if not rank.is_gone]
    assert alive
    if world.ranks[0] in alive:
        assert all(rank.is_over for rank in alive), f"no progress after the storm, {seed}"
        assert sorted(world.results) == list(range(N_BLOCKS))
