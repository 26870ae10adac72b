"""Operations of the PyTorch backend on the twin of a communicator: ranks are threads."""

import time
from datetime import timedelta

import pytest
from torch_need import need_torch

need_torch()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402
from torch_ranks import FABRIC, N, in_group, options  # noqa: E402
from torch_world import Twin  # noqa: E402

from fanfold.torch.group import FanfoldGroup  # noqa: E402
from fanfold.torch.placement import FanfoldOptions  # noqa: E402


def reduced(tensor, op=ReduceOp.SUM):
    def action(group, rank):
        mine = tensor(rank)
        group.allreduce([mine], options("AllreduceOptions", reduceOp=op)).wait()
        return mine

    return in_group(action)


DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64),
    *(torch.int8, torch.uint8, torch.int16, torch.complex64),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_reduce_sums_every_dtype(dtype):
    for found in reduced(lambda rank: torch.tensor([1, 2, rank + 1, 60]).to(dtype)):
        assert found.dtype == dtype
        assert torch.equal(found, torch.tensor([3, 6, 6, 180]).to(dtype))


@pytest.mark.parametrize(
    ("op", "outcome"),
    [
        (ReduceOp.PRODUCT, [6, 0, 8]),
        (ReduceOp.MIN, [1, 0, 2]),
        (ReduceOp.MAX, [3, 2, 2]),
        (ReduceOp.AVG, [2, 1, 2]),
        (ReduceOp.BAND, [0, 0, 2]),
        (ReduceOp.BOR, [3, 3, 2]),
        (ReduceOp.BXOR, [0, 3, 2]),
    ],
    ids=str,
)
def test_every_operator(op, outcome):
    for found in reduced(lambda rank: torch.tensor([rank + 1, rank, 2]), op):
        assert found.tolist() == outcome


def test_bool_is_joined_by_or_and_and():
    def mine(rank):
        return torch.tensor([rank == 0, True, False])

    joins = {
        ReduceOp.SUM: [1, 1, 0],
        ReduceOp.MIN: [0, 1, 0],
        ReduceOp.BAND: [0, 1, 0],
        ReduceOp.BOR: [1, 1, 0],
        ReduceOp.BXOR: [1, 1, 0],  # of three ranks
    }
    for op, outcome in joins.items():
        for found in reduced(mine, op):
            assert (found.dtype, found.tolist()) == (torch.bool, outcome)


def test_tensors_that_are_not_contiguous_or_empty_or_need_gradients():
    def action(group, rank):
        column = torch.full((4, 3), float(rank)).t()[1]
        wide = torch.zeros(6, 2, requires_grad=True)
        empty = torch.zeros(0)
        group.allreduce([column.unsqueeze(0)[:, ::2]]).wait()
        group.allreduce([wide.detach()[:, 1]]).wait()
        group.allreduce([empty]).wait()
        holed = torch.arange(8.0)[::2]
        group.broadcast([holed], options("BroadcastOptions", rootRank=1)).wait()
        outs = [torch.zeros(2, 5)[:, ::2] for _ in range(N)]
        group.allgather([outs], [torch.full((2, 3), float(rank))]).wait()
        return column.tolist(), holed.tolist(), [out.unique().tolist() for out in outs]

    for column, holed, outs in in_group(action):
        assert column in ([3.0, r, 3.0, r] for r in (0.0, 1.0, 2.0))
        assert holed == [0.0, 2.0, 4.0, 6.0]
        assert outs == [[0.0], [1.0], [2.0]]


