"""Tables to Parquet. Equal rows give equal bytes: one thread, one order, one compression."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.results.schema import KEYS, Table
from fanfold.results.session import session

_FORM = "FORMAT parquet, COMPRESSION zstd, DICTIONARY_SIZE_LIMIT 1"
"""A dictionary for what all rows share; for others it took a fourth of the time of writing."""

Values = NDArray[Any] | Sequence[str] | Sequence[int]


class RunKey(NamedTuple):
    """What every row carries, in the order of ``schema.KEYS``."""

    run_id: str
    driver: str
    seed: int
    version: str


def write_tables(
    tables: Sequence[Table],
    key: RunKey,
    values: Mapping[str, Mapping[str, Values]],
    folder: Path,
) -> None:
    """One Parquet file for each table into a folder.

    Args:
        values: by table, by column; the columns of a table are equally long.
    """
    assert tuple(c.name for c in KEYS) == RunKey._fields
    with session() as db:
        for table in tables:
            _write(db, table, key, values[table.name], folder / f"{table.name}.parquet")


def _write(
    db: Any,
    table: Table,
    key: RunKey,
    values: Mapping[str, Values],
    path: Path,
) -> None:
    assert values.keys() == {c.name for c in table.columns}, table.name
    assert len({len(column) for column in values.values()}) == 1, table.name
    rows: dict[str, NDArray[Any]] = {}
    for column in table.columns:
        kind = np.int64 if column.type == "BIGINT" else object
        rows[column.name] = np.asarray(values[column.name], dtype=kind)
    keyed = [f"CAST(? AS {c.type}) AS {c.name}" for c in KEYS]
    listed = [f"CAST({c.name} AS {c.type}) AS {c.name}" for c in table.columns]
    columns, file = ", ".join(keyed + listed), str(path).replace("'", "''")
    db.register("given", rows)
    # One thread reads arrays, and writes rows, in their order.
    db.execute(
        f"COPY (SELECT {columns} FROM given) TO '{file}' ({_FORM})",  # noqa: S608 - names of the schema
        list(key),
    )
    db.unregister("given")
