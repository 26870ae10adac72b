"""Four programs whose speed is known for other simulators too: what `fanfold sim-bench` runs.

All on k-ary fat trees of 100 Gb/s and 1 us links, 4096-byte packets, an acknowledgement for
each, one path for each message, queue limits on, no pause frames. Hops count data and control
on every link; permutations are drawn, so those of S1a and S1b change with the seed.

    S1a    128 hosts, 2 MiB each to one other: a random cycle     about 760,000 hops
    S1b    the same with 1024 hosts                             about 6,130,000 hops
    S3     1 MiB from host 0 to 127 others, a copy for each          371,712 hops
    S4     all_reduce of 64 MiB along a ring of 128 hosts         21,848,064 hops
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import ACKED, Program, build_program
from fanfold.streams import stream

SETTINGS = Settings(transport="roce", routing="ecmp", queue_bytes=10_000 * 4096)
_MIB = 2**20


class Case(NamedTuple):
    """A program and the topology it runs on."""

    name: str
    topology: str
    program: Program


def cases(seed: int) -> tuple[Case, ...]:
    """The four, permutations drawn from a seed."""
    return (
        Case("S1a", "fat-tree:k=8", permutation(128, 2 * _MIB, seed)),
        Case("S1b", "fat-tree:k=16", permutation(1024, 2 * _MIB, seed)),
        Case("S3", "fat-tree:k=8", copies(128, _MIB)),
        Case("S4", "fat-tree:k=8", ring(128, 64 * _MIB)),
    )


def permutation(n: int, n_bytes: int, seed: int) -> Program:
    """One random cycle through n hosts: each sends once and receives once."""
    order = stream(seed, "sim-bench/permutation").permutation(n)
    return _program(order, np.roll(order, -1), n_bytes)


def copies(n: int, n_bytes: int) -> Program:
    """From host 0 to every other."""
    others = np.arange(1, n)
    return _program(np.zeros_like(others), others, n_bytes)


def ring(n: int, n_bytes: int) -> Program:
    """Chains of 2 (n - 1) steps; a step starts at the last acknowledgement of the one before.

    Step s of chain c goes from host c + s to the next, and carries an n-th of the bytes.
    """
    n_steps = 2 * (n - 1)
    chain, step = np.arange(n)[:, None], np.arange(n_steps)
    src = ((chain + step) % n).ravel()
    item = np.arange(n * n_steps).reshape(n, n_steps)
    edges = np.column_stack([item[:, :-1].ravel(), item[:, 1:].ravel()])
    return _program(src, (src + 1) % n, n_bytes // n, edges)


def _program(
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    n_bytes: int,
    edges: NDArray[np.int64] | None = None,
) -> Program:
    rows = np.column_stack([src, dst, np.full(src.size, n_bytes), np.zeros_like(src)])
    waits = np.zeros((0, 2), np.int64) if edges is None else edges
    return build_program(rows.astype(np.int64), waits, on=ACKED)