def test_moves_between_ranks():
    def action(group, rank):
        mine = torch.tensor([10 * rank, 10 * rank + 1])
        flat = torch.zeros(2 * N, dtype=torch.int64)
        group.all_gather_single(flat, mine).wait()
        outs = [torch.zeros(2, dtype=torch.int64) for _ in range(N if rank == 1 else 0)]
        root = options("GatherOptions", rootRank=1)
        group.gather([outs] if outs else [], [mine], root).wait()
        got = torch.zeros(2, dtype=torch.int64)
        parts = [mine + r for r in range(N)] if rank == 2 else []
        scatter = options("ScatterOptions", rootRank=2)
        group.scatter([got], [parts] if parts else [], scatter).wait()
        summed = torch.full((2,), rank)
        group.reduce([summed], options("ReduceOptions", rootRank=0)).wait()
        return flat.tolist(), [out.tolist() for out in outs], got.tolist(), summed.tolist()

    everything = [0, 1, 10, 11, 20, 21]
    found = in_group(action)
    assert [row[0] for row in found] == [everything] * N
    assert found[1][1] == [[0, 1], [10, 11], [20, 21]]
    assert [row[2] for row in found] == [[20, 21], [21, 22], [22, 23]]
    assert [row[3] for row in found] == [[3, 3], [1, 1], [2, 2]]


