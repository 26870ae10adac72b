"""Tables to Parquet. Equal rows give equal bytes: one thread, one order, one compression."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from fanfold.results.schema import KEYS, Table, columns_of

Values = NDArray[Any] | Sequence[str] | Sequence[int]


class RunKey(NamedTuple):
    """What every row carries, in the order of ``schema.KEYS``."""

    run_id: str
    driver: str
    seed: int
    version: str


def write_table(table: Table, key: RunKey, values: Mapping[str, Values], path: Path) -> None:
    """One Parquet file; ``values`` holds a column of equal length for each name."""
    assert tuple(c.name for c in KEYS) == RunKey._fields
    assert values.keys() == {c.name for c in table.columns}, table.name
    sizes = {len(column) for column in values.values()}
    (n_rows,) = sizes
    rows: dict[str, NDArray[Any]] = {"row": np.arange(n_rows)}
    for column in table.columns:
        kind = np.int64 if column.type == "BIGINT" else object
        rows[column.name] = np.asarray(values[column.name], dtype=kind)
    keyed = [f"CAST(? AS {c.type}) AS {c.name}" for c in KEYS]
    listed = [f'CAST("{c.name}" AS {c.type}) AS "{c.name}"' for c in table.columns]
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("given", rows)
        db.execute(
            f"CREATE TABLE ready AS SELECT {', '.join(keyed + listed)} FROM given ORDER BY row",  # noqa: S608 - names of the schema
            list(key),
        )
        db.table("ready").write_parquet(str(path), compression="zstd")
    assert len(columns_of(table)) == len(keyed) + len(listed)
