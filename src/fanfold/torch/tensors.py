"""Tensors as flat arrays that a communicator moves and sums, copied only where they must.

bfloat16 travels as ``uint16`` with ``kind="bfloat16"``, eight-bit floats as bytes, complex
numbers as pairs. Arrays are made on a tensor's memory by its address: ``Tensor.numpy`` would
forbid its storage to be resized for ever after, which sharded models do between two uses.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fanfold.errors import ConfigError
from fanfold.group.communicator import Array
from fanfold.group.values import KINDS, WIDENED

JOINED = (*KINDS, *WIDENED)


class Flat(NamedTuple):
    """A tensor as a flat array. target: the tensor to copy ``source`` into when all is done."""

    array: Array
    kind: str
    source: Tensor
    target: Tensor | None = None

    def copy_back(self) -> None:
        """Put the outcome where the caller expects it."""
        if self.target is not None:
            with torch.inference_mode():  # the target may have been made in it
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
    if _name(tensor) not in JOINED and not tensor.is_complex():
        raise ConfigError("dtype", _name(tensor), f"{', '.join(JOINED)}, complex")
    return moved(tensor)


def moved_pair(out: Tensor, source: Tensor) -> tuple[Flat, Flat]:
    """Where an outcome goes and what it is made of.

    Raises:
        ConfigError: of different dtypes, or as ``moved``.
    """
    if out.dtype != source.dtype:
        raise ConfigError("out", _name(out), f"{_name(source)}, as what is sent")
    return moved(out), moved(source)


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
    """A contiguous tensor's memory as a flat array; the array keeps the tensor."""
    if dense.is_complex():
        dense = torch.view_as_real(dense)
    n_bytes = dense.numel() * dense.itemsize
    dtype, kind = _as_numpy(dense.dtype)
    if not n_bytes:
        return np.empty(0, dtype), kind
    memory: Any = (ctypes.c_uint8 * n_bytes).from_address(dense.data_ptr())
    memory.owner = dense
    return np.frombuffer(memory, dtype), kind


@cache
def _as_numpy(dtype: torch.dtype) -> tuple["np.dtype[Any]", str]:
    """Dtype of the array, and the kind that it stands for."""
    name = str(dtype).removeprefix("torch.")
    kind = name if name == "bfloat16" else ""
    return np.dtype("u2" if kind else "u1" if name.startswith("float8") else name), kind


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
