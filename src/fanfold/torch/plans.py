"""What an operation of PyTorch becomes: flat arrays, calls of a communicator, copies."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed import ReduceOp

from fanfold.errors import ConfigError
from fanfold.group.communicator import Communicator, GroupError, Op
from fanfold.live.clock import now_ps
from fanfold.torch.runner import LEAST_PS, Ends
from fanfold.torch.tensors import Flat, summed

OPS: dict[Any, Op] = {
    ReduceOp.SUM: Op.SUM,
    ReduceOp.PRODUCT: Op.PRODUCT,
    ReduceOp.MIN: Op.MIN,
    ReduceOp.MAX: Op.MAX,
    ReduceOp.AVG: Op.AVG,
}
BITWISE: dict[Any, Any] = {
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
"""Operators that no BFR has."""
MAX_TAG = 0x7FFFFFFF
Start = Callable[[Communicator, int], Sequence[Ends]]
"""Begins an operation, with its deadline in ps."""


class Plan:
    """What an operation does.

    Args:
        backs: what is copied back at its end. after: done then. given: tensors that a profiler
            shows, where they are not those of the outcome.

    Attributes:
        is_plain: nothing is left to do at its end.
    """

    __slots__ = ("_after", "_backs", "given", "is_plain", "start", "tensors")

    def __init__(
        self,
        tensors: list[Tensor],
        start: Start,
        backs: Sequence[Flat],
        after: Callable[[], Any] | None = None,
        given: Sequence[Tensor] | None = None,
    ) -> None:
        self.is_plain = after is None
        for flat in backs:
            if flat.target is not None:
                check_room(flat.target)
                self.is_plain = False
        self.tensors, self.start = tensors, start
        self.given = tensors if given is None else given
        self._backs, self._after = backs, after

    def finish(self) -> None:
        """Put outcomes where the caller expects them."""
        for flat in self._backs:
            flat.copy_back()
        if self._after is not None:
            self._after()


def op_of(opts: Any) -> Any:
    """Operator of some options, as a member of ``ReduceOp.RedOpType``."""
    if opts is None:
        return ReduceOp.SUM
    op = opts.reduceOp
    return getattr(op, "op", op)


def fabric_op(op: Any, flat: Flat) -> Op:
    """The same operator of the fabric."""
    if op not in OPS:
        known = ", ".join(sorted(own.name for own in OPS.values()))
        raise ConfigError("op", str(op), f"{known}; BAND, BOR and BXOR in all_reduce")
    if flat.source.is_complex() and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ConfigError("op", str(op), "SUM or AVG of complex numbers")
    return OPS[op]


def parts_of(room: Flat, outputs: Any) -> list[Flat]:
    """Pieces of one flat tensor, each to be copied into an output."""
    sizes = [out.numel() for out in outputs]
    pieces = room.source.split(sizes)
    return [
        Flat(room.array, room.kind, piece.view(out.shape), out)
        for piece, out in zip(pieces, outputs, strict=True)
    ]


def packed(tensors: list[Tensor]) -> tuple[list[Flat], list[Flat]]:
    """Tensors of one dtype as one; and where their pieces go."""
    flats, backs = [], []
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        mine = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = summed(torch.cat([tensor.detach().reshape(-1) for tensor in mine]))
        flats.append(flat)
        backs += parts_of(flat, mine)
    return flats, backs


def check_list(what: str, tensors: Sequence[Tensor], n: int, size: int | None = None) -> None:
    """Raise ConfigError for a list without a tensor for each of n ranks.

    Args:
        size: elements of each tensor, None where they may differ.
    """
    if len(tensors) != n:
        raise ConfigError(what, f"{len(tensors)} tensors", f"{n}, one for each rank")
    odd = [tensor.numel() for tensor in tensors if size not in (None, tensor.numel())]
    if odd:
        raise ConfigError(what, f"a tensor of {odd[0]} elements", f"{size} for each rank")


def check_room(tensor: Tensor) -> None:
    """Raise ConfigError for a tensor that cannot hold an outcome: its elements are one."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    if any(n > 1 and not step for n, step in pairs):
        allowed = "a tensor whose elements share no memory, such as its clone()"
        raise ConfigError("tensor", f"expanded to {tuple(tensor.shape)}", allowed)


def check_tag(tag: int) -> None:
    """Raise ConfigError for a tag that a message cannot carry."""
    if not 0 <= tag <= MAX_TAG:
        raise ConfigError("tag", tag, f"0 to {MAX_TAG}")


def width_of(tensor: Tensor) -> int:
    """Numbers of the flat array for each element."""
    return 2 if tensor.is_complex() else 1


def split_of(tensor: Tensor, parts: Any, n: int) -> list[int]:
    """Numbers for each of n ranks: parts of the first dimension, equal where none are named.

    Raises:
        ConfigError: parts that do not add up, or rows that cannot be dealt out equally.
    """
    rows = tensor.shape[0] if tensor.dim() else 0
    if not len(parts):
        if rows % n:
            raise ConfigError("rows", rows, f"a multiple of {n}, the ranks")
        parts = [rows // n] * n
    if len(parts) != n or sum(parts) != rows:
        raise ConfigError("splits", list(parts), f"{n} that add up to {rows}")
    row = tensor.numel() // max(rows, 1) * width_of(tensor)
    return [int(part) * row for part in parts]


def exchange(out: Flat, source: Flat, gives: list[int], takes: list[int]) -> Start:
    """An all_to_all whose ranks first tell each other how much they give and take.

    Args:
        gives, takes: numbers to and from each rank.
    """
    n = len(gives)
    mine = np.array([gives, takes], np.int64).reshape(-1)

    def start(comm: Communicator, timeout_ps: int) -> Sequence[Ends]:
        until_ps = now_ps() + timeout_ps
        table = np.zeros(2 * n * n, np.int64)
        comm.all_gather(table, mine, timeout_ps=timeout_ps).wait()
        given, taken = np.moveaxis(table.reshape(n, 2, n), 1, 0)
        wrong = np.argwhere(given != taken.T)
        if wrong.size:
            i, j = wrong[0].tolist()
            text = f"rank {i} gives rank {j} {given[i, j]} numbers, which takes {taken[j, i]}"
            raise GroupError(f"all_to_all: {text}", op="all_to_all", ranks=[i, j])
        counts = given.tolist()
        left_ps = max(until_ps - now_ps(), LEAST_PS)
        return [comm.all_to_all_v(out.array, source.array, counts, timeout_ps=left_ps)]

    return start
