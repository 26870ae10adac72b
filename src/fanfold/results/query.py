"""Named questions to the tables of some runs; DuckDB answers. The only place with ratios.

Shares come in parts per billion, as everywhere.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError
from fanfold.extras import load
from fanfold.results.schema import TABLES
from fanfold.results.session import session

Row = dict[str, Any]

_COMPARISON = """  -- of one run
WITH ends AS (
    SELECT count(*) AS n_receivers, count(*) FILTER (done_ps < 0) AS n_unfinished,
        max(done_ps) AS last_ps,
        quantile_disc(done_ps, 0.5) FILTER (done_ps >= 0) AS p50_ps,
        quantile_disc(done_ps, 0.99) FILTER (done_ps >= 0) AS p99_ps
    FROM receivers
), carried AS NOT MATERIALIZED (
    SELECT link, src, dst, src_node, is_source,
        data_pkts + repair_pkts + ack_pkts + feedback_pkts AS pkts,
        data_bytes + repair_bytes + ack_bytes + feedback_bytes AS bytes,
        data_pkts, data_bytes, ack_pkts + feedback_pkts AS control_pkts
    FROM links
), fabric AS (
    SELECT arg_max(link, bytes) AS most, sum(pkts) AS pkts, sum(bytes) AS bytes,
        sum(data_pkts) AS data_pkts, sum(data_bytes) AS data_bytes,
        sum(control_pkts) AS control_pkts
    FROM carried  -- in their order: of the fullest the first
), busiest AS (
    SELECT src || ' > ' || dst AS name, pkts, bytes FROM carried
    WHERE link = (SELECT most FROM fabric)
), sources AS (
    SELECT min(link) AS link, sum(pkts) AS pkts, sum(bytes) AS bytes
    FROM carried WHERE is_source = 1 GROUP BY src_node
    ORDER BY bytes DESC, src_node LIMIT 1
), source AS (
    SELECT src AS name, sources.* FROM sources JOIN links USING (link)
), lost AS (
    SELECT sum(pkts) FILTER (cause = 'lost') AS n_lost,
        sum(pkts) FILTER (cause = 'trimmed') AS n_trimmed
    FROM drops
)
SELECT runs.run_id, scheme, topology, workload, n_ranks, n_bytes, fidelity,
    fidelity_why, left_out, bitstring_bits, planes, segment_pkts, error_ppm, seed, driver,
    version, end_ps,
    CASE WHEN n_unfinished = 0 THEN last_ps END AS last_ps, p50_ps, p99_ps,
    n_receivers, n_unfinished,
    busiest.name AS busiest_link,
    coalesce(busiest.pkts, 0) AS busiest_pkts, coalesce(busiest.bytes, 0) AS busiest_bytes,
    source.name AS source, coalesce(source.pkts, 0) AS source_pkts,
    coalesce(source.bytes, 0) AS source_bytes,
    coalesce(fabric.pkts, 0) AS fabric_pkts, coalesce(fabric.bytes, 0) AS fabric_bytes,
    coalesce(fabric.data_pkts, 0) AS data_hops, coalesce(fabric.data_bytes, 0) AS data_bytes,
    coalesce(fabric.control_pkts, 0) AS control_hops,
    feedback_pkts, coalesce(n_lost, 0) AS dropped_pkts, coalesce(n_trimmed, 0) AS trimmed_pkts,
    repair_pkts, repair_bytes, n_folds_complete, n_folds_partial, n_folds_unfolded,
    n_sums, n_arrays_joined, n_arrays_passed, n_arrays_partial,
    due_bytes, got_bytes, n_hops, n_events, n_stuck, reason,
    setup_ps, control_msgs, control_bytes, state_entries, most_entries, busy_ps, stand_ins
FROM runs
    LEFT JOIN ends ON true LEFT JOIN busiest ON true LEFT JOIN source ON true
    LEFT JOIN fabric ON true LEFT JOIN lost ON true
