"""A recorded trace of tokens and the experts they went to.

``.npz``: an array ``experts`` (T, k) of whole numbers. ``.parquet``: a row for each token and
expert, columns ``token`` from 0 and ``expert``. Every token has the same number of experts, all
different.
"""

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.extras import load

I64 = NDArray[np.int64]
SUFFIXES = (".npz", ".parquet")


def load_choices(path: Path, n_experts: int) -> I64:
    """Experts of each token, (T, k), distinct in a row, rising.

    Raises:
        ConfigError: unreadable, or not of the shape above, by the field.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError("trace", str(path), " or ".join(SUFFIXES))
    if not path.is_file():
        raise ConfigError("trace", str(path), "a file that can be read")
    found = _of_npz(path) if path.suffix == ".npz" else _of_parquet(path)
    field = f"{path}: experts"
    if found.ndim != 2 or not found.size:
        raise ConfigError(field, f"shape {found.shape}", "(tokens, k), both above 0")
    if found.dtype.kind not in "iu":
        raise ConfigError(field, str(found.dtype), "whole numbers")
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= n_experts:
        raise ConfigError(field, low if low < 0 else high, f"0..{n_experts - 1}")
    rows = np.sort(found.astype(np.int64), axis=1)
    twice = np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))
    if twice.size:
        raise ConfigError(field, f"one twice at token {twice[0]}", "each expert once a token")
    return rows


def _of_npz(path: Path) -> NDArray[np.generic]:
    try:
        with np.load(path, allow_pickle=False) as held:
            if "experts" not in held:
                raise ConfigError(f"{path}: experts", sorted(held), "an array of that name")
            return np.asarray(held["experts"])
    except (OSError, ValueError, zipfile.BadZipFile) as err:
        raise ConfigError("trace", str(path), "an .npz of plain arrays") from err


def _of_parquet(path: Path) -> NDArray[np.generic]:
    order = "SELECT token, expert FROM read_parquet(?) ORDER BY token, expert"
    duckdb = load("duckdb", "study")
    try:
        with duckdb.connect() as db:
            got = db.execute(order, [str(path)]).fetchnumpy()
    except duckdb.Error as err:
        raise ConfigError("trace", str(path), "Parquet with columns token, expert") from err
    columns = got["token"], got["expert"]
    for name, column in zip(("token", "expert"), columns, strict=True):
        if np.ma.isMaskedArray(column) or column.dtype.kind not in "iu":
            raise ConfigError(f"{path}: {name}", str(column.dtype), "whole numbers, none null")
    token, expert = columns
    each = np.unique(token, return_counts=True)
    if not token.size or not np.array_equal(each[0], np.arange(each[0].size)):
        raise ConfigError(f"{path}: token", "a gap, or none", "0 and up, each there")
    if (each[1] != each[1][0]).any():
        odd = int(np.flatnonzero(each[1] != each[1][0])[0])
        got_k = f"{each[1][odd]} at token {odd}"
        raise ConfigError(f"{path}: expert", got_k, f"{each[1][0]} a token, as at token 0")
    return np.asarray(expert).reshape(each[0].size, -1)
