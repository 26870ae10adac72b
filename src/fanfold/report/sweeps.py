"""Sections of a sweep: how each scheme does as the job grows, or the fabric gets worse."""

from collections.abc import Sequence

from fanfold.report import charts
from fanfold.report.amounts import better, capital, format_value, label_of
from fanfold.report.charts import Along
from fanfold.report.figure import Figure, spec_of
from fanfold.report.material import Material
from fanfold.report.page import Section
from fanfold.report.points import format_key, format_point, sort_of
from fanfold.report.ranking import ranked
from fanfold.study.metric_catalog import metric_of
from fanfold.study.result import Row, Study, Value

SCALE_KEYS = ("gpus", "ranks", "hosts", "receivers", "replicas", "regions", "experts")
"""Keys of a sweep that make the job larger."""
FAULT_WORDS = ("loss", "fail", "fault", "down", "flap", "slow")
"""Parts of keys of a sweep that make the fabric worse."""
TITLES = {
    "scaling": "Scaling",
    "sensitivity": "Sensitivity to loss and failures",
    "sweeps": "Other sweeps",
}
HEIGHT = 400


def sweeps_of(material: Material) -> list[Section]:
    """Scaling, sensitivity and other sweeps, those that there are."""
    groups: dict[str, list[Figure]] = {name: [] for name in TITLES}
    for key in material.study.keys:
        groups[_group(key)] += _swept(material, key)
    return [Section(n, TITLES[n], figures=figures) for n, figures in groups.items() if figures]


def _swept(material: Material, key: str) -> list[Figure]:
    """Metrics over one key; the other keys stay at the point of the main table."""
    study = material.study
    others = {k: v for k, v in material.point.items() if k != key}
    rows = [
        row
        for row in study.rows
        if key in row.point and all(row.point.get(k) == v for k, v in others.items())
    ]
    values = list(dict.fromkeys(row.point[key] for row in rows))
    if len(values) < 2:
        return []
    order = [s for s in ranked(study, rows) if any(r.scheme == s and r.values for r in rows)]
    along = Along(key, sort_of(study.kind, key))
    held = f" At {format_point(study.kind, others)}." if others else ""
    return [
        Figure(
            f"over-{key}-{metric.replace('_', '-')}",
            f"{capital(label_of(metric))} over {key}",
            f"{capital(metric_of(metric).meaning)}. {better(metric)}{held}",
            f"Lines of {label_of(metric)} over {key}, one for each scheme. "
            + _last_values(metric, along, rows, values[-1]),
            spec_of(charts.sweep(metric, along, rows, order), height=HEIGHT),
            is_half=True,
        )
        for metric in _two(study, rows)
    ]


def _two(study: Study, rows: Sequence[Row]) -> list[str]:
    """The metric that decides, and the first that is of another unit."""
    shown = [m for m in study.metrics if any(m in row.values for row in rows)]
    others = [m for m in shown if metric_of(m).unit != metric_of(shown[0]).unit]
    return shown[:1] + others[:1]


def _last_values(metric: str, along: Along, rows: Sequence[Row], value: Value) -> str:
    last = [r for r in rows if r.point[along.key] == value and metric in r.values]
    said = ", ".join(f"{r.scheme} {format_value(metric, r.values[metric])}" for r in last)
    return f"At {along.key} {format_key(along.sort, value)}: {said}."


def _group(key: str) -> str:
    if key in SCALE_KEYS:
        return "scaling"
    return "sensitivity" if any(word in key for word in FAULT_WORDS) else "sweeps"
