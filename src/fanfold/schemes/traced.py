"""A recorded trace as a program of one scheme: computing becomes pauses, the rest is sent.

Each collective of the trace is planned by the scheme; what it cannot do is done by a stand-in,
and said so. A message of a plan leaves when its sender has come to the collective; a rank goes
on when all that it sends and gets in it has arrived. A fan has arrived when each receiver has
it: ranks behind a fan wait for the slowest of them, those behind messages for their own. A sum
begins when all its ranks have come to it.

Sizes are rounded up to what n ranks can share, n - 1 bytes at most; a barrier is an all_reduce
of one byte for each rank; gather and scatter are messages to and from the root.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import Scheme, scheme_of
from fanfold.schemes.draft import check_work
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, Sum, build_program, edges_of, expand
from fanfold.work.collective import Collective, Kind
from fanfold.work.trace import COLLECTIVES, Phase, PhaseKind, Trace

I64 = NDArray[np.int64]
STAND_INS = {"broadcast": "binary-tree", "reduce": "binary-tree"}
STAND_IN = "direct"
"""Of collectives in which every rank has something to send."""
MAX_ITEMS = 2**21
"""Messages and fans of a trace; pipelines are cut less finely where there would be more."""
_FAN, _SUM, _PAUSE = 2**40, 2**45, 2**50
"""Ids of fans, sums and pauses while the number of messages is open."""


class Traced(NamedTuple):
    """A program, and who stood in for the scheme, by kind."""

    program: Program
    stand_ins: dict[str, str]

    @property
    def note(self) -> str:
        """The stand-ins in words, empty without any."""
        return ", ".join(f"{kind} by {name}" for kind, name in sorted(self.stand_ins.items()))


def build_traced(trace: Trace, hosts: Sequence[int], scheme: Scheme) -> Traced:
    """Program of a trace whose rank r is on hosts[r].

    Raises:
        ConfigError: more messages than MAX_ITEMS even without pieces.
    """
    plans, stand_ins = _plans(trace, hosts, scheme)
    used = Counter(key for key in map(_key, trace.phases) if key in plans)
    base = sum(plans[key].n_items * n for key, n in used.items())
    if base > MAX_ITEMS:
        raise ConfigError("trace", f"{base} messages", f"up to {MAX_ITEMS} with {scheme.name}")
    most = max(MAX_ITEMS // max(base, 1), 1)
    pieces = {
        key: expand(plan._replace(chunks=min(plan.chunks, most))) for key, plan in plans.items()
    }
    weaver = _Weaver(trace, hosts, pieces)
    return Traced(weaver.weave(), stand_ins)


Key = tuple[PhaseKind, int, tuple[int, ...]]


def _key(phase: Phase) -> Key:
    return phase.kind, phase.n_bytes, phase.ranks


def _plans(
    trace: Trace, hosts: Sequence[int], scheme: Scheme
) -> tuple[dict[Key, Program], dict[str, str]]:
    """A compact program for each different collective."""
    plans: dict[Key, Program] = {}
    stand_ins: dict[str, str] = {}
    for phase in trace.phases:
        key = _key(phase)
        if key in plans or phase.kind in ("compute", "message", "gather", "scatter"):
            continue
        work = _work(phase, hosts)
        doer = _doer(scheme, work)
        if doer is not scheme:
            stand_ins[phase.kind] = doer.name
        plans[key] = doer.plan(work, SchemeOptions(compact=True)).program
    return plans, stand_ins


def _doer(scheme: Scheme, work: Collective) -> Scheme:
    """The scheme, or who stands in for it."""
    try:
        check_work(work, scheme.name, scheme.kinds)
        if work.kind in scheme.kinds:
            scheme.plan(work, SchemeOptions(compact=True))
            return scheme
    except ConfigError as error:
        if not error.field.startswith("workload"):
            raise
    return scheme_of(STAND_INS.get(work.kind, STAND_IN))


def _work(phase: Phase, hosts: Sequence[int]) -> Collective:
    n = len(phase.ranks)
    kind: Kind = "all_reduce"
    if phase.kind in COLLECTIVES:
        kind = phase.kind
    n_bytes = -(-max(phase.n_bytes, 1) // n) * n
    if kind in ("broadcast", "reduce", "all_reduce"):
        n_bytes = max(phase.n_bytes, n)
    return Collective(kind, n_bytes, tuple(hosts[r] for r in phase.ranks))


class _Weaver:
    """Items of all phases, as they are added; exits say when a rank's part is over."""

    def __init__(self, trace: Trace, hosts: Sequence[int], plans: dict[Key, Program]) -> None:
        self.trace, self.hosts, self.plans = trace, hosts, plans
        self.tables: list[I64] = []
        self.edges: list[I64] = []
        self.fans: list[Fan] = []
        self.sums: list[Sum] = []
        self.pauses: list[int] = []
        self.n = 0
        self.folds = False
        self.joins: list[tuple[int, int, tuple[int, ...]]] = []
        """A pause to be filled: its id, phases and rank that it waits for."""
        self.exits: list[dict[int, int]] = [{} for _ in trace.phases]

    def weave(self) -> Program:
        for i, phase in enumerate(self.trace.phases):
            if phase.kind == "compute":
                self.exits[i] = {phase.ranks[0]: self._gate(i, 0, phase.duration_ps)}
            elif phase.kind == "message":
                self._message(i, phase)
            else:
                self._group(i, phase)
        for gate, rank, needs in self.joins:
            before = [self.exits[need][rank] for need in needs]
            self._wait(before, [gate] * len(before))
        return self._program()

    def _gate(self, i: int, k: int, duration_ps: int = 0) -> int:
        """A pause that waits for all that part k of phase i waits for."""
        phase = self.trace.phases[i]
        gate = self._pause(duration_ps)
        if phase.needs[k]:
            self.joins.append((gate, phase.ranks[k], phase.needs[k]))
        return gate

    def _message(self, i: int, phase: Phase) -> None:
        (src, dst), (before, after) = phase.ranks, phase.needs
        row = np.array([[self.hosts[src], self.hosts[dst], phase.n_bytes, 0]], np.int64)
        item = int(self._messages(row)[0])
        if before:
            self._wait([self._gate(i, 0)], [item])
        arrived = item
        if after:
            arrived = self._gate(i, 1)
            self._wait([item], [arrived])
        self.exits[i] = {src: item, dst: arrived}

    def _group(self, i: int, phase: Phase) -> None:
        rank_at = {self.hosts[r]: r for r in phase.ranks}
        key = _key(phase)
        if phase.kind in ("gather", "scatter"):
            table = _to_root(phase, self.hosts)
            fans: tuple[Fan, ...] = ()
            sums: tuple[Sum, ...] = ()
            edges = np.zeros((0, 2), np.int64)
        else:
            plan = self.plans[key]
            table = np.stack([plan.src, plan.dst, plan.n_bytes, plan.start_ps], axis=1)
            fans, sums, edges = plan.fans, plan.sums, edges_of(plan)
            self.folds |= plan.folds
        ids = np.concatenate([self._messages(table), self._fans(fans), self._sums(sums)])
        if len(edges):
            self.edges.append(ids[edges])
        n = len(table)
        enters = {r: self._gate(i, k) for k, r in enumerate(phase.ranks)}
        exits = {r: self._pause(0) for r in phase.ranks}
        begin = np.array([enters[rank_at[h]] for h in table[:, 0].tolist()], np.int64)
        self._wait(begin, ids[:n])
        for column in (0, 1):
            over = np.array([exits[rank_at[h]] for h in table[:, column].tolist()], np.int64)
            self._wait(ids[:n], over)
        m = n + len(fans)
        for fan, item in zip(fans, ids[n:m].tolist(), strict=True):
            self._wait([enters[rank_at[fan.source]]], [item])
            members = [exits[rank_at[h]] for h in (fan.source, *fan.receivers)]
            self._wait([item] * len(members), members)
        for one, item in zip(sums, ids[m:].tolist(), strict=True):
            for host in one.hosts:
                self._wait([enters[rank_at[host]], item], [item, exits[rank_at[host]]])
        for r in phase.ranks:
            self._wait([enters[r]], [exits[r]])
        self.exits[i] = exits

    def _pause(self, duration_ps: int) -> int:
        self.pauses.append(duration_ps)
        return _PAUSE + len(self.pauses) - 1

    def _messages(self, table: I64) -> I64:
        self.tables.append(table)
        self.n += len(table)
        return np.arange(self.n - len(table), self.n)

    def _fans(self, fans: Sequence[Fan]) -> I64:
        self.fans.extend(fans)
        return _FAN + np.arange(len(self.fans) - len(fans), len(self.fans))

    def _sums(self, sums: Sequence[Sum]) -> I64:
        self.sums.extend(sums)
        return _SUM + np.arange(len(self.sums) - len(sums), len(self.sums))

    def _wait(self, before: I64 | Sequence[int], after: I64 | Sequence[int]) -> None:
        if len(before):
            pairs = np.stack([np.asarray(before), np.asarray(after)], axis=1)
            self.edges.append(pairs.astype(np.int64))

    def _program(self) -> Program:
        table = np.concatenate([np.zeros((0, 4), np.int64), *self.tables])
        edges = np.concatenate([np.zeros((0, 2), np.int64), *self.edges])
        at = len(table)
        for first, n in ((_FAN, len(self.fans)), (_SUM, len(self.sums)), (_PAUSE, 0)):
            edges[(edges >= first) & (edges < first + _FAN)] += at - first
            at += n
        return build_program(
            table,
            edges,
            fans=tuple(self.fans),
            sums=tuple(self.sums),
            folds=self.folds,
            pauses_ps=np.array(self.pauses, np.int64),
        )


def _to_root(phase: Phase, hosts: Sequence[int]) -> I64:
    """Messages between the root and all others, a share each."""
    root, *others = (hosts[r] for r in phase.ranks)
    share = max(-(-phase.n_bytes // len(phase.ranks)), 1)
    ends = [(other, root) if phase.kind == "gather" else (root, other) for other in others]
    return np.array([(*pair, share, 0) for pair in ends], np.int64)
