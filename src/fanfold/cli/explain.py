"""`fanfold explain`: one packet of a run, link by link: where its time went."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import screen
from fanfold.cli.study_tables import Bar
from fanfold.errors import ConfigError
from fanfold.results.store import Store, results_home
from fanfold.run import Story, trace_run
from fanfold.sim.timeline import Step
from fanfold.units import format_duration

_TIMES = ("wait", "serialisation", "propagation", "switch")


def explain(
    run: Annotated[
        str | None,
        typer.Argument(help="run id of `fanfold compare`, or its start", show_default=False),
    ] = None,
    *,
    last: Annotated[bool, typer.Option("--last", help="the run made last")] = False,
    scheme: Annotated[str | None, typer.Option(help="of --last: the last run by it")] = None,
    item: Annotated[int, typer.Option(help="message or fan, from 0")] = 0,
    packet: Annotated[int, typer.Option(help="of the item, from 0")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="folder of results")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Make a run again and follow one packet, its copies and what answers it."""
    store = Store(out if out is not None else results_home())
    if (run is None) != last:
        got = "nothing" if run is None else f"{run} and --last"
        raise ConfigError("RUN", got, "a run, or --last")
    if scheme is not None and not last:
        raise ConfigError("--scheme", scheme, "none without --last: a run has one scheme")
    run = store.newest(scheme or "") if run is None else run
    with Bar(is_shown=not as_json) as bar:
        story = trace_run(store, run, item, packet, bar.show)
    if as_json:
        print(json.dumps(_values(story, packet)))
    else:
        _show(story, packet)


def _values(story: Story, packet: int) -> dict[str, Any]:
    name = story.node_name
    steps = [{**s._asdict(), "src": name(s.src), "node": name(s.node)} for s in story.steps]
    told = story._asdict() | {"packet": packet, "steps": steps}
    del told["node_name"]
    return told


def _show(story: Story, packet: int) -> None:
    console = screen()
    console.print(f"run {story.run_id}, {story.scheme}: {story.what}")
    train = f", in its train of up to {story.segment_pkts}" if story.segment_pkts > 1 else ""
    table = Table(title=f"packet {packet}{train}", box=SIMPLE, title_justify="left")
    for column in ("at", "what", "link", "bytes", *_TIMES):
        table.add_column(column, justify="left" if column in ("what", "link") else "right")
    for step in story.steps:
        table.add_row(*_cells(story, step))
    console.print(table)
    if not story.is_same:
        console.print("the run was kept by another version; this one may differ")


def _cells(story: Story, step: Step) -> list[str]:
    link = f"{story.node_name(step.src)} > {story.node_name(step.node)}"
    wait = "" if step.wait_ps is None else format_duration(step.wait_ps)
    rest = (step.serial_ps, step.prop_ps, step.switch_ps)
    return [
        *(f"{step.at_ps:,} ps", step.what, link, f"{step.n_bytes:,}"),
        *(wait, *(format_duration(ps) for ps in rest)),
    ]
