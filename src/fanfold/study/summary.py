"""Rows of all tasks to one Study: what is saved, what was assumed, what to choose."""

from collections.abc import Mapping, Sequence

import msgspec

from fanfold.study.ask import StudyRequest
from fanfold.study.catalog import Kind, kind_of
from fanfold.study.costs import priced
from fanfold.study.keys import defaults_of
from fanfold.study.result import Default, Row, Study
from fanfold.study.sweep import BASELINE, swept
from fanfold.study.task import StudyTask, setting_of, study_version, style_of
from fanfold.study.verdict import sentences
from fanfold.work.model import total_params

PAID = ("egress_micro_usd", "energy_mj", "idle_energy_mj")
TREE_SOURCE = "src/fanfold/trees/settings.py, each with its source"


def build_study(
    ask: StudyRequest, tasks: Sequence[StudyTask], rows: Sequence[Row], command: str
) -> Study:
    """The value that tables, reports and JSON are made of."""
    kind = kind_of(ask.kind)
    known = [row.scheme for row in rows if row.values]
    baseline = BASELINE if BASELINE in known else (known or [""])[0]
    full = tuple(_with_saving(_with_prices(row, ask), rows, baseline) for row in rows)
    has = {name for row in full for name in row.values}
    metrics = tuple(name for name in (*kind.metrics, *PAID) if name in has)
    first = tasks[0]
    graph = kind.graph(setting_of(first), style_of(first.scheme))
    keys = tuple(name for name, _ in swept(ask, kind))
    study = Study(
        kind=kind.name,
        title=_title(kind, first, keys, graph.topology),
        command=command,
        seed=ask.seed,
        version=study_version(),
        model="" if is_by_size(kind, first) else first.values["model"],
        topology=graph.topology,
        gpus=graph.gpus,
        keys=keys,
        metrics=metrics,
        baseline=baseline,
        rows=full,
        verdict=(),
        defaults=_defaults(ask, graph.defaults, graph.topology, first),
    )
    return msgspec.structs.replace(study, verdict=sentences(study))


def is_by_size(kind: Kind, task: StudyTask) -> bool:
    """Whether what is moved has a size of its own, so that no model is looked at."""
    return bool(kind.by_size and task.values[kind.by_size])


def _title(kind: Kind, task: StudyTask, keys: tuple[str, ...], topology: str) -> str:
    moved = kind.by_size if is_by_size(kind, task) else "model"
    model = "" if moved in keys else f", {task.values[moved]}"
    swept = f", by {' and '.join(keys)}" if keys else ""
    return f"{kind.summary}{model}, {topology}{swept}, seed {task.seed}"


def _with_prices(row: Row, ask: StudyRequest) -> Row:
    if not row.values:
        return row
    return msgspec.structs.replace(row, values={**row.values, **priced(row.values, ask.paid)})


def _with_saving(row: Row, rows: Sequence[Row], baseline: str) -> Row:
    base = _at(rows, row.point, baseline).get("busiest_bytes")
    mine = row.values.get("busiest_bytes")
    if base is None or mine is None:
        return row
    return msgspec.structs.replace(row, values={**row.values, "saved_bytes": base - mine})


def _at(rows: Sequence[Row], point: Mapping[str, object], scheme: str) -> Mapping[str, int]:
    for row in rows:
        if row.scheme == scheme and row.point == point:
            return row.values
    return {}


def _defaults(
    ask: StudyRequest, more: tuple[Default, ...], topology: str, first: StudyTask
) -> tuple[Default, ...]:
    kind = kind_of(ask.kind)
    given = {name for name, text in ask.given.items() if text} | {
        n for n, _ in swept(ask, kind)
    }
    rows = defaults_of(kind.all_keys, dict.fromkeys(given, ""))
    if "topology" in given:
        rows = [row for row in rows if row.name != "rate"]
    else:
        rows.insert(0, Default("topology", topology, "chosen by the number of hosts"))
    if "model" not in given and not is_by_size(kind, first):
        rows.insert(0, Default("model", kind.model, "of this study where none is named"))
    model = setting_of(first).model
    is_counted = model.counted and not is_by_size(kind, first)
    if is_counted and {"model", "parameters"}.isdisjoint(n for n, _ in swept(ask, kind)):
        rows.append(Default("parameters", f"{total_params(model):,}", model.counted))
    rows.append(Default("timers and delays of tree protocols", "as they stand", TREE_SOURCE))
    rows.append(
        Default("network between phases", "at rest", "each phase is simulated by itself")
    )
    return (*rows, *more)
