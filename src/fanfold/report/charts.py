"""Charts of a study: one function for each, from plain rows to a Vega-Lite chart.

Every function is pure. A scheme has one colour, point and dash in all of them (theme.py).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from fanfold.report.amounts import (
    PLAIN_AXIS,
    axis_of,
    format_times,
    format_value,
    label_of,
    unit_step,
)
from fanfold.report.points import count_of, format_key
from fanfold.report.theme import CURVES, mark_of, var
from fanfold.study.result import Row
from fanfold.units import NEVER, format_duration

LINEAR_BELOW = 12
"""An axis is linear where the greatest value is below this many times the least."""
ROW_HEIGHT = 30
LINE_HEIGHT = 340
LOG = " (log scale)"
MOST_STEPS = 160
"""Points of one distribution."""


BESIDE = alt.Legend(title=None, symbolType="stroke", symbolSize=300, labelLimit=0)
BELOW = alt.Legend(
    title=None,
    orient="bottom",
    columns=2,
    symbolDash=[1, 0],
    symbolStrokeWidth=0,
    symbolSize=80,
    labelLimit=0,
)


LINES = alt.Legend(
    title=None, orient="bottom", columns=3, symbolType="stroke", symbolSize=300, labelLimit=0
)


class Along(NamedTuple):
    """Key of a sweep that a chart runs along, and the sort of its values (study/keys.py)."""

    key: str
    sort: str


Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Data = Sequence[Mapping[str, Any]]


def dots(
    metric: str,
    values: Mapping[str, int],
    baseline: str,
    setups: Mapping[str, int] | None = None,
) -> Chart:
    """One point for each scheme, in the order given, with its value and how that compares.

    setups: by scheme, how much of the value is set-up: its line has two parts.
    """
    parts = {s: n for s, n in (setups or {}).items() if 0 < n <= values.get(s, 0)}
    base = values.get(baseline, 0)
    order = list(values)
    rows = [
        {
            "scheme": scheme,
            "value": values[scheme],
            "text": _beside(metric, scheme, values[scheme], baseline, base)
            + _of_setup(parts.get(scheme, 0), values[scheme]),
        }
        for scheme in order
    ]
    amounts = [*values.values(), *parts.values()]
    low, high = min(amounts, default=1), max(amounts, default=1)
    is_log = _is_wide(amounts)
    domain = [low / 1.6, high * (high / low) ** 0.45] if is_log else [0, max(high, 1) * 1.45]
    at = alt.X(
        "value:Q",
        title=_title(metric, is_log=is_log),
        scale=alt.Scale(type="log" if is_log else "linear", domain=domain, nice=False),
        axis=_axis(metric, amounts, is_log=is_log),
    )
    place = alt.Y(
        "scheme:N",
        sort=order,
        title=None,
        axis=alt.Axis(grid=True, labelColor=var("ink"), domain=False, ticks=False),
    )
    base_chart = alt.Chart(alt.InlineData(values=rows)).encode(x=at, y=place)
    points = base_chart.mark_point(filled=True, size=130, opacity=1).encode(
        color=_colour(order, legend=None),
        shape=_shape(order, legend=None),
        tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("text:N", title=label_of(metric))],
    )
    words = base_chart.mark_text(align="left", dx=12).encode(text="text:N")
    halo = base_chart.mark_text(
        align="left", dx=12, color=var("paper"), stroke=var("paper"), strokeWidth=5
    ).encode(text="text:N")
    return alt.layer(*_two_parts(values, parts, domain[0], at, place), halo, points, words)


def _two_parts(
    values: Mapping[str, int], parts: Mapping[str, int], start: float, at: alt.X, place: alt.Y
) -> list[alt.Chart]:
    """A wide line for the set-up, a narrow one for what comes after, and a stroke between."""
    charts = []
    for wide, tone, ends in (
        (9, "idle", {s: (start, n) for s, n in parts.items()}),
        (3, "soft", {s: (n, values[s]) for s, n in parts.items()}),
    ):
        rows = [{"scheme": s, "from": a, "value": b} for s, (a, b) in ends.items()]
        chart = alt.Chart(alt.InlineData(values=rows)).encode(x=at, x2="from:Q", y=place)
        charts.append(chart.mark_rule(strokeWidth=wide, color=var(tone)))
    return charts if parts else []


def _of_setup(setup: int, value: int) -> str:
    if not setup:
        return ""
    percent = max(1, 100 * setup // value)
    return f"; {percent} % of it set-up"


def distributions(endings: Mapping[str, Sequence[tuple[int, int]]]) -> Chart:
    """Share of receivers that have everything, over time; endings: (done_ps, how many)."""
    order = list(endings)
    rows = [row for scheme, ends in endings.items() for row in _shares(scheme, ends)]
    times = [row["at"] for row in rows]
    is_log = _is_wide(times)
    title = "time" + (LOG if is_log else "")
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=2.5)
        .encode(
            x=alt.X(
                "at:Q",
                title=title,
                scale=_scale(times, is_log=is_log),
                axis=_axis("time_all_ps", times, is_log=is_log),
            ),
            y=alt.Y(
                "share:Q",
                title="receivers that have everything",
                scale=alt.Scale(domain=[0, 100]),
                axis=alt.Axis(labelExpr="datum.value + ' %'", tickCount=5),
            ),
            color=_colour(order),
            strokeDash=_dash(order),
            tooltip=["scheme:N", alt.Tooltip("text:N", title="at"), alt.Tooltip("share:Q")],
        )
    )
    assert isinstance(chart, alt.Chart)
    return chart


def sweep(metric: str, along: Along, rows: Sequence[Row], order: Sequence[str]) -> Chart:
    """One line for each scheme over the values of a key; points where something was run."""
    key, sort = along
    given = list(dict.fromkeys(row.point[key] for row in rows))
    numbers = [n for n in map(count_of, given) if sort == "count" and n > 0]
    is_number = len(numbers) == len(given)
    x = _along(key, numbers) if is_number else _steps(key, [format_key(sort, v) for v in given])
    values = [
        {
            "scheme": row.scheme,
            "key": count_of(row.point[key]) if is_number else format_key(sort, row.point[key]),
            "at": format_key(sort, row.point[key]),
            "value": row.values[metric],
            "text": format_value(metric, row.values[metric]),
        }
        for row in rows
        if metric in row.values
    ]
    amounts = [row.values[metric] for row in rows if metric in row.values]
    is_log = _is_wide(amounts)
    title = _title(metric, is_log=is_log)
    chart = alt.Chart(alt.InlineData(values=values)).encode(
        x=x,
        y=alt.Y(
            "value:Q",
            title=title,
            scale=_scale(amounts, is_log=is_log),
            axis=_axis(metric, amounts, is_log=is_log),
        ),
        color=_colour(order, legend=BELOW),
        tooltip=[
            "scheme:N",
            alt.Tooltip("at:N", title=key),
            alt.Tooltip("text:N", title=title),
        ],
    )
    lines = chart.mark_line(strokeWidth=2.5).encode(strokeDash=_dash(order, legend=BELOW))
    points = chart.mark_point(filled=True, size=70, opacity=1).encode(
        shape=_shape(order, legend=BELOW)
    )
    return alt.layer(lines, points)


def curves(rows: Data, x_title: str, y_title: str, order: Sequence[str]) -> Chart:
    """Lines by name over whole numbers; rows: name, x, y."""
    place = {name: i for i, name in enumerate(order)}
    ys = [row["y"] for row in rows]
    dashes = [[1, 0], [7, 3], [2, 2], [10, 3, 2, 3]]
    colours = [var(f"c-{i % len(CURVES)}") for i in range(len(order))]
    chart = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(type="log", base=2), axis=_counts()),
        y=alt.Y("y:Q", title=y_title, scale=_scale(ys, is_log=_is_wide(ys)), axis=_counts()),
        color=alt.Color(
            "name:N", scale=alt.Scale(domain=list(order), range=colours), legend=LINES
        ),
        tooltip=[
            "name:N",
            alt.Tooltip("x:Q", title=x_title),
            alt.Tooltip("y:Q", title=y_title),
        ],
    )
    styles = [dashes[place[name] // len(CURVES) % len(dashes)] for name in order]
    lines = chart.mark_line(strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash(
            "name:N", scale=alt.Scale(domain=list(order), range=styles), legend=LINES
        )
    )
    return alt.layer(lines, chart.mark_point(filled=True, size=45))


def _is_wide(values: Sequence[float]) -> bool:
    """Whether an axis must be logarithmic for the least value to be seen."""
    return bool(values) and min(values) > 0 and max(values) >= LINEAR_BELOW * min(values)


def _scale(values: Sequence[float], *, is_log: bool) -> alt.Scale:
    if not is_log:
        return alt.Scale(type="linear", zero=True)
    return alt.Scale(type="log", domain=[min(values) / 1.3, max(values) * 1.3], nice=False)


def _axis(metric: str, values: Sequence[int], *, is_log: bool) -> alt.Axis:
    """Labels by unit; on a logarithmic axis few lines, at 1, 2 and 5 or at powers of ten."""
    low, high = min(values, default=0), max(values, default=1)
    unit = unit_step(metric, high)
    if not is_log:
        if unit == 1:
            return alt.Axis(labelExpr=axis_of(metric), tickCount=6, labelOverlap=True)
        step = unit * next(s for s in _rising() if 8 * s * unit >= high)
        ticks = list(range(0, 2 * high + step, step))
        return alt.Axis(labelExpr=axis_of(metric, unit), values=ticks, labelOverlap=True)
    steps = (1, 2, 5) if high < 500 * low else (1, 3) if high < 5000 * low else (1,)
    ticks = [s * 10**e for e in range(19) for s in steps]
    if unit > 1:
        ticks = [t for t in ticks if 6 * t <= unit] + [
            t * unit for t in ticks[: 9 * len(steps)]
        ]
    most = min(high * 50, NEVER)
    near = [t for t in ticks if low / 20 <= t <= most]
    return alt.Axis(labelExpr=axis_of(metric, unit), values=near, labelOverlap=True)


def _rising() -> Iterator[int]:
    """1, 2, 5, 10, 20 and so on."""
    return (s * 10**e for e in itertools.count() for s in (1, 2, 5))


def _counts() -> alt.Axis:
    return alt.Axis(labelExpr=PLAIN_AXIS, tickCount=7, labelOverlap=True)


def _along(key: str, given: Sequence[int]) -> alt.X:
    numbers = sorted(given)
    is_log = numbers[-1] >= 4 * numbers[0]
    room = 0 if is_log else max((numbers[-1] - numbers[0]) * 0.04, 0.5)
    times = 1.07 if is_log else 1
    ends = [numbers[0] / times - room, numbers[-1] * times + room]
    return alt.X(
        "key:Q",
        title=key,
        scale=alt.Scale(type="log" if is_log else "linear", domain=ends, nice=False),
        axis=alt.Axis(values=numbers, labelExpr="format(datum.value, ',')", labelOverlap=True),
    )


def _steps(key: str, named: Sequence[str]) -> alt.X:
    axis = alt.Axis(labelAngle=0, grid=True)
    return alt.X("key:O", title=key, sort=list(named), scale=alt.Scale(padding=0.3), axis=axis)


def _title(metric: str, *, is_log: bool) -> str:
    return label_of(metric) + (LOG if is_log else "")


def _beside(metric: str, scheme: str, value: int, baseline: str, base: int) -> str:
    text = format_value(metric, value)
    times = format_times(value, base)
    if scheme == baseline or not times:
        return text
    of = " of" if "/" in times else ""
    return f"{text}, {times}{of} {baseline}"


def _shares(scheme: str, ends: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Steps of a distribution, at most MOST_STEPS; it ends below 100 where some never end."""
    total = sum(n for _, n in ends)
    reached, rows = 0, []
    for at_ps, n in sorted(ends):
        if at_ps < 0:
            continue
        reached += n
        rows.append((at_ps, reached))
    every = -(-len(rows) // MOST_STEPS)
    kept = [row for i, row in enumerate(rows) if i % every == 0 or row is rows[-1]]
    first = [(rows[0][0], 0)] if rows else []
    return [
        {
            "scheme": scheme,
            "at": at_ps,
            "share": round(100 * n / total, 3),
            "text": format_duration(at_ps),
        }
        for at_ps, n in first + kept
    ]


def _colour(order: Sequence[str], *, legend: alt.Legend | None = BESIDE) -> alt.Color:
    scale = alt.Scale(domain=list(order), range=[var(f"s-{s}") for s in order])
    return alt.Color("scheme:N", scale=scale, legend=legend)


def _shape(order: Sequence[str], *, legend: alt.Legend | None) -> alt.Shape:
    names = tuple(order)
    scale = alt.Scale(domain=list(order), range=[mark_of(s, names).shape for s in order])
    return alt.Shape("scheme:N", scale=scale, legend=legend)


def _dash(order: Sequence[str], *, legend: alt.Legend = BESIDE) -> alt.StrokeDash:
    names = tuple(order)
    dashes = [list(mark_of(s, names).dash) for s in order]
    scale = alt.Scale(domain=list(order), range=dashes)
    return alt.StrokeDash("scheme:N", scale=scale, legend=legend)
