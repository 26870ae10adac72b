"""The operations of a process group, as PyTorch calls them, as plans for a communicator.

PyTorch names some operations twice: ``all_gather_single`` since 2.13, ``_allgather_base``
before; both are here. What the fabric cannot join, bitwise operators, is gathered and joined
on each host, and counted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from fanfold.errors import ConfigError
from fanfold.group.communicator import Communicator, Message
from fanfold.torch.eager import untraced
from fanfold.torch.plans import (
    BITWISE,
    Plan,
    check_list,
    check_tag,
    exchange,
    fabric_op,
    op_of,
    packed,
    parts_of,
    split_of,
    width_of,
)
from fanfold.torch.runner import ALL, NOBODY, Ends
from fanfold.torch.tensors import like, moved, moved_pair, one_of, summed
from fanfold.torch.work import FanfoldWork


@untraced
class Collectives(ProcessGroup):
    """Every operation of a group; ``_run`` does its plan."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._n_gathered = 0

    def allreduce(self, tensors: Any, opts: Any = None) -> FanfoldWork:
        """Join a tensor of all ranks, on all."""
        return self._run("all_reduce", opts, lambda: self._join(list(tensors), op_of(opts)))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> FanfoldWork:
        """Join several tensors; those of one dtype travel as one."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any) -> FanfoldWork:
        """Join a tensor of all ranks, on one."""

        def plan() -> Plan:
            flat = summed(one_of(tensors, "reduce"))
            root, op = opts.rootRank, fabric_op(op_of(opts), flat)
            return Plan(
                list(tensors),
                lambda c, t: [c.reduce(flat.array, root, op, kind=flat.kind, timeout_ps=t)],
                [flat] if root == self._rank else [],
            )

        return self._run("reduce", opts, plan)

    def broadcast(self, tensors: Any, opts: Any) -> FanfoldWork:
        """Give all ranks the tensor of one."""

        def plan() -> Plan:
            flat = moved(one_of(tensors, "broadcast"))
            root = opts.rootRank
            return Plan(
                list(tensors),
                lambda c, t: [c.broadcast(flat.array, root, timeout_ps=t)],
                [flat],
            )

        return self._run("broadcast", opts, plan)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> FanfoldWork:
        """Give all ranks the tensors of all; sizes may differ."""

        def plan() -> Plan:
            source = moved(one_of(inputs, "all_gather"))
            check_list("outputs", outputs[0], self._size)
            outs = [moved(out) for out in outputs[0]]
            arrays = [out.array for out in outs]
            return Plan(
                list(outputs[0]),
                lambda c, t: [c.all_gather_v(arrays, source.array, timeout_ps=t)],
                outs,
                given=list(inputs),
            )

        return self._run("all_gather", opts, plan)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> FanfoldWork:
        """Several of them: ``outputs[r][k]`` becomes ``inputs[k]`` of rank r."""

        def plan() -> Plan:
            sources = [moved(tensor) for tensor in inputs]
            outs = [[moved(row[k]) for row in outputs] for k in range(len(sources))]
            return Plan(
                [out for row in outputs for out in row],
                lambda c, t: [
                    c.all_gather_v([out.array for out in row], source.array, timeout_ps=t)
                    for row, source in zip(outs, sources, strict=True)
                ],
                [out for row in outs for out in row],
            )

        return self._run("all_gather_coalesced", opts, plan)

    def all_gather_single(
        self, output: Tensor, source: Tensor, opts: Any = None
    ) -> FanfoldWork:
        """Put the tensors of all ranks behind each other into one."""
        return self._gather_all("all_gather", [output], [source], opts)

    def all_gather_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> FanfoldWork:
        """Several of them."""
        return self._gather_all("all_gather_coalesced", list(outputs), list(inputs), opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> FanfoldWork:
        """Join lists of all ranks and give each its part; sizes of parts may differ."""

        def plan() -> Plan:
            out = summed(one_of(outputs, "reduce_scatter"))
            counts = [tensor.numel() * width_of(tensor) for tensor in inputs[0]]
            flat = summed(torch.cat([tensor.detach().reshape(-1) for tensor in inputs[0]]))
            op = fabric_op(op_of(opts), flat)
            return Plan(
                list(outputs),
                lambda c, t: [
                    c.reduce_scatter_v(
                        out.array, flat.array, counts, op, kind=flat.kind, timeout_ps=t
                    )
                ],
                [out],
            )

        return self._run("reduce_scatter", opts, plan)

    def reduce_scatter_single(
        self, output: Tensor, source: Tensor, opts: Any = None
    ) -> FanfoldWork:
        """Join a tensor of all ranks and give each its part of it."""
        return self._scatter_sum("reduce_scatter", [output], [source], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> FanfoldWork:
        """Several of them."""
        return self._scatter_sum("reduce_scatter_coalesced", list(outputs), list(inputs), opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> FanfoldWork:
        """Give one rank the tensors of all, equal sizes."""

        def plan() -> Plan:
            source = one_of(inputs, "gather")
            flat, root = moved(source), opts.rootRank
            if root != self._rank:
                return Plan(
                    [], lambda c, t: [c.gather(None, flat.array, root, timeout_ps=t)], []
                )
            check_list("outputs", outputs[0], self._size, source.numel())
            room = like(source, source.numel() * self._size)
            return Plan(
                list(outputs[0]),
                lambda c, t: [c.gather(room.array, flat.array, root, timeout_ps=t)],
                parts_of(room, outputs[0]),
            )

        return self._run("gather", opts, plan)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> FanfoldWork:
        """Give each rank its tensor of one rank's list, equal sizes."""

        def plan() -> Plan:
            out, root = moved(one_of(outputs, "scatter")), opts.rootRank
            whole = None
            if root == self._rank:
                check_list("inputs", inputs[0], self._size, out.source.numel())
                whole = moved(torch.cat([tensor.detach().reshape(-1) for tensor in inputs[0]]))
            array = whole.array if whole else None
            return Plan(
                list(outputs),
                lambda c, t: [c.scatter(out.array, array, root, timeout_ps=t)],
                [out],
            )

        return self._run("scatter", opts, plan)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> FanfoldWork:
        """Give rank j the tensor ``inputs[j]``; sizes may differ."""

        def plan() -> Plan:
            check_list("outputs", outputs, self._size)
            check_list("inputs", inputs, self._size)
            room = like(outputs[0], sum(out.numel() for out in outputs))
            source = moved(torch.cat([tensor.detach().reshape(-1) for tensor in inputs]))
            gives = [tensor.numel() * width_of(tensor) for tensor in inputs]
            takes = [tensor.numel() * width_of(tensor) for tensor in outputs]
            start = exchange(room, source, gives, takes)
            return Plan(list(outputs), start, parts_of(room, outputs))

        return self._run("all_to_all", opts, plan)

    def all_to_all_single(
        self, output: Tensor, source: Tensor, takes: Any, gives: Any, opts: Any = None
    ) -> FanfoldWork:
        """Give rank j its part of the first dimension; splits may differ."""

        def plan() -> Plan:
            out, flat = moved_pair(output, source)
            n = self._size
            rows = split_of(source, gives, n), split_of(output, takes, n)
            if not len(takes) and not len(gives):
                return Plan(
                    [output],
                    lambda c, t: [c.all_to_all(out.array, flat.array, timeout_ps=t)],
                    [out],
                )
            return Plan([output], exchange(out, flat, *rows), [out])

        return self._run("all_to_all", opts, plan)

    def send(self, tensors: Any, to: int, tag: int = 0) -> FanfoldWork:
        """Send to a rank that receives."""

        def plan() -> Plan:
            check_tag(tag)
            tensor = one_of(tensors, "send")
            flat = moved(tensor)

            def start(c: Communicator, t: int) -> Sequence[Ends]:
                return [c.send(flat.array, to, tag=tag, timeout_ps=t)]

            return Plan([], start, [], given=[tensor])

        return self._run("send", None, plan, to=to)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> FanfoldWork:
        """Receive from a rank that sends."""
        return self._receive(tensors, source, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> FanfoldWork:
        """Receive from whichever rank sends first."""
        return self._receive(tensors, None, tag)

    def barrier(self, opts: Any = None) -> FanfoldWork:
        """Done when all ranks have called it."""
        return self._run(
            "barrier", opts, lambda: Plan([], lambda c, t: [c.barrier(timeout_ps=t)], [])
        )

    # Names before PyTorch 2.13.

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # Inside.

    def _run(
        self, name: str, opts: Any, plan: Callable[[], Plan], *, to: int = ALL
    ) -> FanfoldWork:
        """Make a plan and put it into the queue; what is wrong with it is raised here.

        Args:
            to: rank that it sends to, NOBODY where it receives; others than ALL: other ranks
                of the group have no part in it, and are told of no refusal.
        """
        raise NotImplementedError

    def _receive(self, tensors: Any, source: int | None, tag: int) -> FanfoldWork:
        messages: list[Message] = []

        def plan() -> Plan:
            check_tag(tag)
            flat = moved(one_of(tensors, "recv"))

            def start(c: Communicator, t: int) -> Sequence[Ends]:
                messages.append(c.recv(flat.array, source, tag=tag, timeout_ps=t))
                return messages

            return Plan(list(tensors), start, [flat])

        work = self._run("recv", None, plan, to=NOBODY)
        work.comes_from(lambda: messages[0].source())  # noqa: PLW0108 - there is none yet
        return work

    def _join(self, tensors: list[Tensor], op: Any) -> Plan:
        if op in BITWISE:
            return self._join_here(one_of(tensors, "all_reduce"), BITWISE[op])
        if len(tensors) == 1:
            flats = backs = [summed(tensors[0])]
        else:
            flats, backs = packed(tensors)
        ops = [fabric_op(op, flat) for flat in flats]
        return Plan(
            tensors,
            lambda c, t: [
                c.all_reduce(flat.array, own, kind=flat.kind, timeout_ps=t)
                for flat, own in zip(flats, ops, strict=True)
            ],
            backs,
        )

    def _join_here(self, tensor: Tensor, op: Any) -> Plan:
        """Gather from all and join on this host: an operator that no BFR has."""
        flat = moved(tensor)
        if tensor.is_floating_point() or tensor.is_complex():
            raise ConfigError("dtype", str(tensor.dtype), "integers and bool for this operator")
        self._n_gathered += 1
        room = like(tensor, tensor.numel() * self._size)

        def finish() -> None:
            op.reduce(room.array.reshape(self._size, -1), axis=0, out=flat.array)
            flat.copy_back()

        return Plan(
            [tensor],
            lambda c, t: [c.all_gather(room.array, flat.array, timeout_ps=t)],
            [],
            finish,
        )

    def _gather_all(
        self, name: str, outputs: list[Tensor], inputs: list[Tensor], opts: Any
    ) -> FanfoldWork:
        def plan() -> Plan:
            pairs = [moved_pair(*each) for each in zip(outputs, inputs, strict=True)]
            return Plan(
                outputs,
                lambda c, t: [
                    c.all_gather(out.array, source.array, timeout_ps=t) for out, source in pairs
                ],
                [out for out, _ in pairs],
            )

        return self._run(name, opts, plan)

    def _scatter_sum(
        self, name: str, outputs: list[Tensor], inputs: list[Tensor], opts: Any
    ) -> FanfoldWork:
        def plan() -> Plan:
            ops = [fabric_op(op_of(opts), summed(tensor)) for tensor in inputs]
            pairs = [moved_pair(*each) for each in zip(outputs, inputs, strict=True)]
            return Plan(
                outputs,
                lambda c, t: [
                    c.reduce_scatter(
                        out.array, source.array, op, kind=source.kind, timeout_ps=t
                    )
                    for (out, source), op in zip(pairs, ops, strict=True)
                ],
                [out for out, _ in pairs],
            )

        return self._run(name, opts, plan)
