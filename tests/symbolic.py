"""Symbolic execution of a plan: who contributed to which bytes of which rank, at every moment.

Letters: n = ranks, S = segments between all addresses where anything begins or ends. The state
is a set of contributing ranks for each rank and segment, as the bits of one integer; empty is
"has nothing". An item reads at its sender when it starts and writes at its receivers when it
is done, and anything that is allowed to happen in between may happen in between.
"""

import random

import numpy as np


def check_plan(plan, work, n_orders=4):
    """Every rank ends with what the collective promises, in several orders of events."""
    for order in range(n_orders):
        run = Run(plan, work, order)
        run.play()
        run.check_end()


class Run:
    """One order of events, drawn from a number; 0: first come, first served; 1: last come."""

    def __init__(self, plan, work, order):
        self.plan, self.work, self.order = plan, work, order
        self.random = random.Random(order)
        program = plan.program
        self.program = program
        rank_of = {host: rank for rank, host in enumerate(work.hosts)}
        fans, sums = program.fans, program.sums
        sources = (*program.src.tolist(), *(f.source for f in fans))
        self.srcs = [(rank_of[h],) for h in sources]
        self.srcs += [tuple(rank_of[h] for h in one.hosts) for one in sums]
        self.dsts = [(rank_of[h],) for h in program.dst.tolist()]
        self.dsts += [tuple(rank_of[h] for h in f.receivers) for f in fans]
        self.dsts += [
            tuple(rank_of[h] for h in one.hosts[: None if one.to_all else 1]) for one in sums
        ]
        self.sizes = [*program.n_bytes.tolist(), *(f.n_bytes for f in (*fans, *sums))]
        self.begins = plan.begin.tolist()
        n = len(work.hosts)
        self.total = work.n_bytes * (n if work.kind == "all_to_all" else 1)
        shard = work.n_bytes // n
        ends = [b + s for b, s in zip(self.begins, self.sizes, strict=True)]
        cuts = {0, self.total, *self.begins, *ends}
        if work.kind in ("all_gather", "reduce_scatter"):
            cuts |= {rank * shard for rank in range(n)}
        if work.kind == "all_to_all":
            cuts |= {rank * shard for rank in range(n * n)}
        self.cuts = sorted(cuts)
        self.state = [[self.at_start(rank, cut) for cut in self.cuts] for rank in range(n)]

    def owner(self, cut):
        """Rank whose shard holds an address; all_to_all: sender and receiver."""
        n = len(self.work.hosts)
        if self.work.kind == "all_to_all":
            return cut // self.work.n_bytes, cut % self.work.n_bytes // (self.work.n_bytes // n)
        shard = max(self.work.n_bytes // n, 1)
        return min(cut // shard, n - 1), min(cut // shard, n - 1)

    def at_start(self, rank, cut):
        match self.work.kind:
            case "broadcast":
                return 1 if rank == 0 else 0
            case "all_gather" | "all_to_all":
                return 1 << rank if self.owner(cut)[0] == rank else 0
            case _:
                return 1 << rank

    def promised(self, rank, cut):
        """Contributions a rank must end with, None where it does not matter."""
        everybody = (1 << len(self.work.hosts)) - 1
        sender, receiver = self.owner(cut)
        match self.work.kind:
            case "broadcast":
                return 1
            case "all_reduce":
                return everybody
            case "reduce":
                return everybody if rank == 0 else None
            case "reduce_scatter":
                return everybody if receiver == rank else None
            case "all_gather":
                return 1 << sender
            case _:
                return 1 << sender if rank == receiver else None

    def span(self, item):
        low = np.searchsorted(self.cuts, self.begins[item])
        high = np.searchsorted(self.cuts, self.begins[item] + self.sizes[item])
        assert self.begins[item] >= 0
        assert self.begins[item] + self.sizes[item] <= self.total
        return range(int(low), int(high))

    def play(self):
        needs = self.program.n_needs.tolist()
        todo = [("start", i, None) for i, n in enumerate(needs) if n == 0]
        n_done = 0
        while todo:
            what, item, carried = todo.pop(self.pick(len(todo)))
            if what == "start":
                carried = [self.joined(item, s) for s in self.span(item)]
                assert all(carried), f"item {item} sends what its sender does not have"
                todo.append(("done", item, carried))
                continue
            n_done += 1
            for rank in self.dsts[item]:
                self.write(item, rank, carried)
            first = self.program.first_dep
            for after in self.program.dep[first[item] : first[item + 1]].tolist():
                needs[after] -= 1
                if needs[after] == 0:
                    todo.append(("start", after, None))
        assert n_done == self.program.n_items, "items that never start"

    def joined(self, item, s):
        """What all senders of an item have of a segment, nobody's contribution twice."""
        parts = [self.state[rank][s] for rank in self.srcs[item]]
        whole = 0
        for part in parts:
            assert part & whole == 0, f"item {item} joins a contribution twice"
            whole |= part
        return whole

    def pick(self, n):
        return {0: 0, 1: n - 1}.get(self.order, self.random.randrange(n))

    def write(self, item, rank, carried):
        row = self.state[rank]
        for s, new in zip(self.span(item), carried, strict=True):
            if self.plan.adds[item]:
                assert row[s] & new == 0, f"item {item} adds a contribution twice"
                row[s] |= new
            else:
                assert new & row[s] == row[s] != new, f"item {item} brings nothing new"
                row[s] = new

    def check_end(self):
        for rank, row in enumerate(self.state):
            for cut, got in zip(self.cuts[:-1], row[:-1], strict=True):
                want = self.promised(rank, cut)
                assert want is None or got == want, f"rank {rank} at byte {cut}"
