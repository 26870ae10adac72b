"""What each link carried, on a drawing of the net."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any, NamedTuple

import altair as alt

from fanfold.report.amounts import size_text
from fanfold.report.charts import Chart
from fanfold.report.layout import Layout, Spot
from fanfold.report.theme import N_HEATS, var

HEIGHT = 330
IDLE = "nothing"
MANY = 150
"""Lines that are drawn at full width; more are drawn thinner."""
WIDTHS = (1.0, 1.4, 2.0, 2.8, 3.8, 5.0)


class Load(NamedTuple):
    """One directed link of a run and the bytes it carried, by index in the net."""

    src: int
    dst: int
    n_bytes: int


class Scale(NamedTuple):
    """Steps of heat; edges: lowest bytes of each step, and the greatest of all."""

    edges: tuple[int, ...]

    def step(self, n_bytes: int) -> int:
        """Step of a number of bytes, from 0."""
        reached = [edge for edge in self.edges[:-1] if n_bytes >= edge]
        return max(len(reached) - 1, 0)

    def names(self) -> list[str]:
        """Steps in words."""
        pairs = zip(self.edges, self.edges[1:], strict=False)
        return [f"{size_text(a)} to {size_text(b)}" for a, b in pairs]


def scale_of(loads: Sequence[Sequence[Load]]) -> Scale:
    """One scale for several runs: N_HEATS steps of equal ratio from the least to the most."""
    amounts = [load.n_bytes for run in loads for load in run if load.n_bytes > 0]
    low, high = min(amounts, default=1), max(amounts, default=1)
    if high < 2 * low:
        low = max(high // 2, 1)
    ratio = log(high / low) / N_HEATS
    edges = [_short(round(low * exp(ratio * i))) for i in range(1, N_HEATS)]
    return Scale((low, *edges, high))


def _short(value: int) -> int:
    """Two digits and zeros: edges of steps that people read."""
    unit: int = 10 ** max(len(str(value)) - 2, 0)
    return value // unit * unit


def busiest(layout: Layout, loads: Sequence[Load]) -> dict[tuple[int, int], int]:
    """Most bytes of one directed link between two spots, by pair, the lower number first."""
    most: dict[tuple[int, int], int] = {}
    for load in loads:
        a, b = sorted((int(layout.spot_of[load.src]), int(layout.spot_of[load.dst])))
        if a != b:
            most[a, b] = max(most.get((a, b), 0), load.n_bytes)
    return most


def heat_map(layout: Layout, loads: Sequence[Load], scale: Scale) -> Chart:
    """Nodes, idle cables, and cables by the busier of their two directions."""
    most = busiest(layout, loads)
    names = scale.names()
    thin = max(0.4, min(1.0, (MANY / max(len(layout.lines), 1)) ** 0.5))
    lines = [
        _line(layout.spots, (a, b), most.get((a, b), 0), scale, thin) for a, b in layout.lines
    ]
    lines.sort(key=lambda line: line["bytes"])
    edge = alt.Chart(alt.InlineData(values=lines)).encode(
        x=_axis("x"), y=_axis("y"), x2="x2:Q", y2="y2:Q"
    )
    idle = edge.transform_filter("datum.bytes == 0").mark_rule(
        color=var("idle"), strokeWidth=0.8
    )
    busy = (
        edge.transform_filter("datum.bytes > 0")
        .mark_rule(strokeCap="round")
        .encode(
            color=alt.Color(
                "heat:O",
                title="bytes in the busier direction",
                scale=alt.Scale(
                    domain=names, range=[var(f"heat-{i}") for i in range(len(names))]
                ),
                legend=alt.Legend(
                    orient="bottom",
                    columns=2,
                    symbolType="stroke",
                    symbolStrokeWidth=4,
                    titleLimit=400,
                ),
            ),
            strokeWidth=alt.StrokeWidth("wide:Q", scale=None),
            tooltip=[alt.Tooltip("link:N"), alt.Tooltip("text:N", title="carried")],
        )
    )
    return alt.layer(idle, busy, *_nodes(layout))


def _nodes(layout: Layout) -> list[alt.Chart]:
    spots = [
        {"x": s.x, "y": s.y, "name": s.name, "n": s.n_nodes, "host": s.tier == 0}
        for s in layout.spots
    ]
    node = alt.Chart(alt.InlineData(values=spots)).encode(
        x=_axis("x"),
        y=_axis("y"),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("n:Q", title="nodes")],
    )
    widest = max(Counter(s.tier for s in layout.spots).values())
    size = max(5, min(110, 3000 // widest))
    hosts = node.transform_filter("datum.host").mark_point(
        shape="circle", filled=True, size=max(size * 0.3, 6), color=var("soft"), opacity=1
    )
    routers = node.transform_filter("!datum.host").mark_point(
        shape="square", filled=True, size=size, color=var("ink"), opacity=1
    )
    return [hosts, routers]


def _line(
    spots: Sequence[Spot], pair: tuple[int, int], n_bytes: int, scale: Scale, thin: float
) -> Mapping[str, Any]:
    one, two = spots[pair[0]], spots[pair[1]]
    step = scale.step(n_bytes)
    return {
        "x": one.x,
        "y": one.y,
        "x2": two.x,
        "y2": two.y,
        "link": f"{one.name} - {two.name}",
        "bytes": n_bytes,
        "heat": scale.names()[step] if n_bytes else IDLE,
        "wide": round(WIDTHS[step] * thin, 2),
        "text": size_text(n_bytes) if n_bytes else IDLE,
    }


def _axis(name: str) -> Any:
    """An axis that is not drawn; y grows downwards."""
    kind = alt.X if name == "x" else alt.Y
    scale = alt.Scale(domain=[-0.02, 1.02], reverse=name == "y", nice=False, zero=False)
    return kind(f"{name}:Q", axis=None, scale=scale)
