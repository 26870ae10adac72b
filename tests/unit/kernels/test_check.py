"""Check words of sums: a true sum passes, a false one is found, and no secret can be seen."""

from random import Random

import numpy as np
import pytest

from fanfold.kernels.check import (
    N_CHECK_WORDS,
    PRIMES,
    Check,
    combine,
    is_true_sum,
    write_checks,
)
from fanfold.live.rank_check import build_check, free_check
from fanfold.topo.lab_fabric import leaf_spine

N_RANKS, N, BLOCK = 4, 96, 0xFFFFFFF0
SECRET = b"of all ranks, and of no BFR"
TYPES = {4: np.int32, 8: np.int64}


@pytest.fixture
def check() -> Check:
    fabric = leaf_spine(1, 0, N_RANKS)
    made = build_check(fabric, [f"h{r + 1}" for r in range(N_RANKS)], 7, SECRET, 8192)
    yield made
    free_check(made)


def arrays(width: int, seed: int) -> np.ndarray:
    """Words of all ranks, check words behind: none of a sum overflows."""
    most = 2 ** (8 * width - 1) // N_RANKS
    random = Random(seed)
    out = np.zeros((N_RANKS, N + N_CHECK_WORDS), TYPES[width])
    out[:, :N] = [[random.randrange(-most, most) for _ in range(N)] for _ in range(N_RANKS)]
    return out


def sent(check: Check, width: int, seed: int, block: int = BLOCK) -> np.ndarray:
    rows = arrays(width, seed)
    for r, row in enumerate(rows):
        raw = row.view(np.uint8)
        n = N * width
        assert write_checks(check, r, block, raw[:n], width, raw[n:])
    return rows


def is_taken(check: Check, width: int, joined: np.ndarray, block: int = BLOCK) -> bool:
    raw = joined.view(np.uint8)
    return bool(is_true_sum(check, block, raw[: N * width], width, raw[N * width :]))


@pytest.mark.parametrize("width", [4, 8])
def test_combinations_are_those_of_python_integers(check: Check, width: int) -> None:
    for words in (*arrays(width, 1)[:, :N], np.full(N, np.iinfo(TYPES[width]).min)):
        for e, prime in enumerate(PRIMES):
            want = sum(int(a) * int(x) for a, x in zip(check.coeffs[e], words, strict=False))
            own = np.ascontiguousarray(words, TYPES[width]).view(np.uint8)
            assert combine(own, width, check.coeffs[e], prime) == want % prime


@pytest.mark.parametrize("width", [4, 8])
def test_a_true_sum_is_taken_and_one_changed_word_is_not(check: Check, width: int) -> None:
    joined = sent(check, width, 2).sum(axis=0, dtype=TYPES[width])
    assert is_taken(check, width, joined)
    random = Random(3)
    multiples = [*PRIMES, PRIMES[0] * PRIMES[1] if width == 8 else 2]
    for change in (1, -1, 1 << 31, *multiples, random.randrange(1, 1 << 31)):
        for at in (0, N - 1, random.randrange(N), N, N + N_CHECK_WORDS - 1):
            other = joined.copy()
            with np.errstate(over="ignore"):
                other[at] += np.array(change).astype(TYPES[width])
            if at < N or change not in PRIMES:  # of check words themselves it changes nothing
                assert not is_taken(check, width, other), (change, at)
    assert is_taken(check, width, joined)


def test_who_is_left_out_or_counted_twice_is_found(check: Check) -> None:
    rows = sent(check, 4, 4)
    assert not is_taken(check, 4, rows[1:].sum(axis=0, dtype=np.int32))
    twice = rows.sum(axis=0, dtype=np.int32) + rows[0]
    assert not is_taken(check, 4, twice)
    swapped = rows[[0, 0, 2, 3]].sum(axis=0, dtype=np.int32)
    assert not is_taken(check, 4, swapped)


def test_the_result_of_another_block_is_found(check: Check) -> None:
    joined = sent(check, 4, 5).sum(axis=0, dtype=np.int32)
    assert is_taken(check, 4, joined)
    assert not is_taken(check, 4, joined, BLOCK + 1)


def test_equal_arrays_have_other_check_words_in_each_block_and_rank(check: Check) -> None:
    raw = np.zeros(4 * N, np.uint8)
    seen = set()
    for block in range(50):
        for rank in range(N_RANKS):
            out = np.zeros(4 * N_CHECK_WORDS, np.uint8)
            assert write_checks(check, rank, block, raw, 4, out)
            seen.add(out.tobytes())
    assert len(seen) == 50 * N_RANKS


def test_other_secrets_and_groups_refuse_each_other() -> None:
    fabric, members = leaf_spine(1, 0, N_RANKS), [f"h{r + 1}" for r in range(N_RANKS)]
    one = build_check(fabric, members, 7, SECRET, 8192)
    joined = sent(one, 4, 6).sum(axis=0, dtype=np.int32)
    for group, secret in ((8, SECRET), (7, SECRET + b".")):
        other = build_check(fabric, members, group, secret, 8192)
        assert not is_taken(other, 4, joined)
        free_check(other)
    free_check(one)
    assert build_check(fabric, members, 7, b"", 8192).coeffs.shape == (3, 0)


def test_coefficients_and_primes_are_what_the_bound_needs(check: Check) -> None:
    for p in PRIMES:
        assert all(p % d for d in range(2, 46_341))
        assert p > 2**30
    assert PRIMES[0] * PRIMES[1] > 2**33
    assert PRIMES[0] * PRIMES[1] * PRIMES[2] > 2**65
    for row, p in zip(check.coeffs, PRIMES, strict=True):
        assert row.max() < p
        assert len(set(row.tolist())) > len(row) - 10
