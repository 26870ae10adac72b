"""Ranks at one host: what they join, move and refuse, and who is named when one is silent."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import reduce
from itertools import count

import numpy as np
import pytest

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.group.communicator import GroupError, Op
from fanfold.group.fabric import FabricCommunicator
from fanfold.live import host_state
from fanfold.live.host_memory import HostMemory
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND

FABRIC = leaf_spine(2, 1, 4)
WAIT_PS = 20 * PS_PER_SECOND
SHORT_PS = PS_PER_SECOND // 2
N = 4
_numbers = count(os.getpid() << 12)


class Ranks:
    """All ranks of a group at one host, in this process."""

    def __init__(self, n=N, **kwargs):
        kwargs = {"group": next(_numbers) & 0xFFFFFFFF, "timeout_ps": WAIT_PS, **kwargs}
        self.all = [FabricCommunicator(FABRIC, ["h1"] * n, r, **kwargs) for r in range(n)]

    def each(self, begin):
        for work in [begin(rank) for rank in self.all]:
            work.wait()

    def errors(self, begin, ranks=None):
        found = []
        for work in [begin(rank) for rank in self.all if ranks is None or rank.rank in ranks]:
            with pytest.raises(GroupError) as caught:
                work.wait()
            found.append(caught.value)
        return found

    def close(self):
        with ThreadPoolExecutor(len(self.all)) as pool:
            list(pool.map(lambda rank: rank.close(), self.all))


@pytest.fixture
def make():
    made = []

    def one(n=N, **kwargs):
        made.append(Ranks(n, **kwargs))
        return made[-1]

    yield one
    for ranks in made:
        ranks.close()


@pytest.fixture(params=[1 << 10, 256 << 10])
def ranks(request, make, monkeypatch):
    """Blocks of two sizes: an array of the tests has many, or is one and little."""
    monkeypatch.setattr(host_state, "MOST_BYTES", request.param)
    monkeypatch.setattr(host_state, "LEAST_BYTES", request.param)
    return make()


def reduced(ranks, arrays, op=Op.SUM, kind=""):
    out = [array.copy() for array in arrays]
    ranks.each(lambda rank: rank.all_reduce(out[rank.rank], op, kind=kind))
    for array in out[1:]:
        assert array.tobytes() == out[0].tobytes()
    return out[0]


@pytest.mark.parametrize("n_values", [1, 5, 4000])
def test_integers_are_joined_as_by_numpy(ranks, n_values):
    random = np.random.default_rng(n_values)
    for kind in ("int32", "int64", "uint8"):
        arrays = [random.integers(0, 100, n_values).astype(kind) for _ in range(N)]
        assert (reduced(ranks, arrays) == np.sum(arrays, 0, dtype=kind)).all()
        assert (reduced(ranks, arrays, Op.MAX) == np.max(arrays, 0)).all()
        assert (reduced(ranks, arrays, Op.MIN) == np.min(arrays, 0)).all()
        assert (reduced(ranks, arrays, Op.PRODUCT) == np.prod(arrays, 0, dtype=kind)).all()
        mean = np.sum(arrays, 0, dtype="int64") // N
        assert (reduced(ranks, arrays, Op.AVG) == mean).all()


@pytest.mark.parametrize(("kind", "unit"), [("float32", 2.0**-24), ("float64", 2.0**-53)])
def test_a_sum_of_floats_is_off_by_its_own_terms_only_and_has_no_order(ranks, kind, unit):
    random = np.random.default_rng(7)
    span = 30 if kind == "float32" else 250
    arrays = [
        (random.standard_normal(900) * 10.0 ** random.integers(-span, span, 900)).astype(kind)
        for _ in range(N)
    ]
    got = reduced(ranks, arrays)
    for i in range(900):
        terms = [Fraction(float(array[i])) for array in arrays]
        bound = Fraction(unit) * (1 + Fraction(N * 4, 64)) * sum(map(abs, terms))
        assert abs(Fraction(float(got[i])) - sum(terms)) <= bound, i
    assert reduced(ranks, arrays[::-1]).tobytes() == got.tobytes()


def test_what_is_not_finite_and_zeros_with_a_sign_are_as_in_ieee_754(ranks):
    with np.errstate(invalid="ignore", over="ignore"):
        for kind in ("float32", "float64", "float16"):
            columns = [
                [np.inf, 1, 2, 3],
                [np.inf, -np.inf, 0, 0],
                [np.nan, 1, 1, 1],
                [-np.inf, 5, 5, 5],
                [-0.0, -0.0, -0.0, -0.0],
                [-0.0, 0.0, -0.0, -0.0],
                [1, 2, 3, 4],
            ]
            arrays = list(np.array(columns * 100, kind).T.copy())
            got = reduced(ranks, arrays)
            want = reduce(np.add, np.array(arrays, "float64")).astype(kind)
            assert np.array_equal(got, want, equal_nan=True)
            assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
    assert sum(rank.counters()["not_finite_parts"] for rank in ranks.all) > 0


def test_bfloat16_is_added_as_float32_and_rounded_once(ranks):
    values = [np.float32(1 + 2.0**-7) * 2.0**r for r in range(N)]
    arrays = [np.full(300, v, np.float32).view(np.uint32) >> 16 for v in values]
    got = reduced(ranks, [a.astype(np.uint16) for a in arrays], kind="bfloat16")
    total = np.float32(sum(values)).view(np.uint32)
    assert (got == (int(total) + 0x7FFF + (int(total) >> 16 & 1)) >> 16).all()


@pytest.mark.parametrize("n_values", [3, 2000])
def test_arrays_are_moved(ranks, n_values):
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(n_values) for _ in range(N)]
    whole = np.concatenate(arrays)
    outs = [np.zeros(n_values) for _ in range(N)]
    outs[2][:] = arrays[2]
    ranks.each(lambda rank: rank.broadcast(outs[rank.rank], 2))
    assert all((out == arrays[2]).all() for out in outs)
    rooms = [np.zeros(N * n_values) for _ in range(N)]
    ranks.each(lambda rank: rank.all_gather(rooms[rank.rank], arrays[rank.rank]))
    assert all((room == whole).all() for room in rooms)
    room = np.zeros(N * n_values)
    ranks.each(lambda rank: rank.gather(room if rank.rank == 1 else None, arrays[rank.rank], 1))
    assert (room == whole).all()
    ranks.each(lambda rank: rank.scatter(outs[rank.rank], whole if rank.rank == 3 else None, 3))
    assert (np.concatenate(outs) == whole).all()
    sources = [np.repeat(array[:1], N * n_values) * np.arange(N * n_values) for array in arrays]
    ranks.each(lambda rank: rank.all_to_all(rooms[rank.rank], sources[rank.rank]))
    for r, room in enumerate(rooms):
        parts = [source[r * n_values : (r + 1) * n_values] for source in sources]
        assert (room == np.concatenate(parts)).all()
    ints = [np.arange(N * n_values, dtype=np.int64) * (r + 1) for r in range(N)]
    parts = [np.zeros(n_values, np.int64) for _ in range(N)]
    ranks.each(lambda rank: rank.reduce_scatter(parts[rank.rank], ints[rank.rank]))
    assert (np.concatenate(parts) == np.sum(ints, 0)).all()
    ranks.each(lambda rank: rank.reduce(ints[rank.rank], 1))
    assert (ints[1] == np.arange(N * n_values) * 10).all()
    assert (ints[0] == np.arange(N * n_values)).all()
    ranks.each(lambda rank: rank.barrier())


def test_broadcasts_in_a_row_and_messages_by_tag(ranks):
    tensors = [[np.full(50, i * (r == 0)) for i in range(40)] for r in range(N)]
    for work in [rank.broadcast(a, 0) for rank in ranks.all for a in tensors[rank.rank]]:
        work.wait()
    assert all((a == i).all() for own in tensors for i, a in enumerate(own))
    first, second = np.zeros(9), np.zeros(700)
    got = ranks.all[1].recv(second, None, tag=5)
    ranks.all[0].send(np.arange(9.0), 1, tag=4)
    ranks.all[0].send(np.arange(700.0), 1, tag=5).wait()
    got.wait()
    assert got.source() == 0
    ranks.all[1].recv(first, 0, tag=4).wait()
    assert (first == np.arange(9)).all()
    assert (second == np.arange(700)).all()


def test_who_was_asked_for_something_else_is_named_and_the_group_goes_on(ranks):
    found = ranks.errors(lambda rank: rank.all_reduce(np.ones(2000 + 1000 * (rank.rank == 1))))
    for error in found:
        assert error.ranks == (1,)
        assert "rank 1: all_reduce of 24000 bytes of float64, sum" in str(error)
    found = ranks.errors(
        lambda rank: rank.barrier() if rank.rank == 3 else rank.broadcast(np.ones(9), 0)
    )
    assert all(error.ranks == (3,) for error in found)
    assert (reduced(ranks, [np.ones(3000)] * N) == N).all()


def test_a_silent_rank_is_named_at_the_deadline_and_hears_of_it_when_it_comes(make):
    ranks = make()
    ranks.each(lambda rank: rank.barrier())
    began = time.monotonic()
    found = ranks.errors(
        lambda rank: rank.all_reduce(np.ones(9000), timeout_ps=SHORT_PS), {0, 1, 3}
    )
    assert time.monotonic() - began < 2
    for error in found:
        assert (error.ranks, error.is_deadline) == ((2,), True)
        assert "deadline, not heard: rank 2 (h1)" in str(error)
    (late,) = ranks.errors(lambda rank: rank.all_reduce(np.ones(9000)), {2})
    assert late.ranks == (2,)
    assert "rank 2 was late, the others went on" in str(late)
    (again,) = ranks.errors(lambda rank: rank.barrier(), {0})
    assert "rank 2" in str(again)
    others = make(3)
    assert (reduced(others, [np.ones(5)] * 3) == 3).all()


ENDS = """
import sys, os, numpy as np
sys.path[:0] = {path!r}
from fanfold.group.fabric import FabricCommunicator
from fanfold.topo.lab_fabric import leaf_spine
rank = FabricCommunicator(leaf_spine(2, 1, 4), ["h1"] * 3, 2, group={group})
rank.barrier().wait()
os.kill(os.getpid(), 9)
"""


def test_a_killed_rank_is_named_long_before_the_deadline(make):
    group = next(_numbers) & 0xFFFFFFFF
    code = ENDS.format(path=sys.path, group=group)
    two = [FabricCommunicator(FABRIC, ["h1"] * 3, r, group=group) for r in range(2)]
    other = subprocess.Popen([sys.executable, "-c", code])
    for work in [rank.barrier() for rank in two]:
        work.wait()
    other.wait()
    began = time.monotonic()
    for work in [rank.all_reduce(np.ones(9000)) for rank in two]:
        with pytest.raises(GroupError) as caught:
            work.wait()
        assert caught.value.ranks == (2,)
        assert "not heard: rank 2 (h1), which has ended" in str(caught.value)
    assert time.monotonic() - began < 3
    for rank in two:
        rank.close()


def test_a_sum_of_integers_that_wraps_is_counted_on_every_rank(ranks):
    for n_values in (5, 4000):
        arrays = [np.zeros(n_values, np.int32) for _ in range(N)]
        for array in arrays[:2]:
            array[-1] = 2**31 - 1
        assert reduced(ranks, arrays)[-1] == -2
    assert [rank.counters()["overflows"] for rank in ranks.all] == [2] * N
    reduced(ranks, [np.ones(4000, np.int32)] * N)
    assert [rank.counters()["overflows"] for rank in ranks.all] == [2] * N


@pytest.mark.parametrize("n_values", [1, 63, 500, 4001])
def test_nothing_is_written_beside_an_array(ranks, n_values):
    rooms = [np.full(n_values + 32, 77, np.float32) for _ in range(N)]
    arrays = [room[16:-16] for room in rooms]
    ranks.each(lambda rank: rank.all_reduce(arrays[rank.rank]))
    ranks.each(lambda rank: rank.broadcast(arrays[rank.rank], 1))
    for room in rooms:
        assert (room[:16] == 77).all()
        assert (room[-16:] == 77).all()
        assert (room[16:-16] == N * 77).all()


def test_ranks_wake_each_other(ranks):
    """Who is not woken looks up after 0.1 s."""
    began = time.monotonic()
    for _ in range(20):
        ranks.each(lambda rank: rank.barrier())
    reduced(ranks, [np.ones(8000, np.int32)] * N)
    assert time.monotonic() - began < 1.5


def test_closing_ends_an_operation_that_waits(make):
    ranks = make(2)
    work = ranks.all[0].all_reduce(np.ones(5))
    ranks.all[0].end.is_stopped = True
    ranks.all[0].end.wake()
    with pytest.raises(GroupError, match="closed meanwhile"):
        work.wait(WAIT_PS)


def test_a_number_is_of_one_group_at_a_host(make):
    ranks = make(2)
    with pytest.raises(EnvironmentLack, match="other group"):
        FabricCommunicator(FABRIC, ["h1"] * 2, 0, group=ranks.all[0].group)


def test_patience_with_late_ranks_is_not_for_one_host():
    with pytest.raises(ConfigError, match="all ranks are at one host"):
        FabricCommunicator(FABRIC, ["h1"] * 2, 0, group=1, stragglers="partial")
    with pytest.raises(ConfigError, match="members"):
        FabricCommunicator(FABRIC, ["h9"] * 2, 0, group=1)


def test_memory_of_another_size_is_not_taken():
    number = next(_numbers) & 0xFFFFFFFF
    made = HostMemory("127.0.0.1", number, 0, 1 << 16)
    other = HostMemory("127.0.0.1", number, 1, 1 << 17)
    same = HostMemory("127.0.0.1", number, 2, 1 << 16)
    try:
        assert not other.join()
        assert same.join()
        assert not same.is_alive(0)
        made.lock()
        assert same.is_alive(0)
        made.close()
        assert not same.is_alive(0)
    finally:
        for end in (made, other, same):
            end.close()
