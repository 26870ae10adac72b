"""Ranks that are late, and roots at hosts, through live BFRs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_site import LiveLab, Site

from fanfold.group.communicator import GroupError, Op
from fanfold.group.fabric import FabricCommunicator
from fanfold.group.rules import Inside
from fanfold.impair import Impairment
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.units import PPB_ONE, PS_PER_SECOND

pytestmark = [pytest.mark.live, pytest.mark.alone]

N = 4
HOSTS = [f"h{i + 1}" for i in range(N)]
WAIT_PS = 20 * PS_PER_SECOND
PATIENCE_PS = PS_PER_SECOND // 5
BLOCK = 2048
"""Float32 values in one packet."""
_groups = iter(range(0x57A60000, 0x57A70000))


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "late", "--leaves", 2, "--spines", 1, "--hosts", N)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


class Ranks:
    """All ranks of one group in this process."""

    def __init__(self, fabric: Fabric, **kwargs: Any) -> None:
        number = next(_groups)
        kwargs = {"timeout_ps": WAIT_PS, "patience_ps": PATIENCE_PS, **kwargs}
        self.all = [
            FabricCommunicator(fabric, HOSTS, r, group=number, **kwargs) for r in range(N)
        ]

    def begin(self, begin: Callable[[FabricCommunicator], Any], but: int = -1) -> list[Any]:
        return [begin(rank) for rank in self.all if rank.rank != but]

    def each(self, begin: Callable[[FabricCommunicator], Any], but: int = -1) -> list[Inside]:
        return [work.inside() for work in self.begin(begin, but)]

    def close(self) -> None:
        with ThreadPoolExecutor(N) as pool:
            list(pool.map(lambda rank: rank.close(), self.all))


@pytest.fixture
def ranks(fabric: Fabric, request: pytest.FixtureRequest) -> Iterator[Ranks]:
    made = Ranks(fabric, **request.param)
    yield made
    made.close()


def rolled(n: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(-1000, 1000, n).astype(np.int64) for _ in range(N)]


@pytest.mark.parametrize("ranks", [{"stragglers": "partial"}], indirect=True)
def test_without_a_late_rank_all_get_the_rest_and_it_gets_it_too(ranks: Ranks) -> None:
    every = rolled(3 * BLOCK + 5, 1)
    mine = [a.copy() for a in every]
    assert ranks.each(lambda c: c.all_reduce(mine[c.rank])) == [Inside(N)] * N
    mine = [a.copy() for a in every]
    found = ranks.each(lambda c: c.all_reduce(mine[c.rank]), but=2)
    late = ranks.all[2].all_reduce(mine[2])
    inside = late.inside()
    n_blocks = -(-every[0].nbytes // ranks.all[0].end.block_bytes)
    assert found == [Inside(3, (2,), n_blocks)] * 3
    assert inside == found[0]
    assert len({a.tobytes() for a in mine}) == 1
    np.testing.assert_array_equal(mine[0], every[0] + every[1] + every[3])
    mine = [a.copy() for a in every]
    assert ranks.each(lambda c: c.all_reduce(mine[c.rank])) == [Inside(N)] * N
    np.testing.assert_array_equal(mine[1], np.sum(every, 0))


@pytest.mark.parametrize("ranks", [{"stragglers": "partial"}], indirect=True)
def test_a_mean_is_that_of_the_arrays_inside(ranks: Ranks) -> None:
    random = np.random.default_rng(2)
    floats = [random.standard_normal(5 * BLOCK).astype(np.float32) for _ in range(N)]
    floats[1] *= 1000  # the late one does not fit the exponent of the others
    floats[1][7] = np.inf
    floats[3][9] = np.inf
    mine = [a.copy() for a in floats]
    found = ranks.each(lambda c: c.all_reduce(mine[c.rank], Op.AVG), but=1)
    assert ranks.all[1].all_reduce(mine[1], Op.AVG).inside() == found[0]
    assert {(f.least, f.missing) for f in found} == {(3, (1,))}
    assert len({a.tobytes() for a in mine}) == 1
    want = np.mean([np.float64(floats[r]) for r in (0, 2, 3)], 0)
    assert np.isposinf(mine[0][9])
    np.testing.assert_allclose(mine[0], want, rtol=0, atol=1e-6)
    whole = rolled(BLOCK + 1, 3)
    parts = [a.copy() for a in whole]
    works = ranks.begin(lambda c: c.reduce(parts[c.rank], 3, Op.AVG), but=1)
    assert {work.inside().missing for work in works} == {(1,)}
    np.testing.assert_array_equal(parts[3], (whole[0] + whole[2] + whole[3]) // 3)
    np.testing.assert_array_equal(parts[0], whole[0])
    ranks.all[1].reduce(parts[1], 3, Op.AVG).wait()


@pytest.mark.parametrize("ranks", [{"stragglers": "partial"}], indirect=True)
def test_a_rank_that_hears_nothing_for_a_while_ends_with_the_same_bits(ranks: Ranks) -> None:
    random = np.random.default_rng(7)
    every = [random.standard_normal(300 * BLOCK).astype(np.float32) for _ in range(N)]
    ranks.each(lambda c: c.all_reduce(every[c.rank].copy()))
    mine = [a.copy() for a in every]
    deaf = ranks.all[2].end
    deaf.impair(Impairment(drop_ppb=PPB_ONE), 1)
    works = ranks.begin(lambda c: c.all_reduce(mine[c.rank]))
    found = [works[r].inside() for r in (0, 1, 3)]
    deaf.impair(Impairment(), 1)
    assert works[2].inside() == found[0]
    assert len(set(found)) == 1
    assert 2 in found[0].missing  # and, where the machine halts it, another one
    assert len({a.tobytes() for a in mine}) == 1
    assert ranks.each(lambda c: c.all_reduce(every[c.rank])) == [Inside(N)] * N
    assert len({a.tobytes() for a in every}) == 1


def test_losses_change_no_bit_where_ranks_may_be_late(fabric: Fabric) -> None:
    random = np.random.default_rng(8)
    every = [random.standard_normal(40 * BLOCK).astype(np.float32) for _ in range(N)]
    ranks = Ranks(fabric, stragglers="partial", patience_ps=3 * PS_PER_SECOND)
    results = set()
    for drop_ppb in (0, 50_000_000):
        for rank in ranks.all:
            rank.end.impair(Impairment(drop_ppb=drop_ppb, duplicate_ppb=drop_ppb), 2)
        mine = [a.copy() for a in every]
        assert ranks.each(lambda c, mine=mine: c.all_reduce(mine[c.rank])) == [Inside(N)] * N
        results |= {a.tobytes() for a in mine}
    assert len(results) == 1
    ranks.close()


@pytest.mark.parametrize("ranks", [{"stragglers": "partial", "window": 8}], indirect=True)
def test_a_rank_that_is_far_behind_is_told_and_the_others_go_on(ranks: Ranks) -> None:
    every = rolled(BLOCK, 4)
    for _ in range(12):  # 3 blocks each, 16 slots
        mine = [a.copy() for a in every]
        found = ranks.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]), but=3)
        assert {f.missing for f in found} == {(3,)}
        np.testing.assert_array_equal(mine[1], every[0] + every[1] + every[2])
    with pytest.raises(GroupError, match=r"rank 3 was late.*no longer kept") as caught:
        ranks.all[3].all_reduce(every[3].copy()).wait()
    assert caught.value.ranks == (3,)
    ranks.each(lambda c: c.all_reduce(every[c.rank]), but=3)


def test_ranks_with_other_rules_are_refused_on_all(fabric: Fabric) -> None:
    number = next(_groups)
    ranks = [
        FabricCommunicator(
            fabric, HOSTS, r, group=number, stragglers="partial" if r == 1 else "exclude"
        )
        for r in range(N)
    ]
    mine = [np.ones(3, np.float32) for _ in range(N)]
    for work in [rank.all_reduce(mine[rank.rank]) for rank in ranks]:
        with pytest.raises(GroupError, match="stragglers partial, patience 1000 ms") as caught:
            work.wait()
        assert caught.value.ranks == (1,)
    with ThreadPoolExecutor(N) as pool:
        list(pool.map(lambda rank: rank.close(), ranks))


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize("ranks", [{"stragglers": "exclude"}], indirect=True)
@pytest.mark.filterwarnings("ignore:all_reduce. rank . .h.. was late:RuntimeWarning")
def test_who_is_late_is_left_out_and_named_and_the_others_go_on(
    ranks: Ranks, late: int
) -> None:
    every = rolled(2 * BLOCK, 5)
    ranks.each(lambda c: c.all_reduce(every[c.rank].copy()))
    others = [r for r in range(N) if r != late]
    for turn in range(4):
        mine = [a + turn for a in every]
        found = ranks.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]), but=late)
        assert {f.missing for f in found} == {(late,) if turn == 0 else ()}
        assert {f.least for f in found} == {3}
        np.testing.assert_array_equal(mine[1], sum(every[r] + turn for r in others))
    assert {ranks.all[r].excluded for r in others} == {(late,)}
    ranks.each(lambda c: c.barrier(), but=late)
    for work in ranks.begin(lambda c: c.broadcast(every[c.rank], late), but=late):
        with pytest.raises(GroupError, match=f"needs rank {late}") as caught:
            work.wait()
        assert caught.value.ranks == (late,)
    with pytest.raises(GroupError, match=f"rank {late} was late") as caught:
        ranks.all[late].all_reduce(every[late].copy()).wait()
    assert caught.value.ranks == (late,)
    product = [np.full(9, r + 2, np.float64) for r in range(N)]
    ranks.each(lambda c: c.all_reduce(product[c.rank], Op.PRODUCT), but=late)
    assert set(product[1]) == {np.prod([r + 2 for r in others])}
    means = [np.full(9, 10 * r, np.int32) for r in range(N)]
    ranks.each(lambda c: c.all_reduce(means[c.rank], Op.AVG), but=late)
    assert set(means[3]) == {sum(10 * r for r in others) // 3}


def test_a_sum_at_a_server_has_the_bits_of_one_in_a_switch(
    lab: LiveLab, fabric: Fabric
) -> None:
    random = np.random.default_rng(6)
    every = [random.standard_normal(40 * BLOCK).astype(np.float32) for _ in range(N)]
    bits = set()
    for root in ("", "h3", "h1"):
        ranks = Ranks(fabric, root=root)
        mine = [a.copy() for a in every]
        ranks.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        bits |= {a.tobytes() for a in mine}
        copy = [a.copy() for a in every]
        for work in ranks.begin(lambda c, copy=copy: c.broadcast(copy[c.rank], 1)):
            work.wait()
        assert all(np.array_equal(a, every[1]) for a in copy)
        assert {rank.counters()["host_root"] for rank in ranks.all} == {int(root != "")}
        if root:
            arrays = lab.status(root)["arrays"]
            assert arrays["complete"] >= 40
            assert arrays["absorbed"] < 4 * arrays["complete"]  # leaves have joined theirs
        ranks.close()
    assert len(bits) == 1


def test_hosts_without_any_bfr_sum_at_rank_0_and_say_so_once(
    site: Site, tmp_path: Path
) -> None:
    names = HOSTS[:3]
    nodes = tuple(Node(n, f"127.84.0.{i}", "host", i) for i, n in enumerate(names, 1))
    mesh = Fabric("mesh", nodes, (Link("h1", "h2"), Link("h1", "h3"), Link("h2", "h3")))
    save_fabric(mesh, tmp_path / "mesh.toml")
    lab = LiveLab(site, "mesh", "--config", tmp_path / "mesh.toml")
    try:
        with pytest.warns(
            RuntimeWarning, match="h1 has no BFR: all arrays are summed at host h1"
        ):
            ranks = [
                FabricCommunicator(mesh, names, r, group=77, timeout_ps=WAIT_PS)
                for r in range(3)
            ]
        mine = [np.full(9 * BLOCK, 2.0**r, np.float32) for r in range(3)]
        for work in [rank.all_reduce(mine[rank.rank]) for rank in ranks]:
            work.wait()
        assert all((a == 7).all() for a in mine)
        assert {rank.counters()["host_root"] for rank in ranks} == {1}
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda rank: rank.close(), ranks))
    finally:
        lab.down()
