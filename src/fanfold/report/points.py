"""Points of a sweep as text: each key has a sort, and each sort a form."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from fanfold.study.catalog import CATALOG
from fanfold.study.result import Value
from fanfold.units import format_duration, format_rate, format_size

COUNT = "count"
PPB_OF_A_PERCENT = 10**7


def sort_of(kind: str, key: str) -> str:
    """Sort of a key of a study; whole numbers where the study has no such key."""
    for row in CATALOG:
        if row.name == kind:
            return next((k.sort for k in row.all_keys if k.name == key), COUNT)
    return COUNT


def count_of(value: Value) -> int:
    """A whole number of a point, 0 for what is none."""
    if isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdigit() else 0


def format_key(sort: str, value: Value) -> str:
    """A value of a key for people."""
    if not isinstance(value, int):
        return value
    form = _FORMS.get(sort)
    return form(value) if form else f"{value:,}"


def format_point(kind: str, point: Mapping[str, Value]) -> str:
    """All keys of a point: "gpus 64, loss 0.01 %"."""
    return ", ".join(f"{k} {format_key(sort_of(kind, k), v)}" for k, v in point.items())


def _share(ppb: int) -> str:
    return f"{float(Fraction(ppb, PPB_OF_A_PERCENT)):.7f}".rstrip("0").rstrip(".") + " %"


_FORMS: Mapping[str, Callable[[int], str]] = {
    "size": format_size,
    "rate": format_rate,
    "duration": format_duration,
    "share": _share,
}
