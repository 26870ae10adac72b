"""What it costs to name the receivers, as the group grows, by every encoding there is."""

from collections.abc import Sequence

from fanfold.encodings.catalog import offers
from fanfold.encodings.size_sweep import Sweep, sweep
from fanfold.errors import MisuseError
from fanfold.report import charts
from fanfold.report.amounts import size_text
from fanfold.report.figure import Figure, spec_of
from fanfold.report.material import Material
from fanfold.report.page import Section, Table
from fanfold.report.tables import Cell, Grid
from fanfold.scenario.settings import Settings
from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.routes import build_routes

PAYLOAD_BYTES = Settings().payload_bytes
LONG_NAMES = ("bier-64", "bier-128", "bier-512", "bier-2048", "bier-4096", "elmo-s", "peel-c")
"""Encodings that the drawing leaves out; the table has them."""
HEIGHT = 400


def headers_section(material: Material) -> Section:
    """Header bytes and link bytes over group size, on the fabric of the report."""
    net = material.net
    found, faults = headers_of(net, material.study.seed)
    able = {row.encoding for size in found.sizes for row in size.rows if not row.refusal}
    named = [row.encoding for row in found.sizes[-1].rows]
    order = [name for name in named if name in able and name not in LONG_NAMES]
    cheapest = ", ".join(f"{s.n_members:,}: {s.cheapest}" for s in found.sizes)
    figures = [
        Figure(
            "headers",
            "Header bytes that leave the source",
            f"For one payload of {size_text(PAYLOAD_BYTES)}, without what a unicast copy "
            "carries as well. An encoding that needs several packets pays for each.",
            f"Lines of header bytes over receivers, one for each encoding: {', '.join(order)}.",
            spec_of(
                charts.curves(
                    _rows(found, order, "source_header_bytes"), "receivers", "bytes", order
                ),
                height=HEIGHT,
            ),
            is_half=True,
        ),
        Figure(
            "overhead",
            "Bytes on all links, times those of the smallest tree",
            "1 is the payload once on each link of the smallest tree, without a header. "
            f"Cheapest by size: {cheapest}.",
            "Lines of bytes on all links over receivers, as multiples of the smallest tree's, "
            f"one for each encoding. Cheapest by number of receivers: {cheapest}.",
            spec_of(
                charts.curves(_rows(found, order, "link_bytes"), "receivers", "times", order),
                height=HEIGHT,
            ),
            is_half=True,
        ),
    ]
    intro = [
        f"Receivers are drawn by seed among the {net.n_hosts:,} hosts of {net.name}; each "
        "encoding is counted by sending its packets hop by hop."
    ]
    intro += [f"Left out, as it fails on this fabric: {fault}." for fault in faults]
    grids = [Table(_table(found), is_folded=True)]
    return Section(
        "headers", "Header cost against group size", intro=intro, figures=figures, grids=grids
    )


def headers_of(net: Net, seed: int) -> tuple[Sweep, list[str]]:
    """All encodings, and what is wrong with those that do not reach everybody once."""
    routes, order = build_routes(net), _drawn(net, seed)
    names = [offer.name for offer in offers()]
    faults: list[str] = []
    while True:
        try:
            return sweep(net, routes, order, PAYLOAD_BYTES, encodings=names), faults
        except MisuseError as error:
            name = str(error).partition(":")[0]
            if name not in names:
                raise
            names.remove(name)
            faults.append(str(error))


def _drawn(net: Net, seed: int) -> list[int]:
    drawn = stream(seed, "report/headers").permutation(net.n_hosts - 1) + 1
    return [int(host) for host in drawn]


def _rows(found: Sweep, order: Sequence[str], what: str) -> list[dict[str, object]]:
    """Points of the curves; nothing has no place on a logarithmic axis."""
    rows = []
    for size in found.sizes:
        for row in size.rows:
            value = getattr(row, what)
            if row.refusal or row.encoding not in order or not value:
                continue
            y = value if what != "link_bytes" else round(value / row.tree_bytes, 4)
            rows.append({"name": row.encoding, "x": size.n_members, "y": y})
    return rows


def _table(found: Sweep) -> Grid:
    head = [("encoding", "")]
    head += [(f"{size.n_members:,}", "receivers") for size in found.sizes]
    lines = []
    for at, first in enumerate(found.sizes[-1].rows):
        cells = [Cell(first.encoding)]
        for size in found.sizes:
            row = size.rows[at]
            if row.refusal:
                cells.append(Cell("-", row.refusal))
            else:
                text = f"{row.source_header_bytes:,} B"
                tone = "best" if row.encoding == size.cheapest else ""
                cells.append(Cell(text, size_text(row.link_bytes), tone))
        lines.append(tuple(cells))
    caption = "Header bytes at the source, and below them bytes on all links, by receivers"
    return Grid(caption, tuple(head), tuple(lines))
