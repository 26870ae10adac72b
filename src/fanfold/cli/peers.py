"""`fanfold peers`: a file of yours by fanfold and by others, on the same shaped links."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import bold, print_json, screen, tell_error
from fanfold.cli.telling import telling
from fanfold.errors import ConfigError, ExitCode
from fanfold.peers.catalog import PEERS
from fanfold.peers.race import Asked, Race, Row, race
from fanfold.peers.transfer import Peer
from fanfold.units import (
    PPB_ONE,
    Ppb,
    format_rate,
    format_size,
    parse_probability,
    parse_rate,
)

HOSTS, ROUNDS = (2, 64), (1, 100)
RATES = (10**6, 10**11)
MTUS = 1000, 9000
ALL = "all"
NAMES = ", ".join(peer.name for peer in PEERS)
PATIENCE_S = 1.0


def peers(
    file: Annotated[Path, typer.Argument(help="file that each of them sends")],
    *,
    hosts: Annotated[int, typer.Option(help="receivers")] = 8,
    rate: Annotated[str, typer.Option(help="of each link, each way")] = "200Mbps",
    mtu: Annotated[int, typer.Option(help="bytes of a link's largest packet")] = 9000,
    loss: Annotated[
        str, typer.Option(help="by commas, of packets on each host's link, each way")
    ] = "0,0.1%,1%",
    rounds: Annotated[int, typer.Option(help="of each peer at each loss")] = 3,
    with_: Annotated[str, typer.Option("--with", help=f"all, or by commas: {NAMES}")] = ALL,
    kill: Annotated[
        bool, typer.Option("--kill", help="a receiver dies when a quarter has come to it")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install", help="Debian packages that are not here, by apt")
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(help="folder of all copies  [default: in memory]", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Send FILE by fanfold and by other tools over the same shaped links; needs root."""
    _within("--hosts", hosts, HOSTS)
    _within("--rounds", rounds, ROUNDS)
    _within("--mtu", mtu, MTUS)
    rate_bps = parse_rate(rate, "--rate")
    if not RATES[0] <= rate_bps <= RATES[1]:
        allowed = f"{format_rate(RATES[0])} to {format_rate(RATES[1])}"
        raise ConfigError("--rate", rate, allowed)
    losses, chosen = losses_of(loss), chosen_of(with_)
    if not file.is_file() or not file.stat().st_size:
        raise ConfigError("FILE", str(file), "a file that holds something")
    asked = Asked(file, hosts, rate_bps, mtu, losses, rounds, chosen, kill, install, scratch)
    with _ended_well(), telling(PATIENCE_S) as say:
        found = race(asked, say, lambda line: None if as_json else say(line))
    if as_json:
        print_json(found)
    else:
        show(found)
    bad = [name_of(row) for row in found.rows if not row.is_right]
    if bad:
        tell_error(f"not right: {'; '.join(bad)}")
        raise typer.Exit(ExitCode.PARTIAL)


def losses_of(text: str) -> list[Ppb]:
    """Shares by commas, each below a half."""
    found = [parse_probability(word, "--loss") for word in text.split(",")]
    for ppb, word in zip(found, text.split(","), strict=True):
        if ppb * 2 >= PPB_ONE:
            raise ConfigError("--loss", word, "below 50%")
    return list(dict.fromkeys(found))


def chosen_of(text: str) -> list[Peer]:
    """Peers by name, in the order of the catalog."""
    by_name = {peer.name: peer for peer in PEERS}
    words = list(by_name) if text == ALL else text.split(",")
    for word in words:
        if word not in by_name:
            raise ConfigError("--with", word, f"{ALL}, {NAMES}")
    return [peer for peer in PEERS if peer.name in words]


def name_of(row: Row) -> str:
    """A row that is not right, and why."""
    late = sum(o.is_late for o in row.rounds)
    why = row.note or f"{row.n_right} of {row.n_living} have the file"
    more = f", ended by the bound in {late} of {len(row.rounds)} rounds" if late else ""
    return f"{told_row(row)}: {why}{more}"


