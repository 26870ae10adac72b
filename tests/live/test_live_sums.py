"""Sums of floats of any magnitude through live BFRs, against exact fractions and float64."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from live_group import Group
from live_site import LiveLab, Site

from fanfold.group.communicator import Op
from fanfold.impair import Impairment
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

N = 4
HOSTS = [f"h{i + 1}" for i in range(N)]
UNITS = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LEAST = {
    "float32": 2.0**-149,
    "float64": 2.0**-1074,
    "float16": 2.0**-24,
    "bfloat16": 2.0**-133,
}
SPANS = {"float32": 120, "float64": 900, "float16": 12, "bfloat16": 120}


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "sums", "--leaves", 2, "--spines", 1, "--hosts", N)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


def floats_of(kind: str, array: np.ndarray) -> np.ndarray:
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def of_floats(kind: str, values: np.ndarray) -> np.ndarray:
    if kind != "bfloat16":
        return values.astype(kind)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def wild(kind: str, n: int, seed: int) -> list[np.ndarray]:
    """Magnitudes over the kind's whole range, side by side."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(N):
        size = np.exp2(random.integers(-SPANS[kind], SPANS[kind], n).astype(np.float64))
        found.append(of_floats(kind, random.standard_normal(n) * size))
    return found


def n_beyond(kind: str, every: list[np.ndarray], got: np.ndarray, share: int = 1) -> int:
    """Elements that are off by more than docs/torch.md says."""
    rows = [floats_of(kind, a).tolist() for a in every]
    part = 2.0**-53 if kind == "float64" else 2.0**-24
    worst = Fraction(part) * (1 + Fraction(N * N, 512 if kind == "float64" else 64))
    worst += Fraction(UNITS[kind]) if kind in ("float16", "bfloat16") else 0
    worst += Fraction(2.0**-52) if share > 1 else 0
    found = 0
    for value, terms in zip(
        floats_of(kind, got).tolist(), zip(*rows, strict=True), strict=True
    ):
        parts = [Fraction(t) for t in terms]
        off = abs(Fraction(value) - sum(parts) / share)
        found += off > worst * sum(map(abs, parts)) / share + Fraction(LEAST[kind])
    return found


@pytest.mark.parametrize("kind", UNITS)
def test_each_sum_and_mean_is_within_rounding_of_its_own_terms(
    fabric: Fabric, kind: str
) -> None:
    group = Group(fabric, HOSTS)
    for op, n in ((Op.SUM, 1), (Op.SUM, 1025), (Op.AVG, 4001)):
        every = wild(kind, n, n)
        mine = [a.copy() for a in every]
        group.each(lambda c, m=mine, o=op: c.all_reduce(m[c.rank], o, kind=kind))
        assert len({a.tobytes() for a in mine}) == 1
        assert n_beyond(kind, every, mine[0], N if op == Op.AVG else 1) == 0
    group.close()


