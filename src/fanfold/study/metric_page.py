"""docs/metrics.md: every number of a study, and the limits that make words of some."""

from collections.abc import Iterator

from fanfold.study.amount import amount
from fanfold.study.gap_ground import RATE_BPS, ROWS, TOPOLOGY
from fanfold.study.gap_table import Limit
from fanfold.study.metric_catalog import CATALOG, Metric
from fanfold.study.thresholds import build_limits

INTRO = """# Metrics

Written from `metric_catalog.py` and `thresholds.py` in `src/fanfold/study` by
`python tests/generated.py`.

Every number is an integer in the unit of its name: `_ps` picoseconds, `_ppm` parts per million.
The five requirements are those of section 3 of
draft-zhang-rtgwg-multicast-requirements-gaps-aidc. `fanfold gap` measures them on one fabric,
each scheme by the same code:

- a large group, all hosts unless `--receivers` says less, for what grows with receivers:
  feedback, losses, faults, spread;
- a sparse group, `--members`, 9 unless asked for, drawn: for joins, state, headers, and once
  more among the 65,536 hosts of a fat tree.

A requirement is met as well as its worst number is. The limits are the same for all schemes;
those of dynamics follow from the time of a token on the source's link, here at 400 Gbit/s.
Numbers without limits are shown and do not decide.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRO
    limits = {limit.metric: limit for limit in build_limits(RATE_BPS)}
    for requirement in dict.fromkeys(metric.requirement for metric in CATALOG):
        rows = [metric for metric in CATALOG if metric.requirement == requirement]
        yield f"## {requirement.capitalize() or 'Costs'}"
        yield ""
        if requirement:
            yield from _limited(rows, limits)
        else:
            yield from _plain(rows)
        yield ""
    yield from _schemes()


def _plain(rows: list[Metric]) -> Iterator[str]:
    yield "| name | unit | better | meaning |"
    yield "|---|---|---|---|"
    for m in rows:
        yield f"| `{m.name}` | {m.unit} | {m.better} | {m.meaning} |"


def _limited(rows: list[Metric], limits: dict[str, Limit]) -> Iterator[str]:
    yield "| name | unit | meaning | Good to | Moderate to | because |"
    yield "|---|---|---|---|---|---|"
    for m in rows:
        limit = limits.get(m.name)
        ends = (limit.good, limit.moderate) if limit else ()
        good, moderate = (amount(m.name, end) for end in ends) if ends else ("", "")
        why = limit.why if limit else ""
        yield f"| `{m.name}` | {m.unit} | {m.meaning} | {good} | {moderate} | {why} |"


def _schemes() -> Iterator[str]:
    yield "## Rows of the gap table"
    yield ""
    yield f"On `{TOPOLOGY}` unless asked otherwise."
    yield ""
    yield "| row | variant of | what is different | tree protocol | moved as | feedback |"
    yield "|---|---|---|---|---|---|"
    for row in ROWS:
        cells = (row.name, row.variant_of, row.what, row.protocol, row.program, row.feedback)
        yield f"| {' | '.join(cells)} |"
