"""`fanfold workload`: what a model moves, by its shape and its parallel degrees."""

from typing import Any

import msgspec
import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from fanfold.cli import workload_flags as flags
from fanfold.cli.console import bold, print_json, screen
from fanfold.cli.verb import given
from fanfold.cli.workload_cells import size_of, table_of
from fanfold.cli.workload_takes import check_listing, check_of, check_of_trace
from fanfold.cli.workload_trace import show_trace
from fanfold.work.catalog import CATALOG, Workload, workload_of
from fanfold.work.model import active_params, total_params
from fanfold.work.parallel import plan_iteration
from fanfold.work.presets import PRESETS
from fanfold.work.trace_files import form_of
from fanfold.work.traffic import given_bytes
from fanfold.work.volumes import Row, WorkloadRequest, sent_by_parallelism


def workload(
    ctx: typer.Context,
    name: flags.WorkName = None,
    *,
    named: flags.Named,
    layout: flags.Layout,
    routing: flags.Routing,
    pushed: flags.Pushed,
    served: flags.Served,
    skip_unknown: flags.SkipUnknown = False,
    ops_rate: flags.OpsRate = 0,
    seed: flags.Seed = 1,
    as_json: flags.AsJson = False,
) -> None:
    """Print what a workload moves; without a name, list workloads and models."""
    if name is None:
        check_listing(ctx)
        _print_catalog(as_json)
        return
    if (trace_file := form_of(name)) is not None:
        links = _links(ctx, pushed.rate, served.latency)
        show_trace(trace_file, skip_unknown, flags.ops_of(ops_rate), links, as_json)
        return
    work = workload_of(name)
    check_of(ctx, name, routing.gate)
    _tell(work, flags.ask_of(named, layout, routing, pushed, served, seed), as_json)


def _links(ctx: typer.Context, rate: str, latency: str) -> tuple[int, int]:
    """Of a trace, whose bound has no latency but one that was given."""
    check_of_trace(ctx)
    return flags.links_of(rate, latency if "latency" in given(ctx) else "0s")


def _tell(work: Workload, ask: WorkloadRequest, as_json: bool) -> None:
    rows = work.rows(ask)
    if as_json:
        print_json(_values(work, ask, rows))
    else:
        _show(work, ask, rows)


def _values(work: Workload, ask: WorkloadRequest, rows: list[Row]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "workload": work.name,
        **_subject(work, ask),
        "degrees": msgspec.to_builtins(ask.degrees) | {"dp": ask.degrees.dp},
        "rows": rows,
    }
    if work.name == "training":
        told["sent_bytes"] = sent_by_parallelism(plan_iteration(ask.model, ask.degrees))
    return told


def _subject(work: Workload, ask: WorkloadRequest) -> dict[str, str | int]:
    """What is moved: a size that was given, or a model."""
    if n_bytes := given_bytes(work.name, ask):
        return {"size_bytes": n_bytes}
    return {
        "model": ask.model.name,
        "parameters": total_params(ask.model),
        "active_parameters": active_params(ask.model),
        "counted": ask.model.counted or "by its shape",
    }


def _show(work: Workload, ask: WorkloadRequest, rows: list[Row]) -> None:
    console = screen()
    if n_bytes := given_bytes(work.name, ask):
        console.print(Text.assemble(bold(size_of(n_bytes)), ", whatever the model"))
    else:
        told = f": {total_params(ask.model):,} parameters"
        counted = f" ({ask.model.counted})" if ask.model.counted else ""
        console.print(Text.assemble(bold(ask.model.name), told, counted))
    if work.name == "training":
        at = ask.degrees
        console.print(
            f"{at.gpus:,} GPUs: tp {at.tp}, pp {at.pp}, dp {at.dp}, ep {at.ep}, "
            f"ZeRO {at.zero}; {at.n_micro} x {at.micro_batch} sequences of {at.seq:,} tokens "
            "a replica"
        )
    console.print(table_of(rows))
    if work.name == "training":
        sent = sent_by_parallelism(plan_iteration(ask.model, ask.degrees))
        each = ", ".join(f"{name} {size_of(n)}" for name, n in sent.items())
        console.print(f"one GPU sends in an iteration: {each or 'nothing'}")


def _print_catalog(as_json: bool) -> None:
    works = [(row.name, row.summary) for row in CATALOG]
    models = [(preset.name, preset.source) for preset in PRESETS]
    if as_json:
        told = {
            "workloads": [{"name": n, "summary": s} for n, s in works],
            "models": [{"name": n, "source": s} for n, s in models],
        }
        print_json(told)
        return
    for title, rows in (("WORKLOAD", works), ("MODEL", models)):
        table = Table(title, "is", box=SIMPLE)
        for row in rows:
            table.add_row(*row)
        screen().print(table)
