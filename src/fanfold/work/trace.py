"""A recorded program of many ranks as phases: who computes, who sends what to whom, and when.

Phase i has ranks and, for each of them, the phases that this rank's part of it waits for; a
rank waits only for phases that it takes part in. When a part is over:

    compute       its time after all it waits for
    message       the sender's when all bytes have come; the receiver's then too, but not before
                  the receiver has done what it waits for itself
    collective    all parts together, as far as this file knows; a scheme's program is finer

Bytes leave when the sender is ready, and count when the receiver is ready too. So two ranks
that both send before they receive do not block each other, as with eager messages.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from fanfold.errors import ConfigError
from fanfold.units import PS_PER_SECOND
from fanfold.work.collective import Kind
from fanfold.work.parallel import wire_bytes
from fanfold.work.push import send_ps

GroupKind = Kind | Literal["gather", "scatter", "barrier"]
PhaseKind = GroupKind | Literal["compute", "message"]
COLLECTIVES: tuple[Kind, ...] = get_args(Kind)
ROOTED = ("broadcast", "reduce", "gather", "scatter")
MAX_TOTAL_PS = 2**61
"""Computing of all ranks together, so that no sum of times leaves 64 bits."""
MAX_TOTAL_BYTES = 2**55
"""Of all phases, times their ranks."""


class Phase(NamedTuple):
    """One thing that ranks do.

    ranks: compute: one; message: sender, receiver; a rooted collective: its root first.
    n_bytes: as work/collective.py counts them; gather, scatter: all of it, at the root; 0 for
    compute and barrier. needs: for each rank, phases. where: what the trace calls it.
    """

    kind: PhaseKind
    ranks: tuple[int, ...]
    n_bytes: int
    duration_ps: int
    needs: tuple[tuple[int, ...], ...]
    where: str


class Trace(NamedTuple):
    """Phases of ranks 0..n_ranks - 1.

    skipped: operations that were left out, by name. notes: what the trace did not say and was
    assumed.
    """

    n_ranks: int
    phases: tuple[Phase, ...]
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


class Times(NamedTuple):
    """When each part may begin and is over, by phase and place in its ranks; parts in order."""

    begin_ps: list[list[int]]
    end_ps: list[list[int]]
    order: list[tuple[int, int]]


def check_trace(trace: Trace) -> None:
    """Refuse what waits for itself and what is too long.

    Raises:
        ConfigError: by the first operation of a circle, with all that are in it.
    """
    total = sum(phase.duration_ps for phase in trace.phases)
    if total >= MAX_TOTAL_PS:
        raise ConfigError("trace", f"{total} ps of computing", f"below {MAX_TOTAL_PS}")
    n_bytes = sum(phase.n_bytes * len(phase.ranks) for phase in trace.phases)
    if n_bytes > MAX_TOTAL_BYTES:
        raise ConfigError("trace", f"{n_bytes} bytes at all ranks", f"up to {MAX_TOTAL_BYTES}")
    times_of(trace, lambda phase: phase.duration_ps)


def times_of(trace: Trace, cost_ps: Callable[[Phase], int]) -> Times:
    """Earliest times, where each phase takes what it costs and nothing is shared.

    Raises:
        ConfigError: a circle.
    """
    walk = _Walk(trace, cost_ps)
    walk.go()
    return Times(walk.begin, walk.end, walk.order)


def busy_ps(trace: Trace) -> list[int]:
    """(n_ranks,) time that each rank computes."""
    total = [0] * trace.n_ranks
    for phase in trace.phases:
        if phase.kind == "compute":
            total[phase.ranks[0]] += phase.duration_ps
    return total


def closed_form(rate_bps: int, latency_ps: int) -> Callable[[Phase], int]:
    """Time of a phase alone: links of one rate, a latency for each step, rings for collectives.

    Steps: 2 (n - 1) of an all_reduce, n - 1 of all_gather and reduce_scatter, log2 n of
    broadcast and reduce, twice that of a barrier, 1 of the others.
    """

    def cost(phase: Phase) -> int:
        if phase.kind == "compute":
            return phase.duration_ps
        return send_ps(_sent_bytes(phase), rate_bps) + _steps(phase) * latency_ps

    return cost


def _sent_bytes(phase: Phase) -> int:
    """Bytes over the busiest link of a phase that sends."""
    n = len(phase.ranks)
    match phase.kind:
        case "message":
            return phase.n_bytes
        case "gather" | "scatter":
            return phase.n_bytes * (n - 1) // n
        case "barrier" | "compute":
            return 0
        case _:
            return wire_bytes(phase.kind, phase.n_bytes, n)


def _steps(phase: Phase) -> int:
    n = len(phase.ranks)
    around, tree = n - 1, (n - 1).bit_length()
    steps: dict[PhaseKind, int] = {
        "all_reduce": 2 * around,
        "all_gather": around,
        "reduce_scatter": around,
        "broadcast": tree,
        "reduce": tree,
        "barrier": 2 * tree,
    }
    return steps.get(phase.kind, 1)


def least(rate_bps: int, latency_ps: int) -> Callable[[Phase], int]:
    """Time of a phase alone that no scheme goes below where hosts have links of that rate.

    A host's link carries what the host has to say, or to hear, once: of an all_reduce, a
    broadcast and a reduce all bytes, of the others all but its own share. One latency each.
    """

    def cost(phase: Phase) -> int:
        n = len(phase.ranks)
        match phase.kind:
            case "compute":
                return phase.duration_ps
            case "message" | "all_reduce" | "broadcast" | "reduce":
                n_bytes = phase.n_bytes if n > 1 else 0
            case "barrier":
                n_bytes = 0
            case _:
                n_bytes = phase.n_bytes * (n - 1) // n
        return n_bytes * 8 * PS_PER_SECOND // rate_bps + (latency_ps if n > 1 else 0)

    return cost


def critical_path_ps(trace: Trace, rate_bps: int, latency_ps: int) -> int:
    """End of the last part by ``least``: no link is shared, so nothing can be faster."""
    end = times_of(trace, least(rate_bps, latency_ps)).end_ps
    return max((max(parts) for parts in end), default=0)


def has_collectives(trace: Trace) -> bool:
    """Something that schemes do in ways of their own."""
    kinds = {phase.kind for phase in trace.phases if len(phase.ranks) > 1}
    return not kinds <= {"message", "gather", "scatter"}


class _Walk:
    """Parts in an order in which each comes after those it waits for."""

    def __init__(self, trace: Trace, cost_ps: Callable[[Phase], int]) -> None:
        self.phases, self.cost_ps = trace.phases, cost_ps
        self.begin = [[0] * len(p.ranks) for p in trace.phases]
        self.end = [[0] * len(p.ranks) for p in trace.phases]
        self.left = [[len(needs) for needs in p.needs] for p in trace.phases]
        self.entered = [0] * len(trace.phases)
        self.order: list[tuple[int, int]] = []
        self.is_over = [[False] * len(p.ranks) for p in trace.phases]
        self.waiting = _waiting(trace.phases)
        self.ready = deque(
            (i, k) for i, left in enumerate(self.left) for k, n in enumerate(left) if n == 0
        )

    def go(self) -> None:
        n_parts = sum(len(p.ranks) for p in self.phases)
        while self.ready:
            i, k = self.ready.popleft()
            self.order.append((i, k))
            self.entered[i] += 1
            self._enter(i, k)
        if sum(map(sum, self.is_over)) < n_parts:
            raise _circle(self.phases, self.is_over)

    def _enter(self, i: int, k: int) -> None:
        phase, begin = self.phases[i], self.begin[i]
        cost = self.cost_ps(phase)
        if phase.kind == "compute":
            self._finish(i, k, begin[0] + cost)
        elif phase.kind != "message":
            if self.entered[i] == len(phase.ranks):
                for other in range(len(phase.ranks)):
                    self._finish(i, other, max(begin) + cost)
        elif k == 0:
            came = begin[0] + cost
            self._finish(i, 0, came)
            if self.entered[i] == 2:
                self._finish(i, 1, max(came, begin[1]))
        elif self.is_over[i][0]:
            self._finish(i, 1, max(self.end[i][0], begin[1]))

    def _finish(self, i: int, k: int, now: int) -> None:
        self.end[i][k], self.is_over[i][k] = now, True
        for j, m in self.waiting.get((i, self.phases[i].ranks[k]), ()):
            self.begin[j][m] = max(self.begin[j][m], now)
            self.left[j][m] -= 1
            if self.left[j][m] == 0:
                self.ready.append((j, m))


def _waiting(phases: Sequence[Phase]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Parts that wait, by the phase and the rank that they wait for."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, phase in enumerate(phases):
        for k, needs in enumerate(phase.needs):
            for need in needs:
                found.setdefault((need, phase.ranks[k]), []).append((i, k))
    return found


def _circle(phases: Sequence[Phase], is_over: list[list[bool]]) -> ConfigError:
    """Walk back from one open part to the next until one comes again."""

    def before(i: int, k: int) -> tuple[int, int]:
        phase = phases[i]
        for need in phase.needs[k]:
            at = phases[need].ranks.index(phase.ranks[k])
            if not is_over[need][at]:
                return need, at
        others = range(len(phase.ranks)) if phase.kind != "message" else (0,)
        for other in others:
            for need in phase.needs[other]:
                at = phases[need].ranks.index(phase.ranks[other])
                if not is_over[need][at]:
                    return need, at
        raise AssertionError  # a part that waits for nothing is over

    at = next((i, k) for i, over in enumerate(is_over) for k, o in enumerate(over) if not o)
    seen: dict[tuple[int, int], None] = {}
    while at not in seen:
        seen[at] = None
        at = before(*at)
    circle = list(seen)[list(seen).index(at) :]
    return _told_circle(phases, circle)


def _told_circle(phases: Sequence[Phase], circle: list[tuple[int, int]]) -> ConfigError:
    names = [phases[i].where for i, _ in circle]
    shown = " <- ".join([*names[:6], "..." if len(names) > 6 else names[0]])
    ranks = [str(rank) for rank in sorted({phases[i].ranks[k] for i, k in circle})]
    told = "waits for itself"
    if len(ranks) > 1:
        some = ", ".join(ranks[:6] + ["..."] * (len(ranks) > 6))
        told = f"ranks {some} wait for each other in a circle"
    return ConfigError(names[0], f"{told}: {shown}", "dependencies without a circle")
