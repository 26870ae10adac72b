"""Which arrays the fabric can join, and in what form it gets them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.group.communicator import Op
from fanfold.kernels import reduce as r

Array = NDArray[Any]

KINDS: dict[str, int] = {
    "float32": r.KIND_F32,
    "float64": r.KIND_F64,
    "bfloat16": r.KIND_BF16,
    "float16": r.KIND_F16,
    "int32": r.KIND_I32,
    "int64": r.KIND_I64,
}
"""Kinds that travel as they are."""
WIDENED: dict[str, str] = {
    "bool": "int32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
}
"""Kinds that are joined as wider integers and cut back: they wrap as numpy's do."""
KERNEL_OPS = {
    Op.SUM: r.OP_SUM,
    Op.PRODUCT: r.OP_PRODUCT,
    Op.MIN: r.OP_MIN,
    Op.MAX: r.OP_MAX,
    Op.AVG: r.OP_SUM,
}


class Form(NamedTuple):
    """How an array is joined: its kind's name, the kernels' kind and operator."""

    name: str
    kind: int
    op: int

    @property
    def is_float(self) -> bool:
        """Values are floats."""
        return self.kind <= r.KIND_F16

    @property
    def is_fixed(self) -> bool:
        """Values travel as fixed-point."""
        return self.is_float and self.op == r.OP_SUM

    @property
    def value_bytes(self) -> int:
        """Bytes of one value."""
        return (4, 8, 2, 2, 4, 8, 1)[self.kind]

    @property
    def word_bytes(self) -> int:
        """Bytes of one word on the wire."""
        if self.kind in (r.KIND_BF16, r.KIND_F16):
            return 4 if self.op == r.OP_SUM else 2
        return self.value_bytes


MOVED = Form("bytes", r.KIND_BYTES, r.OP_MOVE)
WORDS = Form("int32", r.KIND_I32, r.OP_MAX)


def name_of(array: Array, kind: str) -> str:
    """Name of an array's kind; ``kind`` says that uint16 is bfloat16.

    Raises:
        ConfigError: a kind that cannot be joined, or not that of the array.
    """
    name = kind or str(array.dtype)
    if name == "bfloat16" and array.dtype != np.uint16:
        raise ConfigError("kind", f"bfloat16 of {array.dtype}", "an array of uint16")
    if name != "bfloat16" and name != str(array.dtype):
        raise ConfigError("kind", name, str(array.dtype))
    if name not in KINDS and name not in WIDENED:
        raise ConfigError("array", name, ", ".join((*KINDS, *WIDENED)))
    return name


def form_of(name: str, op: Op) -> Form:
    """How values of a kind that travels as it is are joined."""
    return Form(name, KINDS[name], KERNEL_OPS[op])


def moved_kind(dtype: "np.dtype[Any]") -> int:
    """Kind of what is moved; what has no name of its own is bytes."""
    return KINDS.get(str(dtype), r.KIND_BYTES)


def bytes_of(array: Array, what: str) -> NDArray[np.uint8]:
    """An array's own bytes.

    Raises:
        ConfigError: it is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ConfigError(what, f"strides {array.strides}", "a C-contiguous array")
    return array.reshape(-1).view(np.uint8)


def as_float64(array: Array, kind: str) -> Array:
    """Values as float64."""
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        return np.array(array, np.float64)


def of_float64(array: Array, kind: str) -> Array:
    """Values rounded to their kind, as their array has them."""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind != "bfloat16":
            return array.astype(kind)
        bits = array.astype(np.float32).view(np.uint32).astype(np.int64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)
