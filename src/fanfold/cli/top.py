"""`fanfold top`: a lab or a fabric while it works, in a terminal or as lines in a pipe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE
from rich.live import Live
from rich.table import Table

from fanfold.api.fabric_view import LinkView, NodeView, Observer, View
from fanfold.cli.console import screen, stacked
from fanfold.cli.operator import OperatorKeys, site_of
from fanfold.errors import ConfigError
from fanfold.live.clock import pause, unix_ns
from fanfold.live.control_sockets import Call, ask_all
from fanfold.live.lab import Lab
from fanfold.push.gray import share
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND, format_duration, format_rate, parse_duration

ASK_S = 1.0
LEAST_PS = 50 * PS_PER_MS
MOST_PS = 3600 * PS_PER_SECOND
ROOM = 12
"""Lines of a screen that are no row of a link or node."""


def top(
    name: Annotated[str, typer.Option("--lab", "--name", help="lab on this machine")] = "lab",
    config: Annotated[Path | None, typer.Option(help="fabric TOML of several machines")] = None,
    source: Annotated[
        str, typer.Option("--from", help="with --config: node whose address asks")
    ] = "",
    operator: OperatorKeys = None,
    interval: Annotated[str, typer.Option(help="between two looks")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="one interval, then end")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print JSON, a line for each interval")
    ] = False,
) -> None:
    """Show links, rates, fans, folds and failures of a lab or fabric as they happen."""
    pause_ps = parse_duration(interval, "--interval")
    if not LEAST_PS <= pause_ps <= MOST_PS:
        allowed = f"{format_duration(LEAST_PS)} to {format_duration(MOST_PS)}"
        raise ConfigError("--interval", interval, allowed)
    if source and config is None:
        raise ConfigError("--from", source, "none without --config")
    lab = Lab(name)
    fabric = load_fabric(config) if config else lab.fabric()
    if source and source not in fabric.by_name:
        raise ConfigError("--from", source, ", ".join(fabric.by_name))
    if operator is not None:
        calls = _ordered(config, operator, source)
    else:
        calls = _calls(fabric, None if config else lab, source)
    looks = _looks(fabric, calls, pause_ps)
    if as_json:
        for view in looks:
            print(msgspec.json.encode(view).decode(), flush=True)
            if once:
                return
    _show(looks, is_once=once)


def _calls(fabric: Fabric, lab: Lab | None, source: str) -> dict[str, Call]:
    """How each node is asked."""
    ask = {"do": "status"}
    if lab is not None:
        return {name: Call(lab.control_socket(name), ask) for name in fabric.by_name}
    own = fabric.by_name[source].address if source else ""
    return {n.name: Call((n.address, fabric.port), ask, own) for n in fabric.nodes}


def _ordered(config: Path | None, operator: Path, source: str) -> dict[str, Call]:
    """The same by the operator's key, whatever address asks."""
    if config is None:
        raise ConfigError("--operator", str(operator), "none without --config")
    site = site_of(config, operator)
    return {name: site.call(name, {"do": "status"}, source) for name in site.fabric.by_name}


def _looks(fabric: Fabric, calls: dict[str, Call], pause_ps: int) -> Iterator[View]:
    observer = Observer(fabric)
    while True:
        view = observer.take(ask_all(calls, ASK_S), unix_ns())
        if view is not None:
            yield view
        pause(pause_ps)


def _show(looks: Iterator[View], *, is_once: bool) -> None:
    console = screen()
    if is_once or not console.is_terminal:
        for view in looks:
            for part in parts_of(view):
                console.print(part)
            if is_once:
                return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for view in looks:
            live.update(stacked(parts_of(view, console.height - ROOM)), refresh=True)


def parts_of(view: View, room: int = 0) -> list[Table | str]:
    """What is printed of one interval. room: rows of links and nodes at most, 0: all."""
    up = sum(node.state == "up" for node in view.nodes)
    bps = sum(link.bps for link in view.links)
    head = f"{view.fabric}: {up} of {len(view.nodes)} nodes answer, {format_rate(int(bps))}"
    n_nodes = max(room - len(view.links), room // 3) if room else len(view.nodes)
    n_links = max(room - n_nodes, 1) if room else len(view.links)
    busy = sorted(view.links, key=_weight)
    nodes = sorted(view.nodes, key=lambda node: (node.state == "up", -node.fans, node.name))
    lines = [f"  {event}" for event in view.events[-5 if room else 0 :]]
    lines += [] if view.events else ["  nothing failed"]
    return [
        f"{head} on all links, over {view.seconds:.2f} s",
        _links(busy[: max(n_links, 1)]),
        _nodes(nodes[: max(n_nodes, 1)]),
        "events",
        *lines,
    ]


def _weight(link: LinkView) -> tuple[float, float]:
    """What is wrong comes first, then what carries most."""
    return -link.gray, -link.bps


def _links(links: list[LinkView]) -> Table:
    table = Table(box=SIMPLE)
    for column in ("link", "rate", "packets/s", "repairs/s", "words/s"):
        table.add_column(column, justify="left" if column == "link" else "right")
    table.add_column("drops/s")
    table.add_column("gray")
    for link in links:
        table.add_row(
            f"{link.src} > {link.dst}",
            format_rate(int(link.bps)),
            f"{link.packets:,.0f}",
            f"{link.repairs:,.0f}",
            f"{link.words:,.0f}",
            ", ".join(f"{word} {n:,.0f}" for word, n in link.drops.items()),
            share(link.gray) if link.gray else "",
        )
    return table


def _nodes(nodes: list[NodeView]) -> Table:
    table = Table(box=SIMPLE)
    for column in ("node", "state", "neighbours"):
        table.add_column(column)
    for column in ("fans/s", "copies", "folds/s", "folded", "slots", "cached/s", "drops/s"):
        table.add_column(column, justify="right")
    for node in nodes:
        near = ", ".join([f"{node.up} up", *(f"{to} down" for to in node.down)])
        table.add_row(
            node.name,
            node.state,
            near if node.state == "up" else "",
            f"{node.fans:,.0f}",
            f"{node.copies:.2f}",
            f"{node.folds:,.0f}",
            f"{node.fold_ratio:.2f}",
            f"{node.slots}",
            f"{node.hits:,.0f}",
            f"{node.drops:,.0f}",
        )
    return table
