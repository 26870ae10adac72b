"""The bare loop that a simulator is measured against: a binary heap of times, and nothing else.

Each turn takes the earliest of n times and puts it back a drawn while later, as one packet that
crosses one link would. No packets, no ports, no queues: what is left is the price of order.
"""

from fanfold.kernels.jit import kernel
from fanfold.sim.loop.rows import I64

LATER_PS = 332_800
"""A full packet at 100 Gb/s; drawn times lie between one and two of these."""
_MASK = (1 << 31) - 1


@kernel
def heap_loop(times: I64, n_turns: int) -> int:
    """Turn a heap over.

    Args:
        times: (n,) the heap, the earliest first; any constant array is one.

    Returns:
        The earliest time at the end.
    """
    n = times.shape[0]
    drawn = 1
    for _ in range(n_turns):
        drawn = (drawn * 1103515245 + 12345) & _MASK
        when = times[0] + LATER_PS + drawn % LATER_PS
        i = 0
        while True:
            child = 2 * i + 1
            if child >= n:
                break
            if child + 1 < n and times[child + 1] < times[child]:
                child += 1
            if times[child] >= when:
                break
            times[i] = times[child]
            i = child
        times[i] = when
    return times[0]
