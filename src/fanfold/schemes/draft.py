"""A scheme writes its program here: by rank, with what every item carries.

Letters: n = ranks, F = messages, M = fans, A = sums. A vector has byte addresses that all
ranks share: 0..n_bytes, and for all_to_all the block of rank i for rank j at i * n_bytes +
j * n_bytes / n.
"""

from collections.abc import Collection
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, Sum, build_program, expand
from fanfold.work.collective import Collective

I64 = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)
MAX_EDGES = 2**22
"""Dependencies of one "all wait for all", or of several alike, that are spelled out."""
MAX_ITEMS = 2**23
"""Messages of a program, and receivers of all its fans: some 2 GB while it is made."""
MAX_SPELLED = 2**20
"""Messages that the flow rung takes one by one where it can do with fewer: 700 bytes each."""
_FAN = 2**40
_SUM = 2**41
"""Ids of fans, and of sums, while the number of messages is open."""
_SHARDED = ("all_gather", "reduce_scatter", "all_to_all")


class SchemePlan(NamedTuple):
    """A program, and what its items carry: for checks and for explanations.

    begin: (F + M + A,) first address. adds: (F + M + A,) the receiver adds; else it takes over.
    Of a program in the compact form these are the whole items.
    """

    program: Program
    begin: I64
    adds: NDArray[np.bool_]


class Draft:
    """Items of one program, as they are added."""

    def __init__(self, work: Collective) -> None:
        self._hosts = np.array(work.hosts, np.int64)
        self._rows: list[I64] = []
        self._edges: list[I64] = []
        self._fans: list[Fan] = []
        self._fan_begins: list[int] = []
        self._sums: list[Sum] = []
        self._sum_begins: list[int] = []
        self._n = 0

    def send(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        begin: ArrayLike,
        n_bytes: ArrayLike,
        *,
        adds: bool = False,
    ) -> I64:
        """Messages from rank to rank; arguments of any shapes that broadcast.

        Returns:
            Ids, in the common shape.
        """
        columns = np.broadcast_arrays(src, dst, begin, n_bytes, int(adds))
        rows = np.stack([c.ravel() for c in columns], axis=1).astype(np.int64)
        self._rows.append(rows)
        first = self._n
        self._n += len(rows)
        return np.arange(first, self._n).reshape(columns[0].shape)

    def fan(self, source: int, begin: int, n_bytes: int) -> int:
        """One message from a rank to all others.

        Returns:
            Its id.
        """
        hosts = tuple(self._hosts.tolist())
        receivers = hosts[:source] + hosts[source + 1 :]
        self._fans.append(Fan(hosts[source], receivers, n_bytes))
        self._fan_begins.append(begin)
        return _FAN + len(self._fans) - 1

    def sum(self, begin: int, n_bytes: int, *, to_all: bool = True) -> int:
        """Arrays of all ranks, added up in the network; the result for all, or for rank 0.

        Returns:
            Its id.
        """
        self._sums.append(Sum(tuple(self._hosts.tolist()), n_bytes, to_all=to_all))
        self._sum_begins.append(begin)
        return _SUM + len(self._sums) - 1

    def wait(self, before: ArrayLike, after: ArrayLike) -> None:
        """Let items wait, one for one or by broadcasting."""
        columns = np.broadcast_arrays(before, after)
        self._edges.append(np.stack([c.ravel() for c in columns], axis=1).astype(np.int64))

    def wait_for_all(self, before: I64, after: I64, *, n_alike: int = 1) -> None:
        """Let each of ``after`` wait for all of ``before``; one of ``n_alike`` calls.

        Beyond MAX_EDGES only the first waits, and the others for the first: they start when it
        has been received, later by its own time.
        """
        if before.size * after.size * n_alike <= MAX_EDGES:
            self.wait(before[:, None], after[None, :])
        else:
            self.wait(before, after[0])
            self.wait(after[0], after[1:])

    def finish(
        self, options: SchemeOptions, *, chunks: int = 1, folds: bool = False, shift: int = 0
    ) -> SchemePlan:
        """The plan, in the compact form where the options say so."""
        rows = np.concatenate(self._rows) if self._rows else np.zeros((0, 5), np.int64)
        many: list[Fan | Sum] = [*self._fans, *self._sums]
        sizes = [*(one.n_bytes for one in many), int(rows[:, 3].min(initial=2**62))]
        if min(sizes) < 1:
            raise ConfigError("workload.n_bytes", "less than a byte each", "a byte for a rank")
        messages = np.zeros((len(rows), 4), np.int64)
        messages[:, 0], messages[:, 1] = self._hosts[rows[:, 0]], self._hosts[rows[:, 1]]
        messages[:, 2] = rows[:, 3]
        edges = np.concatenate([np.zeros((0, 2), np.int64), *self._edges])
        edges[edges >= _SUM] += len(rows) + len(self._fans) - _SUM
        edges[edges >= _FAN] += len(rows) - _FAN
        program = build_program(
            messages,
            edges,
            fans=tuple(self._fans),
            folds=folds,
            chunks=chunks,
            sums=tuple(self._sums),
        )._replace(shift=shift)
        begins = np.array([*self._fan_begins, *self._sum_begins], np.int64)
        begin = np.concatenate([rows[:, 2], begins])
        adds = np.concatenate([rows[:, 4] > 0, np.zeros(len(many), np.bool_)])
        plan = SchemePlan(program, begin, adds)
        return plan if options.compact else spell_out(plan)


