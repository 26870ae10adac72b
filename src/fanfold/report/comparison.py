"""The runs of one `fanfold compare` as a study of one point."""

import shlex
from collections.abc import Sequence

from msgspec.structs import fields, replace

from fanfold.errors import ConfigError
from fanfold.report.amounts import format_times, format_value
from fanfold.report.ranking import best_first
from fanfold.results import query
from fanfold.results.store import DIGESTS, SCENARIO, Store
from fanfold.scenario.rung_bounds import bound_text
from fanfold.scenario.scenario import MATRIX_SCHEME, Scenario, load_scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG
from fanfold.study.result import Default, Row, Study
from fanfold.toml_table import write_table
from fanfold.topo.nets import IMPORT, file_of
from fanfold.trees.settings import TreeSettings
from fanfold.units import format_duration, format_size

KIND = "compare"
BASELINE = "unicast"
METRICS = (
    *("time_all_ps", "time_p50_ps", "time_p99_ps", "straggler_ps"),
    *("source_bytes", "busiest_bytes", "fabric_bytes"),
    *("feedback_pkts", "drops", "repair_bytes", "setup_ps", "control_msgs", "state_entries"),
)
_UNITS = {"_bytes": " bytes", "_ppb": " of 1,000,000,000", "_pkts": " packets"}
_SAME = ("seed", "version", "topology", "workload", "n_ranks", "n_bytes")


def comparison_of(store: Store, run_id: str) -> Study:
    """A run and its companions: kept runs of the same scenario and version, other schemes.

    Raises:
        ConfigError: the scenario of the run cannot be read.
    """
    scenario = load_scenario(store.place(run_id) / SCENARIO)
    ids = _companions(store, run_id, scenario)
    rows = query.comparison([store.place(name) for name in ids])
    told = next(row for row in rows if row["run_id"] == run_id)
    order = [scheme.name for scheme in CATALOG] + [MATRIX_SCHEME]
    rows.sort(key=lambda row: order.index(row["scheme"]))
    schemes = tuple(row["scheme"] for row in rows)
    found = tuple(_row(row) for row in rows)
    baseline = BASELINE if BASELINE in schemes else schemes[0]
    return Study(
        kind=KIND,
        title=_title(told),
        command=command_of(scenario, schemes),
        seed=told["seed"],
        version=told["version"],
        model="",
        topology=named_of(told["topology"]),
        gpus=told["n_ranks"],
        keys=(),
        metrics=METRICS,
        baseline=baseline,
        rows=found,
        verdict=tuple(_verdict(found, baseline, told)),
        defaults=tuple(_defaults(scenario)),
    )


def scenario_text(scenario: Scenario, schemes: Sequence[str]) -> str:
    """TOML of a comparison; files that it names are named as they lie beside a kept run."""
    named = scenario.schemes if scenario.matrix else tuple(schemes)
    return write_table(replace(_bare(scenario), schemes=named))


def command_of(scenario: Scenario, schemes: Sequence[str]) -> str:
    """The command line that makes the runs again; by a file where flags do not say it all."""
    plain = replace(
        scenario.settings, transport=Settings().transport, loss_ppb=Settings().loss_ppb
    )
    work = scenario.workload
    is_idle = scenario.fidelity == "flow" and plain != scenario.settings  # no flags beside it
    is_file = work is None or file_of(scenario.topology) is not None or is_idle
    if work is None or is_file or plain != Settings() or scenario.trees != TreeSettings():
        return "fanfold compare scenario.toml"
    words = ["fanfold", "compare", "--topology", scenario.topology]
    words += ["--workload", f"{work.kind}:{work.n_bytes}B", "--schemes", ",".join(schemes)]
    if work.ranks != "all":
        words += ["--gpus", str(work.ranks)]
    if work.order != "packed":
        words += ["--order", work.order]
    if scenario.settings.loss_ppb:
        words += ["--loss", f"{scenario.settings.loss_ppb}ppb"]
    if scenario.fidelity != "auto":
        words += ["--fidelity", scenario.fidelity]
    if scenario.settings.transport != Settings().transport:
        words += ["--transport", scenario.settings.transport]
    return shlex.join([*words, "--seed", str(scenario.seed)])


def _companions(store: Store, run_id: str, scenario: Scenario) -> list[str]:
    bare = _bare(scenario)
    (own,) = query.heads([store.place(run_id)])
    ids = []
    for path in sorted(store.folder.glob(f"*/{SCENARIO}")):
        try:
            other = load_scenario(path)
        except ConfigError:  # of another version, so no companion
            continue
        if _bare(other) == bare and (path.parent / DIGESTS).is_file():
            (head,) = query.heads([path.parent])
            if all(head[key] == own[key] for key in _SAME):
                ids.append(path.parent.name)
    return ids