def test_bits_are_those_of_any_arrival_with_losses_over_many_windows(fabric: Fabric) -> None:
    n = 150_001  # more blocks than the window below
    every = wild("float32", n, 5)
    bits = []
    for drop_ppb in (0, 20_000_000):
        group = Group(fabric, HOSTS, window=32)
        for rank in group.ranks:
            rank.end.impair(Impairment(drop_ppb=drop_ppb), rank.rank)
        parts = [np.zeros(n // N + 1, np.float32) for _ in range(N)]
        counts = [n - 3 * (n // N), *[n // N] * 3]
        mine = [a.copy() for a in every]
        group.each(lambda c, m=mine: c.all_reduce(m[c.rank]))
        group.each(
            lambda c, p=parts, k=counts: c.reduce_scatter_v(
                p[c.rank][: k[c.rank]], every[c.rank], k
            )
        )
        assert np.concatenate(
            [p[:k] for p, k in zip(parts, counts, strict=True)]
        ).tobytes() == (mine[0].tobytes())
        bits.append(mine[0].tobytes())
        group.close()
    assert bits[0] == bits[1]
    assert (
        n_beyond("float32", [a[:500] for a in every], np.frombuffer(bits[0], np.float32)[:500])
        == 0
    )


def test_values_that_took_each_others_bits_do_so_only_where_that_was_asked_for(
    fabric: Fabric,
) -> None:
    small = np.full(4096, 1e-9, np.float32)
    small[::64] = 1.0
    pair = np.array([1e10, 1.5, -0.0, 1e38, 1e-38, 1e-45], np.float32)
    ends: dict[str, Any] = {}
    for numbers in ("value", "block"):
        group = Group(fabric, HOSTS, numbers=numbers)
        arrays = [[a.copy() for _ in range(N)] for a in (small, pair)]
        for mine in arrays:
            group.each(lambda c, m=mine: c.all_reduce(m[c.rank]))
        ends[numbers] = arrays[0][0], arrays[1][0], group.count("flushed_values")
        group.close()
    gradients, six, n_flushed = ends["value"]
    assert gradients.tolist() == (4 * small).tolist()
    want = [np.float32(4e10), 6.0, 0.0, np.inf, 4 * np.float32(1e-38), 4 * np.float32(1e-45)]
    assert six.tolist() == want
    assert np.signbit(six).tolist() == [False, False, True, False, False, False]
    assert n_flushed == 0
    gradients, six, n_flushed = ends["block"]
    assert (gradients[1:64] == 0).all()
    assert n_flushed == N * (4096 - 64 + 4)


def test_what_is_not_finite_is_so_in_the_result_and_the_rest_is_right(fabric: Fabric) -> None:
    group = Group(fabric, HOSTS)
    for kind in UNITS:
        floats = np.ones((N, 9))
        floats[0, 0], floats[1, 1], floats[2, 2] = np.inf, -np.inf, np.nan
        floats[0, 3], floats[3, 3] = np.inf, -np.inf
        floats[:, 4] = -0.0
        mine = [of_floats(kind, row) for row in floats]
        group.each(lambda c, m=mine, k=kind: c.all_reduce(m[c.rank], kind=k))
        got = floats_of(kind, mine[0])
        assert got[:2].tolist() == [np.inf, -np.inf]
        assert np.isnan(got[2:4]).all()
        assert got[4:].tolist() == [0.0, *[float(N)] * 4]
        assert np.signbit(got[4])
    group.close()


def test_other_operators_keep_every_magnitude(fabric: Fabric) -> None:
    group = Group(fabric, HOSTS)
    every = wild("float32", 3000, 9)
    joins = ((Op.MIN, np.minimum), (Op.MAX, np.maximum), (Op.PRODUCT, np.multiply))
    for op, join in joins:
        mine = [a.copy() for a in every]
        group.each(lambda c, m=mine, o=op: c.all_reduce(m[c.rank], o))
        want = every[0]
        with np.errstate(over="ignore", under="ignore"):
            for other in every[1:]:
                want = join(want, other)
        np.testing.assert_array_equal(mine[0], want)
    group.close()


def test_ranks_that_add_in_other_formats_are_refused(fabric: Fabric) -> None:
    group = Group(fabric, HOSTS)
    rules = group.ranks[2]._session.rules
    group.ranks[2]._session.rules = rules._replace(numbers="block")
    mine = [np.ones(9, np.float32) for _ in range(N)]
    for error in group.errors(lambda c: c.all_reduce(mine[c.rank])):
        assert "rank 2: all_reduce of 36 bytes of float32, sum, an exponent a block" in str(
            error
        )
    assert all((a == 1).all() for a in mine)
    group.close()


def test_ranks_that_share_hosts_have_the_bits_of_a_host_for_each(fabric: Fabric) -> None:
    """Joined in the hosts' memories first; infinities and all else too."""
    flat, tiered = Group(fabric, HOSTS), Group(fabric, ["h1", "h1", "h3", "h3"])
    for kind, n in (("float32", 9001), ("float64", 700), ("bfloat16", 3000)):
        every = wild(kind, n, 11)
        for i, value in enumerate((np.inf, -np.inf, np.nan, -0.0)):
            every[i][:50] = of_floats(kind, np.full(50, value))
            every[i][50:90] = of_floats(kind, np.full(40, -0.0))
        for op in (Op.SUM, Op.AVG, Op.MIN):
            ends = []
            for group in (flat, tiered):
                mine = [a.copy() for a in every]
                group.each(lambda c, m=mine, o=op, k=kind: c.all_reduce(m[c.rank], o, kind=k))
                assert len({a.tobytes() for a in mine}) == 1
                ends.append(mine[0].tobytes())
            assert ends[0] == ends[1]
    rows, out = (
        [np.full(5000, r) for r in range(N)],
        [np.zeros(5000 * N, int) for _ in range(N)],
    )
    tiered.each(lambda c: c.all_gather(out[c.rank], rows[c.rank]))
    assert all((o == np.concatenate(rows)).all() for o in out)
    tiered.each(lambda c: c.broadcast(rows[c.rank], 3))
    assert all((row == 3).all() for row in rows)
    box = np.zeros(9)
    work = tiered.ranks[3].recv(box, 1)
    tiered.ranks[1].send(np.arange(9.0), 3).wait()
    work.wait()
    assert box.tolist() == list(range(9))
    for group in (flat, tiered):
        group.close()