def spell_out(plan: SchemePlan) -> SchemePlan:
    """The plan of the plain form."""
    c, program = plan.program.chunks, plan.program
    if c == 1:
        return plan
    n = program.src.size
    sizes = np.array([*program.n_bytes, *(fan.n_bytes for fan in program.fans)], np.int64)
    piece = np.arange(c)[:, None]
    begins = plan.begin + piece * (sizes // c) + np.minimum(piece, sizes % c)
    adds = np.broadcast_to(plan.adds, begins.shape)
    return SchemePlan(expand(program), _by_kind(begins, n), _by_kind(adds, n))


def _by_kind(pieces: NDArray[T], n: int) -> NDArray[T]:
    """Pieces of messages, then pieces of fans."""
    return np.concatenate([pieces[:, :n].ravel(), pieces[:, n:].ravel()])


def check_items(n: int, n_items: int) -> None:
    """Refuse a program that would fill the memory, before it does.

    Raises:
        ConfigError: more than MAX_ITEMS messages or receivers for n ranks.
    """
    if n_items > MAX_ITEMS:
        raise ConfigError(
            "workload.ranks", n, f"fewer: at most {MAX_ITEMS} messages, not {n_items}"
        )


def shard_bounds(n_bytes: int, n: int) -> I64:
    """(n + 1,) where each rank's shard begins; shards differ by at most a byte."""
    rank = np.arange(n + 1)
    return rank * (n_bytes // n) + np.minimum(rank, n_bytes % n)


def check_work(work: Collective, scheme: str, kinds: Collection[str]) -> None:
    """Refuse what a scheme cannot do.

    Raises:
        ConfigError: a kind it does not know, ranks fewer than two or twice on a host, bytes
            that do not divide into shards.
    """
    n = len(work.hosts)
    if work.kind not in kinds:
        allowed = f"{', '.join(kinds)} with {scheme}"
        raise ConfigError("workload.kind", work.kind, allowed)
    if n < 2 or len(set(work.hosts)) < n:
        raise ConfigError("workload.ranks", n, "two ranks or more, each on a host of its own")
    if work.n_bytes < 1:
        raise ConfigError("workload.n_bytes", work.n_bytes, "at least 1")
    if work.kind in _SHARDED and work.n_bytes % n:
        raise ConfigError("workload.n_bytes", work.n_bytes, f"a multiple of {n} ranks")