"""
_RATIOS = """
WITH fastest AS (SELECT min(done) AS ps FROM (
    SELECT max(done_ps) AS done FROM receivers JOIN runs USING (run_id)
    WHERE left_out = '' GROUP BY run_id HAVING min(done_ps) >= 0
)), ends AS (
    SELECT run_id, CASE WHEN min(done_ps) >= 0 THEN max(done_ps) END AS last_ps
    FROM receivers GROUP BY run_id
)
SELECT runs.run_id, scheme,
    CASE WHEN left_out = '' THEN
        CAST(last_ps::HUGEINT * 1000000000 // greatest(fastest.ps, 1) AS BIGINT)
    END AS of_fastest_ppb,
    CAST(repair_bytes::HUGEINT * 1000000000 // greatest(due_bytes, 1) AS BIGINT) AS repair_ppb
FROM runs LEFT JOIN ends USING (run_id), fastest
ORDER BY left_out <> '', last_ps NULLS LAST, scheme, runs.run_id
"""
_HEADS = """
SELECT run_id, scheme, seed, version, topology, workload, n_ranks, n_bytes, fidelity,
    n_messages, n_fans, n_hops, bitstring_bits
FROM runs ORDER BY run_id
"""
_ENDINGS = """
SELECT run_id, done_ps, count(*) AS n FROM receivers GROUP BY run_id, done_ps
ORDER BY run_id, done_ps
"""
_LOADS = """
SELECT run_id, src_node, dst_node,
    data_bytes + repair_bytes + ack_bytes + feedback_bytes AS bytes
FROM links ORDER BY run_id, link
"""
_STUCK = "SELECT run_id, number, what FROM stuck ORDER BY run_id, number"


def comparison(places: Sequence[Path]) -> list[Row]:
    """One row a run, the fastest first, those that are not ranked last: `fanfold compare`.

    last_ps: the last receiver; None when one has not finished. busiest: the directed link with
    most bytes. source: all links of the one source host that sent most. fabric: all links.
    """
    rows = [row for place in places for row in _ask([place], _COMPARISON)]
    return sorted(rows, key=by_rank)


def by_rank(row: Row) -> tuple[Any, ...]:
    """Those that are ranked, by time, then those that have not finished; others last."""
    last_ps = row["last_ps"]
    return row["left_out"] != "", last_ps is None, last_ps or 0, row["scheme"], row["run_id"]


def ratios(places: Sequence[Path]) -> list[Row]:
    """Time as a multiple of the fastest run's, and repairs as a share of what was due."""
    return _ask(places, _RATIOS)


def heads(places: Sequence[Path]) -> list[Row]:
    """One row a run: what was run, and how much work that was."""
    return _ask(places, _HEADS)


def endings(places: Sequence[Path]) -> list[Row]:
    """How many receivers of a run had everything at each instant; -1 for never."""
    return _ask(places, _ENDINGS)


def loads(places: Sequence[Path]) -> list[Row]:
    """Bytes of every directed link that carried some, of all classes together."""
    return _ask(places, _LOADS)


def stuck(places: Sequence[Path]) -> list[Row]:
    """Items that could not finish, as text."""
    return _ask(places, _STUCK)


def _ask(places: Sequence[Path], question: str) -> list[Row]:
    if not places:
        return []
    duckdb = load("duckdb", "study")
    with session() as db:
        for table in TABLES:
            files = [str(place / f"{table.name}.parquet") for place in places]
            db.read_parquet(files).create_view(table.name)
        try:
            asked = db.execute(question)
        except duckdb.BinderException as err:
            for place in places:
                _check_columns(db, place)
            raise AssertionError(question) from err  # the columns are those of the schema
        names = [column[0] for column in asked.description]
        return [dict(zip(names, row, strict=True)) for row in asked.fetchall()]


def _check_columns(db: Any, place: Path) -> None:
    """Raise ConfigError for a run that another version wrote, with other columns."""
    for table in TABLES:
        has = db.read_parquet(str(place / f"{table.name}.parquet")).columns
        lacks = [column.name for column in table.columns if column.name not in has]
        if lacks:
            got = f"{place.name}, of another version: {table.name} without {', '.join(lacks)}"
            raise ConfigError("RUN", got, "runs of this version; run it again")
