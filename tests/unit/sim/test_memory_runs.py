"""Memory transactions in time: what a mode forbids never comes, what it allows does."""

import numpy as np
import pytest

from fanfold.core.memory_order import LITMUS, ONE_HOME, TWO_HOMES, Mode, outcomes
from fanfold.sim.memory_runs import Traffic, _in_order, _most_held, cost_of, run_litmus

N_RUNS = 100_000
LEAST = 5
"""Of so many runs an outcome that is allowed comes so often, at least."""


@pytest.mark.parametrize("is_fenced", [False, True], ids=["plain", "fenced"])
@pytest.mark.parametrize("homes", [ONE_HOME, TWO_HOMES], ids=["one home", "two homes"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("litmus", LITMUS, ids=[litmus.name for litmus in LITMUS])
def test_what_comes_is_what_the_orders_allow(litmus, mode, homes, is_fenced):
    seen = run_litmus(litmus, mode, homes, is_fenced=is_fenced, n_runs=N_RUNS, seed=1)
    assert sum(seen.values()) == N_RUNS
    assert set(seen) == outcomes(litmus, mode, homes, is_fenced=is_fenced)
    assert min(seen.values()) >= LEAST


def test_a_seed_gives_the_same_runs_and_another_one_others():
    def once(seed):
        return run_litmus(
            LITMUS[0], Mode.SPRAY, ONE_HOME, is_fenced=False, n_runs=1000, seed=seed
        )

    assert once(3) == once(3) != once(4)


def test_order_is_kept_by_key_and_what_waits_is_counted():
    keys, at = np.array([0, 1, 0, 1, 0]), np.array([50, 10, 20, 5, 70])
    effects = _in_order(keys, at)
    assert effects.tolist() == [50, 10, 50, 10, 70]
    # home 0 holds its second packet from 20 to 50, home 1 one from 5 to 10
    assert _most_held(keys, at, effects) == 1
    late = np.array([90, 10, 20, 30])
    assert _most_held(np.zeros(4, int), late, _in_order(np.zeros(4, int), late)) == 3


def test_strong_order_has_one_plane_to_a_home_and_a_buffer_costs_no_time_to_speak_of():
    traffic = Traffic()
    cost = {mode: cost_of(mode, traffic, 1) for mode in Mode}
    floor_ps = traffic.n_transactions * 2560 // traffic.n_planes
    assert floor_ps < cost[Mode.SPRAY].time_ps <= cost[Mode.WEAK].time_ps < 1.2 * floor_ps
    assert cost[Mode.STRONG].time_ps > 3.5 * cost[Mode.WEAK].time_ps
    assert cost[Mode.STRONG].busiest_ppm == 1_000_000
    assert cost[Mode.WEAK].busiest_ppm == 250_000
    assert cost[Mode.PARTIAL].time_ps < 1.2 * cost[Mode.WEAK].time_ps
    # up to what leaves while the slowest packet is on its way: 0.5 us at 3.2 Tbit/s
    assert 100_000 < cost[Mode.WEAK].buffer_bytes < 256 * (500_000 * 4 // 2560 + 1)
    assert {m: c.buffer_bytes for m, c in cost.items() if m is not Mode.WEAK} == {
        Mode.SPRAY: 0,
        Mode.PARTIAL: 0,
        Mode.STRONG: 0,
    }


def test_over_many_homes_strong_order_has_all_planes():
    cost = {mode: cost_of(mode, Traffic(n_homes=63), 1) for mode in Mode}
    assert cost[Mode.STRONG].busiest_ppm < 260_000
    assert cost[Mode.STRONG].time_ps < 1.1 * cost[Mode.SPRAY].time_ps


def test_a_fence_costs_there_and_back():
    plain, fenced = (cost_of(Mode.PARTIAL, Traffic(fence_every=n), 1) for n in (0, 100))
    per_fence_ps = (fenced.time_ps - plain.time_ps) // 200
    assert 1_500_000 < per_fence_ps < 2_000_000
