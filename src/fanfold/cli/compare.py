"""`fanfold compare`: one collective by many schemes on one fabric, in one table."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fanfold.cli import first_run
from fanfold.cli.console import tell_error
from fanfold.cli.ran_with import ran_with
from fanfold.cli.seed import checked_seed
from fanfold.cli.study_flags import by_flag, results_home, scenario_of
from fanfold.cli.study_tables import Bar, as_values, show_comparison
from fanfold.errors import ConfigError, ExitCode
from fanfold.results import query
from fanfold.results.store import Store
from fanfold.run import Run, run_scenario, scheme_names, trace_of
from fanfold.scenario.scenario import Scenario
from fanfold.schemes.catalog import CATALOG
from fanfold.topo.nets import notes_of
from fanfold.work.trace import Trace, has_collectives

TreeRepair = Annotated[
    str | None, typer.Option(help="along a tree: tree (to everybody) or unicast")
]
SumNumbers = Annotated[
    str | None, typer.Option(help="of fanfold's sums: value (as live), block or integer")
]
Out = Annotated[Path | None, typer.Option("--out", help="folder of results")]
MAX_STUCK = 10
"""Stuck items that are named on the line of the error; the rest is counted."""


def compare(
    scenario: Annotated[Path | None, typer.Argument(help="scenario in TOML")] = None,
    *,
    topology: Annotated[str | None, typer.Option(help="such as fat-tree:k=8")] = None,
    workload: Annotated[str | None, typer.Option(help="such as broadcast:256MiB")] = None,
    schemes: Annotated[str | None, typer.Option(help="all, or names by commas")] = None,
    gpus: Annotated[int | None, typer.Option(help="hosts that take part; default all")] = None,
    order: Annotated[str | None, typer.Option(help="packed, spread or shuffled hosts")] = None,
    loss: Annotated[
        str | None, typer.Option(help="of a packet on a link, such as 0.1%")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="of all that is drawn; default 1", callback=checked_seed)
    ] = None,
    fidelity: Annotated[str | None, typer.Option(help="auto, packet, train or flow")] = None,
    transport: Annotated[str | None, typer.Option(help="plain, roce or ndp")] = None,
    feedback: Annotated[
        str | None, typer.Option(help="folded, block, packet or nack; fanfold always folds")
    ] = None,
    tree_start: Annotated[
        str | None, typer.Option(help="before a tree is up: wait, standing or lost")
    ] = None,
    tree_repair: TreeRepair = None,
    sum_numbers: SumNumbers = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="count what a trace has and none can model")
    ] = False,
    ops_rate: Annotated[
        int | None, typer.Option(help="10^12 a second of a GPU, for a trace's num_ops")
    ] = None,
    out: Out = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="run again")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Compare schemes: by a scenario file, or by a topology and a workload."""
    flags = {
        "--topology": topology,
        "--workload": workload,
        "--schemes": schemes,
        "--gpus": gpus,
        "--order": order,
        "--loss": loss,
        "--seed": seed,
        "--fidelity": fidelity,
        "--transport": transport,
        "--feedback": feedback,
        "--tree-start": tree_start,
        "--tree-repair": tree_repair,
        "--sum-numbers": sum_numbers,
        "--skip-unknown": skip_unknown or None,
        "--ops-rate": ops_rate,
    }
    told = {k: v for k, v in flags.items() if v is not None}
    asked = scenario_of(scenario, told)
    _check_heeded(asked, flags)
    store = Store(out if out is not None else results_home())
    try:
        _run(asked, store, use_cache=not no_cache, as_json=as_json)
    except ConfigError as error:
        raise (error if scenario else by_flag(error, told)) from error


def _check_heeded(scenario: Scenario, flags: Mapping[str, object]) -> None:
    """Refuse flags that no scheme would heed at this fidelity; None is not given.

    Raises:
        ConfigError: the flag, and schemes that would.
    """
    if scenario.fidelity == "flow":
        for flag in ("--loss", "--transport", "--tree-repair"):
            if flags[flag] is not None:
                raise ConfigError(flag, flags[flag], "none beside --fidelity flow: no packets")
    chosen = [row for row in CATALOG if row.name in scheme_names(scenario)]
    trees = {row.name for row in CATALOG if row.protocol}
    told = {row.name for row in CATALOG if row.installs} | trees
    spoken = trees | {"bier"} | ({"fanfold"} if flags["--feedback"] == "folded" else set())
    for flag, heed in (
        ("--tree-start", told),
        ("--tree-repair", trees),
        ("--sum-numbers", {"fanfold"}),
        ("--feedback", spoken),
    ):
        if flags[flag] is not None and not any(row.name in heed for row in chosen):
            raise ConfigError(
                flag, flags[flag], f"none without one of {', '.join(sorted(heed))}"
            )


def _run(scenario: Scenario, store: Store, *, use_cache: bool, as_json: bool) -> None:
    trace = trace_of(scenario)
    asked, notes = one_of_equals(scenario, trace)
    notes += notes_of(scenario.topology)
    runs = run_all(asked, store, use_cache=use_cache, is_shown=not as_json, trace=trace)
    finish(runs, store, as_json=as_json, notes=[*notes, ran_with(asked)])


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


def run_all(
    scenario: Scenario,
    store: Store,
    *,
    use_cache: bool,
    is_shown: bool,
    trace: Trace | None = None,
) -> list[Run]:
    """Run what is not kept, with a line on stderr that says how far it is."""
    if first_run.is_fitting(scenario):
        if is_shown:
            print(first_run.NOTICE, file=sys.stderr)
        runs = first_run.interpret(scenario, store, use_cache=use_cache)
        if runs is not None:
            return runs
    with Bar(is_shown=is_shown) as bar:
        return run_scenario(
            scenario, store, use_cache=use_cache, progress=bar.show, trace=trace
        )


def finish(runs: list[Run], store: Store, *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Print a comparison once; a run that could not finish ends with code 4."""
    places = [store.place(run.run_id) for run in runs if run.run_id]
    rows = query.comparison(places)
    if as_json:
        print(json.dumps(as_values(rows, query.ratios(places), runs, notes)))
    else:
        show_comparison(rows, runs, notes)
    if any(row["n_stuck"] or row["n_unfinished"] for row in rows):
        tell_error(_unfinished(rows, query.stuck(places)))
        raise typer.Exit(ExitCode.PARTIAL)


def _unfinished(rows: list[query.Row], stuck: list[query.Row]) -> str:
    parts = []
    for row in rows:
        if row["n_stuck"] or row["n_unfinished"]:
            items = [s["what"] for s in stuck if s["run_id"] == row["run_id"]]
            more = [f"and {len(items) - MAX_STUCK} more"] if len(items) > MAX_STUCK else []
            named = "; ".join([*items[:MAX_STUCK], *more])
            parts.append(f"{row['scheme']}: {row['reason']}: {named}")
    return " | ".join(parts)
