"""`fanfold litmus`: what each class of memory order over planes forbids, and what it costs."""

import sys
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.core.memory_order import Mode
from fanfold.sim.memory_table import N_RUNS, CostRow, LitmusRow, MemoryTable, build_table
from fanfold.units import format_duration, format_size

MAX_RUNS = 10_000_000


def litmus(
    runs: Annotated[
        int, typer.Option(min=1, max=MAX_RUNS, help="of each program under each class")
    ] = N_RUNS,
    seed: Annotated[int, typer.Option(help="of all delays", callback=checked_seed)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Which orders of memory each class of delivery forbids, seen in runs; costs."""
    table = build_table(runs, seed, _tell)
    if as_json:
        print_json(table)
    else:
        _show(table)


def _tell(done: int, n: int) -> None:
    """Say on a terminal how far it is; the last line is taken away."""
    if sys.stderr.isatty():
        end = "\r\x1b[K" if done + 1 == n else ""
        print(f"\r{done + 1} of {n} programs{end}", end="", file=sys.stderr, flush=True)


def _show(table: MemoryTable) -> None:
    console = screen()
    title = f"outcomes in question, of {table.runs:,} runs each"
    shown = Table(title=title, box=SIMPLE)
    for name in ("program", "outcome", "addresses at"):
        shown.add_column(name)
    for name in (*Mode, "all, fenced"):
        shown.add_column(name, justify="right")
    for row in table.litmus:
        cells = [_cell(row, mode) for mode in Mode]
        shown.add_row(
            row.test, row.words, row.homes, *cells, f"{row.fenced:,}" if row.fenced else "never"
        )
    console.print(shown)
    console.print(_costs(table.costs))


def _cell(row: LitmusRow, mode: Mode) -> str:
    """How often it was seen; what is allowed and did not come is no "never"."""
    return f"{row.seen[mode]:,}" if mode in row.allowed else "never"


def _costs(rows: list[CostRow]) -> Table:
    shown = Table(
        title="20,000 transactions of 256 bytes over 4 planes of 800 Gbit/s", box=SIMPLE
    )
    shown.add_column("to")
    shown.add_column("class")
    for name in ("until all are answered", "held back by a home", "busiest plane"):
        shown.add_column(name, justify="right")
    for row in rows:
        held = format_size(row.buffer_bytes) if row.buffer_bytes else "nothing"
        busiest = f"{row.busiest_ppm / 10_000:.1f} %"
        shown.add_row(row.traffic, row.mode, format_duration(row.time_ps), held, busiest)
    return shown
