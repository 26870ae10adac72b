"""`fanfold failures`: what fails in mid-transfer, and what each scheme makes of it."""

from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from fanfold.cli.compare import Jobs
from fanfold.cli.console import bold, error_screen, print_json, screen, tell_error
from fanfold.cli.seed import checked_seed
from fanfold.errors import ConfigError, ExitCode
from fanfold.study.failure_rows import KINDS
from fanfold.study.failure_table import (
    NEVER_COMES,
    NOBODY,
    PPM,
    TOPOLOGY,
    Asked,
    FailureRow,
    FailureTable,
    build_failure_table,
)
from fanfold.units import (
    PPB_ONE,
    format_duration,
    format_size,
    parse_duration,
    parse_probability,
    parse_size,
)

_FLAG_OF = {
    "topology": "--topology",
    "schemes": "--schemes",
    "failures": "--failure",
    "settings.hello_ps": "--hello",
    "settings.reroute_ps": "--reroute",
}


def failures(
    topology: Annotated[str, typer.Option(help="such as fat-tree:k=8,rate=400Gbps")] = TOPOLOGY,
    *,
    size: Annotated[str, typer.Option(help="of what one host sends to all others")] = "16MiB",
    schemes: Annotated[str, typer.Option(help="all, or names by commas")] = "all",
    failure: Annotated[
        list[str] | None,
        typer.Option(
            help='link, spine, leaf (the default), or as "node core3"; again for more'
        ),
    ] = None,
    at: Annotated[str, typer.Option(help="share of the undisturbed time")] = "50%",
    hello: Annotated[
        str, typer.Option(help="between HELLOs; three missed are the end")
    ] = "20us",
    reroute: Annotated[str, typer.Option(help="from detection to new unicast paths")] = "200ms",
    seed: Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)] = 1,
    jobs: Jobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Fail a link, a spine and a leaf in mid-transfer: detection, gap and losses by scheme."""
    share_ppm = parse_probability(at, "--at") * PPM // PPB_ONE
    if not 0 < share_ppm < PPM:
        raise ConfigError("--at", at, "above 0% and below 100%")
    plain = Asked()
    settings = msgspec.structs.replace(
        plain.settings,
        hello_ps=parse_duration(hello, "--hello"),
        reroute_ps=parse_duration(reroute, "--reroute"),
    )
    asked = Asked(
        topology,
        parse_size(size, "--size"),
        schemes,
        tuple(dict.fromkeys(failure or KINDS)),
        share_ppm,
        settings,
        seed,
    )
    try:
        found = _built(asked, jobs or 0, is_shown=not as_json)
    except ConfigError as error:
        field = error.field.split("[")[0]
        flag = "--failure" if field == "settings.failures" else _FLAG_OF.get(field, error.field)
        allowed = error.allowed
        if error.got in asked.failures:
            allowed = f"{', '.join(KINDS)}, {allowed}"
        raise ConfigError(flag, error.got, allowed) from error
    if as_json:
        print_json(found)
    else:
        _show(found)
    if found.left_out:
        tell_error(f"rows that did not run: {'; '.join(found.left_out)}")
        raise typer.Exit(ExitCode.PARTIAL)


def _built(asked: Asked, jobs: int, *, is_shown: bool) -> FailureTable:
    console = error_screen()
    columns = SpinnerColumn(), TextColumn("{task.description}")
    hidden = not is_shown or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("building the net and its routes")

        at: dict[str, str] = {}

        def tell(scheme: str, what: str) -> None:
            at[scheme] = what
            bar.update(task, description=", ".join(f"{one}: {at[one]}" for one in at))

        return build_failure_table(asked, tell, jobs)


def _show(found: FailureTable) -> None:
    console = screen()
    size = format_size(found.n_bytes)
    console.print(
        bold(f"{size} to {found.n_receivers:,} hosts on {found.topology}, seed {found.seed}")
    )
    for failure in dict.fromkeys(row.failure for row in found.rows):
        rows = [row for row in found.rows if row.failure == failure]
        console.print(bold(_title(failure, rows)))
        console.print(_table(rows))
    for scheme, what in dict.fromkeys((row.scheme, row.protection) for row in found.rows):
        console.print(f"{scheme}: {what}")
    for name, value in found.parameters.items():
        console.print(f"{name}: {value}")
    for why in dict.fromkeys(row.by_definition for row in found.rows if row.by_definition):
        console.print(f"0 *: {why}")
    console.print("gap: from the failure to the first, and the last, receiver behind that has")
    console.print("DATA again; elsewhere: sent again to receivers that lacked nothing")
    console.print(f"again: {found.command}", soft_wrap=True)


def _title(failure: str, rows: list[FailureRow]) -> str:
    words = " | ".join(dict.fromkeys(row.words for row in rows))
    return words if failure == words else f"{failure}: {words}"


def _table(rows: list[FailureRow]) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("scheme")
    names = (
        *("detection", "gap", "last gap", "packets lost", "receivers with a gap", "behind"),
        *("cut off", "elsewhere", "whole time", "undisturbed", "messages"),
    )
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.scheme,
            *map(_time, (row.detect_ps, row.gap_ps, row.last_gap_ps)),
            f"{row.lost_pkts:,}",
            f"{row.gap_receivers:,}",
            f"{row.behind:,}",
            f"{row.cut_off:,}",
            format_size(row.elsewhere_bytes),
            *map(_time, (row.whole_ps, row.base_ps)),
            f"{row.control:,}{' *' if row.by_definition else ''}",
        )
    return table


def _time(ps: int) -> str:
    words = {NEVER_COMES: "never", NOBODY: "none"}
    return words.get(ps) or format_duration(ps)
