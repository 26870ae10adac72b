"""A byte's time is a fraction of picoseconds, exact for every whole Gb/s."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.topo.byte_time import LARGEST, LEAST_RATE_BPS, byte_fraction, byte_times
from fanfold.topo.nets import build_named_net


@pytest.mark.parametrize(
    ("gbps", "num", "den"),
    [(100, 80, 1), (900, 80, 9), (3200, 5, 2), (3600, 20, 9), (7, 8000, 7)],
)
def test_times_of_a_byte_by_hand(gbps: int, num: int, den: int) -> None:
    assert byte_fraction(gbps * 10**9) == (num, den)


@given(st.integers(1, 8000))
def test_every_whole_gigabit_is_exact(gbps: int) -> None:
    assert Fraction(*byte_fraction(gbps * 10**9)) == Fraction(8000, gbps)


@given(st.integers(LEAST_RATE_BPS, 8 * 10**12))
def test_every_other_rate_is_exact_to_one_in_a_milliard(bps: int) -> None:
    num, den = byte_fraction(bps)
    assert 0 < num <= LARGEST
    assert 0 < den <= LARGEST
    want = Fraction(8 * 10**12, bps)
    assert abs(Fraction(num, den) - want) <= want / 10**9


def test_bytes_of_a_link_take_their_time_rounded_down() -> None:
    times = byte_times(build_named_net("star:hosts=2,rate=900Gbps"))
    assert times.at(0, 9) == 80
    assert times.at(0, 4160) == 4160 * 80 // 9 == 36_977
    assert times.all(18).tolist() == [160] * 4
