"""Which arrays the fabric can join, and in what form it gets them."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.group.communicator import Op
from fanfold.kernels import reduce as r
from fanfold.kernels.words import word_of_kind

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
    """How an array is joined: its kind's name, the kernels' kind and operator.

    by_block: sums of floats have one exponent for each block.
    """

    name: str
    kind: int
    op: int
    by_block: bool = False

    @property
    def is_float(self) -> bool:
        """Values are floats."""
        return self.kind <= r.KIND_F16

    @property
    def is_fixed(self) -> bool:
        """Values travel as fixed-point."""
        return self.is_float and self.op == r.OP_SUM

    @property
    def has_codes(self) -> bool:
        """Each value has an exponent of its own."""
        return self.is_fixed and not self.by_block

    @property
    def word(self) -> int:
        """Word that the values travel in."""
        if self.has_codes:
            return r.WORD_FIX64 if self.kind == r.KIND_F64 else r.WORD_FIX32
        return int(word_of_kind(self.kind, self.op))

    @property
    def code_bytes(self) -> int:
        """Bytes of the exponent of one value."""
        return r.CODE_BYTES_OF[self.word]

    def block_bytes(self, room: int) -> int:
        """Bytes of the values whose words and exponents have ``room`` bytes."""
        n = room // (self.word_bytes + self.code_bytes)
        return (n & ~7 if self.has_codes else n) * self.value_bytes

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


class Moved(NamedTuple):
    """What is moved, as all ranks must have been told; n_bytes: 0 where sizes say it."""

    name: str
    n_bytes: int
    dtype: "np.dtype[Any]"


MOVED = Form("bytes", r.KIND_BYTES, r.OP_MOVE)


def name_of(array: Array, kind: str) -> str:
    """Name of an array's kind; ``kind`` says that uint16 is bfloat16.

    Raises:
        ConfigError: a kind that cannot be joined, or not that of the array.
    """
    own = _said(array.dtype)
    name = kind or own
    if name == "bfloat16" and array.dtype != np.uint16:
        raise ConfigError("kind", f"bfloat16 of {array.dtype}", "an array of uint16")
    if name not in ("bfloat16", own):
        raise ConfigError("kind", name, own)
    if name not in KINDS and name not in WIDENED:
        raise ConfigError("array", name, ", ".join((*KINDS, *WIDENED)))
    return name


def form_of(name: str, op: Op, *, by_block: bool = False) -> Form:
    """How values of a kind that travels as it is are joined.

    Args:
        by_block: sums have one exponent a block; float64 has one a value all the same.
    """
    form = Form(name, KINDS[name], KERNEL_OPS[op])
    return form._replace(by_block=by_block and form.is_fixed and name != "float64")


def wide_of(name: str, op: Op, n_ranks: int) -> str:
    """Kind that values are joined as: small integers, and floats of many ranks, as wider ones.

    A sum of so many words of 32 bits leaves each too few for float32's precision.
    """
    is_narrow = name in ("float32", "bfloat16", "float16")
    if is_narrow and KERNEL_OPS[op] == r.OP_SUM and n_ranks > r.MOST_NARROW:
        return "float64"
    return WIDENED.get(name, name)


def moved_kind(dtype: "np.dtype[Any]") -> int:
    """Kind of what is moved; what has no name of its own is bytes."""
    return KINDS.get(_said(dtype), r.KIND_BYTES)


@cache
def _said(dtype: "np.dtype[Any]") -> str:
    """A dtype's name, which numpy makes anew each time, in 4 us."""
    return str(dtype)


def bytes_of(array: Array, what: str) -> NDArray[np.uint8]:
    """An array's own bytes.

    Raises:
        ConfigError: it is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ConfigError(what, f"strides {array.strides}", "a C-contiguous array")
    return array.reshape(-1).view(np.uint8)


def widened(array: Array, kind: str, wide: str) -> Array:
    """Values as a wider kind."""
    return as_float64(array, kind) if wide == "float64" else array.astype(wide)


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
