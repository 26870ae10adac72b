"""How work and groups of the PyTorch backend end: futures, forks, what is left."""

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections import defaultdict
from datetime import timedelta

import pytest
from torch_need import need_torch

need_torch()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch_ranks import FABRIC, N, in_group, options  # noqa: E402
from torch_world import Twin  # noqa: E402

from fanfold.torch.group import FanfoldGroup  # noqa: E402
from fanfold.torch.placement import FanfoldOptions  # noqa: E402


def test_a_callback_of_a_future_may_wait_for_another_operation():
    """Gradient compression does: the thread that sees operations end must not run it."""

    def action(group, rank):
        first, second, third = torch.ones(2), torch.full((2,), float(rank)), torch.ones(1)

        def go_on(_):
            work = group.allreduce([second])
            future = work.get_future()
            work.wait(timedelta(seconds=10))
            return future.wait()[0]

        futures = [group.allreduce([first]).get_future().then(go_on) for _ in range(3)]
        late = group.allreduce([third])
        ends = [future.wait() for future in futures]
        late.wait()
        return [end.tolist() for end in ends], third.item()

    for ends, third in in_group(action):
        assert ends == [[27.0, 27.0]] * 3
        assert third == N


def test_a_collective_begins_in_the_thread_that_asks_and_ends_in_the_one_that_sees_it(
    monkeypatch,
):
    """A thread more on either side costs a small broadcast more than all else."""
    began, told = defaultdict(list), defaultdict(list)

    class Told:
        def __init__(self, work, rank):
            self.work, self.rank = work, rank
            self.wait = work.wait

        def then(self, action, within=None):
            def see():
                self.work.wait()
                told[self.rank].append(threading.get_ident())
                action()

            threading.Thread(target=see).start()

    def broadcast(self, array, root, *, timeout_ps=0):
        began[self.rank].append(threading.get_ident())
        return Told(old(self, array, root, timeout_ps=timeout_ps), self.rank)

    old = Twin.broadcast
    monkeypatch.setattr(Twin, "broadcast", broadcast)

    def action(group, rank):
        group.barrier().wait()  # the ranks have met, and nothing is before
        own = [torch.full((2,), float(rank)) for _ in range(3)]
        turned = torch.zeros(2, 3).t()  # its outcome is copied: by another thread
        asked = options("BroadcastOptions", rootRank=1)
        works = [group.broadcast([tensor], asked) for tensor in [*own, turned]]
        for work in works:
            assert work.wait()
        return threading.get_ident(), [tensor.tolist() for tensor in own]

    for rank, (ident, values) in enumerate(in_group(action)):
        assert began[rank] == [ident] * 4
        assert len(told[rank]) == 3
        assert values == [[1.0, 1.0]] * 3


def test_a_future_that_is_asked_for_late_is_over():
    def action(group, rank):
        good, bad = torch.ones(1), torch.ones(1 + rank)
        work = group.allreduce([good])
        work.wait()
        assert work.get_future().done()
        (value,) = work.get_future().wait()
        failed = group.allreduce([bad])
        with pytest.raises(dist.DistBackendError):
            failed.wait()
        with pytest.raises(RuntimeError, match=r"all_reduce.*asked for different things"):
            failed.get_future().wait()
        return value.item()

    assert in_group(action) == [N] * N


def gone(refs, seconds=5):
    """Nothing of it is left soon: a thread may be about to drop it."""
    until = time.monotonic() + seconds
    while any(ref() for ref in refs) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(ref() for ref in refs)


@pytest.fixture
def uncollected():
    gc.disable()
    yield
    gc.enable()


def test_nothing_of_a_group_waits_for_the_garbage_collector(uncollected):
    """No connection, no tensor, no thread."""
    opened = []

    class Store:
        """Of one group."""

        def __init__(self):
            self.set, self.get, self.check = store.set, store.get, store.check
            opened.append(weakref.ref(self))

    store, own, long = dist.HashStore(), FanfoldOptions(FABRIC), timedelta(seconds=20)
    groups = [
        FanfoldGroup(Store, rank, range(2), long, "dropped", own, Twin.build)
        for rank in range(2)
    ]
    works = [group.allreduce([torch.ones(2)]) for group in groups]
    for work in works:
        work.wait()
    assert len(opened) == 2
    assert gone(opened)
    refs = [weakref.ref(work) for work in works]
    del works, work
    assert gone(refs)
    refs = [weakref.ref(group) for group in groups]
    for group in groups:
        group.shutdown()
    del groups, group
    assert gone(refs)
    assert not [thread for thread in threading.enumerate() if "dropped" in thread.name]


FORKED = """
import os, sys, warnings
from datetime import timedelta
import torch
import torch.distributed as dist
from fanfold.torch.group import FanfoldGroup

warnings.simplefilter("ignore")
store = dist.HashStore()
open_store = lambda: store
group = FanfoldGroup(open_store, 0, [0], timedelta(seconds=20), "one", None)
half = FanfoldGroup(open_store, 0, range(2), timedelta(minutes=5), "half", None)
work = half.barrier()
sys.stdout.flush()
child = os.fork()
asks = [group.barrier, lambda: work.wait(timedelta(seconds=1))]
for ask in asks if child == 0 else ():
    try:
        ask()
    except dist.DistBackendError as error:
        print(error, flush=True)
if child == 0:
    group.shutdown()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
group.barrier().wait()
print(os.getpid())
"""


def test_a_fork_is_told_that_a_group_is_not_its_own():
    """And its end ends nothing of the process that it came from."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True
    )
    asked, waited, pid = done.stdout.splitlines()
    fork = f"process {pid}, of which this one is a fork"
    assert asked == f"barrier: the group is of {fork}; it makes its own"
    assert waited == f"barrier: it is of {fork}"
