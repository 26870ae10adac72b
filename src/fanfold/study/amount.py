"""A number of a study as text for people, by the unit of its metric."""

from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.metric_catalog import metric_of
from fanfold.units import format_duration, format_rate, format_size


def amount(metric: str, value: int) -> str:
    """Such as 1.2 ms, 3.2 %, 255,000 packets; never for what does not come about."""
    if value == NEVER_HERE:
        return "never"
    unit = metric_of(metric).unit
    return f"{value:,}" if metric.startswith("feedback_per") else format_value(unit, value)


def format_value(unit: str, value: int) -> str:
    """A value with its unit."""
    match unit:
        case "ps":
            return format_duration(value)
        case "bytes":
            return format_size(value)
        case "bit/s":
            return format_rate(value)
        case "ppm":
            whole = f"{value // 10_000}.{value % 10_000 // 100:02}"
            return f"{whole.rstrip('0').rstrip('.')} %"
        case _:
            return f"{value:,}"
