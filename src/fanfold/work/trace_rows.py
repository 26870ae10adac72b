"""What a trace holds, as rows for a table, and below what time no scheme gets."""

from typing import NamedTuple

from fanfold.units import PPB_ONE
from fanfold.work.trace import Trace, busy_ps, critical_path_ps
from fanfold.work.volumes import Row


class Gist(NamedTuple):
    """Of a whole trace. busy_ps: of the rank that computes most. share_ppb: of the path."""

    n_ranks: int
    n_phases: int
    path_ps: int
    busy_ps: int
    share_ppb: int


def rows_of(trace: Trace) -> list[Row]:
    """A row for each kind of phase, in the order in which they come first."""
    found: dict[str, list[int]] = {}
    for phase in trace.phases:
        row = found.setdefault(phase.kind, [0, 0, 0, 0, 0])
        row[0] += 1
        row[1] = max(row[1], len(phase.ranks))
        row[2] += phase.n_bytes
        row[3] = max(row[3], phase.n_bytes)
        row[4] += phase.duration_ps
    return [
        {
            "kind": kind,
            "phases": n,
            "most_ranks": ranks,
            "all_bytes": n_bytes,
            "largest_bytes": largest,
            "computing_ps": duration,
        }
        for kind, (n, ranks, n_bytes, largest, duration) in found.items()
    ]


def gist_of(trace: Trace, rate_bps: int, latency_ps: int) -> Gist:
    """Longest path of computing and sending, no link shared: a bound for every scheme."""
    path = critical_path_ps(trace, rate_bps, latency_ps)
    busy = max(busy_ps(trace), default=0)
    share = int(PPB_ONE) * busy // path if path else 0
    return Gist(trace.n_ranks, len(trace.phases), path, busy, share)
