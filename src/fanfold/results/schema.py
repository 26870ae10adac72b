"""Every table and column of results: name, type, unit, meaning; declared here and nowhere else.

One folder for each run holds one Parquet file for each table. Integers only; ratios are made by
queries. Every row carries which run it is of, what made it, from which seed and which code.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

NONE = -1
"""Stands where there is no such instant, rank or limit."""


class Column(NamedTuple):
    """One column. unit: empty for names, counts and indices."""

    name: str
    type: Literal["BIGINT", "VARCHAR"]
    unit: str
    meaning: str


class Table(NamedTuple):
    """One table; one row is one ``row``."""

    name: str
    row: str
    columns: tuple[Column, ...]


def _text(name: str, meaning: str) -> Column:
    return Column(name, "VARCHAR", "", meaning)


def _int(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "BIGINT", unit, meaning)


KEYS = (
    _text("run_id", "digest of the scenario, the scheme and the version"),
    _text("driver", "what made the row: sim"),
    _int("seed", "", "of all random streams"),
    _text("version", "of fanfold, and a digest of its sources"),
)
"""The first columns of every table."""

RUNS = Table(
    "runs",
    "one run of one scheme",
    (
        _text("scheme", "row of the catalog of schemes, or matrix"),
        _text("topology", "as asked for"),
        _text("workload", "kind of the collective, form of the trace, or matrix"),
        _int("n_ranks", "", "hosts that take part; 0 for a matrix"),
        _int("n_bytes", "bytes", "of the collective; of a trace or matrix: of all it has"),
        _text("fidelity", "packet, train or flow"),
        _text("fidelity_why", "asked for, or the work that decided it"),
        _int("segment_pkts", "packets", "moved as one record, at most; 0 at flow fidelity"),
        _int("error_ppm", "ppm", "off packets at most, as measured; -1: nothing alike was"),
        _text("left_out", "what was asked for and this rung has not; then it is not ranked"),
        _int("bitstring_bits", "bits", "of BitStrings of fans; 0 without fans by BIER"),
        _text("planes", "where fans and sums use one plane of several"),
        _text("transport", "of unicast messages: roce, ndp or plain"),
        _int("loss_ppb", "ppb", "chance of loss of each packet on each link"),
        _int("n_hosts", "", "hosts of the net"),
        _int("n_nodes", "", "hosts and routers of the net"),
        _int("n_links", "", "directed links of the net"),
        _int("n_messages", "", "unicast messages of the program"),
        _int("n_fans", "", "fans of the program"),
        _int("end_ps", "ps", "when the last item was done at its sender"),
        _int("due_bytes", "bytes", "payload that hosts were to receive"),
        _int("got_bytes", "bytes", "payload that they received, each byte once"),
        _int("feedback_pkts", "packets", "feedback and acknowledgements that reached a source"),
        _int("repair_pkts", "packets", "that sources sent again"),
        _int("repair_bytes", "bytes", "that sources sent again"),
        _int("n_folds_complete", "", "slots that went up with everybody heard"),
        _int("n_folds_partial", "", "slots that went up at their deadline"),
        _int("n_folds_unfolded", "", "feedback packets that found no slot"),
        _int("n_sums", "", "sums of the program, made in BFRs"),
        _int("n_arrays_joined", "", "arrays of sums that were added in a slot"),
        _int("n_arrays_passed", "", "arrays that BFRs without a slot for them passed on"),
        _int("n_arrays_partial", "", "slots of sums that went up at their deadline"),
        _int("n_hops", "", "packets times links; at flow fidelity computed, not moved"),
        _int("n_events", "", "events of the simulator"),
        _int("setup_ps", "ps", "until the last tree was up; 0 without trees"),
        _int("control_msgs", "", "messages of tree protocols until then"),
        _int("control_bytes", "bytes", "of these, on all links"),
        _int("state_entries", "", "entries of trees in all routers"),
        _int("most_entries", "", "entries of trees in the fullest router"),
        _int("busy_ps", "ps", "computing of the busiest rank of a trace; 0 without one"),
        _text("stand_ins", "schemes that did what this one cannot do of a trace"),
        _int("n_stuck", "", "items that could not finish"),
        _text("reason", "why the run stopped"),
    ),
)
RECEIVERS = Table(
    "receivers",
    "one host that was to receive something",
    (
        _int("host", "", "index in the net"),
        _text("name", "of the host"),
        _int("rank", "", "in the collective; -1 for none"),
        _int("done_ps", "ps", "when it had everything; -1 for never"),
        _int("due_bytes", "bytes", "payload that it was to receive"),
        _int("got_bytes", "bytes", "payload that it received, each byte once"),
    ),
)
LINKS = Table(
    "links",
    "one direction of one cable that carried or lost a packet",
    (
        _int("link", "", "index in the net"),
        _text("src", "node that it leaves"),
        _text("dst", "node that it leads to"),
        _int("src_node", "", "index in the net"),
        _int("dst_node", "", "index in the net"),
        _int("is_source", "", "1 where it leaves a host that the collective starts from"),
        _int("plane", "", "of the fabric"),
        _int("rate_bps", "bit/s", "of the link"),
        _int("prop_ps", "ps", "propagation"),
        _int("data_pkts", "packets", "sent for the first time"),
        _int("data_bytes", "bytes", "of these, headers included"),
        _int("repair_pkts", "packets", "sent again"),
        _int("repair_bytes", "bytes", "of these, headers included"),
        _int("ack_pkts", "packets", "of unicast control: ACK, NACK, pull, trimmed header"),
        _int("ack_bytes", "bytes", "of these"),
        _int("feedback_pkts", "packets", "of fan feedback"),
        _int("feedback_bytes", "bytes", "of these"),
        _int("peak_queue_bytes", "bytes", "deepest queue in front of it"),
    ),
)
DROPS = Table(
    "drops",
    "packets that one link lost for one cause",
    (
        _int("link", "", "index in the net"),
        _text("src", "node that it leaves"),
        _text("dst", "node that it leads to"),
        _text("cause", "lost: on the link or in front of it. trimmed: cut to the header"),
        _int("pkts", "packets", "lost"),
    ),
)
FANS = Table(
    "fans",
    "one fan of the program",
    (
        _int("item", "", "number in the program"),
        _int("source", "", "host that it starts from, index in the net"),
        _int("n_receivers", "", "hosts that it is for"),
        _int("n_bytes", "bytes", "payload"),
        _int("done_ps", "ps", "when its source knew that all have it; -1 for never"),
        _int("feedback_pkts", "packets", "feedback that reached its source"),
    ),
)
STUCK = Table(
    "stuck",
    "one item that could not finish (the first ones)",
    (
        _int("number", "", "from 0"),
        _text("what", "the item and what it waits for"),
    ),
)
TABLES = (RUNS, RECEIVERS, LINKS, DROPS, FANS, STUCK)


def columns_of(table: Table) -> tuple[Column, ...]:
    """All columns of a table, those of every table first."""
    return (*KEYS, *table.columns)


def page() -> str:
    """docs/results.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Results"
    yield ""
    yield "Written from `src/fanfold/results/schema.py` by `python tests/generated.py`."
    yield ""
    yield "A results folder holds one folder for each run, named by its run id. In it lie"
    yield "`scenario.toml`, one Parquet file for each table, and `digests.json`: the BLAKE3 of"
    yield "each of them. The same scenario, seed and version give the same bytes, so nothing in"
    yield "them says how long the run took. A run whose files are not those is run again."
    yield ""
    yield "Every table starts with the columns of this one."
    yield ""
    yield from _rows(KEYS)
    for table in TABLES:
        yield ""
        yield f"## {table.name}"
        yield ""
        yield f"One row is {table.row}."
        yield ""
        yield from _rows(table.columns)


def _rows(columns: tuple[Column, ...]) -> Iterator[str]:
    yield "| column | type | unit | meaning |"
    yield "|---|---|---|---|"
    for c in columns:
        yield f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |"