def test_uneven_sizes():
    def action(group, rank):
        outs = [torch.zeros(r + 1) for r in range(N)]
        group.allgather([outs], [torch.full((rank + 1,), float(rank))]).wait()
        part = torch.zeros(rank + 1)
        group.reduce_scatter([part], [[torch.ones(r + 1) * r for r in range(N)]]).wait()
        gives = [torch.full((r,), float(rank), dtype=torch.bfloat16) for r in range(N)]
        takes = [torch.zeros(rank, dtype=torch.bfloat16) for _ in range(N)]
        group.alltoall(takes, gives).wait()
        rows = torch.arange(N * (N + 1) // 2 * 2.0).view(-1, 2) + 100 * rank
        room = torch.zeros(N * (rank + 1), 2)
        group.all_to_all_single(room, rows, [rank + 1] * N, [1, 2, 3]).wait()
        even = torch.zeros(N, dtype=torch.complex64)
        group.all_to_all_single(even, torch.arange(N) + 1j * rank, [], []).wait()
        return outs, part, takes, room, even

    for rank, (outs, part, takes, room, even) in enumerate(in_group(action)):
        assert [out.tolist() for out in outs] == [[0.0], [1.0, 1.0], [2.0, 2.0, 2.0]]
        assert part.tolist() == [float(N * rank)] * (rank + 1)
        assert [take.tolist() for take in takes] == [[float(r)] * rank for r in range(N)]
        first = [0, 1, 3][rank]
        rows = [[2.0 * i, 2.0 * i + 1] for i in range(first, first + rank + 1)]
        assert room.tolist() == [[a + 100 * r, b + 100 * r] for r in range(N) for a, b in rows]
        assert even.tolist() == [complex(rank, r) for r in range(N)]


def test_coalesced_forms():
    def action(group, rank):
        several = [torch.tensor([rank]), torch.tensor([0.5]), torch.tensor([[rank, 1]])]
        group.allreduce_coalesced(several).wait()
        outs = [torch.zeros(N), torch.zeros(2 * N)]
        group.all_gather_single_coalesced(
            outs, [torch.tensor([float(rank)]), torch.tensor([1.0, float(rank)])]
        ).wait()
        parts = [torch.zeros(1), torch.zeros(2)]
        group.reduce_scatter_single_coalesced(
            parts, [torch.arange(float(N)), torch.ones(2 * N)]
        ).wait()
        lists = [[torch.zeros(1), torch.zeros(2)] for _ in range(N)]
        group.allgather_coalesced(
            lists, [torch.tensor([float(rank)]), torch.full((2,), -1.0 * rank)]
        ).wait()
        group._start_coalescing(torch.device("cpu"))
        late = torch.tensor([rank])
        group.allreduce([late])
        group.barrier()
        group._end_coalescing(torch.device("cpu")).wait()
        return several, outs, parts, lists, late

    for rank, (several, outs, parts, lists, late) in enumerate(in_group(action)):
        assert [t.tolist() for t in several] == [[3], [1.5], [[3, 3]]]
        assert [t.tolist() for t in outs] == [[0, 1, 2], [1, 0, 1, 1, 1, 2]]
        assert [t.tolist() for t in parts] == [[3.0 * rank], [3.0, 3.0]]
        assert [[t.tolist() for t in row] for row in lists] == [
            [[r], [-1.0 * r] * 2] for r in (0.0, 1.0, 2.0)
        ]
        assert late.tolist() == [3]


def test_waits_in_any_order_and_values_of_futures():
    def action(group, rank):
        tensors = [torch.full((3,), float(rank + i)) for i in range(4)]
        works = [group.allreduce([tensor]) for tensor in tensors]
        for work in (works[3], works[0], works[2], works[1]):
            assert work.wait()
            assert work.wait(timedelta(seconds=1))
        assert all(work.is_completed() and work.is_success() for work in works)
        (value,) = works[2].get_future().wait()
        assert value.data_ptr() == tensors[2].data_ptr()
        return [tensor[0].item() for tensor in tensors]

    assert in_group(action) == [[3.0, 6.0, 9.0, 12.0]] * N


def test_messages_of_a_pair():
    def action(group, rank):
        box = torch.zeros(2)
        to, source = (rank + 1) % N, (rank - 1) % N
        works = [group.send([torch.tensor([1.0, rank])], to), group.recv([box], source)]
        for work in works:
            work.wait()
        return box.tolist()

    assert in_group(action) == [[1.0, 2.0], [1.0, 0.0], [1.0, 1.0]]


def test_messages_are_found_by_tag_and_tell_their_source():
    def action(group, rank):
        if rank:
            for tag in (7, 8):
                group.send([torch.tensor([10 * rank + tag])], 0, tag).wait()
            return None
        box, found = torch.zeros(1, dtype=torch.int64), []
        group.recv([box], 2, 8).wait()
        found.append(box.item())
        for tag in (8, 7, 7):
            work = group.recv_anysource([box], tag)
            work.wait()
            found.append((work._source_rank(), box.item()))
        return [found[0], found[1], sorted(found[2:])]

    assert in_group(action)[0] == [28, (1, 18), [(1, 17), (2, 27)]]


def test_a_refused_message_of_a_pair_leaves_the_group_in_step():
    def action(group, rank):
        if rank == 0:
            with pytest.raises(RuntimeError, match=r"send: tag: got -1, allowed: 0 to"):
                group.send([torch.ones(1)], 1, -1)
        mine = torch.ones(1)
        group.allreduce([mine]).wait()
        return mine.item()

    assert in_group(action) == [N] * N


def test_what_differs_is_refused_on_all_ranks_by_wait_and_by_future():
    def action(group, rank):
        tensor = torch.ones(4 + (rank == 2))
        work = group.allreduce([tensor])
        with pytest.raises(dist.DistBackendError, match=r"all_reduce.*rank 2"):
            work.wait()
        with pytest.raises(RuntimeError, match=r"all_reduce.*rank 2"):
            work.get_future().wait()
        assert isinstance(work.exception(), RuntimeError)
        assert not work.is_success()
        assert tensor.unique().tolist() == [1.0]
        group.barrier().wait()  # nothing was touched, so the group goes on
        return True

    assert in_group(action) == [True] * N


def test_splits_that_differ_are_refused_on_all_ranks():
    def action(group, rank):
        gives = [1, 1, 2 if rank == 1 else 1]
        out = torch.zeros(N)
        with pytest.raises(RuntimeError, match="rank 1 gives rank 2 2 numbers, which takes 1"):
            group.all_to_all_single(out, torch.ones(sum(gives)), [1] * N, gives).wait()
        return out.tolist()

    assert in_group(action) == [[0.0] * N] * N


def test_a_rank_that_sleeps_is_named_at_the_deadline():
    def action(group, rank):
        if rank == 1:
            group.barrier().wait()
            return True
        group.barrier().wait()
        quick = options("AllreduceOptions", timeout=timedelta(milliseconds=200))
        with pytest.raises(RuntimeError, match=r"all_reduce.*deadline.*\[1\]"):
            group.allreduce([torch.ones(1)], quick).wait()
        with pytest.raises(RuntimeError, match=r"barrier: refused since all_reduce: deadline"):
            group.barrier().wait()
        return True

    assert in_group(action) == [True] * N


def test_wrong_arguments_are_raised_at_the_call():
    def action(group, rank):
        wrong = {
            "float8": lambda: group.allreduce([torch.zeros(2).to(torch.float8_e5m2)]),
            "device cpu": lambda: group.broadcast(
                [torch.zeros(2, device="meta")], options("BroadcastOptions")
            ),
            "one tensor": lambda: group.broadcast(
                [torch.zeros(2)] * 2, options("BroadcastOptions")
            ),
            "add up": lambda: group.all_to_all_single(
                torch.zeros(3), torch.zeros(3), [1, 1, 1], [1, 1, 2]
            ),
            "complex": lambda: group.allreduce(
                [torch.zeros(2, dtype=torch.complex64)],
                options("AllreduceOptions", reduceOp=ReduceOp.MAX),
            ),
            "SUM": lambda: group.reduce(
                [torch.zeros(2, dtype=torch.int64)],
                options("ReduceOptions", reduceOp=ReduceOp.BOR),
            ),
        }
        for words, call in wrong.items():
            with pytest.raises(dist.DistBackendError, match=words):
                call()
        group.barrier().wait()
        return group.counters()["requests"]

    assert in_group(action) == [1 + 6] * N  # each wrong call keeps step by a barrier


def test_lists_and_dtypes_that_would_go_to_the_wrong_place_are_refused():
    """Sizes that add up, or bytes that fit, are not enough."""

    def action(group, rank):
        ones, odd = [torch.ones(2)] * N, [torch.ones(1), torch.ones(3), torch.ones(2)]
        root = "GatherOptions", "ScatterOptions"
        gathered, spread = (options(kind, rootRank=rank) for kind in root)
        band = options("AllreduceOptions", reduceOp=ReduceOp.BAND)
        whole = torch.zeros(2 * N)
        wrong = {
            r"gather: outputs: got 'a tensor of 1 elem": lambda: group.gather(
                [odd], [torch.ones(2)], gathered
            ),
            r"scatter: inputs: got 'a tensor of 1 elem": lambda: group.scatter(
                [torch.ones(2)], [odd], spread
            ),
            r"scatter: inputs: got '2 tensors'": lambda: group.scatter(
                [torch.ones(3)], [ones[1:]], spread
            ),
            r"all_gather: outputs: got '2 tensors', allowed: 3": lambda: group.allgather(
                [ones[1:]], [torch.ones(2)]
            ),
            r"all_to_all: inputs: got '2 tensors'": lambda: group.alltoall(ones, ones[1:]),
            r"all_to_all: rows: got 4, allowed: a multiple of 3": lambda: (
                group.all_to_all_single(torch.zeros(4), torch.zeros(4), [], [])
            ),
            r"all_gather: out: got 'float32', allowed: int32": lambda: group.all_gather_single(
                whole, torch.ones(2, dtype=torch.int32)
            ),
            r"reduce_scatter: out: got 'float16', allowed: bfloat16": lambda: (
                group.reduce_scatter_single(whole[:1].half(), torch.ones(N).bfloat16())
            ),
            r"all_reduce: dtype: got 'torch.bfloat16', allowed: integers": lambda: (
                group.allreduce([torch.ones(2).bfloat16()], band)
            ),
        }
        for words, call in wrong.items():
            with pytest.raises(dist.DistBackendError, match=words):
                call()
        return whole.tolist()

    assert in_group(action) == [[0.0] * 2 * N] * N


def test_arguments_that_are_wrong_on_one_rank_are_refused_on_all():
    def action(group, rank):
        out = torch.zeros(N if rank else N + 1)
        mine = torch.ones(1, dtype=torch.float8_e5m2 if rank == 2 else torch.float32)
        with pytest.raises(RuntimeError, match=r"out|all_gather.*rank 0"):
            group.all_gather_single(out, torch.ones(1)).wait()
        with pytest.raises(RuntimeError, match=r"dtype.*float8|all_reduce.*rank 2"):
            group.allreduce([mine]).wait()
        group.barrier().wait()
        return out.sum().item()

    assert in_group(action) == [0.0] * N


def test_all_to_all_of_complex_numbers_by_splits():
    def action(group, rank):
        out = torch.zeros(N, dtype=torch.complex64)
        mine = torch.arange(N) + 1j * rank
        group.all_to_all_single(out, mine, [1] * N, [1] * N).wait()
        return out.tolist()

    assert in_group(action) == [[complex(rank, r) for r in range(N)] for rank in range(N)]


def test_a_sum_on_one_rank_into_a_tensor_with_holes():
    def action(group, rank):
        mine = torch.full((4,), float(rank))
        group.reduce([mine[::2]], options("ReduceOptions", rootRank=1)).wait()
        return mine.tolist()

    assert in_group(action) == [[0.0] * 4, [3.0, 1.0, 3.0, 1.0], [2.0] * 4]


def test_coalesced_work_fails_with_what_it_holds():
    def action(group, rank):
        group._start_coalescing(torch.device("cpu"))
        group.allreduce([torch.ones(1 + rank)])
        whole = group._end_coalescing(torch.device("cpu"))
        with pytest.raises(RuntimeError, match="asked for different things"):
            whole.wait()
        return True

    assert in_group(action) == [True] * N


def test_a_group_of_one_copies():
    def action(group, rank):
        out = torch.zeros(4)
        group.all_gather_single(out[:2], torch.ones(2)).wait()
        group.reduce_scatter_single(out[2:], torch.full((2,), 5.0)).wait()
        group.allreduce([out]).wait()
        with pytest.raises(RuntimeError, match="nobody"):
            group.send([out], 0).wait()
        for name, call in (("Broadcast", group.broadcast), ("Reduce", group.reduce)):
            root = options(f"{name}Options", rootRank=1)
            with pytest.raises(RuntimeError, match=rf"{name.lower()}: root: got 1, allowed: 0"):
                call([out], root).wait()
        return out.tolist()

    assert in_group(action, n=1) == [[1.0, 1.0, 5.0, 5.0]]


def test_tensors_of_inference_mode():
    def action(group, rank):
        with torch.inference_mode():
            holed = torch.arange(4.0)[::2]
            group.allreduce([holed]).wait()
            return holed.tolist()

    assert in_group(action) == [[0.0, 2.0 * N]] * N


def test_a_group_is_closed_at_once_after_a_refusal():
    def action(group, rank):
        group.barrier().wait()
        if rank == 0:
            with pytest.raises(RuntimeError, match="float8"):
                group.allreduce([torch.ones(1).to(torch.float8_e5m2)])
            time.sleep(0.2)
        start = time.monotonic()
        group.shutdown()
        return time.monotonic() - start

    assert max(in_group(action)) < 4


def test_what_is_under_way_ends_when_the_group_is_closed():
    store = dist.HashStore()
    own = FanfoldOptions(FABRIC, "h1")
    group = FanfoldGroup(
        lambda: store, 0, range(2), timedelta(minutes=5), "half", own, Twin.build
    )
    work = group.barrier()
    group.shutdown()
    with pytest.raises(RuntimeError, match=r"barrier.*closed"):
        work.wait(timedelta(seconds=10))
    with pytest.raises(RuntimeError, match="closed"):
        group.barrier()


def test_a_tensor_whose_elements_are_one_takes_no_outcome():
    def action(group, rank):
        row = torch.ones(1).expand(4)
        wide = torch.zeros(4, N)
        for call in (
            lambda: group.allreduce([row]),
            lambda: group.allgather([[row] * N], [torch.ones(4)]),
        ):
            with pytest.raises(dist.DistBackendError, match=r"expanded to \(4,\).*clone"):
                call()
        group.all_gather_single(wide, row).wait()  # to read one is fine
        return wide.sum().item()

    assert in_group(action) == [4.0 * N] * N
