"""Tensors as flat arrays that a communicator moves and sums, copied only where they must.

bfloat16 travels as ``uint16`` with ``kind="bfloat16"``, bool and eight-bit floats as bytes,
complex numbers as pairs. What a communicator does not sum, small integers and bool, is summed
as a wider integer and cut back: the low bits of a sum or product are the same.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fanfold.errors import ConfigError
from fanfold.group.communicator import Array

SUMMED = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64)
WIDER = {
    torch.bool: torch.int32,
    torch.uint8: torch.int32,
    torch.int8: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
}


class Flat(NamedTuple):
    """A tensor as a flat array. target: the tensor to copy ``source`` into when all is done."""

    array: Array
    kind: str
    source: Tensor
    target: Tensor | None = None

    def copy_back(self) -> None:
        """Put the outcome where the caller expects it."""
        if self.target is not None:
            with torch.no_grad():
                self.target.copy_(self.source)


def moved(tensor: Tensor) -> Flat:
    """A tensor that is moved as it is.

    Raises:
        ConfigError: not in memory, or not dense.
    """
    dense = _dense(tensor)
    array, kind = _array(dense)
    return Flat(array, kind, dense, None if dense.data_ptr() == tensor.data_ptr() else tensor)


def summed(tensor: Tensor) -> Flat:
    """A tensor that is joined with others.

    Raises:
        ConfigError: not in memory, not dense, or of a dtype that has no sum.
    """
    wider = WIDER.get(tensor.dtype)
    if wider is not None:
        dense = _dense(tensor).to(wider)
        array, kind = _array(dense)
        return Flat(array, kind, dense, tensor)
    if tensor.dtype not in (*SUMMED, torch.bfloat16) and not tensor.is_complex():
        allowed = ", ".join(str(t).removeprefix("torch.") for t in (*SUMMED, *WIDER))
        raise ConfigError("dtype", str(tensor.dtype), f"{allowed}, bfloat16, complex")
    return moved(tensor)


def like(tensor: Tensor, n: int) -> Flat:
    """Fresh room for n elements of the same kind as a tensor."""
    return moved(torch.empty(n, dtype=tensor.dtype))


def one_of(tensors: Any, what: str) -> Tensor:
    """The tensor of a list of one, as PyTorch passes it.

    Raises:
        ConfigError: several; a rank has one device here.
    """
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise ConfigError(what, f"{len(tensors)} tensors", "one tensor a rank")
    found: Tensor = tensors[0]
    return found


def _dense(tensor: Tensor) -> Tensor:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        allowed = "dense tensors in memory (device cpu)"
        raise ConfigError("tensor", f"{tensor.device.type}, {tensor.layout}", allowed)
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _array(dense: Tensor) -> tuple[Array, str]:
    """A contiguous tensor as a flat array that shares its memory."""
    if dense.is_complex():
        dense = torch.view_as_real(dense)
    flat = dense.view(-1)
    if flat.dtype == torch.bfloat16:
        return flat.view(torch.int16).numpy().view(np.uint16), "bfloat16"
    if flat.dtype == torch.bool or (flat.dtype.is_floating_point and flat.itemsize == 1):
        return flat.view(torch.uint8).numpy(), ""
    return flat.numpy(), ""
