"""Ranks of a group as threads of one process, on a communicator that never leaves it.

``Twin`` keeps the promises of ``fanfold.group.communicator`` by numpy: the same order, the same
refusals on all ranks before an array is touched, deadlines.
"""

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import reduce

import numpy as np

from fanfold.errors import ConfigError
from fanfold.group.communicator import GroupError, Op

JOIN = {
    Op.SUM: np.add,
    Op.AVG: np.add,
    Op.PRODUCT: np.multiply,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
}
TIMEOUT = timedelta(seconds=20)
WORLDS = {}
GUARD = threading.Lock()


class Meetings:
    """Operations of one group: each waits for all ranks, then is done once."""

    def __init__(self, size):
        self.size = size
        self.lock = threading.Condition()
        self.posted = defaultdict(dict)
        self.errors = {}
        self.pairs = defaultdict(list)


class Twin:
    @classmethod
    def build(cls, fabric, members, rank, number, timeout_ps):
        with GUARD:
            world = WORLDS.setdefault(number, Meetings(len(members)))
        return cls(world, rank, timeout_ps)

    @classmethod
    def make(cls, *args):
        """The same; a test may put its own in this place."""
        return cls.build(*args)

    def __init__(self, world, rank, timeout_ps):
        self.world, self.rank, self.size = world, rank, world.size
        self.timeout_ps = timeout_ps
        self.n = 0
        self.broken = None

    def _post(self, name, signature, args, run, timeout_ps):
        at, self.n = self.n, self.n + 1
        return _Work(self, at, (name, signature, args, run), timeout_ps or self.timeout_ps)

    def all_reduce(self, array, op=Op.SUM, *, kind="", timeout_ps=0):
        def run(arrays):
            joined = join(arrays, op, kind)
            for mine in arrays:
                mine[:] = joined

        signature = (array.size, str(array.dtype), op, kind)
        return self._post("all_reduce", signature, array, run, timeout_ps)

    def reduce(self, array, root, op=Op.SUM, *, kind="", timeout_ps=0):
        def run(arrays):
            arrays[root][:] = join(arrays, op, kind)

        signature = (array.size, str(array.dtype), op, kind, root)
        return self._post("reduce", signature, array, run, timeout_ps)

    def broadcast(self, array, root, *, timeout_ps=0):
        def run(arrays):
            for mine in arrays:
                mine[:] = arrays[root]

        signature = (array.size, str(array.dtype), root)
        return self._post("broadcast", signature, array, run, timeout_ps)

    def all_gather(self, out, array, *, timeout_ps=0):
        if out.size != array.size * self.size:
            raise ConfigError("out", out.size, str(array.size * self.size))

        def run(pairs):
            whole = np.concatenate([array for _, array in pairs])
            for room, _ in pairs:
                room[:] = whole

        signature = (out.size, array.size, str(array.dtype))
        return self._post("all_gather", signature, (out, array), run, timeout_ps)

    def all_gather_v(self, outs, array, *, timeout_ps=0):
        def run(pairs):
            copies = [array.copy() for _, array in pairs]
            for rooms, _ in pairs:
                for room, copy in zip(rooms, copies, strict=True):
                    room[:] = copy

        sizes = tuple(out.size for out in outs)
        own = array.size if array.size != sizes[self.rank] else -1
        signature = (sizes, str(array.dtype), own)
        return self._post("all_gather", signature, (outs, array), run, timeout_ps)

    def gather(self, out, array, root, *, timeout_ps=0):
        def run(pairs):
            pairs[root][0][:] = np.concatenate([array for _, array in pairs])

        signature = (array.size, str(array.dtype), root)
        return self._post("gather", signature, (out, array), run, timeout_ps)

    def scatter(self, out, array, root, *, timeout_ps=0):
        def run(pairs):
            parts = np.split(pairs[root][1].copy(), len(pairs))
            for (room, _), part in zip(pairs, parts, strict=True):
                room[:] = part

        signature = (out.size, str(out.dtype), root)
        return self._post("scatter", signature, (out, array), run, timeout_ps)

    def reduce_scatter(self, out, array, op=Op.SUM, *, kind="", timeout_ps=0):
        counts = [array.size // self.size] * self.size
        return self.reduce_scatter_v(out, array, counts, op, kind=kind, timeout_ps=timeout_ps)

    def reduce_scatter_v(self, out, array, counts, op=Op.SUM, *, kind="", timeout_ps=0):
        def run(pairs):
            joined = join([array for _, array in pairs], op, kind)
            parts = np.split(joined, np.cumsum(counts)[:-1])
            for (room, _), part in zip(pairs, parts, strict=True):
                room[:] = part

        signature = (tuple(counts), str(array.dtype), op, kind)
        return self._post("reduce_scatter", signature, (out, array), run, timeout_ps)

    def all_to_all(self, out, array, *, timeout_ps=0):
        counts = [[array.size // self.size] * self.size] * self.size
        return self.all_to_all_v(out, array, counts, timeout_ps=timeout_ps)

    def all_to_all_v(self, out, array, counts, *, timeout_ps=0):
        def run(pairs):
            rows = [
                np.split(whole.copy(), np.cumsum(row)[:-1])
                for (_, whole), row in zip(pairs, counts, strict=True)
            ]
            for j, (room, _) in enumerate(pairs):
                room[:] = np.concatenate([row[j] for row in rows])

        signature = (str(counts), str(array.dtype))
        return self._post("all_to_all", signature, (out, array), run, timeout_ps)

    def barrier(self, *, timeout_ps=0):
        return self._post("barrier", (), None, lambda arrays: None, timeout_ps)

    def send(self, array, to, *, tag=0, timeout_ps=0):
        with self.world.lock:
            self.world.pairs[self.rank, to].append((tag, array.copy()))
            self.world.lock.notify_all()
        return _Sent()

    def recv(self, array, source, *, tag=0, timeout_ps=0):
        sources = [r for r in range(self.size) if source in (None, r) and r != self.rank]
        return _Received(self.world, sources, self.rank, tag, array)

    def counters(self):
        return {"requests": self.n}

    def close(self):
        pass


def join(arrays, op, kind):
    if kind == "bfloat16":
        wide = [(array.astype(np.uint32) << 16).view(np.float32) for array in arrays]
        return (join(wide, op, "").view(np.uint32) >> 16).astype(np.uint16)
    joined = reduce(JOIN[op], [array.copy() for array in arrays])
    if op == Op.AVG:
        joined = (joined / len(arrays)).astype(joined.dtype)
    return joined


class _Work:
    def __init__(self, twin, at, post, timeout_ps):
        self.twin, self.at, self.timeout_ps = twin, at, timeout_ps
        world = twin.world
        with world.lock:
            world.posted[at][twin.rank] = post
            if len(world.posted[at]) == world.size:
                self._all_here(world)
            world.lock.notify_all()

    def _all_here(self, world):
        posts = [world.posted[self.at][rank] for rank in range(world.size)]
        odd = [rank for rank in range(world.size) if posts[rank][:2] != posts[0][:2]]
        if odd:
            told = "; ".join(f"rank {rank}: {post[:2]}" for rank, post in enumerate(posts))
            text = f"{posts[0][0]}: asked for different things: {told}"
            world.errors[self.at] = GroupError(text, op=posts[0][0], ranks=odd)
            return
        posts[0][3]([post[2] for post in posts])
        world.errors[self.at] = None

    def wait(self, timeout_ps=None):
        world = self.twin.world
        if self.twin.broken is not None:
            raise self.twin.broken
        with world.lock:
            done = world.lock.wait_for(
                lambda: self.at in world.errors, self.timeout_ps / 10**12
            )
            name = world.posted[self.at][self.twin.rank][0]
            if not done:
                late = sorted(set(range(world.size)) - world.posted[self.at].keys())
                text = f"{name}: deadline, waited for rank {late}"
                self.twin.broken = GroupError(text, op=name, ranks=late, is_deadline=True)
                raise self.twin.broken
            if world.errors[self.at] is not None:
                raise world.errors[self.at]


class _Sent:
    def wait(self, timeout_ps=None):
        pass


class _Received:
    def __init__(self, world, sources, rank, tag, array):
        self.world, self.sources, self.rank = world, sources, rank
        self.tag, self.array = tag, array

    def wait(self, timeout_ps=None):
        with self.world.lock:
            assert self.world.lock.wait_for(self._find, TIMEOUT.total_seconds())

    def source(self):
        return self.found

    def _find(self):
        for source in self.sources:
            unexpected = self.world.pairs[source, self.rank]
            for message in unexpected:
                if message[0] == self.tag:
                    unexpected.remove(message)
                    self.array[:], self.found = message[1], source
                    return True
        return False


def run_ranks(n, action):
    """Outcomes of one action a rank, each in a thread of its own."""
    with ThreadPoolExecutor(n) as pool:
        return [f.result(60) for f in [pool.submit(action, rank) for rank in range(n)]]
