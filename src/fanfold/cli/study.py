"""`fanfold study`: an AI workload by every scheme, what it costs, and what to choose."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from fanfold.cli.console import print_json, tell_warning
from fanfold.cli.seed import checked_seed
from fanfold.cli.study_view import Line, show_key_rows
from fanfold.cli.verb import refuse_but
from fanfold.cli.workload_flags import Parameters
from fanfold.errors import CheckFailed, ConfigError, ExitCode
from fanfold.live.memory import cores
from fanfold.results.store import results_home
from fanfold.study.api import asks_of, run_all
from fanfold.study.catalog import CATALOG
from fanfold.study.clusters import CLUSTERS, on_cluster
from fanfold.study.result import Study
from fanfold.study.workers import Submit, here
from fanfold.topo.nets import notes_of

KINDS = " | ".join([*(row.name for row in CATALOG), "all"])
MICRO = 10**6


KindName = Annotated[str, typer.Argument(help=KINDS, show_default=False)]
ModelName = Annotated[
    str | None, typer.Option(help="a preset, or a config.json of Hugging Face")
]
Gpus = Annotated[int | None, typer.Option(help="GPUs, one host port each")]
Topology = Annotated[
    str | None, typer.Option(help="such as fat-tree:k=8; default: by the GPUs")
]
Schemes = Annotated[str, typer.Option(help="all, or names by commas")]
Sweep = Annotated[
    list[str] | None,
    typer.Option(help="KEY=VALUE,VALUE,... ; several times; one value sets a key"),
]
Loss = Annotated[str | None, typer.Option(help="of a packet on a link, such as 0.1%")]
Seed = Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)]
Jobs = Annotated[int | None, typer.Option(help="processes at once; default: the cores")]
Price = Annotated[str | None, typer.Option(help="USD for a GB that leaves the source")]
Energy = Annotated[
    int, typer.Option("--pj-per-bit", help=f"energy of a bit on a link, in pJ, up to {MICRO}")
]
Watts = Annotated[int, typer.Option(help=f"of a GPU that waits, up to {MICRO}")]
SubmitTo = Annotated[
    str | None,
    typer.Option("--submit", help=f"hand the runs to {', '.join(CLUSTERS)}, dask://HOST:PORT"),
]
Out = Annotated[Path | None, typer.Option("--out", help="folder of results")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="run again")]
Keys = Annotated[bool, typer.Option("--keys", help="list what can be swept")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


class Asked(NamedTuple):
    """What is compared."""

    model: ModelName = None
    parameters: Parameters = None
    gpus: Gpus = None
    topology: Topology = None
    schemes: Schemes = "all"
    sweep: Sweep = None
    loss: Loss = None
    seed: Seed = 1


class Prices(NamedTuple):
    """What moving and waiting cost."""

    price: Price = None
    pj_per_bit: Energy = 0
    watts: Watts = 0


def study(
    ctx: typer.Context,
    kind: KindName,
    *,
    asked: Asked,
    jobs: Jobs = None,
    prices: Prices,
    submit: SubmitTo = None,
    out: Out = None,
    no_cache: NoCache = False,
    keys: Keys = False,
    as_json: AsJson = False,
) -> None:
    """Study a workload: every scheme on one fabric, costs, and what to choose."""
    if keys:
        refuse_but(ctx, ("kind", "keys", "as_json"), "none beside --keys, which lists")
        show_key_rows(kind, as_json=as_json)
        return
    for flag, value in (("--pj-per-bit", prices.pj_per_bit), ("--watts", prices.watts)):
        if not 0 <= value <= MICRO:
            raise ConfigError(flag, value, f"0..{MICRO}")
    sweep = asked.sweep or []
    names = ("model", "parameters", "gpus", "topology", "loss")
    asks = asks_of(
        kind,
        {n: str(value) for n in names if (value := getattr(asked, n)) is not None},
        schemes=tuple(name.strip() for name in asked.schemes.split(",")),
        sweep=read_sweep(sweep),
        seed=asked.seed,
        prices=(micro_usd(prices.price), prices.pj_per_bit, prices.watts),
    )
    _tell_of_files([asked.topology or ""], sweep)
    how = _how(submit, jobs)
    line = Line(is_shown=not as_json)
    try:
        with line:
            made = run_all(
                asks,
                out if out is not None else results_home(),
                submit=how,
                use_cache=not no_cache,
                tell=line.tell,
                told=None if as_json else line.show,
            )
    except KeyboardInterrupt:
        text = f"interrupted: {line.n_done} of {line.n_tasks} runs are kept"
        more = "the same command goes on; report --last shows what is there"
        raise CheckFailed(f"{text}; {more}") from None
    _finish(made, as_json=as_json)


def _tell_of_files(topologies: list[str], sweep: list[str]) -> None:
    """What is to be told of topologies that files describe, on stderr."""
    for name, values in read_sweep(sweep):
        topologies += values if name == "topology" else ()
    for note in dict.fromkeys(note for text in topologies for note in notes_of(text)):
        tell_warning(note)


def _how(submit: str | None, jobs: int | None) -> Submit:
    """Where runs are made."""
    if submit is not None and jobs is not None:
        raise ConfigError("--jobs", jobs, "none beside --submit: the cluster decides")
    return on_cluster(submit) if submit else here(jobs if jobs is not None else cores())


def read_sweep(texts: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Keys and their values, as they were given.

    Raises:
        ConfigError: not of the form KEY=VALUE,VALUE.
    """
    sweep = []
    for text in texts:
        name, is_pair, values = text.partition("=")
        if not is_pair or not name.strip():
            raise ConfigError("--sweep", text, "KEY=VALUE,VALUE,...")
        sep = ";" if ";" in values else ","
        sweep.append((name.strip(), tuple(v.strip() for v in values.split(sep))))
    return tuple(sweep)


def micro_usd(text: str | None) -> int:
    """Price of a gigabyte in millionths of a dollar.

    Raises:
        ConfigError: no amount.
    """
    if text is None:
        return 0
    allowed = "USD a GB in steps of a millionth, such as 0.02"
    whole, _, parts = text.strip().removeprefix("$").partition(".")
    is_number = (whole + parts).isascii() and (whole + parts).isdigit()
    if not is_number or not whole + parts or len(whole) > 9 or len(parts) > 6:
        raise ConfigError("--price", text, allowed)
    return int(whole or "0") * MICRO + int((parts + "000000")[:6])


def _finish(made: list[Study], *, as_json: bool) -> None:
    if as_json:
        value = made[0] if len(made) == 1 else made
        print_json(value)
    refused = sum(bool(row.refusal) for study in made for row in study.rows)
    if refused and refused == sum(len(study.rows) for study in made):
        raise typer.Exit(ExitCode.PARTIAL)
