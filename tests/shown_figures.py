"""Figures that pages show, and the file that says where each was measured.

``bench/figures.toml`` has an entry for each table of measured figures: page, heading, the
command, the commit and date of it, the machine; and for each row its figures with units.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNITS = ("packets/s", "Gbit/s", "Mbit/s", "CPU s per GB", "times", "us", "ms", "s", "M", "%")
_UNIT = "|".join(map(re.escape, UNITS))
FIGURE = re.compile(rf"(?<![\w=.,/:-])(\d[\d,]*(?:\.\d+)?)(?: ?({_UNIT})(?![\w/]))?")
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
Row = tuple[str, str, tuple[str, ...]]
"""Page and heading, first cell, figures of the others."""


def figures_of(text: str) -> tuple[str, ...]:
    """Numbers with their units, commands and links left out."""
    return tuple(f"{n} {unit}".strip() for n, unit in FIGURE.findall(CODE.sub(" ", text)))


def rows_of(page: str, text: str) -> Iterator[Row]:
    """Rows of a page's tables that have figures."""
    heading, is_head = "", True
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif set(line) <= set("|-: ") and line:
            is_head = False
        elif not line.startswith("|"):
            is_head = True
        elif not is_head:
            first, *others = (cell.strip() for cell in line.strip().strip("|").split("|"))
            found = figures_of(" | ".join(others))
            if found:
                yield f"{page}: {heading}", first.strip("*"), found


def backed(file: Path) -> tuple[dict[tuple[str, str], tuple[str, ...]], list[dict[str, Any]]]:
    """Figures by table and row, and the tables with where they come from."""
    tables = tomllib.loads(file.read_text())["table"]
    found = {
        (f"{table['page']}: {table['heading']}", row["row"]): tuple(row["figures"])
        for table in tables
        for row in table.get("rows", [])
    }
    return found, tables
