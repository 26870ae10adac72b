"""A topology in numbers, as a small picture of its tiers, and in packets of a message."""

from collections.abc import Callable

from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import bold, screen
from fanfold.topo.nets import build_named_net
from fanfold.topo.portrait import CableLine, PacketLine, Portrait, TierLine, build_portrait
from fanfold.topo.routes import build_routes
from fanfold.units import format_duration, format_rate

__all__ = ["build_named_net", "build_portrait", "build_routes", "show_portrait"]

MAX_BOXES = 12
WIDTH = 4 * MAX_BOXES + 4


def show_portrait(portrait: Portrait) -> None:
    """Print it."""
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
