"""`fanfold planes`: steps of GPUs, or one fan, over planes by weight, and with failures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from fanfold.cli.compare import checked_jobs
from fanfold.cli.console import bold, error_screen, print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.errors import ConfigError
from fanfold.study import plane_fan, plane_steps
from fanfold.study.plane_fan import FanTable, build_fan_table
from fanfold.study.plane_steps import NEVER_ENDS, PPM, StepTable, build_step_table
from fanfold.study.plane_work import WORKLOADS
from fanfold.units import format_duration, format_size, parse_size

MAX_TOKENS = 1 << 14
JOBS = "rows at once  [default: cores, where the net is large]"
Jobs = Annotated[int | None, typer.Option(help=JOBS, callback=checked_jobs)]
FLAGS = ("topology", "workloads", "group", "modes")


def planes(
    topology: Annotated[
        str, typer.Option(help="with planes, such as superpod:gpus=64,planes=4")
    ] = plane_steps.TOPOLOGY,
    *,
    fan: Annotated[
        bool, typer.Option("--fan", help="one GPU to all others, by plane and scheme")
    ] = False,
    size: Annotated[
        str | None,
        typer.Option(help="of each GPU's array, 32MiB by default; of the fan, 64MiB"),
    ] = None,
    tokens: Annotated[
        int, typer.Option(min=1, max=MAX_TOKENS, help="of each GPU, of the dispatch")
    ] = plane_steps.N_TOKENS,
    workloads: Annotated[
        str, typer.Option(help="of all_to_all, all_reduce, dispatch, by commas")
    ] = ",".join(WORKLOADS),
    fail: Annotated[
        str, typer.Option(help="host and plane of what fails: port, half a cable, leaf")
    ] = "h3-plane1",
    group: Annotated[
        int, typer.Option(min=0, help="GPUs of a collective, many side by side; 0: all GPUs")
    ] = 0,
    modes: Annotated[
        str, typer.Option(help="of the table's rows, by semicolons; none: all")
    ] = "",
    jobs: Jobs = None,
    seed: Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Steps and fans of GPUs over planes, per flow and per packet, whole and with failures."""
    host, plane = _port(fail)
    names = _words(workloads, ",")
    try:
        with _telling(hidden=as_json) as tell:
            if fan:
                n_bytes = parse_size(size, "--size") if size else plane_fan.N_BYTES
                one = plane_fan.Asked(topology, n_bytes, host, plane, seed)
                found: FanTable | StepTable = build_fan_table(one, tell)
            else:
                n_bytes = parse_size(size, "--size") if size else plane_steps.N_BYTES
                step = plane_steps.Asked(
                    *(topology, n_bytes, tokens, names, host, plane, seed, group),
                    modes=_words(modes, ";"),
                )
                found = build_step_table(step, tell, jobs or 0)
    except ConfigError as error:
        raise _by_flag(error) from error
    _show(found, as_json=as_json)


def _show(found: FanTable | StepTable, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif isinstance(found, FanTable):
        _show_fan(found)
    else:
        _show_steps(found)


@contextmanager
def _telling(*, hidden: bool) -> Iterator[Callable[[str], None]]:
    """What is being run, as long as it does, on a terminal."""
    console = error_screen()
    columns = SpinnerColumn(), TextColumn("{task.description}")
    off = hidden or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=off) as bar:
        task = bar.add_task("building the net and its routes")
        yield lambda what: bar.update(task, description=what)


def _words(text: str, between: str) -> tuple[str, ...]:
    """Words of a list, each once."""
    words = (word.strip() for word in text.split(between))
    return tuple(dict.fromkeys(word for word in words if word))


def _port(text: str) -> tuple[str, int]:
    host, _, number = text.rpartition("-plane")
    if not host or not number.isdigit():
        raise ConfigError("--fail", text, "a host and a plane, such as h3-plane1")
    return host, int(number)


def _by_flag(error: ConfigError) -> ConfigError:
    """The same fault, by the flag that has it."""
    field = error.field.split("[")[0].split(".")[0]
    flags = {"settings": "--fail", "fail": "--fail"}
    flag = flags.get(field, f"--{field}" if field in FLAGS else error.field)
    return ConfigError(flag, error.got, error.allowed)


def _show_steps(found: StepTable) -> None:
    console = screen()
    size = format_size(found.n_bytes)
    console.print(
        bold(f"{found.topology}: {size} a GPU, or {found.n_tokens} tokens; seed {found.seed}")
    )
    for workload in dict.fromkeys(row.workload for row in found.rows):
        table = Table(title=workload, box=SIMPLE)
        for name in ("failed", "planes used"):
            table.add_column(name)
        for name in (
            *("step", "of whole", "should be", "99 % done", "busiest port", "longest queue"),
            *("out of order", "ports left idle", "sent again", "planes a pair"),
        ):
            table.add_column(name, justify="right")
        for row in found.rows:
            if row.workload == workload:
                few, most = row.planes
                table.add_row(
                    row.state,
                    row.mode,
                    *map(_time, (row.step_ps,)),
                    *map(_ratio, (row.slower_ppm, row.should_ppm)),
                    _time(row.p99_ps),
                    *map(format_size, (row.busiest_bytes, row.peak_bytes)),
                    *(f"{n:,}" for n in (row.depth, row.shared, row.again)),
                    f"{few}" if few == most else f"{few} to {most}",
                )
        console.print(table)
    console.print("should be: bytes of the fullest port of a host, by weights, over its rate")
    console.print("out of order: packets of a queue pair ahead of one still awaited, at most")
    console.print("ports left idle: sub-ports without a queue pair, where others have several")
    console.print(f"again: {found.command}", soft_wrap=True)


def _show_fan(found: FanTable) -> None:
    console = screen()
    console.print(
        bold(f"{format_size(found.n_bytes)} to all others on {found.topology}, half of the")
    )
    console.print(bold(f"cable {found.hurt} lost before the start, seed {found.seed}"))
    hurt = found.hurt.rpartition("-")[0]
    table = Table(box=SIMPLE)
    table.add_column("by")
    for name in (
        *("last has all", "out of the source, by plane", "should be"),
        *(f"to {hurt}, by plane", "should be", "to the last GPU", "off by", "on all links"),
    ):
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(
            row.name,
            _time(row.last_ps),
            *(_parts(row.out_bytes), _percents(row.out_ppm)),
            *(_parts(row.hurt_bytes), _percents(row.hurt_ppm)),
            _parts(row.other_bytes),
            f"{row.off_ppm / 10_000:.2f} %" if row.out_ppm else "",
            format_size(row.links_bytes),
        )
    console.print(table)
    console.print(f"again: {found.command}", soft_wrap=True)


def _parts(by_plane: tuple[int, ...]) -> str:
    return " ".join(f"{n / 2**20:.1f}" for n in by_plane) + " MiB"


def _percents(by_plane: tuple[int, ...]) -> str:
    return " ".join(f"{n / 10_000:.2f}" for n in by_plane) + " %" if by_plane else ""


def _time(ps: int) -> str:
    return "cut off" if ps == NEVER_ENDS else format_duration(ps)


def _ratio(ppm: int) -> str:
    return "" if ppm == NEVER_ENDS else f"{ppm / PPM:.3f}"
