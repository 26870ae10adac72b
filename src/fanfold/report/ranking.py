"""Which scheme is best by one metric."""

from collections.abc import Sequence

from fanfold.study.metric_catalog import metric_of
from fanfold.study.result import Row, Study


def best_first(rows: Sequence[Row], metric: str) -> list[Row]:
    """Rows that have the metric and are ranked, the best first; of equals who sends least."""
    if not metric:
        return []
    sign = -1 if metric_of(metric).better == "more" else 1
    tied = ("feedback_pkts", "fabric_bytes")
    able = [row for row in rows if metric in row.values and not row.unranked]
    return sorted(
        able,
        key=lambda r: (sign * r.values[metric], *(r.values.get(t, 0) for t in tied), r.scheme),
    )


def decisive(study: Study, rows: Sequence[Row]) -> str:
    """First metric of the study that some row has; empty where none has any."""
    able = [row for row in rows if not row.unranked]
    return next((m for m in study.metrics if any(m in row.values for row in able)), "")


def ranked(study: Study, rows: Sequence[Row]) -> list[str]:
    """Schemes, the best first, those without the decisive metric last."""
    best = [row.scheme for row in best_first(rows, decisive(study, rows))]
    return list(dict.fromkeys([*best, *(row.scheme for row in study.rows)]))
