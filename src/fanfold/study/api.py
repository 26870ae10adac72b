"""Studies for programs and notebooks: `fanfold.study("moe-dispatch", gpus=256)`."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.live.memory import cores
from fanfold.results.store import results_home
from fanfold.study.ask import ALL, StudyRequest
from fanfold.study.catalog import CATALOG, Kind, kind_of
from fanfold.study.clusters import on_cluster
from fanfold.study.engine import Tell, run_study
from fanfold.study.keep import Shelf
from fanfold.study.keys import key_of
from fanfold.study.result import Study
from fanfold.study.sweep import tasks_of
from fanfold.study.task import setting_of, style_of
from fanfold.study.workers import Submit, here

FLAGS = ("gpus", "loss", "model", "parameters", "topology")
"""Keys that the command has flags for."""
MOST_CHECKED = 16
"""Points whose graphs are built before anything is run."""
Sweep = Sequence[tuple[str, tuple[str, ...]]]


def study(
    kind: str,
    *,
    schemes: Sequence[str] = (ALL,),
    sweep: Mapping[str, Sequence[int | str]] | None = None,
    seed: int = 1,
    jobs: int | None = None,
    prices: tuple[int, int, int] = (0, 0, 0),
    submit: str = "",
    out: Path | str | None = None,
    **given: int | str,
) -> Study:
    """Run one study; the same as the command.

    Args:
        kind: row of ``study/catalog.py``.
        schemes: names, or "all".
        sweep: values of each key that is swept.
        prices: millionths of a dollar for a GB of egress, pJ for a bit on a link, watts of a
            GPU that waits.
        jobs: processes; default: the cores.
        submit: slurm, local or debug of submitit, or dask://HOST:PORT: not processes here.
        out: folder of results; default: where the command keeps them.
        given: keys of the study, such as model, gpus, topology, loss.

    Returns:
        Rows with integer values by name of a metric, verdict, defaults.

    Raises:
        ConfigError: the first wrong value, by its name.
    """
    asks = asks_of(
        kind,
        {name: str(value) for name, value in given.items()},
        schemes=tuple(schemes),
        sweep=tuple((k, tuple(str(v) for v in vs)) for k, vs in (sweep or {}).items()),
        seed=seed,
        prices=prices,
    )
    if len(asks) > 1:
        raise ConfigError("study", kind, "one study at a time")
    how = on_cluster(submit) if submit else here(jobs if jobs is not None else cores())
    command = command_of(asks[0])
    folder = Path(out) if out is not None else results_home()
    return run_study(asks[0], Shelf(folder), command, submit=how)


def asks_of(
    kind: str,
    given: dict[str, str],
    *,
    schemes: tuple[str, ...],
    sweep: Sweep,
    seed: int,
    prices: tuple[int, int, int],
) -> list[StudyRequest]:
    """Requests of one study, or of all; of all each takes the keys that it has.

    Raises:
        ConfigError: a fault of the request, before anything is run.
    """
    kinds = kinds_of(kind)
    asks = []
    for row in kinds:
        names = {key.name for key in row.all_keys}
        mine = tuple(pair for pair in sweep if len(kinds) == 1 or pair[0] in names)
        some = {n: text for n, text in given.items() if len(kinds) == 1 or n in names}
        asks.append(StudyRequest(row.name, some, schemes, mine, seed, prices))
    for name, _ in sweep:
        if len(kinds) > 1 and not any(name in {k.name for k in row.all_keys} for row in kinds):
            key_of([key for row in kinds for key in row.all_keys], name, kind)
    for ask in asks:
        _check_points(ask)
    return asks


def _check_points(ask: StudyRequest) -> None:
    """Build the graph of each point, of many only of the first, before anything is run."""
    points = {tuple(task.point.items()): task for task in tasks_of(ask)}
    for task in list(points.values())[:MOST_CHECKED]:
        kind_of(ask.kind).graph(setting_of(task), style_of(task.scheme))


def kinds_of(name: str) -> tuple[Kind, ...]:
    """The study of a name, or all.

    Raises:
        ConfigError: no such study.
    """
    return CATALOG if name == ALL else (kind_of(name),)


def run_all(
    asks: Sequence[StudyRequest],
    folder: Path,
    *,
    submit: Submit,
    use_cache: bool,
    tell: Tell | None,
    told: Callable[[Study], None] | None,
) -> list[Study]:
    """Run requests one after the other, and tell each study as it is done."""
    made = []
    for ask in asks:
        one = run_study(
            ask, Shelf(folder), command_of(ask), submit=submit, use_cache=use_cache, tell=tell
        )
        made.append(one)
        if told:
            told(one)
    return made


def command_of(ask: StudyRequest) -> str:
    """The command that prints the same again: what was asked for, not where and how fast."""
    flags = [
        f"--{name} {shlex.quote(text)}" if name in FLAGS else f"--sweep {name}={text}"
        for name, text in sorted(ask.given.items())
    ]
    for name, values in ask.sweep:
        sep = ";" if any("," in value for value in values) else ","
        flags.append(f"--sweep {shlex.quote(f'{name}={sep.join(values)}')}")
    if ask.schemes != (ALL,):
        flags.append(f"--schemes {','.join(ask.schemes)}")
    usd, pj_per_bit, watts = ask.prices
    if usd:
        flags.append(f"--price {usd // 10**6}.{usd % 10**6:06}")
    flags += [f"--pj-per-bit {pj_per_bit}"] if pj_per_bit else []
    flags += [f"--watts {watts}"] if watts else []
    return " ".join(["fanfold study", ask.kind, *flags, f"--seed {ask.seed}"])
