"""`fanfold topo`: what a topology is; without a name, what there is."""

from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.verb import refuse, refuse_but
from fanfold.errors import ConfigError
from fanfold.topo.net_catalog import FILE_CATALOG, NET_CATALOG

DEFAULT_JOBS = 8


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
    lab: Annotated[
        str | None, typer.Option(help="a lab that is up in place of NAME, with --cost-map")
    ] = None,
    cost_map: Annotated[
        bool,
        typer.Option("--cost-map", help="cost and bandwidth between groups of hosts, as ALTO"),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Describe and draw a topology; without a name, list what there is."""
    if cost_map or lab is not None:
        _print_costs(ctx, name, lab, seed, is_asked=cost_map)
        return
    if name is None:
        refuse_but(ctx, ("name", "as_json"), "none without a NAME, which it is about")
        _print_catalog(as_json)
        return
    from fanfold.cli import topo_view  # noqa: PLC0415 - a list needs no net

    net = topo_view.build_named_net(name, seed)
    if jobs is None:
        jobs = min(DEFAULT_JOBS, net.n_hosts)
    if not 1 <= jobs <= net.n_hosts:
        raise ConfigError("--jobs", jobs, f"1..{net.n_hosts}, the hosts")
    portrait = topo_view.build_portrait(net, topo_view.build_routes(net), jobs)
    if as_json:
        print_json(portrait)
    else:
        topo_view.show_portrait(portrait)


def _print_costs(
    ctx: typer.Context, name: str | None, lab: str | None, seed: int, *, is_asked: bool
) -> None:
    """Print the maps of a topology or of a lab; they are JSON."""
    if not is_asked:
        raise ConfigError("--lab", lab, "with --cost-map")
    if (name is None) == (lab is None):
        raise ConfigError("--cost-map", "alone" if name is None else "both", "NAME or --lab")
    refuse(ctx, ("jobs", *(("seed",) if lab is not None else ())), "none with --cost-map")
    from fanfold.api import cost_maps  # noqa: PLC0415 - a list needs no net
    from fanfold.live.lab import Lab  # noqa: PLC0415 - as above
    from fanfold.topo.nets import build_named_net  # noqa: PLC0415 - as above

    if lab is not None:
        print_json(cost_maps.map_of_lab(Lab(lab)))
    elif name is not None:
        print_json(cost_maps.map_of_net(build_named_net(name, seed)))


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
