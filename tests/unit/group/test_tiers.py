"""Several ranks at each of several hosts; another host's memory stands for the network."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.group import ends, layout, tiers
from fanfold.group.communicator import GroupError, Op
from fanfold.group.fabric import FabricCommunicator
from fanfold.live.rank_state import NOTHING
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND
from fanfold.wire.fold import FoldScope

FABRIC = leaf_spine(2, 1, 4)
WAIT_PS = 20 * PS_PER_SECOND
SHORT_PS = PS_PER_SECOND // 2
PAIRS = ["h1", "h1", "h2", "h2"]
ODD = ["h2", "h1", "h2", "h3", "h1", "h2"]
"""Mixed up, and one rank is alone at its host."""
_numbers = count((os.getpid() << 12) + 2048)


class Ranks:
    """All ranks of a group, in this process."""

    def __init__(self, members, **kwargs):
        self.n, number = len(members), next(_numbers) & 0xFFFFFFFF
        kwargs = {"group": number, "timeout_ps": WAIT_PS, **kwargs}
        self.all = [FabricCommunicator(FABRIC, members, r, **kwargs) for r in range(self.n)]

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

    def reduced(self, arrays, op=Op.SUM, kind=""):
        out = [array.copy() for array in arrays]
        self.each(lambda rank: rank.all_reduce(out[rank.rank], op, kind=kind))
        for array in out[1:]:
            assert array.tobytes() == out[0].tobytes()
        return out[0]

    def close(self):
        with ThreadPoolExecutor(self.n) as pool:
            list(pool.map(lambda rank: rank.close(), self.all))


@pytest.fixture
def make(monkeypatch):
    """Leaders meet in memory as if they were at host h4."""
    made = []

    def open_network(fabric, hosts, rank, group, rules, wants):
        members = ["h4"] * len(hosts)
        return ends.open_host(fabric, members, rank, group, rules), ""

    def one(members, **kwargs):
        made.append(Ranks(members, **kwargs))
        return made[-1]

    monkeypatch.setattr(ends, "open_network", open_network)
    yield one
    for ranks in made:
        ranks.close()


@pytest.fixture(params=[PAIRS, ODD], ids=["pairs", "odd"])
def ranks(request, make, monkeypatch):
    monkeypatch.setattr(tiers, "PIECE_BYTES", 2048)
    monkeypatch.setattr(tiers, "TOLD_BYTES", 1024)
    return make(request.param)


def wild(kind, n, seed):
    """Floats of any size, some of them none."""
    random = np.random.default_rng(seed)
    span = {"float16": 4, "float64": 250}.get(kind, 30)
    with np.errstate(over="ignore"):
        found = random.standard_normal(n) * 10.0 ** random.integers(-span, span, n)
        found = found.astype("float32" if kind == "bfloat16" else kind)
    odd = [np.inf, -np.inf, np.nan, -0.0, 0.0]
    found[random.random(n) < 0.1] = odd[seed % 5]
    if kind == "bfloat16":
        return (found.view(np.uint32) >> 16).astype(np.uint16)
    return found


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_sums_have_the_bits_that_they_have_with_a_host_for_each_rank(ranks, make, kind):
    flat = make(["h1"] * ranks.n)  # of the same bits as by BFRs, see the live test
    name = kind if kind == "bfloat16" else ""
    for n_values in (1, 1100):
        arrays = [wild(kind, n_values, seed) for seed in range(ranks.n)]
        for op in (Op.SUM, Op.AVG, Op.MIN, Op.MAX):
            own = ranks.reduced(arrays, op, name)
            assert own.tobytes() == flat.reduced(arrays, op, name).tobytes()


def test_integers_are_joined_as_by_numpy(ranks):
    for n_values in (1, 1500):
        for kind in ("int32", "int64", "uint8"):
            random = np.random.default_rng(n_values)
            arrays = [random.integers(0, 100, n_values).astype(kind) for _ in range(ranks.n)]
            assert (ranks.reduced(arrays) == np.sum(arrays, 0, dtype=kind)).all()
            assert (ranks.reduced(arrays, Op.MAX) == np.max(arrays, 0)).all()
            mean = np.sum(arrays, 0, dtype="int64") // ranks.n
            assert (ranks.reduced(arrays, Op.AVG) == mean).all()
        floats = [random.standard_normal(n_values) for _ in range(ranks.n)]
        assert (ranks.reduced(floats, Op.PRODUCT) == np.prod(floats, 0)).all()


@pytest.mark.parametrize("n_values", [3, 300])
def test_arrays_are_moved(ranks, n_values):
    n, random = ranks.n, np.random.default_rng(3)
    arrays = [random.standard_normal(n_values) for _ in range(n)]
    whole = np.concatenate(arrays)
    for root in (1, 3):
        outs = [np.zeros(n_values) for _ in range(n)]
        outs[root][:] = arrays[root]
        ranks.each(lambda rank, outs=outs, root=root: rank.broadcast(outs[rank.rank], root))
        assert all((out == arrays[root]).all() for out in outs)
    rooms = [np.zeros(n * n_values) for _ in range(n)]
    ranks.each(lambda rank: rank.all_gather(rooms[rank.rank], arrays[rank.rank]))
    assert all((room == whole).all() for room in rooms)
    room = np.zeros(n * n_values)
    ranks.each(lambda rank: rank.gather(room if rank.rank == 1 else None, arrays[rank.rank], 1))
    assert (room == whole).all()
    ranks.each(lambda rank: rank.scatter(outs[rank.rank], whole if rank.rank == 3 else None, 3))
    assert (np.concatenate(outs) == whole).all()
    sources = [np.repeat(array[:1], n * n_values) * np.arange(n * n_values) for array in arrays]
    ranks.each(lambda rank: rank.all_to_all(rooms[rank.rank], sources[rank.rank]))
    for r, room in enumerate(rooms):
        parts = [source[r * n_values : (r + 1) * n_values] for source in sources]
        assert (room == np.concatenate(parts)).all()
    ranks.each(lambda rank: rank.barrier())


@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_what_is_joined_for_one_rank_stays_as_it_is_elsewhere(ranks, kind):
    n, size = ranks.n, 150
    whole = [np.arange(n * size, dtype=kind) * (r + 1) for r in range(n)]
    total = np.sum(whole, 0)
    parts = [np.zeros(size, kind) for _ in range(n)]
    ranks.each(lambda rank: rank.reduce_scatter(parts[rank.rank], whole[rank.rank]))
    assert (np.concatenate(parts) == total).all()
    for root in (0, 3):
        arrays = [array.copy() for array in whole]
        ranks.each(lambda rank, own=arrays, root=root: rank.reduce(own[rank.rank], root))
        for r, array in enumerate(arrays):
            assert (array == (total if r == root else whole[r])).all()


def test_broadcasts_in_a_row_and_nothing_beside_an_array(ranks):
    tensors = [[np.full(50, i * (r == 4 % ranks.n)) for i in range(40)] for r in range(ranks.n)]
    begun = [r.broadcast(a, 4 % ranks.n) for r in ranks.all for a in tensors[r.rank]]
    for work in begun:
        work.wait()
    assert all((a == i).all() for own in tensors for i, a in enumerate(own))
    rooms = [np.full(1532, 77, np.float32) for _ in range(ranks.n)]
    ranks.each(lambda rank: rank.all_reduce(rooms[rank.rank][16:-16]))
    for room in rooms:
        assert (room[:16] == 77).all()
        assert (room[-16:] == 77).all()
        assert (room[16:-16] == ranks.n * 77).all()


def test_who_was_asked_for_something_else_is_named_everywhere_and_the_group_goes_on(ranks):
    found = ranks.errors(lambda rank: rank.all_reduce(np.ones(2000 + 1000 * (rank.rank == 2))))
    for error in found:
        assert error.ranks == (2,)
        assert "rank 2: all_reduce of 24000 bytes of float64, sum" in str(error)
    assert (ranks.reduced([np.ones(3000)] * ranks.n) == ranks.n).all()


@pytest.mark.parametrize("silent", [0, 3])
def test_a_silent_rank_is_named_on_all_others(make, silent):
    """Rank 0 speaks for its host, rank 3 does not."""
    ranks = make(PAIRS)
    ranks.each(lambda rank: rank.barrier())
    began = time.monotonic()
    others = {0, 1, 2, 3} - {silent}
    found = ranks.errors(
        lambda rank: rank.all_reduce(np.ones(9000), timeout_ps=SHORT_PS), others
    )
    assert time.monotonic() - began < 4
    for error in found:
        assert (error.ranks, error.is_deadline) == ((silent,), True)
        assert f"not heard: rank {silent} (" in str(error)
    (again,) = ranks.errors(lambda rank: rank.barrier(), {1})
    assert f"rank {silent}" in str(again)


def test_who_goes_on_after_its_leader_gave_up_is_told_so_at_once(make):
    ranks = make(PAIRS)
    ranks.each(lambda rank: rank.barrier())
    leader = ranks.all[0]._session
    with pytest.raises(GroupError), leader._breaking():
        raise GroupError("it broke", op="reduce")
    began = time.monotonic()
    (told,) = ranks.errors(lambda rank: rank.barrier(), {1})
    assert "rank 1 was late, the others went on" in str(told)
    assert time.monotonic() - began < WAIT_PS / PS_PER_SECOND / 4


def test_what_a_host_has_or_does_not_need_does_not_cross_the_network(make):
    """A broadcast's host is left out; what stays at a host is between its ranks alone."""
    ranks = make(PAIRS)
    crossed = {}
    for leader in (0, 2):
        session = ranks.all[leader]._session
        pieces = [
            tiers.Piece(segment, 0, 8, 0)
            for segment in (
                *layout.broadcast(8, 1, leader, [1, 2, 3, 4]),
                *layout.gather(8, 3, leader, [1, 2, 3, 4]),
            )
        ]
        crossed[leader] = [session._between(piece) for piece in pieces]
    ids = [FABRIC.by_name[name].bfr_id for name in ("h1", "h2")]
    assert crossed[0][0] == layout.Segment(0, NOTHING, 8, FoldScope.BUT, ids[0])
    assert crossed[2][0] == layout.Segment(NOTHING, 0, 8, FoldScope.BUT, ids[0])
    assert crossed[0][1:] == [layout.Segment(0, NOTHING, 8, FoldScope.ONLY, ids[1])] * 2 + [
        None
    ]
    assert crossed[2][1:] == [layout.Segment(NOTHING, 0, 8, FoldScope.ONLY, ids[1])] * 2 + [
        None
    ]


def test_leaders_have_heard_of_each_other_before_they_have_more_slots(make, monkeypatch):
    """Before the first word a leader does not know what slots another has asked for."""
    ranks, calls = make(PAIRS), []
    far = ranks.all[0]._session._far
    for name in ("_largest", "_grow"):
        own = getattr(far, name)

        def noted(*args, name=name, own=own):
            calls.append(name)
            return own(*args)

        monkeypatch.setattr(far, name, noted)
    assert (ranks.reduced([np.ones(5000)] * 4) == 4).all()
    assert calls[0] == "_largest"
    assert "_grow" in calls[1:]


def test_rules_for_late_ranks_and_blocks_are_not_for_several_ranks_at_a_host():
    for rules in ({"stragglers": "partial"}, {"numbers": "block"}):
        with pytest.raises(ConfigError, match="hosts have several ranks"):
            FabricCommunicator(FABRIC, PAIRS, 0, group=1, **rules)
