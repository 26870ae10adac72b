"""A number of a study as text for people, by the unit of its metric."""

from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.metric_catalog import metric_of
from fanfold.units import format_duration, format_rate, format_size


def amount(metric: str, value: int) -> str:
    """Such as 1.2 ms, 3.2 %, 255,000 packets; never for what does not come about."""
    if value == NEVER_HERE:
        return "never"
    match metric_of(metric).unit:
        case "ps":
            return format_duration(value)
        case "bytes":
            return format_size(value)
        case "bit/s":
            return format_rate(value)
        case "ppm":
            return f"{value // 10_000}.{value % 10_000 // 100:02} %"
        case unit:
            return f"{value:,} {unit}".rstrip()
