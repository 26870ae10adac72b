"""Round trips and timeouts of a rank, worked out by hand."""

import numpy as np
import pytest

from fanfold.kernels.rank_timers import (
    MOST_PATIENCE,
    RTO_LEAST_PS,
    RTO_MOST_PS,
    note_round,
    rto_of,
)

MS = 10**9
ROW = np.dtype([("srtt_ps", np.int64), ("var_ps", np.int64), ("patience", np.int64)])


def row(srtt_ps=0, var_ps=0, patience=0):
    return np.array([(srtt_ps, var_ps, patience)], ROW)[0]


def test_a_first_round_trip_is_the_mean_and_half_of_it_the_deviation():
    one = row()
    note_round(one, 8 * MS)
    assert (one["srtt_ps"], one["var_ps"]) == (8 * MS, 4 * MS)


@pytest.mark.parametrize(("rtt", "mean", "deviation"), [(16, 9, 5), (8, 8, 3), (4, 7.5, 4)])
def test_a_later_one_counts_an_eighth_and_its_distance_a_quarter(rtt, mean, deviation):
    one = row(8 * MS, 4 * MS)
    note_round(one, rtt * MS)
    assert (one["srtt_ps"], one["var_ps"]) == (mean * MS, deviation * MS)


def test_a_timeout_is_twice_the_mean_and_four_deviations_within_bounds():
    assert rto_of(row(8 * MS, 4 * MS)) == 32 * MS
    assert rto_of(row(MS, MS)) == RTO_LEAST_PS == 10 * MS
    assert rto_of(row(8 * MS, 4 * MS, patience=2)) == 128 * MS
    assert rto_of(row(8 * MS, 4 * MS, patience=4)) == 512 * MS
    assert rto_of(row(8 * MS, 4 * MS, patience=MOST_PATIENCE)) == RTO_MOST_PS == 1000 * MS