def told_row(row: Row) -> str:
    """Peer and loss."""
    return f"{row.peer} at {row.loss_ppb * 100 / PPB_ONE:g} %"


def show(found: Race) -> None:
    """The table, what its columns are, and the commands that ran."""
    console = screen()
    what = f"{format_size(found.n_bytes)} to {found.n_receivers} hosts"
    links = f"links of {format_rate(found.rate_bps)} each way, MTU {found.mtu}"
    console.print(bold(f"{what}, {links}: {found.limit_s:.2f} s of one link"))
    console.print(table_of(found))
    console.print("s: whole command of the sender, median; of aria2, which seeds on, until all")
    console.print(
        "have it. copies: bytes on h0's link, and on all, headers and repairs included,"
    )
    console.print(
        "by the file's. CPU s: all processes of it; the kernel's forwarding is not in."
    )
    console.print(
        f"has it: BLAKE3 of what lies at each receiver; ended after {found.bound_s} s"
    )
    if found.dead:
        console.print(f"{found.dead} was killed in each transfer and is not counted in has it")
    console.print(f"load of this machine before: {found.load}")
    for row in found.rows:
        if stood := [o for o in row.rounds if o.stood_s]:
            rounds = f"{len(stood)} of {len(row.rounds)} rounds"
            console.print(
                f"{told_row(row)}: this machine stood still in {rounds}, in s with it"
            )
    for name, commands in found.commands.items():
        version = ", ".join(f"{p} {v}" for p, v in found.versions.items() if _is_of(p, name))
        console.print(
            f"{name}{f' ({version})' if version else ''}: {' '.join(commands['sender'])}"
        )
        console.print(f"  receivers: {' '.join(commands['receiver'])}")


def table_of(found: Race) -> Table:
    """One line for each peer and loss."""
    table = Table(box=SIMPLE)
    table.add_column("lost")
    table.add_column("peer")
    names = ["s", "each", "goodput", "of the limit", "copies on h0's link", "on all", "CPU s"]
    names += ["has it", "exit"]
    names += ["living had it, s", "names the dead"] if found.dead else []
    for name in names:
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(f"{row.loss_ppb * 100 / PPB_ONE:g} %", row.peer, *cells_of(row, found))
    return table


def cells_of(row: Row, found: Race) -> list[str]:
    """A row behind its name; one that did not run says so."""
    if not row.rounds:
        return [row.note or "did not run"]
    wrong = sum(len(o.wrong) for o in row.rounds)
    has = f"{row.n_right} of {row.n_living}"
    note = f", {row.note}" if row.note else ""
    cells = [
        f"{row.seconds:.2f}",
        " ".join(f"{o.seconds:.2f}{'!' if o.is_late else ''}" for o in row.rounds),
        format_rate(round(row.goodput_bps, -5)) if row.goodput_bps else "none",
        f"{row.limit_share:.0%}",
        f"{row.sender_copies:.3f}",
        f"{row.all_copies:.2f}",
        f"{row.cpu_s:.2f}",
        has if row.is_right else f"not right: {has}{f', {wrong} wrong' if wrong else ''}{note}",
        " ".join(dict.fromkeys(code_of(o.code, o.is_late) for o in row.rounds)),
    ]
    if found.dead:
        cells.append(f"{row.had_s:.2f}" if row.n_right else "never")
        cells.append(f"{row.named} of {len(row.rounds)}")
    return cells


def code_of(code: int | None, is_late: bool) -> str:
    """An exit code, or why there is none."""
    if code is None:
        return "ended by the bound" if is_late else "none"
    return str(code)


def _is_of(package: str, name: str) -> bool:
    return any(peer.name == name and package in peer.packages for peer in PEERS)


def _within(flag: str, value: int, allowed: tuple[int, int]) -> None:
    if not allowed[0] <= value <= allowed[1]:
        raise ConfigError(flag, value, f"{allowed[0]}..{allowed[1]}")


@contextmanager
def _ended_well() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM undoes everything; a second one does not disturb that."""
    ends = (signal.SIGINT, signal.SIGTERM)

    def stop(*_: object) -> None:
        for each in ends:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
