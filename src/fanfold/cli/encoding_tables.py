"""Tables of `fanfold encodings`."""

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from fanfold.cli.console import Screen, bold, print_json, screen
from fanfold.encodings.catalog import BASELINE, EncodingKind
from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.planner import EncodingPlan
from fanfold.encodings.size_sweep import Sweep
from fanfold.units import format_size

_COLUMNS = (
    *("packets", "header\nfirst B", "header\nmean B", "bytes on\nlinks", "header\n%"),
    *("% of\nunicast", "% of\ntree", "rows read\nmean/most", "rows\nkept"),
    *("of the\ngroup", "spurious"),
)
MEANING = (
    "header: the longest at the source, the mean of all links, the share of all bytes",
    "% of: bytes on links against a copy for each, and against the bare shortest-path tree",
    "rows read: of tables, per packet and switch; kept: in the fullest switch, for all groups;",
    "of the group: for this one alone, in all switches; spurious: copies at other hosts",
)


def show_catalog(kinds: Sequence[EncodingKind], as_json: bool) -> None:
    """Print one row for each encoding."""
    if as_json:
        rows = [
            {"name": k.name, "lengths": k.lengths, "summary": k.summary, "source": k.source}
            for k in kinds
        ]
        print_json(rows)
        return
    table = Table("ENCODING", "is", "from", box=SIMPLE)
    for kind in kinds:
        lengths = f"-{kind.lengths[0]}" if len(kind.lengths) == 1 else "-64 to -4096"
        table.add_row(kind.name + (lengths if kind.lengths else ""), kind.summary, kind.source)
    screen().print(table)


def show_rows(title: str, rows: Sequence[EncodingRow]) -> None:
    """One row for each encoding, then what the columns mean."""
    console = screen()
    payload = max(row.payload_bytes for row in rows)
    if payload:  # some encoding can
        console.print(Text.assemble(bold(title), f", {format_size(payload)} each"))
        screen().print(_rows(rows))
    _tell_refusals(console, rows)
    for line in MEANING:
        console.print(line, style="dim")


def show_plan(title: str, plan: EncodingPlan) -> None:
    """Candidates, best first, and what spoke against each."""
    console = screen()
    console.print(bold(title))
    best = plan.picked
    placed = f", BFR-ids by {best.placement}" if best.placement else ""
    console.print(bold(f"pick: {best.encoding}{placed}"))
    table = Table("encoding", "BFR-ids", box=SIMPLE)
    for column in ("packets", "header\nfirst B", "bytes on\nlinks", "rows\nread", "state"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for candidate in plan.candidates:
        row = candidate.row
        numbers = ["", "", "", "", ""]
        if not row.refusal:
            size = format_size(row.link_bytes)
            numbers = [f"{row.n_packets:,}", f"{row.header_bytes:,}", size]
            numbers += [f"{row.most_lookups:,}", format_size(row.state_bytes)]
        table.add_row(row.encoding, row.placement, *numbers, candidate.verdict)
    screen().print(table)


def show_sweep(title: str, sweep: Sweep) -> None:
    """Bytes on links against unicast copies, by size of the group."""
    console = screen()
    console.print(
        Text.assemble(bold(f"up to {title}"), ": bytes on links, unicast copies are 100")
    )
    table = Table("encoding", box=SIMPLE)
    for size_row in sweep.sizes:
        table.add_column(f"{size_row.n_members:,}", justify="right")
    table.add_column("pays from", justify="right")
    for at, first in enumerate(sweep.sizes[-1].rows):
        cells = []
        for size_row in sweep.sizes:
            row = size_row.rows[at]
            text = "-" if row.refusal else _ratio(row.link_bytes * 100, row.unicast_link_bytes)
            cells.append(bold(text) if size_row.cheapest == row.encoding else text)
        least = sweep.beats.get(first.encoding, 0)
        pays = "" if first.encoding == BASELINE else f"{least:,}" if least else "never"
        table.add_row(first.encoding, *cells, pays)
    screen().print(table)
    _tell_refusals(console, sweep.sizes[-1].rows)
    console.print(
        "bold: fewest bytes; pays from: smallest of these sizes from which on it costs no more "
        "than unicast",
        style="dim",
    )


def _rows(rows: Sequence[EncodingRow]) -> Table:
    table = Table("encoding", box=SIMPLE)
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for row in rows:
        if not row.refusal:
            table.add_row(row.encoding, *_cells(row))
    return table


def _cells(row: EncodingRow) -> tuple[str, ...]:
    return (
        f"{row.n_packets:,}",
        f"{row.header_bytes:,}",
        _ratio(row.link_header_bytes, row.n_copies),
        format_size(row.link_bytes),
        _ratio(row.link_header_bytes * 100, row.link_bytes),
        _ratio(row.link_bytes * 100, row.unicast_link_bytes),
        _ratio(row.link_bytes * 100, row.tree_bytes),
        f"{_ratio(row.n_lookups, row.n_visits)}/{row.most_lookups:,}",
        f"{row.entries:,}",
        f"{row.group_entries:,}",
        f"{row.spurious:,}",
    )


def _ratio(part: int, whole: int) -> str:
    """Quotient with one decimal, half rounds up."""
    tenths = (part * 20 + whole) // (2 * whole) if whole else 0
    return f"{tenths // 10:,}.{tenths % 10}"


def _tell_refusals(console: Screen, rows: Sequence[EncodingRow]) -> None:
    for row in rows:
        if row.refusal:
            console.print(f"{row.encoding}: cannot: {row.refusal}")
