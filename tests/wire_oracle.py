"""Bit tables of docstrings and pages, and bits cut from bytes, without the codecs.

A row is (bits, field, meaning); bits are "FIRST-LAST", each N or N+kL, where L is the
BitString's length in bytes; an open row has no LAST.
"""

import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOC_PAGES = sorted((ROOT / "docs" / "wire").glob("*.md"))


class Row(NamedTuple):
    """One field of a header; `last` is None where the field fills the rest."""

    first: str
    last: str | None
    field: str
    meaning: str

    def span(self, n_bytes: int, end_bits: int) -> tuple[int, int]:
        """First and last bit, for L = n_bytes and a header of end_bits bits."""
        first = place_of(self.first, n_bytes)
        return first, end_bits - 1 if self.last is None else place_of(self.last, n_bytes)

    @property
    def is_ignored(self) -> bool:
        return self.meaning.startswith("ignored, sent as ")

    @property
    def is_computed(self) -> bool:
        return self.meaning.startswith("computed ")

    @property
    def always(self) -> int | None:
        found = re.fullmatch(r"always (\d+)", self.meaning)
        return int(found[1]) if found else None

    @property
    def sent_as(self) -> int:
        return int(self.meaning.removeprefix("ignored, sent as "))


def place_of(text: str, n_bytes: int) -> int:
    """Read "192+8L" for L = n_bytes."""
    plain, _, scaled = text.partition("+")
    return int(plain) + (int(scaled.removesuffix("L")) * n_bytes if scaled else 0)


def tables(module: ModuleType) -> list[list[Row]]:
    """The bit tables of a module's docstring."""
    found: list[list[Row]] = []
    is_open = False
    for line in (module.__doc__ or "").splitlines():
        cells = re.fullmatch(r" {4}(\S+) +(\S+) +(.+)", line)
        if cells and cells[1] == "bits":
            found.append([])
            is_open = True
        elif cells and is_open:
            found[-1].append(row_of(cells[1], cells[2], cells[3]))
        else:
            is_open = False
    return found


def page_tables() -> dict[str, list[Row]]:
    """The bit tables of docs/wire, by the name in their `layout:` mark."""
    found: dict[str, list[Row]] = {}
    for page in DOC_PAGES:
        parts = re.split(r"<!-- layout: ([a-z_ ]+) -->\n\n", page.read_text())
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in found, f"{name} has two tables"
            lines = text.split("\n\n")[0].splitlines()[2:]
            found[name] = [row_of(*line.strip("| ").split(" | ", 2)) for line in lines]
    return found


def row_of(bits: str, field: str, meaning: str) -> Row:
    """Read one row."""
    first, dash, last = bits.partition("-")
    assert dash, bits
    return Row(first, last or None, field, meaning.strip())


def slice_bits(buf: bytes, first: int, last: int) -> int:
    """Bits first..last of the bytes, bit 0 sent first."""
    word = int.from_bytes(buf, "big")
    return word >> (len(buf) * 8 - 1 - last) & ((1 << (last - first + 1)) - 1)


def put_bits(buf: bytes, first: int, last: int, value: int) -> bytes:
    """The same bytes with bits first..last replaced."""
    shift = len(buf) * 8 - 1 - last
    mask = ((1 << (last - first + 1)) - 1) << shift
    word = int.from_bytes(buf, "big") & ~mask | value << shift
    return word.to_bytes(len(buf), "big")


def sum16(buf: bytes) -> int:
    """RFC 1071 by the book: add words, fold the carries."""
    padded = buf + bytes(len(buf) % 2)
    total = sum(padded[at] << 8 | padded[at + 1] for at in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def seal(packet: bytes) -> bytes:
    """An IPv4 + UDP packet with both checksums made right, whatever stands in it."""
    blank = packet[:10] + b"\0\0" + packet[12:26] + b"\0\0" + packet[28:]
    ip_sum = sum16(blank[:20]) ^ 0xFFFF
    pseudo = blank[12:20] + b"\0\x11" + blank[24:26]
    udp_sum = sum16(pseudo + blank[20:]) ^ 0xFFFF or 0xFFFF
    out = put_bits(blank, 80, 95, ip_sum)
    return put_bits(out, 208, 223, udp_sum)
