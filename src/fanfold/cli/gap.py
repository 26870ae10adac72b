"""`fanfold gap`: five requirements by scheme, in words and in the numbers behind them."""

from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from fanfold.cli.console import error_screen, print_json
from fanfold.cli.gap_tables import show_gap
from fanfold.cli.seed import checked_seed
from fanfold.errors import ConfigError
from fanfold.study.gap import N_SEEDS, build_gap
from fanfold.study.gap_ground import LOSS_PPB, TOPOLOGY
from fanfold.units import PPB_ONE, parse_duration, parse_probability

_FLAG_OF = {"receivers": "--receivers", "members": "--members", "topology": "--topology"}


def gap(
    topology: Annotated[str, typer.Option(help="such as fat-tree:k=8,rate=400Gbps")] = TOPOLOGY,
    *,
    receivers: Annotated[
        int, typer.Option(help="of the large group; 0: all hosts but the source")
    ] = 0,
    members: Annotated[
        int | None, typer.Option(help="of the sparse group, drawn  [default: 9, or fewer]")
    ] = None,
    loss: Annotated[str, typer.Option(help="of a packet on a link, such as 0.01%")] = "",
    detect: Annotated[
        str, typer.Option(help="until a dead link is noticed; BFD in hardware: 10ms")
    ] = "150ms",
    seed: Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="runs with loss; their median makes the word")
    ] = N_SEEDS,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="every number, its meaning, what was assumed")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Five requirements by scheme: words, and the measured numbers that make them."""
    loss_ppb = _loss(loss) if loss else LOSS_PPB
    detect_ps = parse_duration(detect, "--detect")
    console = error_screen()
    columns = SpinnerColumn(), TextColumn("{task.description}")
    hidden = as_json or not console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=hidden)
    with bar:
        task = bar.add_task("building the net and its routes")

        def tell(what: str, done: int, n: int) -> None:
            bar.update(task, description=f"{what}: {done} of {n} schemes measured")

        try:
            found = build_gap(
                topology,
                n_receivers=receivers,
                n_members=members,
                loss_ppb=loss_ppb,
                detect_ps=detect_ps,
                seed=seed,
                n_seeds=seeds,
                progress=tell,
            )
        except ConfigError as error:
            field = _FLAG_OF.get(error.field, error.field)
            raise ConfigError(field, error.got, error.allowed) from error
    if as_json:
        print_json(found)
    else:
        show_gap(found, numbers=numbers)


def _loss(text: str) -> int:
    loss_ppb = parse_probability(text, "--loss")
    if loss_ppb == PPB_ONE:
        raise ConfigError("--loss", text, "less than one, or nothing ever arrives")
    return loss_ppb
