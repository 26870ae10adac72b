"""Layouts of collectives: all ranks' blocks fit together, each byte goes where it is due."""

from collections.abc import Callable

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.group import layout, values
from fanfold.group.communicator import Op
from fanfold.group.values import as_float64, of_float64
from fanfold.live.rank import port_of_group, port_of_pair
from fanfold.live.rank_build import bits_of, block_bytes_of
from fanfold.live.rank_state import B_BYTES, B_DST, B_ONLY, B_SCOPE, B_SRC, NOTHING
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.fold import FoldScope

N = 4
IDS = [11, 3, 7, 5]
BLOCK = 16
Layout = Callable[[int], list[layout.Segment]]


def moved(
    make: Layout, arrays: list[np.ndarray], outs: list[np.ndarray], *, mixed: bool
) -> None:
    """Move blocks by hand as the fabric does: joined by OR, to whom the scope says."""
    tables = [layout.build_blocks(make(r), BLOCK, mixed=mixed) for r in range(N)]
    for rows in zip(*tables, strict=True):
        assert len({tuple(row[[B_BYTES, B_SCOPE, B_ONLY]]) for row in rows}) == 1
        size, scope, only = (int(rows[0][c]) for c in (B_BYTES, B_SCOPE, B_ONLY))
        assert 0 < size <= BLOCK
        senders = [r for r in range(N) if rows[r][B_SRC] != NOTHING]
        total = np.zeros(size, np.uint8)
        for r in senders:
            at = int(rows[r][B_SRC])
            total |= arrays[r][at : at + size]
        for r in range(N):
            gets = scope == FoldScope.ALL or (scope == FoldScope.ONLY) == (IDS[r] == only)
            at = int(rows[r][B_DST])
            assert at == NOTHING or gets, "a rank waits for what it does not get"
            if at != NOTHING:
                outs[r][at : at + size] = total


def draw(n: int) -> list[np.ndarray]:
    return [np.random.default_rng(r).integers(0, 256, n).astype(np.uint8) for r in range(N)]


@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("ends", [(0, 0), (NOTHING, 7), (9, NOTHING), (64, 128)])
def test_one_segment_is_cut_as_it_is_among_others(n: int, ends: tuple[int, int]) -> None:
    one = layout.Segment(*ends, n, FoldScope.ONLY, 3)
    other = layout.Segment(5, 6, 2 * BLOCK)
    alone = layout.build_blocks([one], BLOCK)
    assert np.array_equal(alone, layout.build_blocks([other, one], BLOCK)[2:])
    assert alone.shape[1] == layout.build_blocks([other], BLOCK).shape[1]
    assert alone[:, B_BYTES].sum() == n


@pytest.mark.parametrize("n", [0, 1, BLOCK, 3 * BLOCK + 5])
def test_collectives_move_what_they_say(n: int) -> None:
    data, many = draw(n), draw(n * N)
    zeros = [np.zeros(n, np.uint8) for _ in range(N)]
    wide = [np.zeros(n * N, np.uint8) for _ in range(N)]
    moved(lambda r: layout.broadcast(n, 2, r, IDS), data, zeros, mixed=False)
    assert all(np.array_equal(zeros[r], data[2]) for r in (0, 1, 3))
    moved(lambda r: layout.all_gather([n] * N, r, IDS), data, wide, mixed=False)
    for r in range(N):
        want = np.concatenate([data[k] if k != r else zeros[2] for k in range(N)])
        got = wide[r].copy()
        got[r * n : (r + 1) * n] = zeros[2]  # its own array a rank copies itself
        assert np.array_equal(got, want)
    moved(lambda r: layout.gather(n, 1, r, IDS), data, wide, mixed=False)
    assert all(np.array_equal(wide[1][k * n : (k + 1) * n], data[k]) for k in (0, 2, 3))
    moved(lambda r: layout.scatter(n, 3, r, IDS), many, zeros, mixed=False)
    assert all(np.array_equal(zeros[r], many[3][r * n : (r + 1) * n]) for r in range(3))


def test_uneven_parts_of_an_exchange() -> None:
    sizes = [[(5 * i + 3 * j) % 40 for j in range(N)] for i in range(N)]
    data = [np.full(sum(sizes[i]), i + 1, np.uint8) for i in range(N)]
    outs = [np.zeros(sum(row[j] for row in sizes), np.uint8) for j in range(N)]
    moved(lambda r: layout.all_to_all(sizes, r, IDS), data, outs, mixed=True)
    for j in range(N):
        want = np.concatenate([np.full(sizes[i][j], (i + 1) * (i != j)) for i in range(N)])
        assert np.array_equal(outs[j], want)


