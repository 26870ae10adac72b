"""What a group of the PyTorch backend says: deadlines, numbers, who does not come."""

import time
import warnings
from datetime import timedelta

import pytest
from torch_need import need_torch

need_torch()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch_ranks import FABRIC, N, in_group  # noqa: E402
from torch_world import Twin, run_ranks  # noqa: E402

import fanfold.torch  # noqa: E402
from fanfold.torch.group import FanfoldGroup  # noqa: E402
from fanfold.torch.placement import FanfoldOptions  # noqa: E402


def seconds(n):
    return timedelta(seconds=n)


def test_an_error_says_which_operation_it_was_and_that_it_timed_out():
    def action(group, rank):
        for _ in range(2):
            group.barrier().wait()
        group.set_timeout(seconds(0.3))
        if rank == 1:
            time.sleep(0.6)
            return ""
        with pytest.raises(RuntimeError, match="all_reduce") as told:
            group.allreduce([torch.ones(1)]).wait()
        return str(told.value)

    for rank, words in enumerate(in_group(action)):
        if rank != 1:
            assert words.endswith("; Timed out after 0.3 s; operation 3 of the group")


def test_messages_are_counted_apart():
    """They are of two ranks, so that the others would count collectives wrongly."""

    def action(group, rank):
        if rank == 0:
            group.send([torch.ones(1)], 1).wait()
        if rank == 1:
            group.recv([torch.ones(1)], 0).wait()
        work = group.allreduce([torch.ones(1 + rank)])
        with pytest.raises(RuntimeError, match="operation 1 of the group"):
            work.wait()
        assert group._get_sequence_number_for_group() == 1
        return True

    assert all(in_group(action))


def test_a_first_operation_takes_no_longer_than_its_deadline():
    """The group forms when most of it is over; what is left is for the operation."""

    def build(*args):
        time.sleep(0.7)
        return Twin.build(*args)

    store = dist.HashStore()

    def action(rank):
        own = FanfoldOptions(FABRIC, f"h{rank + 1}")
        group = FanfoldGroup(lambda: store, rank, range(2), seconds(1.0), "slow", own, build)
        if rank == 0:
            start = time.monotonic()
            with pytest.raises(RuntimeError, match="Timed out after 1 s"):
                group.barrier().wait()
            took = time.monotonic() - start
        else:
            time.sleep(2.2)
            took = 0.0
        group.shutdown()
        return took

    assert run_ranks(2, action)[0] < 1.5


def test_a_wait_that_is_over_says_timed_out():
    def action(group, rank):
        if rank == 0:
            work = group.barrier()
            with pytest.raises(RuntimeError, match=r"barrier: Timed out after 0\.2 s of wait"):
                work.wait(seconds(0.2))
        else:
            time.sleep(0.5)
            work = group.barrier()
        work.wait()
        return True

    assert all(in_group(action))


def test_a_monitored_barrier_names_who_does_not_come():
    def action(group, rank):
        group.monitored_barrier(seconds(10))
        if rank == 1:
            return ""
        with pytest.raises(RuntimeError, match="onitoredBarrier") as told:
            group.monitored_barrier(seconds(0.4), wait_all_ranks=rank == 0)
        return str(told.value)

    first, _, last = in_group(action)
    assert "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 400 ms" in first
    assert "Rank 2 successfully reached monitoredBarrier" in last
    assert "check rank 0" in last


def test_a_monitored_barrier_breaks_nothing():
    def action(group, rank):
        if rank != 2:
            with pytest.raises(RuntimeError, match="monitoredBarrier"):
                group.monitored_barrier(seconds(0.1))
        tensor = torch.ones(1)
        group.allreduce([tensor]).wait()
        return tensor.item()

    assert in_group(action) == [N] * N


def test_a_monitored_barrier_of_a_group_that_does_not_form_names_who_is_not_there():
    own, store = FanfoldOptions(FABRIC, "h1"), dist.HashStore()
    group = FanfoldGroup(lambda: store, 0, range(3), seconds(5), "half", own, Twin.build)
    with pytest.raises(RuntimeError, match=r"Ranks 1, 2 failed to pass monitoredBarrier"):
        group.monitored_barrier(seconds(0.2), wait_all_ranks=True)
    with pytest.raises(RuntimeError, match=r"Rank 0 timed out in monitoredBarrier after 0 ms"):
        group.monitored_barrier(seconds(0))
    group.shutdown()


def test_a_message_that_nobody_took_is_said_at_the_end():
    """And one that was taken is not; a group that ends waits a while for it."""

    class Held:
        def wait(self, timeout_ps=None):
            while not closed:
                time.sleep(0.01)
            raise RuntimeError("closed")

    closed = []

    class Holding(Twin):
        def send(self, array, to, *, tag=0, timeout_ps=0):
            return Held() if tag else super().send(array, to)

        def close(self):
            closed.append(True)

    store = dist.HashStore()
    world = [
        FanfoldGroup(lambda: store, rank, range(2), seconds(9), "end", own, Holding.build)
        for rank, own in enumerate([FanfoldOptions(FABRIC, "h1"), FanfoldOptions(FABRIC, "h2")])
    ]
    world[0].send([torch.ones(1)], 1).wait()
    world[0].send([torch.ones(1)], 1, 3)
    with pytest.warns(RuntimeWarning, match="send to rank 1 was not delivered.*operation 2"):
        world[0].shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world[1].shutdown()


def test_a_profiler_shows_operations_with_their_tensors():
    def action(group, rank):
        if rank:
            group.allreduce([torch.ones(2, 3)]).wait()
            return None
        with torch.autograd.profiler.profile(record_shapes=True) as seen:
            group.allreduce([torch.ones(2, 3)]).wait()
        return [e.input_shapes for e in seen.function_events if e.name == "fanfold:all_reduce"]

    assert in_group(action)[0] == [[[2, 3]]]


def test_a_group_tells_pytorch_what_devices_it_has():
    def action(group, rank):
        return [device.type for device in group._device_types]

    assert in_group(action) == [["cpu"]] * N


def test_nothing_that_an_earlier_attempt_left_in_the_store_counts():
    """Ranks of it got as far as they could, and died; the store has all that they wrote."""
    store = dist.HashStore()

    def attempt(last):
        def action(rank):
            own = FanfoldOptions(FABRIC, f"h{rank + 1}")
            name = f"attempt of {last}"
            made = FanfoldGroup(
                lambda: store, rank, range(N), seconds(15), name, own, Twin.build
            )
            tensor = torch.tensor([rank + last])
            made.allreduce([tensor]).wait()
            if last == 10:
                time.sleep(0.2 * rank)  # the others find what is left of it meanwhile
            made.shutdown()
            return tensor.item()

        return run_ranks(N, action)

    assert attempt(0) == [3] * N
    assert attempt(10) == [33] * N
    store.set("here/1", store.get("here/0").decode())  # a rank of another attempt wrote last
    assert attempt(100) == [303] * N


def test_all_groups_of_a_process_share_one_connection():
    base = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    wrapped = dist.PrefixStore("cpu/", dist.PrefixStore("1/", base))
    opened = [fanfold.torch.own_store(wrapped, [r])().underlying_store for r in range(4)]
    assert all(one is opened[0] for one in opened)
    assert opened[0] is not base
