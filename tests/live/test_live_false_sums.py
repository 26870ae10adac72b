"""Sums that ranks check: a BFR that adds wrongly is found by every rank at once.

The BFR is a real one, in a thread of the test; beside it another thread changes a word of what
it has joined so far, as a broken processor or somebody who owns it would.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from live_group import BLOCK, Group, values
from live_site import LiveLab, Site

from fanfold.api.labs import pick_fabric
from fanfold.group.communicator import GroupError, Op
from fanfold.kernels.absorb import fold_at
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.reduce import OP_SUM
from fanfold.kernels.vat import OPEN
from fanfold.live.host import Host
from fanfold.live.ports import Limits
from fanfold.live.warm import warm
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

HOSTS = ["h1", "h2", "h3"]
SECRET = b"of all ranks, and of no BFR"
N = 256 * BLOCK
KINDS = ("float32", "float64", "float16", "int32", "int64")


class Liar:
    """One BFR; while it lies it changes a word of each sum that is not complete yet."""

    def __init__(self, folder: Path) -> None:
        self.fabric = pick_fabric("liar", 1, 0, 3, 9000)
        self.host = Host(
            self.fabric, "leaf1", Limits(), None, folder / "leaf1.sock", has_rings=False
        )
        self.is_over = self.lies = False
        self.n_lies = 0
        self.threads = [threading.Thread(target=run) for run in (self.run, self.spoil)]
        for thread in self.threads:
            thread.start()

    def run(self) -> None:
        self.host.event_loop.run(lambda: self.is_over)

    def spoil(self) -> None:
        while not self.is_over:
            if self.lies:
                self.lie()
            time.sleep(0.0002)

    def lie(self) -> None:
        vats = self.host.event_loop.node.vats
        fan = fold_at(self.fabric.bitstring_bits // 64)
        for slot in np.flatnonzero(vats.slots["state"] == OPEN):
            row = vats.slots[slot]
            is_sum = vats.room[slot, fan + 3] >> 4 == OP_SUM
            if is_sum and row["n_bytes"] > 64:
                vats.room[slot, fan + FOLD_BYTES + row["n_codes"] + 8] += 1
                self.n_lies += 1

    def end(self) -> None:
        self.is_over = True
        self.host.event_loop.wake()
        for thread in self.threads:
            thread.join()
        self.host.close()


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    warm()  # not in two threads at once
    made = Liar(tmp_path_factory.mktemp("liar"))
    yield made
    made.end()


def add(group: Group, kind: str = "int32", n: int = N) -> list[np.ndarray]:
    mine = [values(kind, n, r) for r in range(len(HOSTS))]
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    return mine


def test_a_bfr_that_adds_wrongly_is_found_by_every_rank_within_a_second(liar: Liar) -> None:
    group = Group(liar.fabric, HOSTS, secret=SECRET)
    try:
        want = sum(values("int32", N, r) for r in range(len(HOSTS)))
        assert all((a == want).all() for a in add(group))
        mine = [values("int32", N, r) for r in range(len(HOSTS))]
        began, liar.lies = time.monotonic(), True
        errors = group.errors(lambda c: c.all_reduce(mine[c.rank]))
        assert time.monotonic() - began < 1.0
        assert liar.n_lies > 0
        assert [e.ranks for e in errors] == [(0,), (1,), (2,)]
        assert all("false sum" in str(e) for e in errors)
    finally:
        liar.lies = False
        group.close()


def test_without_check_words_nobody_sees_it(liar: Liar) -> None:
    group = Group(liar.fabric, HOSTS)
    try:
        add(group, n=3)
        want = sum(values("int32", N, r) for r in range(len(HOSTS)))
        liar.lies = True
        got = add(group)
        assert liar.n_lies > 0
        assert any((a != want).any() for a in got)
    finally:
        liar.lies = False
        group.close()


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "checked", "--leaves", 2, "--spines", 1, "--hosts", 3)
    yield made
    made.down()


def test_checked_sums_of_every_kind_are_those_of_unchecked_ones(lab: LiveLab) -> None:
    fabric = load_fabric(lab.folder / "fabric.toml")
    plain, checked = Group(fabric, HOSTS), Group(fabric, HOSTS, secret=SECRET)
    try:
        for kind in KINDS:
            for n in (1, BLOCK, 5 * BLOCK + 3):
                one, other = add(plain, kind, n), add(checked, kind, n)
                assert [a.tobytes() for a in one] == [a.tobytes() for a in other]
        for op in (Op.MAX, Op.AVG):
            mine = [values("float32", BLOCK, r) for r in range(len(HOSTS))]
            also = [a.copy() for a in mine]
            plain.each(lambda c, op=op, mine=mine: c.all_reduce(mine[c.rank], op))
            checked.each(lambda c, op=op, also=also: c.all_reduce(also[c.rank], op))
            assert [a.tobytes() for a in mine] == [a.tobytes() for a in also]
        large = [np.full(BLOCK, 2**30, np.int32) for _ in HOSTS]
        for error in checked.errors(lambda c: c.all_reduce(large[c.rank])):
            assert "outgrew its words" in str(error)
    finally:
        plain.close()
        checked.close()


def test_ranks_with_other_secrets_take_no_sum(lab: LiveLab) -> None:
    fabric = load_fabric(lab.folder / "fabric.toml")
    group = Group(fabric, HOSTS, secret=SECRET)
    try:
        state = group.ranks[1].end.state
        state.check.coeffs[0, 0] ^= np.uint64(1)
        mine = [np.ones(BLOCK, np.int32) for _ in HOSTS]
        with pytest.raises(GroupError, match="false sum"):
            group.each(lambda c: c.all_reduce(mine[c.rank]))
    finally:
        group.close()
