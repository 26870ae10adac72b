"""What a mover of files can say of models on the way: flaws that a loader would stumble over.

They are no reason to refuse a copy: the source has the same flaw. They are told, and refused
where the operator asks for it (``--strict``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

LENGTH_BYTES = 8  # of a safetensors header: little endian, before the header itself
TENSORS, INDEX = ".safetensors", ".safetensors.index.json"
MAX_INDEX_BYTES = 1 << 28

Offsets = dict[str, tuple[int, int]]


class Flaw(msgspec.Struct, frozen=True):
    """A file that does not hold what it says, and what is wrong with it."""

    path: str
    what: str


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def tensor_index(full_path: str, start: int) -> Offsets | str:
    """Where the tensors of a file lie in the stream, or what is wrong with the file.

    The safetensors package judges the header; its offsets are read here.
    """
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - slow to load

    try:
        with safe_open(full_path, framework="numpy"):
            pass
    except SafetensorError as error:
        return str(error)
    with Path(full_path).open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        header = msgspec.json.decode(file.read(length), type=dict[str, Any])
    header.pop("__metadata__", None)
    data = start + LENGTH_BYTES + length
    offsets = {name: tensor["data_offsets"] for name, tensor in header.items()}
    return {name: (data + first, data + last) for name, (first, last) in offsets.items()}


def index_flaw(full_path: str, path: str, paths: Sequence[str] | set[str]) -> str:
    """What is wrong with an index of shards, or nothing.

    Args:
        path: of the index below the pushed folder. paths: of all files there.
    """
    file = Path(full_path)
    if file.stat().st_size > MAX_INDEX_BYTES:
        return f"an index of more than {MAX_INDEX_BYTES} bytes"
    try:
        index = msgspec.json.decode(file.read_bytes(), type=_Index)
    except msgspec.DecodeError as error:
        return f"not an index of shards: {error}"
    folder = path.rpartition("/")[0]
    prefix = f"{folder}/" if folder else ""
    missing = sorted(set(index.weight_map.values()) - {""})
    missing = [shard for shard in missing if prefix + shard not in paths]
    if not missing:
        return ""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"names {missing[0]}{more}, which is missing"
