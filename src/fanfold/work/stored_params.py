"""Parameters that a folder of safetensors holds: by headers, else by what the index says.

Where only the index is there, it says them (``metadata.total_parameters``), or says the bytes
of all, which are parameters where all are of one type.
"""

from math import prod
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.work.config_fields import Fields
from fanfold.work.model import DTYPE_BITS, Dtype

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_COUNT = 2**62
_PACKED = ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL")
"""Types that hold no weight as it is: several packed in one, places, or scales."""


def count_stored(folder: Path, dtype: Dtype | None) -> int:
    """Parameters of a model's files; 0 where nothing tells.

    Args:
        dtype: that all weights have; None where some are packed, so that bytes do not tell.

    Raises:
        ConfigError: an index or a file that cannot be read.
    """
    index = folder / INDEX
    if not index.is_file():
        return _elements(folder / SINGLE, dtype)
    try:
        table = msgspec.json.decode(read_input(index), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise ConfigError(str(index), str(err), "a JSON object") from err
    fields = Fields(table, f"{index}: ")
    if table.get("metadata") is not None:
        said = fields.below("metadata")
        total = said.size("total_parameters", default=0, least=0, most=MAX_COUNT)
        n_bytes = said.size("total_size", default=0, least=0, most=MAX_COUNT)
        if total or (n_bytes and dtype):
            return total or n_bytes * 8 // DTYPE_BITS[dtype or "bf16"]
    places = fields.below("weight_map")
    names = sorted({places.text(tensor) for tensor in places.table})
    if any(Path(name).name != name for name in names):
        raise ConfigError(f"{index}: weight_map", names[0], "files beside the index")
    return sum(_elements(folder / name, dtype) for name in names)


def _elements(file: Path, dtype: Dtype | None) -> int:
    """Values in a file; 0 where it is not there, or where some of them are packed."""
    if dtype is None or not file.is_file():
        return 0
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - slow to load

    try:
        with safe_open(str(file), "np") as opened:
            tensors = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118
            return sum(prod(t.get_shape()) for t in tensors if t.get_dtype() not in _PACKED)
    except (SafetensorError, OSError) as err:
        raise ConfigError(str(file), str(err), "a safetensors file") from err
