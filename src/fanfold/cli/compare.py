"""`fanfold compare`: one collective by many schemes on one fabric, in one table."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from fanfold.api.comparing import (
    MAX_JOBS,
    asked_for,
    comparison_of,
    prepared,
    rows_of,
    unfinished,
)
from fanfold.api.scenarios import by_flag
from fanfold.cli import first_run
from fanfold.cli.console import tell_error
from fanfold.cli.seed import checked_seed
from fanfold.cli.study_tables import Bar, show_comparison
from fanfold.errors import ConfigError, ExitCode
from fanfold.results.store import Store, results_home
from fanfold.run import Run, run_scenario
from fanfold.scenario.scenario import Scenario
from fanfold.work.trace import Trace

TreeRepair = Annotated[
    str | None, typer.Option(help="along a tree: tree (to everybody) or unicast")
]
Planes = Annotated[str | None, typer.Option(help="that hosts use by weight: auto, or as 0,1")]
Routes = Annotated[
    str | None, typer.Option(help="of messages: spray, ecmp; flows or packets, by weight")
]
Feedback = Annotated[
    str | None, typer.Option(help="folded, block, packet or nack; fanfold always folds")
]
TreeStart = Annotated[
    str | None, typer.Option(help="before a tree is up: wait, standing or lost")
]
Loss = Annotated[str | None, typer.Option(help="of a packet on a link, such as 0.1%")]
Repair = Annotated[
    str | None,
    typer.Option(help="of fanfold: nearest (BFRs keep 16 MiB; the default) or source"),
]
SumNumbers = Annotated[
    str | None, typer.Option(help="of fanfold's sums: value (as live), block or integer")
]


def checked_jobs(jobs: int | None) -> int | None:
    """Number of processes; raises ConfigError outside 1..MAX_JOBS."""
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise ConfigError("--jobs", jobs, f"1..{MAX_JOBS}")
    return jobs


JOBS = "schemes at once  [default: cores, where the net is large]"
Jobs = Annotated[int | None, typer.Option(help=JOBS, callback=checked_jobs)]
Out = Annotated[Path | None, typer.Option("--out", help="folder of results")]


class Asked(NamedTuple):
    """What a scenario says as well."""

    topology: Annotated[str | None, typer.Option(help="such as fat-tree:k=8")] = None
    workload: Annotated[str | None, typer.Option(help="such as broadcast:256MiB")] = None
    schemes: Annotated[str | None, typer.Option(help="all, or names by commas")] = None
    gpus: Annotated[int | None, typer.Option(help="hosts that take part; default all")] = None
    order: Annotated[str | None, typer.Option(help="packed, spread or shuffled hosts")] = None
    loss: Loss = None
    seed: Annotated[
        int | None, typer.Option(help="of all that is drawn; default 1", callback=checked_seed)
    ] = None
    fidelity: Annotated[str | None, typer.Option(help="auto, packet, train or flow")] = None
    transport: Annotated[str | None, typer.Option(help="plain, roce or ndp")] = None
    planes: Planes = None
    routing: Routes = None
    feedback: Feedback = None
    tree_start: TreeStart = None
    tree_repair: TreeRepair = None
    repair: Repair = None
    sum_numbers: SumNumbers = None
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="count what a trace has and none can model")
    ] = False
    ops_rate: Annotated[
        int | None, typer.Option(help="10^12 a second of a GPU, for a trace's num_ops")
    ] = None


def compare(
    scenario: Annotated[Path | None, typer.Argument(help="scenario in TOML")] = None,
    *,
    asked: Asked,
    jobs: Jobs = None,
    out: Out = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="run again")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Compare schemes: by a scenario file, or by a topology and a workload."""
    flags = {f"--{name.replace('_', '-')}": value for name, value in asked._asdict().items()}
    flags["--skip-unknown"] = asked.skip_unknown or None
    made = asked_for(scenario, flags)
    store = Store(out if out is not None else results_home())
    try:
        _run(made, store, use_cache=not no_cache, as_json=as_json, jobs=jobs or 0)
    except ConfigError as error:
        told = [flag for flag, value in flags.items() if value is not None]
        raise (error if scenario else by_flag(error, told)) from error


def _run(
    scenario: Scenario, store: Store, *, use_cache: bool, as_json: bool, jobs: int
) -> None:
    trace, asked, notes = prepared(scenario)
    shown = not as_json
    runs = run_all(asked, store, use_cache=use_cache, is_shown=shown, trace=trace, jobs=jobs)
    finish(runs, store, as_json=as_json, notes=notes)


def run_all(
    scenario: Scenario,
    store: Store,
    *,
    use_cache: bool,
    is_shown: bool,
    trace: Trace | None = None,
    jobs: int = 0,
) -> list[Run]:
    """Run what is not kept, with a line on stderr that says how far it is.

    jobs: schemes at once, 0: as many as cores where the net is large.
    """
    if first_run.is_fitting(scenario):
        if is_shown:
            print(first_run.NOTICE, file=sys.stderr)
        runs = first_run.interpret(scenario, store, use_cache=use_cache)
        if runs is not None:
            return runs
    with Bar(is_shown=is_shown) as bar:
        return run_scenario(
            scenario, store, use_cache=use_cache, progress=bar.show, trace=trace, jobs=jobs
        )


def finish(runs: list[Run], store: Store, *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Print a comparison once; a run that could not finish ends with code 4."""
    rows = rows_of(runs, store)
    if as_json:
        print(msgspec.json.encode(comparison_of(rows, runs, store, notes)).decode())
    else:
        show_comparison(rows, runs, notes)
    text = unfinished(rows, runs, store)
    if text:
        tell_error(text)
        raise typer.Exit(ExitCode.PARTIAL)
