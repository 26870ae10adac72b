"""Litmus programs under every order of delivery, and what each order costs; as rows.

Each row carries what orders allow (core/memory_order.py) beside what runs in time brought
(sim/memory_runs.py); where they differ one of the two is wrong.
"""

from collections.abc import Callable

import msgspec

from fanfold.core.memory_order import (
    LITMUS,
    ONE_HOME,
    TWO_HOMES,
    Homes,
    Litmus,
    Mode,
    outcomes,
)
from fanfold.errors import CheckFailed
from fanfold.sim.memory_runs import Traffic, cost_of, run_litmus

PLACES: tuple[tuple[str, Homes], ...] = (("one home", ONE_HOME), ("two homes", TWO_HOMES))
TRAFFIC: tuple[tuple[str, Traffic], ...] = (
    ("1 home", Traffic()),
    ("63 homes", Traffic(n_homes=63)),
    ("63 homes, a fence after 1,000", Traffic(n_homes=63, fence_every=1000)),
)
N_RUNS = 100_000


class LitmusRow(msgspec.Struct, frozen=True):
    """One program at one place. seen: runs with the outcome in question, by mode.

    allowed: modes that let it through. fenced: runs with it where fences stand between all
    transactions, in all modes together.
    """

    test: str
    words: str
    homes: str
    seen: dict[Mode, int]
    allowed: list[Mode]
    fenced: int


class CostRow(msgspec.Struct, frozen=True):
    """What a mode costs one source's transactions; fields as ``Cost`` has them."""

    traffic: str
    mode: Mode
    time_ps: int
    buffer_bytes: int
    busiest_ppm: int


class MemoryTable(msgspec.Struct, frozen=True):
    """All of it."""

    runs: int
    seed: int
    litmus: list[LitmusRow]
    costs: list[CostRow]


def build_table(
    n_runs: int = N_RUNS, seed: int = 1, progress: Callable[[int, int], None] | None = None
) -> MemoryTable:
    """Run every program under every mode.

    Args:
        n_runs: of each program, mode and place. progress: told (done, of all).

    Raises:
        CheckFailed: runs brought an outcome that a mode forbids.
    """
    cases = [
        (litmus, place, homes)
        for litmus in LITMUS
        for place, homes in PLACES
        if place == PLACES[0][0] or len(litmus.addresses) > 1
    ]
    rows = []
    for n, case in enumerate(cases):
        if progress is not None:
            progress(n, len(cases))
        rows.append(_row(*case, n_runs, seed))
    costs = [
        CostRow(name, mode, *cost_of(mode, traffic, seed))
        for name, traffic in TRAFFIC
        for mode in Mode
    ]
    return MemoryTable(n_runs, seed, rows, costs)


def _row(litmus: Litmus, place: str, homes: Homes, n_runs: int, seed: int) -> LitmusRow:
    seen = {m: _count(litmus, m, homes, n_runs, seed, is_fenced=False) for m in Mode}
    fenced = sum(_count(litmus, m, homes, n_runs, seed, is_fenced=True) for m in Mode)
    allowed = [
        mode
        for mode in Mode
        if any(map(litmus.is_relaxed, outcomes(litmus, mode, homes, is_fenced=False)))
    ]
    return LitmusRow(litmus.name, litmus.words, place, seen, allowed, fenced)


def _count(
    litmus: Litmus, mode: Mode, homes: Homes, n_runs: int, seed: int, *, is_fenced: bool
) -> int:
    """Runs with the outcome in question; none may have another one than orders allow."""
    came = run_litmus(litmus, mode, homes, is_fenced=is_fenced, n_runs=n_runs, seed=seed)
    strange = came.keys() - outcomes(litmus, mode, homes, is_fenced=is_fenced)
    if strange:
        raise CheckFailed(f"litmus {litmus.name}: {mode} forbids {min(strange)}, and it came")
    return sum(n for outcome, n in came.items() if litmus.is_relaxed(outcome))
