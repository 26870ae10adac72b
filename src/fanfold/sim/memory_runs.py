"""Memory transactions in time: litmus programs run many times, and what each order costs.

Letters of shapes: R = runs of a program, T = transactions of a source. Times are integer ps.
A packet waits for its plane, then takes LEAST_PS and up to SPREAD_PS more, as queues have it.
Packets of one queue pair do not overtake each other; a home's reorder buffer lets none go
before those that were sent before it. An answer takes as long.
"""

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.core.memory_order import Homes, Litmus, Mode, Op, Outcome
from fanfold.streams import Generator, stream
from fanfold.units import PS_PER_SECOND

Times = NDArray[np.int64]
LEAST_PS, SPREAD_PS = 500_000, 500_000
START_PS = 500_000, 4_000_000
"""Sources of a litmus program begin within so long, in runs by turns: some meet while they are
under way, others leave each other the time that fences take."""
GAP_PS = 2_560
"""Between two transactions of a source: 256 bytes at 800 Gbit/s."""


def run_litmus(
    litmus: Litmus, mode: Mode, homes: Homes, *, is_fenced: bool, n_runs: int, seed: int
) -> Counter[Outcome]:
    """How often each outcome came of so many runs."""
    rng = stream(seed, f"memory/{litmus.name}/{mode}/{homes}/{is_fenced}")
    effects: list[tuple[Op, Times]] = []
    for thread in litmus.threads:
        source = _Source(mode, homes, rng, n_runs)
        for n, op in enumerate(thread):
            if n and is_fenced:
                source.fence()
            effects.append((op, source.send(op)))
    loads = [_latest(effects, op.address, at) for op, at in effects if not op.value]
    end = np.full(n_runs, np.iinfo(np.int64).max)
    finals = [_latest(effects, address, end) for address in litmus.addresses]
    n_loads = len(loads)
    rows, counts = np.unique(np.column_stack(loads + finals), axis=0, return_counts=True)
    return Counter(
        {
            Outcome(tuple(row[:n_loads]), tuple(row[n_loads:])): n
            for row, n in zip(rows.tolist(), counts.tolist(), strict=True)
        }
    )


class _Source:
    """One source's transactions in R runs at once."""

    def __init__(self, mode: Mode, homes: Homes, rng: Generator, n_runs: int) -> None:
        self._mode, self._homes, self._rng, self._n_runs = mode, homes, rng, n_runs
        self._now = rng.integers(0, np.resize(START_PS, n_runs))
        self._answered = self._now
        self._last: dict[Hashable, Times] = {}

    def send(self, op: Op) -> Times:
        """When a transaction takes effect at its home, (R,)."""
        effect = self._now + self._travel()
        home = self._homes[op.address]
        if self._mode is Mode.PARTIAL:  # no packet of a queue pair overtakes another one
            effect = self._after((home, op.address), effect)
        elif self._mode is not Mode.SPRAY:  # held in a buffer, or never ahead
            effect = self._after(home, effect)
        self._now = self._now + GAP_PS
        self._answered = np.maximum(self._answered, effect + self._travel())
        return effect

    def fence(self) -> None:
        """Send nothing before all is answered."""
        self._now = np.maximum(self._now, self._answered)

    def _after(self, key: Hashable, at: Times) -> Times:
        """At that time, or right after the one before it."""
        if key in self._last:
            at = np.maximum(at, self._last[key] + 1)
        self._last[key] = at
        return at

    def _travel(self) -> Times:
        return LEAST_PS + self._rng.integers(0, SPREAD_PS, self._n_runs)


def _latest(effects: list[tuple[Op, Times]], address: str, before: Times) -> Times:
    """Value of the last store to an address that took effect before a time, (R,); 0: none."""
    value, newest = np.zeros_like(before), np.full_like(before, -1)
    for op, at in effects:
        if op.value and op.address == address:
            is_newer = (at < before) & (at >= newest)
            value[is_newer], newest[is_newer] = op.value, at[is_newer]
    return value


class Traffic(NamedTuple):
    """Transactions of one source: to random addresses, of homes in turn.

    fence_every: a fence after so many; 0: none.
    """

    n_homes: int = 1
    n_transactions: int = 20_000
    fence_every: int = 0
    n_planes: int = 4
    bps: int = 800_000_000_000
    n_bytes: int = 256


class Cost(NamedTuple):
    """What an order costs.

    time_ps: until all is answered. buffer_bytes: most that one home holds back at once.
    busiest_ppm: part of all packets that went by the busiest plane.
    """

    time_ps: int
    buffer_bytes: int
    busiest_ppm: int


def cost_of(mode: Mode, traffic: Traffic, seed: int) -> Cost:
    """Time and buffer of a source's transactions under a mode."""
    rng = stream(seed, f"memory/cost/{traffic}")  # the same addresses and queues for all modes
    n, n_planes = traffic.n_transactions, traffic.n_planes
    homes = np.arange(n) % traffic.n_homes
    pairs = rng.integers(0, 1 << 16, n)  # hash of the address: queue pair of partial order
    travel, back = (LEAST_PS + rng.integers(0, SPREAD_PS, n) for _ in range(2))
    ways = {Mode.PARTIAL: pairs, Mode.STRONG: homes}.get(mode, np.arange(n)) % n_planes
    keys = {
        Mode.SPRAY: np.arange(n),
        Mode.WEAK: homes,
        Mode.PARTIAL: pairs * traffic.n_homes + homes,
        Mode.STRONG: homes,
    }[mode]
    packet_ps = -(-traffic.n_bytes * 8 * PS_PER_SECOND // traffic.bps)
    step = traffic.fence_every or n
    began, effects = 0, np.zeros(n, np.int64)
    arrived = np.zeros(n, np.int64)
    for first in range(0, n, step):
        part = slice(first, min(first + step, n))
        arrived[part] = began + _leave(ways[part], n_planes, packet_ps) + travel[part]
        effects[part] = _in_order(keys[part], arrived[part])
        began = int((effects[part] + back[part]).max())
    held = _most_held(homes, arrived, effects) if mode is Mode.WEAK else 0
    busiest = int(np.bincount(ways, minlength=n_planes).max())
    return Cost(began, held * traffic.n_bytes, busiest * 1_000_000 // n)


def _leave(ways: Times, n_planes: int, packet_ps: int) -> Times:
    """When each packet of a burst has left by its plane, in order, (T,)."""
    left = np.zeros_like(ways)
    for plane in range(n_planes):
        mine = np.flatnonzero(ways == plane)
        left[mine] = packet_ps * np.arange(1, mine.size + 1)
    return left


def _in_order(keys: Times, at: Times) -> Times:
    """Times at which none is before an earlier one of its key, (T,)."""
    order = np.argsort(keys, kind="stable")
    sorted_keys, result = keys[order], np.empty_like(at)
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    rank = np.repeat(np.arange(starts.size), np.diff(np.r_[starts, at.size]))
    lift = (int(at.max()) + 1) * rank  # so that a later key never waits for an earlier one
    result[order] = np.maximum.accumulate(at[order] + lift) - lift
    return result


def _most_held(homes: Times, arrived: Times, effects: Times) -> int:
    """Most packets that one home holds back at a time."""
    most = 0
    for home in range(int(homes.max()) + 1):
        late = (homes == home) & (effects > arrived)
        times = np.r_[arrived[late], effects[late]]
        steps = np.repeat([1, -1], int(late.sum()))
        order = np.lexsort((steps, times))  # what goes, goes first
        most = max(most, int(np.cumsum(steps[order]).max(initial=0)))
    return most
