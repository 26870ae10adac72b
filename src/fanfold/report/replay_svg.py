"""The drawing that a replay starts from: all nodes, all cables, and nothing on its way."""

from collections.abc import Iterator
from html import escape

import msgspec

from fanfold.report.replay import Frame, Replay
from fanfold.report.theme import FONT

WIDTH, MARGIN = 1200, 26
HEIGHT, ROUND_HEIGHT = 420, 760
MOST_NAMES = 16
"""Nodes of a tier that are named on the drawing; of more, only the tier is."""
NAMES_HEIGHT = 22


def points_of(replay: Replay) -> list[tuple[int, int]]:
    """Where each spot stands on the drawing, in pixels of its view box."""
    high = _height(replay)
    side = min(WIDTH, high) if replay.layout.is_round else WIDTH
    left = (WIDTH - side) // 2
    return [
        (
            left + MARGIN + round(s.x * (side - 2 * MARGIN)),
            MARGIN + round(s.y * (high - 2 * MARGIN)),
        )
        for s in replay.layout.spots
    ]


def drawing(replay: Replay, frames: tuple[Frame, ...] = ()) -> str:
    """SVG without its end: the page adds what moves. frames: those drawn as done."""
    high = _height(replay) + NAMES_HEIGHT
    style = f"font-family:{escape(FONT)}"
    parts = [
        f'<svg class="net" viewBox="0 0 {WIDTH} {high}" role="img" aria-label="'
        f'{escape(alt_of(replay))}" style="{style}">',
        "<g>",
        *_lines(replay),
        '</g><g class="moves">',
        *_moves(replay, frames),
        "</g><g>",
        *_spots(replay),
        "</g></svg>",
    ]
    return "\n".join(parts)


def standalone(replay: Replay) -> str:
    """The end of the replay as a file of its own: every copy and every word that went."""
    high = _height(replay) + NAMES_HEIGHT
    svg = drawing(replay, replay.frames).replace(
        '<svg class="net"',
        f'<svg xmlns="{SVG}" width="{WIDTH}" height="{high}"',
        1,
    )
    style = f"<style>{_STYLE}</style><rect width='100%' height='100%' fill='#ffffff'/>"
    head, _, rest = svg.partition("\n")
    return "\n".join([head, style, rest])


def alt_of(replay: Replay) -> str:
    """What one sees."""
    copies = sum(m.n_pkts for f in replay.frames if f.way == "down" for m in f.moves)
    words = sum(m.n_pkts for f in replay.frames if f.way == "up" for m in f.moves)
    return (
        f"Drawing of the net. One packet of {replay.title}: {copies} copies cross links on the "
        f"way down, {words} packets of feedback on the way up, in {len(replay.frames)} steps. "
        "The line of text below the drawing tells each step."
    )


def frames_json(replay: Replay) -> bytes:
    """What the script of the page steps through."""
    return msgspec.json.encode({"spots": points_of(replay), "frames": replay.frames})


SVG = "http://www.w3.org/2000/svg"
_STYLE = (
    ".r-idle{stroke:var(--rule);stroke-width:1}.r-way{stroke:var(--rule);stroke-width:2}"
    ".r-down{stroke:var(--down);stroke-width:2}"
    ".r-up{stroke:var(--accent);stroke-width:2;stroke-dasharray:6 3}"
    ".r-host{fill:var(--soft)}.r-router{fill:var(--ink)}.r-source{fill:var(--accent)}"
    ".r-name{fill:var(--soft);font-size:13px}"
)


def _height(replay: Replay) -> int:
    return ROUND_HEIGHT if replay.layout.is_round else HEIGHT


def _lines(replay: Replay) -> Iterator[str]:
    at = points_of(replay)
    used = set(replay.used)
    for a, b in sorted(replay.layout.lines, key=lambda pair: (pair in used, pair)):
        kind = "r-way" if (a, b) in used else "r-idle"
        yield _line(at[a], at[b], kind)


def _moves(replay: Replay, frames: tuple[Frame, ...]) -> Iterator[str]:
    at = points_of(replay)
    for frame in frames:
        for move in frame.moves:
            shift = 2 if frame.way == "up" else -2
            (x1, y1), (x2, y2) = at[move.src], at[move.dst]
            yield _line((x1 + shift, y1), (x2 + shift, y2), f"r-{frame.way}")


def _line(a: tuple[int, int], b: tuple[int, int], kind: str) -> str:
    return f'<line x1="{a[0]}" y1="{a[1]}" x2="{b[0]}" y2="{b[1]}" class="{kind}"/>'


def _spots(replay: Replay) -> Iterator[str]:
    layout, at = replay.layout, points_of(replay)
    source = next(m.src for f in replay.frames if f.way == "down" for m in f.moves)
    tiers = [spot.tier for spot in layout.spots]
    for n, (spot, (x, y)) in enumerate(zip(layout.spots, at, strict=True)):
        kind = "r-host" if spot.tier == 0 else "r-router"
        kind += " r-source" if n == source else ""
        many = tiers.count(spot.tier)
        size = 7 if n == source else max(3, min(8, 420 // many))
        title = f"<title>{escape(spot.name)}</title>"
        if spot.tier == 0:
            shape = f'<circle cx="{x}" cy="{y}" r="{size}"'
        else:
            side = f'width="{2 * size}" height="{2 * size}"'
            shape = f'<rect x="{x - size}" y="{y - size}" {side} rx="2"'
        yield f'{shape} class="{kind}" data-spot="{n}">{title}{_end(spot.tier)}'
        if many <= MOST_NAMES or n == source:
            yield _name(spot.name, x, y, is_low=spot.tier == 0)


def _end(tier: int) -> str:
    return "</circle>" if tier == 0 else "</rect>"


def _name(name: str, x: int, y: int, *, is_low: bool) -> str:
    anchor = "start" if x < 1.5 * MARGIN else "end" if x > WIDTH - 1.5 * MARGIN else "middle"
    down = 24 if is_low else -14
    return (
        f'<text x="{x}" y="{y + down}" text-anchor="{anchor}" class="r-name">'
        f"{escape(name)}</text>"
    )
