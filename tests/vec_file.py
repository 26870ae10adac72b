"""Golden vectors: text files of `key = value` lines; docs in each file's comments.

A value is a number, "positions P P ..." for a BitString, or "hex BYTES"; a byte group XX*N
stands N times. `refused = REASON` stands instead of the fields.
"""

from pathlib import Path
from typing import Any, NamedTuple

VECTORS = Path(__file__).parent / "vectors"


class Vector(NamedTuple):
    """One file."""

    name: str
    codec: str
    refused: str | None
    fields: dict[str, Any]
    rows: tuple[tuple[int, int], ...]
    buf: bytes


def load_all() -> list[Vector]:
    return [load(path) for path in sorted(VECTORS.glob("*/*.vec"))]


def load(path: Path) -> Vector:
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    pairs = [tuple(part.strip() for part in line.split("=", 1)) for line in lines]
    rows = tuple(row_of(value) for key, value in pairs if key == "row")
    given = {key: value for key, value in pairs if key != "row"}
    codec, buf = given.pop("codec"), bytes_of(given.pop("hex"))
    refused = given.pop("refused", None)
    fields = {key: value_of(text) for key, text in given.items()}
    return Vector(f"{path.parent.name}/{path.stem}", codec, refused, fields, rows, buf)


def value_of(text: str) -> Any:
    word, _, rest = text.partition(" ")
    match word:
        case "positions":
            return sum(2 ** (int(position) - 1) for position in rest.split())
        case "hex":
            return bytes_of(rest)
        case _:
            return int(text, 0)


def row_of(text: str) -> tuple[int, int]:
    psn, _, lacking = text.partition(" ")
    return int(psn), value_of(lacking)


def bytes_of(text: str) -> bytes:
    groups = (group.partition("*") for group in text.split())
    return b"".join(bytes.fromhex(part) * int(times or 1) for part, _, times in groups)
