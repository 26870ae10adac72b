"""Tables, their files, their folder, and what is asked of them."""

from pathlib import Path

import duckdb
import numpy as np
import pytest
from study_world import PLACE, TASK, outcome

from fanfold.errors import ConfigError
from fanfold.results import query
from fanfold.results.rows import rows_of
from fanfold.results.schema import DROPS, KEYS, STUCK, TABLES, columns_of
from fanfold.results.store import DIGESTS, Store
from fanfold.results.writer import RunKey, write_tables

KEY = RunKey("abcd", "sim", 7, "0.1.0")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "results")
    store.put(KEY, rows_of(PLACE, TASK, outcome()), {"scenario.toml": b"x = 1\n"})
    return store


def test_a_run_that_another_version_wrote_is_told_in_one_line(store: Store) -> None:
    place = store.place(KEY.run_id)
    file = place / "runs.parquet"
    with duckdb.connect() as db:
        db.sql(f"CREATE TABLE old AS SELECT * EXCLUDE (planes) FROM '{file}'")
        db.table("old").write_parquet(str(file))
    with pytest.raises(ConfigError, match="abcd, of another version: runs without planes"):
        query.comparison([place])


def test_rows_have_the_columns_of_the_schema_and_no_others() -> None:
    tables = rows_of(PLACE, TASK, outcome())
    assert tables.keys() == {table.name for table in TABLES}
    for table in TABLES:
        assert tables[table.name].keys() == {c.name for c in table.columns}
        assert len({len(column) for column in tables[table.name].values()}) == 1


def test_every_column_is_named_once_and_explained() -> None:
    for table in TABLES:
        columns = columns_of(table)
        assert columns[: len(KEYS)] == KEYS
        assert len({c.name for c in columns}) == len(columns)
        assert all(c.meaning and c.type in ("BIGINT", "VARCHAR") for c in columns)
        for c in columns:
            if c.name.endswith(("_ps", "_bytes", "_pkts", "_bps", "_ppb")):
                assert c.unit, c.name


def test_files_have_the_types_of_the_schema(store: Store) -> None:
    for table in TABLES:
        file = store.place("abcd") / f"{table.name}.parquet"
        told = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{file}')").fetchall()
        assert [(t[0], t[1]) for t in told] == [(c.name, c.type) for c in columns_of(table)]
        keys = duckdb.sql(f"SELECT DISTINCT run_id, driver, seed, version FROM '{file}'")
        assert keys.fetchall() in ([tuple(KEY)], [])


def test_only_links_that_carried_or_lost_something_are_kept() -> None:
    links = rows_of(PLACE, TASK, outcome())["links"]
    assert list(links["link"]) == [0, 1, 3, 4, 5]
    assert list(links["is_source"]) == [1, 0, 0, 0, 0]
    assert list(links["src"]) == ["h0", "h1", "leaf", "leaf", "leaf"]


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 300_000  # more than one row group
    values = {
        "link": rng.integers(0, 99, n),
        "src": [f"node{i % 777}" for i in range(n)],
        "dst": ["b"] * n,
        "cause": ["lost"] * n,
        "pkts": rng.integers(0, 2**62, n),
    }
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_tables((DROPS,), KEY, {"drops": values}, tmp_path / name)
    a, b = (tmp_path / name / "drops.parquet" for name in ("a", "b"))
    assert a.read_bytes() == b.read_bytes()
    kept = duckdb.sql(f"SELECT pkts FROM '{a}'").fetchnumpy()["pkts"]
    assert np.array_equal(kept, values["pkts"])


def test_a_seed_of_63_bits_and_any_text_come_back(tmp_path: Path) -> None:
    key = RunKey("x", "sim", 2**63 - 1, "v")
    values = {"number": [0], "what": ['it\'s "ü"; --']}
    write_tables((STUCK,), key, {"stuck": values}, tmp_path)
    (row,) = duckdb.sql(f"SELECT seed, what FROM '{tmp_path}/stuck.parquet'").fetchall()
    assert row == (2**63 - 1, 'it\'s "ü"; --')


