"""Cells of the tables of `fanfold workload`, by the unit at the end of a column's name."""

from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from fanfold.units import PPB_ONE, format_duration, format_rate
from fanfold.work.volumes import Row


def table_of(rows: list[Row]) -> Table:
    """Columns of the first row; words to the left."""
    table = Table(box=SIMPLE)
    for key, value in (rows[0] if rows else {}).items():
        justify: Any = "left" if isinstance(value, str) else "right"
        table.add_column(_title(key), justify=justify)
    for row in rows:
        table.add_row(*(_cell(key, value) for key, value in row.items()))
    return table


def _title(key: str) -> str:
    for unit in _CELLS:
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _cell(key: str, value: int | str) -> str:
    if isinstance(value, str):
        return value
    for unit, shown in _CELLS.items():
        if key.endswith(unit):
            return shown(value)
    return f"{value:,}"


def _share(ppb: int) -> str:
    thousandths = ppb * 100_000 // int(PPB_ONE)
    return f"{thousandths // 1000}.{thousandths % 1000:03} %"


def _thousandths(value: int) -> str:
    return f"{value // 1000}.{value % 1000:03}"


def _money(micro: int) -> str:
    return f"{micro // 10**6:,}.{micro % 10**6 // 10**4:02} USD"


def size_of(n_bytes: int) -> str:
    """Decimal units throughout, so that a column adds up."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if n_bytes >= unit:
            thousandths = (n_bytes * 1000 + unit // 2) // unit
            return f"{thousandths // 1000}.{thousandths % 1000:03} {name}"
    return f"{n_bytes} B"


_CELLS: dict[str, Callable[[int], str]] = {
    "_bytes": size_of,
    "_ps": format_duration,
    "_ppb": _share,
    "_bps": format_rate,
    "_milli": _thousandths,
    "_micro_usd": _money,
}
"""How a value is shown, by the unit at the end of its column's name."""
