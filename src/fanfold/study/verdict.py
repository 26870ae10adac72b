"""Sentences: what to choose for this workload on this fabric, by how much, and where it loses.

The metric that decides is the first of the study's. Schemes within a part in a hundred of the
best count as equal. A sentence says a number only where it was measured.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from fanfold.schemes.catalog import FAN_SCHEMES
from fanfold.study.metric_catalog import metric_of
from fanfold.study.result import Row, Study
from fanfold.units import format_duration, format_size

OURS = "fanfold"
CLOSE = Fraction(101, 100)
MOST_POINTS = 12
"""Points that get sentences of their own; of more only how often each scheme wins."""
BESIDE = ("busiest_bytes", "feedback_pkts")


def sentences(study: Study) -> tuple[str, ...]:
    """Verdict of a whole study."""
    if not study.metrics:
        return ("No scheme can do this here.",)
    points: list[Mapping[str, int | str]] = []
    for row in study.rows:
        if row.point not in points:
            points.append(row.point)
    told: list[str] = []
    wins: dict[str, int] = {}
    for point in points:
        rows = [row for row in study.rows if row.point == point]
        best = _best(rows, study.metrics[0])
        if best is None:
            lacks = next((row.unranked for row in rows if row.unranked), "")
            what = f"no choice: {lacks}" if lacks else "no scheme can do this"
            told.append(f"{_where(point)}{what}.")
            continue
        wins[best.scheme] = wins.get(best.scheme, 0) + 1
        if len(points) <= MOST_POINTS:
            told += _of_point(study, point, rows, best)
    if len(points) > 1:
        counts = ", ".join(f"{name} at {n}" for name, n in sorted(wins.items()))
        told.append(f"First by {_name(study.metrics[0])}, of {len(points)} points: {counts}.")
    return tuple(told)


def _of_point(
    study: Study, point: Mapping[str, int | str], rows: Sequence[Row], best: Row
) -> list[str]:
    decides = study.metrics[0]
    value = best.values[decides]
    able = [row for row in rows if row.values and not row.unranked]
    level = [
        row.scheme
        for row in able
        if row is not best and not _is_less(value * CLOSE, row, decides)
    ]
    named = f"{best.scheme} (as good within 1 %: {', '.join(level)})" if level else best.scheme
    base = next((row for row in able if row.scheme == study.baseline), None)
    told = f"{_where(point)}choose {named}: {_name(decides)} {_shown(decides, value)}"
    if base is not None and base is not best:
        told += f", {_times(base.values[decides], value)} sooner than {study.baseline}"
        told += _beside(base, best)
    lines = [f"{told}."]
    ours = next((row for row in able if row.scheme == OURS), None)
    if ours is not None:
        lines += _losses(study, point, rows, ours)
    many = [row for row in able if row.scheme in FAN_SCHEMES]
    if base is not None and many:
        lines += _where_copies_win(study, point, base, many)
    return lines


def _beside(base: Row, best: Row) -> str:
    parts = []
    for name in BESIDE:
        was, now = base.values.get(name, 0), best.values.get(name, 0)
        if was > now > 0:
            parts.append(f"{_times(was, now)} less {_name(name)}")
    return f", {', '.join(parts)}" if parts else ""


def _losses(
    study: Study, point: Mapping[str, int | str], rows: Sequence[Row], ours: Row
) -> list[str]:
    """Metrics of the table in which somebody is better than fanfold by more than a part."""
    parts = []
    for name in study.metrics:
        mine = ours.values.get(name)
        if mine is None or metric_of(name).better == "":
            continue
        others = [r for r in rows if name in r.values and r is not ours and not r.unranked]
        ahead = [r for r in others if _is_ahead(r.values[name], mine, name)]
        if ahead:
            first = min(ahead, key=lambda r: _order(r.values[name], name))
            than = f"{_shown(name, mine)} against {_shown(name, first.values[name])}"
            parts.append(f"{_name(name)} to {first.scheme} ({than})")
    if not parts:
        return []
    return [f"{_where(point)}{OURS} loses {'; '.join(parts)}."]


def _where_copies_win(
    study: Study, point: Mapping[str, int | str], base: Row, many: Sequence[Row]
) -> list[str]:
    """Multicast schemes that are slower than copies."""
    decides = study.metrics[0]
    slower = [
        f"{row.scheme} ({_times(row.values[decides], base.values[decides])})"
        for row in many
        if _is_ahead(base.values[decides], row.values[decides], decides)
    ]
    if not slower:
        return []
    verb = "takes longer than" if len(slower) == 1 else "take longer than"
    return [f"{_where(point)}{', '.join(slower)} {verb} {study.baseline}."]


def _best(rows: Sequence[Row], metric: str) -> Row | None:
    """The best row; of equals ours, as it needs no state and least feedback, else the first."""
    able = [row for row in rows if metric in row.values and not row.unranked]
    if not able:
        return None
    return min(able, key=lambda row: (_order(row.values[metric], metric), row.scheme != OURS))


def _order(value: int, metric: str) -> int:
    return -value if metric_of(metric).better == "more" else value


def _is_ahead(value: int, than: int, metric: str) -> bool:
    """Better by more than a part in a hundred."""
    if metric_of(metric).better == "more":
        return value > than * CLOSE
    return value * CLOSE < than


def _is_less(limit: Fraction, row: Row, metric: str) -> bool:
    return metric not in row.values or row.values[metric] > limit


def _times(more: int, less: int) -> str:
    """A ratio for people: "12.3 x"."""
    tenths = more * 10 // max(less, 1)
    if tenths < 100:
        hundredths = more * 100 // max(less, 1)
        return f"{hundredths // 100}.{hundredths % 100:02} x"
    if tenths < 1000:
        return f"{tenths // 10}.{tenths % 10} x"
    return f"{tenths // 10:,} x"


def _where(point: Mapping[str, int | str]) -> str:
    return f"{', '.join(f'{k} {v}' for k, v in point.items())}: " if point else ""


def _name(metric: str) -> str:
    return WORDS.get(metric, metric.replace("_", " "))


WORDS = {
    "time_all_ps": "time to all",
    "time_p50_ps": "time to half",
    "time_p99_ps": "time to 99 %",
    "straggler_ps": "straggler spread",
    "step_ps": "time of a step",
    "durable_ps": "time until durable",
    "first_ps": "time to the first layer",
    "utilisation_ppm": "GPU utilisation",
    "idle_gpu_ps": "idle GPU time",
    "source_bytes": "bytes on a source's link",
    "busiest_bytes": "bytes on the busiest link",
    "fabric_bytes": "bytes on all links",
    "egress_bytes": "egress",
    "wan_bytes": "bytes between sites",
    "queue_bytes": "the deepest queue",
    "feedback_pkts": "feedback at sources",
    "setup_ps": "set-up",
    "control_msgs": "control messages",
    "egress_micro_usd": "egress money",
}


def _shown(metric: str, value: int) -> str:
    match metric_of(metric).unit:
        case "ps" | "GPU ps":
            return format_duration(value)
        case "bytes":
            return format_size(value)
        case "ppm":
            return f"{value // 10_000}.{value % 10_000 // 100:02} %"
        case "micro-USD":
            return f"{value // 10**6:,}.{value % 10**6 // 10_000:02} USD"
        case _:
            return f"{value:,}"
