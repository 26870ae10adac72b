"""`fanfold report`: what a study or a comparison found, as one page and its figures."""

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn

from fanfold.cli.bars import Words
from fanfold.cli.console import bold, error_screen, screen
from fanfold.errors import ConfigError
from fanfold.extras import require
from fanfold.results.store import Store, results_home

REPORTS = "reports"
NEEDS = ("altair", "vl_convert", "jinja2")


def report(
    run: Annotated[
        str | None, typer.Argument(help="study or run id, or its start", show_default=False)
    ] = None,
    *,
    last: Annotated[bool, typer.Option("--last", help="the study or run made last")] = False,
    source: Annotated[Path | None, typer.Option("--from", help="folder of results")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="folder to write to  [default: reports/ID of the results]"),
    ] = None,
    no_gap: Annotated[
        bool, typer.Option("--no-gap", help="without the table of requirements")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Write one self-contained HTML page of a study or a comparison, and its figures."""
    if (run is None) != last:
        got = "nothing" if run is None else f"{run} and --last"
        raise ConfigError("RUN", got, "a study or a run, or --last")
    material, writer = _parts()
    store = Store(source if source is not None else results_home())
    name, is_study = material.newest(store) if run is None else material.find(store, run)
    folder = out if out is not None else store.folder / REPORTS / name
    with _bar(is_shown=not as_json) as tell:
        made = writer.write_report(
            store, name, folder, is_study=is_study, has_gap=not no_gap, progress=tell
        )
    if as_json:
        print(json.dumps(_values(made)))
        return
    console = screen()
    console.print(bold(made.title.replace("\n", " ")))
    for line in made.verdict:
        console.print(line)
    console.print(f"{made.page}, with {len(made.figures)} files of figures beside it")


@contextmanager
def _bar(*, is_shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    console = error_screen()
    columns = SpinnerColumn(), Words("{task.description}")
    is_on = is_shown and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not is_on) as bar:
        task = bar.add_task("drawing")

        def tell(what: str, done: int, n: int) -> None:
            bar.update(task, description=f"gap table, {what}: {done} of {n} schemes measured")

        yield tell


def _parts() -> tuple[Any, Any]:
    """What finds and what writes; both need libraries that not everybody has.

    Raises:
        EnvironmentLack: one is missing.
    """
    require(NEEDS, "report", "report")
    names = ("material", "report")
    return tuple(importlib.import_module(f"fanfold.report.{n}") for n in names)  # type: ignore[return-value]


def _values(made: Any) -> dict[str, Any]:
    return {
        "name": made.name,
        "title": made.title,
        "verdict": list(made.verdict),
        "page": str(made.page),
        "figures": [str(path) for path in made.figures],
    }
