"""Recursive halving and doubling: log2(n) rounds of exchanges with partners ever farther away.

Thakur, Rabenseifner and Gropp, Int. J. High Performance Computing Applications 19, 2005.
reduce_scatter halves, all_gather doubles, all_reduce does both; broadcast is a binomial scatter
and then the doubling, reduce the halving and then a binomial gather. In each round a rank waits
for what it was sent and for what it sent in the round before. Numbers of ranks that are no
power of two are refused.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.schemes.draft import I64, MAX_SPELLED, Draft, SchemePlan, shard_bounds
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Rounds, build_program
from fanfold.work.collective import Collective

NOTHING = -1
NO_MESSAGES: I64 = np.zeros((0, 4), np.int64)


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Any collective but all_to_all."""
    n = len(work.hosts)
    if n & (n - 1):
        raise ConfigError("workload.ranks", n, "a power of two with halving-doubling")
    n_messages = n * (n.bit_length() - 1) * (2 if work.kind == "all_reduce" else 1)
    is_long = options.compact and n_messages >= MAX_SPELLED
    rounds = _Listed(work) if is_long else _Rounds(work)
    if work.kind == "broadcast":
        rounds.scatter()
        rounds.double(after_scatter=True)
    elif work.kind == "all_gather":
        rounds.double()
    else:
        rounds.halve()
        if work.kind == "all_reduce":
            rounds.double()
        elif work.kind == "reduce":
            rounds.gather()
    return rounds.finish(options)


class _Rounds:
    """Rounds in a row: ``got`` and ``sent`` are each rank's last items, NOTHING before."""

    def __init__(self, work: Collective) -> None:
        self.draft = Draft(work)
        self._n = len(work.hosts)
        self._bounds = shard_bounds(work.n_bytes, self._n)
        self._got: I64 = np.full(self._n, NOTHING)
        self._sent: I64 = np.full(self._n, NOTHING)

    def finish(self, options: SchemeOptions) -> SchemePlan:
        """The plan that was drawn."""
        return self.draft.finish(options)

    def halve(self) -> None:
        """Exchange halves of what is left, farthest partner first, adding."""
        rank, d = np.arange(self._n), self._n // 2
        while d:
            partner = rank ^ d
            self._send(rank, partner, partner & -d, d, adds=True)
            d //= 2

    def double(self, *, after_scatter: bool = False) -> None:
        """Exchange all one has, nearest partner first; not what the scatter brought already."""
        rank, d = np.arange(self._n), 1
        while d < self._n:
            sender = rank
            if after_scatter:  # a multiple of 2 d holds its partner's part
                sender = rank[(rank ^ d) % (2 * d) != 0]
            if sender.size:
                self._send(sender, sender ^ d, sender & -d, d)
            d *= 2

    def scatter(self) -> None:
        """From rank 0, the upper half of what one has to the rank where it begins."""
        d = self._n // 2
        while d:
            sender = np.arange(0, self._n, 2 * d)
            self._send(sender, sender + d, sender + d, d)
            d //= 2

    def gather(self) -> None:
        """To rank 0, when all is there, all one has to where the lower half begins."""
        d = 1
        earlier: list[I64] = []
        while d < self._n:
            sender = np.arange(d, self._n, 2 * d)
            ids = self._send(sender, sender - d, sender, d)
            for got in earlier[:-1]:
                has = got[sender] != NOTHING
                self.draft.wait(got[sender][has], ids[has])
            earlier.append(self._got.copy())
            d *= 2

    def _send(
        self, sender: I64, receiver: I64, shard: I64, n_shards: int, *, adds: bool = False
    ) -> I64:
        begin = self._bounds[shard]
        sizes = self._bounds[shard + n_shards] - begin
        ids = self.draft.send(sender, receiver, begin, sizes, adds=adds)
        for last in (self._got[sender], self._sent[sender]):
            has = last != NOTHING
            self.draft.wait(last[has], ids[has])
        self._got[receiver] = ids
        self._sent[sender] = ids
        return ids


class _Listed(_Rounds):
    """The same without an item for each message: rounds, one after the other."""

    def __init__(self, work: Collective) -> None:
        super().__init__(work)
        self._hosts = np.array(work.hosts, np.int64)
        self._sends: list[tuple[I64, I64, I64]] = []

    def finish(self, options: SchemeOptions) -> SchemePlan:
        """The plan of a program in rounds; its options are those of the compact form."""
        if min(int(n_bytes.min()) for _, _, n_bytes in self._sends) < 1:
            raise ConfigError("workload.n_bytes", "less than a byte each", "a byte for a rank")
        program = build_program(NO_MESSAGES, NO_MESSAGES[:, :2])
        program = program._replace(exchange=Rounds(tuple(self._sends)))
        return SchemePlan(program, NO_MESSAGES[:, 0], NO_MESSAGES[:, 0] > 0)

    def _send(
        self, sender: I64, receiver: I64, shard: I64, n_shards: int, *, adds: bool = False
    ) -> I64:
        sizes = self._bounds[shard + n_shards] - self._bounds[shard]
        self._sends.append((self._hosts[sender], self._hosts[receiver], sizes))
        self._got[receiver] = NOTHING
        return sender
