"""The bare loop keeps its heap a heap and goes on in time."""

import heapq

import numpy as np

from fanfold.sim.loop.heap_bench import LATER_PS, heap_loop


def test_times_stay_a_heap_and_no_turn_is_lost() -> None:
    times = np.zeros(13, np.int64)
    assert heap_loop(times, 500) == times[0]
    twin, drawn = [0] * 13, 1
    for _ in range(500):
        drawn = (drawn * 1103515245 + 12345) & (2**31 - 1)
        heapq.heapreplace(twin, twin[0] + LATER_PS + drawn % LATER_PS)
    assert sorted(times.tolist()) == sorted(twin)
    assert all(times[i] >= times[(i - 1) // 2] for i in range(1, 13))