def test_an_exchange_keeps_all_uplinks_busy() -> None:
    sizes = [[10 * BLOCK] * N] * N
    table = layout.build_blocks(layout.all_to_all(sizes, 0, IDS), BLOCK, mixed=True)
    mine = np.flatnonzero(table[:, B_SRC] != NOTHING)
    assert np.diff(mine).max() <= N * (N - 1)


def test_reductions_keep_what_is_theirs() -> None:
    n = 2 * BLOCK + 3
    for make, keepers in (
        (lambda r: layout.all_reduce(n), {0, 1, 2, 3}),
        (lambda r: layout.reduce(n, 2, r, IDS), {2}),
    ):
        tables = [layout.build_blocks(make(r), BLOCK) for r in range(N)]
        assert all((t[:, B_SRC] == [0, BLOCK, 2 * BLOCK]).all() for t in tables)
        assert {r for r in range(N) if (tables[r][:, B_DST] >= 0).all()} == keepers
    table = layout.build_blocks(layout.reduce_scatter([20, 0, 5, 16], 3, IDS), BLOCK)
    assert table[:, B_SRC].tolist() == [0, 16, 20, 25]
    assert table[:, B_DST].tolist() == [NOTHING, NOTHING, NOTHING, 0]
    assert table[:, B_ONLY].tolist() == [11, 11, 7, 5]


def test_kinds_and_their_words() -> None:
    assert values.form_of("bfloat16", Op.SUM).word_bytes == 4
    assert values.form_of("bfloat16", Op.MAX).word_bytes == 2
    assert values.form_of("float64", Op.AVG).is_fixed
    assert not values.form_of("int64", Op.SUM).is_fixed
    assert values.name_of(np.zeros(1, np.uint16), "bfloat16") == "bfloat16"
    for array, kind in (
        (np.zeros(1, np.complex64), ""),
        (np.zeros(1, np.float32), "bfloat16"),
        (np.zeros(1, np.float32), "float64"),
        (np.zeros(1, np.uint64), ""),
    ):
        with pytest.raises(ConfigError):
            values.name_of(array, kind)
    with pytest.raises(ConfigError):
        values.bytes_of(np.zeros((4, 4))[:, 1], "array")


def test_bfloat16_survives_float64() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    back = of_float64(as_float64(bits, "bfloat16"), "bfloat16")
    number = (bits & 0x7FFF) <= 0x7F80
    assert np.array_equal(back[number], bits[number])
    assert (back[~number] == 0x7FC0).all()


def test_members_are_named_by_one_bitstring() -> None:
    fabric = leaf_spine(2, 1, 4, name="x", prefix=0)
    ids = [fabric.by_name[f"h{i}"].bfr_id for i in (1, 3)]
    assert bits_of(fabric, ["h1", "h3"]) == (1 << ids[0] - 1 | 1 << ids[1] - 1, 0)
    for names in (["h1", "h1"], ["h1", "leaf1"], ["h1", "nobody"]):
        with pytest.raises(ConfigError):
            bits_of(fabric, names)
    assert block_bytes_of(fabric) == 8192


@pytest.mark.parametrize(
    ("n_bytes", "ids"),
    [(16, [11, 3, 7, 5]), (17, [11, 3, 5, 7]), (16, [11, 3, 5]), (16, [11, 3, 5, 8])],
)
def test_ranks_of_other_members_or_sizes_do_not_agree(n_bytes: int, ids: list[int]) -> None:
    """Ranks compare this number before an array moves; order and every member are in it."""
    mine = layout.checksum([layout.Segment(0, 0, 16)], [11, 3, 5, 7])
    assert layout.checksum([layout.Segment(8, 4, 16)], [11, 3, 5, 7]) == mine
    assert layout.checksum([layout.Segment(0, 0, n_bytes)], ids) != mine


def test_no_pairs_of_a_group_share_a_port() -> None:
    """Each host has the ends of many: one port for two of them, and one of the two fails."""
    for group in (0, 5, 2**32 - 1):
        pairs = [(i, j) for i in range(100) for j in range(100) if i != j]
        ports = {port_of_pair(group, 100, i, j) for i, j in pairs}
        assert len(ports) == len(pairs)
        assert port_of_group(group) not in ports