def test_a_run_whose_file_was_changed_is_not_believed(store: Store) -> None:
    assert store.is_sound("abcd")
    file = store.place("abcd") / "links.parquet"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert not store.is_sound("abcd")


@pytest.mark.parametrize("name", ["runs.parquet", "scenario.toml", DIGESTS])
def test_a_run_that_lacks_a_file_is_not_believed(store: Store, name: str) -> None:
    (store.place("abcd") / name).unlink()
    assert not store.is_sound("abcd")


def test_putting_a_run_again_replaces_it(store: Store) -> None:
    file = store.place("abcd") / "runs.parquet"
    before = file.read_bytes()
    (store.place("abcd") / "stray").write_text("x")
    store.put(KEY, rows_of(PLACE, TASK, outcome()), {"scenario.toml": b"x = 1\n"})
    assert file.read_bytes() == before
    assert store.is_sound("abcd")
    assert [path.name for path in store.folder.iterdir()] == ["abcd"]


def test_a_run_is_found_by_the_start_of_its_id(store: Store) -> None:
    store.put(KEY._replace(run_id="abff"), rows_of(PLACE, TASK, outcome()), {})
    assert store.find("abc") == "abcd"
    for start in ("", "ab", "zz"):
        with pytest.raises(ConfigError, match="RUN"):
            store.find(start)


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="a folder that can be written"):
        Store(tmp_path / "file").put(KEY, rows_of(PLACE, TASK, outcome()), {})


def test_the_comparison_is_that_of_a_pencil(store: Store) -> None:
    store.put(KEY._replace(run_id="slow"), rows_of(PLACE, TASK, outcome(1400)), {})
    rows = query.comparison([store.place("slow"), store.place("abcd")])
    assert [row["run_id"] for row in rows] == ["abcd", "slow"]
    row = rows[0]
    assert (row["last_ps"], row["p50_ps"], row["p99_ps"]) == (700, 500, 700)
    assert (row["busiest_link"], row["busiest_pkts"], row["busiest_bytes"]) == (
        "h0 > leaf",
        6,
        24960,
    )
    assert (row["source_pkts"], row["source_bytes"]) == (6, 24960)
    assert (row["fabric_pkts"], row["fabric_bytes"]) == (18, 24960 * 2 + 384)
    assert (row["data_hops"], row["control_hops"]) == (8, 6)
    assert (row["dropped_pkts"], row["trimmed_pkts"], row["repair_pkts"]) == (1, 1, 2)
    assert row["feedback_pkts"] == 4
    assert all(isinstance(value, int | str) for value in row.values())
    told = query.ratios([store.place("slow"), store.place("abcd")])
    assert [r["of_fastest_ppb"] for r in told] == [10**9, 2 * 10**9]
    assert told[0]["repair_ppb"] == 8320 * 10**9 // 16384


def test_one_that_never_ended_has_no_last_and_stands_last(store: Store) -> None:
    hung = rows_of(PLACE, TASK, outcome(stuck=("message 1 waits for h2",)))
    store.put(KEY._replace(run_id="aaaa"), hung, {})
    rows = query.comparison([store.place("aaaa"), store.place("abcd")])
    assert [row["run_id"] for row in rows] == ["abcd", "aaaa"]
    assert (rows[1]["last_ps"], rows[1]["n_unfinished"], rows[1]["n_stuck"]) == (None, 1, 1)
    assert rows[1]["p99_ps"] == 500
    (stuck,) = query.stuck([store.place("aaaa"), store.place("abcd")])
    assert stuck == {"run_id": "aaaa", "number": 0, "what": "message 1 waits for h2"}


def test_no_runs_no_rows() -> None:
    assert query.comparison([]) == []
