"""`fanfold topo`: what a topology is, and a small picture of its tiers."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import bold, print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.verb import refuse_but
from fanfold.errors import ConfigError
from fanfold.topo.net_catalog import FILE_CATALOG, NET_CATALOG
from fanfold.topo.nets import build_named_net
from fanfold.topo.portrait import CableLine, PacketLine, Portrait, TierLine, build_portrait
from fanfold.topo.routes import build_routes
from fanfold.units import format_duration, format_rate

DEFAULT_JOBS = 8
MAX_BOXES = 12
WIDTH = 4 * MAX_BOXES + 4


def topo(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="such as fat-tree:k=8 or import:FILE.graphml")
    ] = None,
    *,
    seed: Annotated[
        int, typer.Option(help="of topologies that draw", callback=checked_seed)
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="jobs that hosts are dealt to in turn  [default: 8]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Describe and draw a topology; without a name, list what there is."""
    if name is None:
        refuse_but(ctx, ("name", "as_json"), "none without a NAME, which it is about")
        _print_catalog(as_json)
        return
    net = build_named_net(name, seed)
    if jobs is None:
        jobs = min(DEFAULT_JOBS, net.n_hosts)
    if not 1 <= jobs <= net.n_hosts:
        raise ConfigError("--jobs", jobs, f"1..{net.n_hosts}, the hosts")
    portrait = build_portrait(net, build_routes(net), jobs)
    if as_json:
        print_json(portrait)
    else:
        _show(portrait)


def _print_catalog(as_json: bool) -> None:
    """Print one row for each topology."""
    rows = [(f"{row.name}:{row.example}", row.summary) for row in NET_CATALOG]
    rows += [(f"import:FILE{row.suffix}", row.summary) for row in FILE_CATALOG]
    if as_json:
        keys = [{"name": name, "summary": summary} for name, summary in rows]
        print_json(keys)
        return
    table = Table("NAME", "is", box=SIMPLE)
    for row in rows:
        table.add_row(*row)
    screen().print(table)


def _show(portrait: Portrait) -> None:
    console = screen()
    console.print(bold(portrait.name))
    for note in portrait.notes:
        console.print(note)
    for row in _facts(portrait):
        console.print(", ".join(f"{what} {n:,}" for what, n in row.items()))
    console.print()
    for line in picture(portrait):
        console.print(line)
    console.print(_packets(portrait.packets))


def _facts(portrait: Portrait) -> tuple[dict[str, int], ...]:
    """Numbers for the lines above the picture."""
    return (
        {
            "hosts": portrait.n_hosts,
            "routers": portrait.n_routers,
            "cables": portrait.n_cables,
            "planes": portrait.n_planes,
            "racks": portrait.n_racks,
            "pods": portrait.n_pods,
        },
        {
            "links between the farthest hosts": portrait.diameter,
            "groups of hosts": portrait.n_groups,
            "ECMP sets": portrait.n_ecmp_sets,
            "links of the largest": portrait.most_paths,
        },
    )


def picture(portrait: Portrait) -> list[str]:
    """Tiers from the top, boxes for nodes, cables in between."""
    lines = []
    for tier in reversed(portrait.tiers):
        lines.append(_tier(tier))
        lines += [_cable(c) for c in reversed(portrait.cables) if tier.tier == c.high_tier]
    return lines


def _tier(tier: TierLine) -> str:
    boxes = "[ ] " * min(tier.n_nodes, MAX_BOXES)
    if tier.n_nodes > MAX_BOXES:
        half = "[ ] " * (MAX_BOXES // 2)
        boxes = f"{half}... {half}"
    ports = f"{tier.least_ports}"
    if tier.most_ports != tier.least_ports:
        ports += f" to {tier.most_ports}"
    return f"{boxes.strip():^{WIDTH}} {tier.n_nodes} x {ports} ports: {', '.join(tier.names)}"


def _cable(cable: CableLine) -> str:
    rate = _span(cable.bps, format_rate)
    text = f"{cable.n_cables} x {rate}, {_span(cable.prop_ps, format_duration)}"
    if cable.low_tier == cable.high_tier:
        way = "--"
        text += f"; {cable.halves} between the halves of the hosts" if cable.halves else ""
    else:
        way = "|"
        text += f"; down to up {cable.down_to_up}" if cable.down_to_up else ""
        below = cable.high_tier - 1
        text += f"; down to tier {cable.low_tier}" if cable.low_tier < below else ""
    return f"{way:^{WIDTH}} {text}"


def _span(ends: tuple[int, int], form: Callable[[int], str]) -> str:
    low, high = ends
    return form(low) if low == high else f"{form(low)} to {form(high)}"


def _packets(lines: tuple[PacketLine, ...]) -> Table:
    table = Table(title="packets of one message, by placement of BFR-ids", box=SIMPLE)
    table.add_column("BSL", justify="right")
    table.add_column("placement")
    for column in ("all hosts", "a rack", "a pod", "a job", "sub-domains"):
        table.add_column(column, justify="right")
    for line in lines:
        counts = (line.to_all, line.to_a_rack, line.to_a_pod, line.to_a_job, line.sub_domains)
        table.add_row(str(line.bitstring_bits), line.placement, *map(str, counts))
    return table
