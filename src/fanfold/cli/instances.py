"""`fanfold instances`: which instance of a service serves a user's turns, by policy."""

import sys
from typing import Annotated, NamedTuple

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import bold, print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.errors import ConfigError
from fanfold.sim.instance_table import TOPOLOGY, Asked, InstanceTable, build_instance_table
from fanfold.sim.instances import Service
from fanfold.units import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from fanfold.work.sessions import Demand

MOST = 10**9
PERCENT_PPM = 10_000


class Users(NamedTuple):
    """What users ask for."""

    sessions: Annotated[
        float, typer.Option(min=0.001, max=1e6, help="that begin at each site in a second")
    ] = 0.65
    hot: Annotated[
        int, typer.Option(min=100, max=10_000, help="percent of that at the first site")
    ] = 150
    turns: Annotated[int, typer.Option(min=1, max=10_000, help="of a session, mean")] = 6
    prompt: Annotated[int, typer.Option(min=1, max=MOST, help="tokens of a turn, mean")] = 600
    answer: Annotated[int, typer.Option(min=0, max=MOST, help="tokens of a turn, mean")] = 200
    think: Annotated[str, typer.Option(help="between an answer and the next turn")] = "4s"
    time: Annotated[str, typer.Option(help="in which sessions begin")] = "300s"


class Offered(NamedTuple):
    """What instances are."""

    instances: Annotated[int, typer.Option(min=1, help="at each site")] = 1
    prefill: Annotated[
        int, typer.Option(min=1, max=MOST, help="tokens of prompts per second and slot")
    ] = 8_000
    decode: Annotated[
        int, typer.Option(min=1, max=MOST, help="tokens of answers per second and slot")
    ] = 400
    slots: Annotated[int, typer.Option(min=1, max=10_000, help="turns at once")] = 4
    context: Annotated[str, typer.Option(help="bytes of a session's context")] = "500MB"
    update: Annotated[
        str, typer.Option(help="between two words of load; 0s: known at once")
    ] = "100ms"


def instances(
    topology: Annotated[str, typer.Option(help="a pod is a site, such as wan:sites=5")] = (
        TOPOLOGY
    ),
    *,
    users: Users,
    offered: Offered,
    policies: Annotated[str, typer.Option(help="all, or names by commas")] = "all",
    fail: Annotated[str, typer.Option(help="an instance that is lost, such as h3@30s")] = "",
    seed: Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Serve sessions of several sites by each policy: first token, contexts moved, incast."""
    window_ps = parse_duration(users.time, "--time")
    if not window_ps:
        raise ConfigError("--time", users.time, "more than 0s")
    demand = Demand(
        round(users.sessions * 1000),
        users.hot,
        users.turns,
        users.prompt,
        users.answer,
        parse_duration(users.think, "--think"),
        window_ps=window_ps,
    )
    service = Service(
        offered.prefill,
        offered.decode,
        offered.slots,
        parse_size(offered.context, "--context"),
        parse_duration(offered.update, "--update"),
    )
    asked = Asked(topology, offered.instances, demand, service, policies, fail, seed)
    try:
        found = build_instance_table(asked, _tell)
    except ConfigError as error:
        known = {"instances", "policies", "fail", "sessions", "turns", "topology"}
        flag = f"--{error.field}" if error.field in known else error.field
        raise ConfigError(flag, error.got, error.allowed) from error
    if as_json:
        print_json(found)
    else:
        _show(found)


def _tell(done: int, n: int) -> None:
    """Say on a terminal how far it is; the last line is taken away."""
    if sys.stderr.isatty():
        end = "\r\x1b[K" if done + 1 == n else ""
        print(f"\r{done + 1} of {n} policies{end}", end="", file=sys.stderr, flush=True)


def _show(found: InstanceTable) -> None:
    console, asked = screen(), found.asked
    console.print(bold(f"{found.sessions:,} sessions on {asked.topology}, seed {asked.seed}"))
    console.print(
        f"users and stores at {', '.join(found.users)}; instances at {', '.join(found.hosts)}; "
        f"turns are work for {found.load_ppm / PERCENT_PPM:.1f} % of their slots"
    )
    table = Table(title="from a request to its first token, by policy", box=SIMPLE)
    table.add_column("policy")
    names = ["turns", "mean", "50 %", "99 %", "99.9 %", "moved", "contexts", "between sites"]
    names += ["busiest", "incast", "held"]
    if asked.fail:
        names += ["99 % before", "99 % after"]
    for name in names:
        table.add_column(name, justify="right")
    for row in found.rows:
        cells = [
            f"{row.turns:,}",
            *map(_time, (row.mean_ps, row.p50_ps, row.p99_ps, row.p999_ps)),
            f"{100 * row.moved / row.turns:.1f} %",
            *map(format_size, (row.moved_bytes, row.between_bytes)),
            f"{row.busiest_ppm / PERCENT_PPM:.1f} %",
            f"{row.incast:,}",
            format_size(row.held_bytes),
        ]
        if asked.fail:
            cells += [_time(row.before_p99_ps), _time(row.after_p99_ps)]
        table.add_row(row.policy, *cells)
    console.print(table)
    console.print(
        "moved: turns whose context had to be fetched; incast: most contexts on their"
    )
    console.print("way to one host at once; held: most contexts at one instance")


def _time(ps: int) -> str:
    """To a thousandth of its unit."""
    return format_duration(_rounded(ps))


def _rounded(ps: int) -> int:
    grain: int = 10 ** max(len(str(ps)) - 4, 0)
    return (ps + grain // 2) // grain * grain