def _bare(scenario: Scenario) -> Scenario:
    """What companions share: all but the schemes, and where a file of it lies."""
    topology = named_of(scenario.topology)
    matrix = scenario.matrix.rpartition("/")[2]
    return replace(scenario, schemes=(), topology=topology, matrix=matrix)


def named_of(topology: str) -> str:
    """The topology without the folders of an imported file."""
    named = file_of(topology)
    return f"{IMPORT}:{named[0].name}{named[1]}" if named else topology


def _row(row: query.Row) -> Row:
    values: dict[str, int] = {
        "source_bytes": row["source_bytes"],
        "busiest_bytes": row["busiest_bytes"],
        "fabric_bytes": row["fabric_bytes"],
        "feedback_pkts": row["feedback_pkts"],
        "drops": row["dropped_pkts"],
        "repair_bytes": row["repair_bytes"],
    }
    values |= {name: row[name] for name in ("setup_ps", "control_msgs", "state_entries")}
    if row["last_ps"] is not None:
        values |= {
            "time_all_ps": row["last_ps"],
            "time_p50_ps": row["p50_ps"],
            "time_p99_ps": row["p99_ps"],
            "straggler_ps": row["last_ps"] - row["p50_ps"],
        }
    train = f"train of {row['segment_pkts']}"
    fidelity = train if row["fidelity"] == "train" else row["fidelity"]
    lacks = row["left_out"]
    bound = "" if lacks or row["fidelity"] == "packet" else bound_text(row["error_ppm"])
    return Row(
        row["scheme"],
        {},
        fidelity=fidelity,
        run_id=row["run_id"],
        values=values,
        note="; ".join(filter(None, (lacks, bound, row["planes"]))),
        unranked=lacks,
    )


def _title(told: query.Row) -> str:
    ranks = f" over {told['n_ranks']:,} hosts" if told["n_ranks"] else ""
    fabric = named_of(told["topology"])
    return f"{told['workload']} of {format_size(told['n_bytes'])}{ranks}, {fabric}"


def _verdict(rows: Sequence[Row], baseline: str, told: query.Row) -> list[str]:
    order = best_first(rows, "time_all_ps")
    lacks = {row.unranked for row in rows if row.unranked}
    if not order and lacks:
        return [f"No choice can be made from these runs: {'; '.join(sorted(lacks))}."]
    if not order:
        return ["No scheme finished: no choice can be made from these runs."]
    best = order[0]
    time = best.values["time_all_ps"]
    where = f"on {named_of(told['topology'])}"
    said = [
        f"Choose {best.scheme} {where}: every receiver has everything after "
        f"{format_value('time_all_ps', time)}"
    ]
    base = next((row for row in order if row.scheme == baseline), None)
    if base is not None and base is not best:
        other = base.values["time_all_ps"]
        said[0] += f"; {baseline} takes {format_times(other, time)} as long"
    said[0] += "."
    said += _ties(order)
    if base is not None and base is not best:
        said.append(_bytes(best, base))
    unfinished = [row.scheme for row in rows if "time_all_ps" not in row.values]
    if lacks:
        names = [row.scheme for row in rows if row.unranked]
        said.append(f"Not ranked: {', '.join(names)}: {'; '.join(sorted(lacks))}.")
    if unfinished:
        said.append(f"Not everybody was served by {', '.join(unfinished)}.")
    return said


def _ties(order: Sequence[Row]) -> list[str]:
    best = order[0]
    time, feedback = best.values["time_all_ps"], best.values["feedback_pkts"]
    said = []
    for row in order[1:]:
        if row.values["time_all_ps"] != time:
            break
        words = row.values["feedback_pkts"]
        said.append(
            f"{row.scheme} takes exactly as long; its source hears {words:,} packets of "
            f"feedback, that of {best.scheme} {feedback:,}."
        )
    if not said and len(order) > 1:
        second = order[1]
        times = format_times(second.values["time_all_ps"], time)
        said.append(f"The next is {second.scheme}, which takes {times} as long.")
    return said


def _bytes(best: Row, base: Row) -> str:
    parts = []
    for metric, where in (
        ("source_bytes", "out of the source"),
        ("fabric_bytes", "on all links"),
    ):
        times = format_times(base.values[metric], best.values[metric])
        amounts = [format_value(metric, row.values[metric]) for row in (best, base)]
        parts.append(f"{amounts[0]} {where} against {amounts[1]} ({times})")
    return f"{best.scheme} and {base.scheme} send " + ", ".join(parts) + "."


def _defaults(scenario: Scenario) -> list[Default]:
    settings, usual = scenario.settings, Settings()
    rows = []
    for field in fields(Settings):
        value = getattr(settings, field.name)
        is_usual = value == getattr(usual, field.name)
        source = "default, ADR 0012" if is_usual else "given"
        rows.append(Default(field.name, _text(field.name, value), source))
    return rows


def _text(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    if name.endswith("_ps"):
        return format_duration(value)
    return f"{value:,}" + next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
