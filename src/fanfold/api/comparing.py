"""A comparison as programs ask for it; `fanfold compare` is this with a table around it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fanfold.api.arguments import by_argument
from fanfold.api.ran_with import ran_with
from fanfold.api.scenarios import by_flag, scenario_of
from fanfold.errors import CheckFailed, ConfigError
from fanfold.live.compile_notice import announce_compiles
from fanfold.results import query
from fanfold.results.store import Store, results_home
from fanfold.run import Run, run_scenario, scheme_names, trace_of
from fanfold.scenario.scenario import Scenario
from fanfold.schemes.catalog import CATALOG
from fanfold.topo.nets import notes_of
from fanfold.units import PS_PER_SECOND
from fanfold.work.trace import Trace, has_collectives

MAX_JOBS = 1024
MAX_STUCK = 10
"""Stuck items that are named on the line of the error; the rest is counted."""


class Comparison(msgspec.Struct, frozen=True):
    """Every scheme on one fabric and workload.

    runs: a row for each scheme that ran, integers and text by the columns of docs/results.md,
    ratios in parts per billion. refused: ``scheme`` and ``reason`` of those that cannot do it.
    notes: what was assumed, and what was left out.
    """

    runs: tuple[dict[str, Any], ...]
    refused: tuple[dict[str, str], ...]
    notes: tuple[str, ...]


class ComparisonFailed(CheckFailed):
    """A run could not finish.

    result: the rows all the same, which is what ``fanfold compare --json`` prints.
    """

    def __init__(self, text: str, result: Comparison) -> None:
        super().__init__(text)
        self.result = result


def compare(
    scenario: str | Path | None = None,
    *,
    topology: str | None = None,
    workload: str | None = None,
    schemes: str | Iterable[str] | None = None,
    gpus: int | None = None,
    order: str | None = None,
    loss: str | None = None,
    seed: int | None = None,
    fidelity: str | None = None,
    transport: str | None = None,
    feedback: str | None = None,
    repair: str | None = None,
    out: str | Path | None = None,
    use_cache: bool = True,
    jobs: int = 1,
) -> Comparison:
    """Run a collective by many schemes on one simulated fabric.

    Args:
        scenario: TOML file; then nothing else is given but ``out``.
        topology: such as "fat-tree:k=8". workload: such as "broadcast:256MiB", or a trace.
        schemes: "all", names by commas, or a list of names.
        gpus: hosts that take part; all where left out. order: packed, spread or shuffled.
        loss: of a packet on a link, such as "0.1%". seed: of all that is drawn.
        fidelity: auto, packet, train or flow. transport: plain, roce or ndp.
        feedback: folded, block, packet or nack. repair: of fanfold, source or nearest.
        out: folder of results; where the command keeps them if left out.
        use_cache: take runs that were made before.
        jobs: schemes at once, each in a process forked from this one: for programs without
            threads that hold locks; 1..1024.

    Returns:
        Rows by scheme, the same as ``fanfold compare --json``.

    Raises:
        ConfigError: an argument or file is wrong. ComparisonFailed: a run could not finish.

    >>> told = fanfold.compare(topology="star:hosts=4", workload="broadcast:64KiB",
    ...     schemes="unicast,fanfold")
    >>> {run["scheme"]: run["source_pkts"] for run in told.runs}
    {'fanfold': 16, 'unicast': 48}
    """
    names = schemes if schemes is None or isinstance(schemes, str) else ",".join(schemes)
    flags = {
        "--topology": topology,
        "--workload": workload,
        "--schemes": names,
        "--gpus": gpus,
        "--order": order,
        "--loss": loss,
        "--seed": seed,
        "--fidelity": fidelity,
        "--transport": transport,
        "--feedback": feedback,
        "--repair": repair,
    }
    file = Path(scenario) if scenario is not None else None
    return _made(file, flags, Path(out) if out is not None else results_home(), use_cache, jobs)


def _made(
    file: Path | None,
    flags: Mapping[str, str | int | None],
    out: Path,
    use_cache: bool,
    jobs: int,
) -> Comparison:
    announce_compiles()
    with by_argument():
        if not 1 <= jobs <= MAX_JOBS:
            raise ConfigError("--jobs", jobs, f"1..{MAX_JOBS}")
        asked = asked_for(file, flags)
        store = Store(out)
        try:
            trace, asked, notes = prepared(asked)
            runs = run_scenario(asked, store, use_cache=use_cache, trace=trace, jobs=jobs)
        except ConfigError as error:
            raise (error if file else by_flag(error, _given(flags))) from error
    rows = rows_of(runs, store)
    made = comparison_of(rows, runs, store, notes)
    text = unfinished(rows, runs, store)
    if text:
        raise ComparisonFailed(text, made)
    return made


def asked_for(file: Path | None, flags: Mapping[str, str | int | None]) -> Scenario:
    """Scenario of a file or of flags; None is not given.

    Raises:
        ConfigError: a wrong file or flag, or one that no scheme would heed.
    """
    scenario = scenario_of(file, _given(flags))
    _check_heeded(scenario, _given(flags))
    return scenario


def _given(flags: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {flag: value for flag, value in flags.items() if value is not None}


def _check_heeded(scenario: Scenario, flags: Mapping[str, str | int]) -> None:
    if scenario.fidelity == "flow":
        for flag in ("--loss", "--transport", "--tree-repair", "--repair"):
            if flag in flags:
                raise ConfigError(flag, flags[flag], "none beside --fidelity flow: no packets")
    chosen = [row for row in CATALOG if row.name in scheme_names(scenario)]
    trees = {row.name for row in CATALOG if row.protocol}
    told = {row.name for row in CATALOG if row.installs} | trees
    is_folded = flags.get("--feedback") == "folded"
    spoken = trees | {"bier"} | ({"fanfold"} if is_folded else set())
    for flag, heed in (
        ("--tree-start", told),
        ("--tree-repair", trees),
        ("--sum-numbers", {"fanfold"}),
        ("--repair", {"fanfold"}),
        ("--feedback", spoken),
    ):
        if flag in flags and not any(row.name in heed for row in chosen):
            raise ConfigError(
                flag, flags[flag], f"none without one of {', '.join(sorted(heed))}"
            )


def prepared(scenario: Scenario) -> tuple[Trace | None, Scenario, list[str]]:
    """Its trace, if it has one, what of it is run, and what is to be said of it."""
    trace = trace_of(scenario)
    asked, notes = one_of_equals(scenario, trace)
    return trace, asked, [*notes, *notes_of(scenario.topology), ran_with(asked)]


def one_of_equals(scenario: Scenario, trace: Trace | None) -> tuple[Scenario, list[str]]:
    """One scheme where all would send the same, and what is to be said of a trace."""
    if trace is None:
        return scenario, []
    notes = [f"left out of the trace: {name}, {n} times" for name, n in trace.skipped.items()]
    names = scheme_names(scenario)
    if len(names) > 1 and not has_collectives(trace):
        same = f"all {len(names)} schemes send the same; one is shown"
        notes.append(f"the trace has no collectives: {same}")
        scenario = msgspec.structs.replace(scenario, schemes=names[:1])
    return scenario, notes


def rows_of(runs: Sequence[Run], store: Store) -> list[query.Row]:
    """What the table shows of runs."""
    rows = [run.row for run in runs if run.row is not None]
    rows += query.comparison(_places([run for run in runs if run.row is None], store))
    return sorted(rows, key=query.by_rank)


def comparison_of(
    rows: Sequence[query.Row], runs: Sequence[Run], store: Store, notes: Sequence[str]
) -> Comparison:
    """The same as one value: runs with their ratios and speed, refused, and notes."""
    by_id = {run.run_id: run for run in runs}
    more = {row["run_id"]: row for row in query.ratios(_places(runs, store))}
    told = []
    for row in rows:
        run = by_id[row["run_id"]]
        speed = {
            "is_cached": run.wall_ps == 0,
            "wall_ps": run.wall_ps,
            "hops_per_s": per_second(run.n_hops, run.wall_ps),
        }
        told.append({**more[row["run_id"]], **row, **speed})
    refused = [{"scheme": r.scheme, "reason": r.refusal} for r in runs if r.refusal]
    return Comparison(tuple(told), tuple(refused), tuple(notes))


def _places(runs: Sequence[Run], store: Store) -> list[Path]:
    return [store.place(run.run_id) for run in runs if run.run_id]


def per_second(n: int, wall_ps: int) -> int:
    """Rate of n in a time, 0 when there was none."""
    return n * PS_PER_SECOND // wall_ps if wall_ps else 0


def unfinished(rows: Sequence[query.Row], runs: Sequence[Run], store: Store) -> str:
    """Schemes with items that did not come to their end, and why; empty where all did."""
    open_rows = [row for row in rows if row["n_stuck"] or row["n_unfinished"]]
    if not open_rows:
        return ""
    stuck = query.stuck(_places(runs, store))
    parts = []
    for row in open_rows:
        items = [s["what"] for s in stuck if s["run_id"] == row["run_id"]]
        more = [f"and {len(items) - MAX_STUCK} more"] if len(items) > MAX_STUCK else []
        named = "; ".join([*items[:MAX_STUCK], *more])
        parts.append(f"{row['scheme']}: {row['reason']}: {named}")
    return " | ".join(parts)
