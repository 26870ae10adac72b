"""Receipts as files: read, checked against a trust file and against the push they are of."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError
from fanfold.seals.receipts import (
    Receipt,
    ReceiptError,
    decode,
    require_of,
    require_once,
    verify,
)
from fanfold.seals.trust import Trust, load_trust
from fanfold.units import format_size

NS_PER_SECOND = 1_000_000_000


def check_receipts(
    files: Sequence[Path], trusted: Path, of: Path | None = None
) -> list[dict[str, Any]]:
    """What each file proves: ``file``, ``is_good``, ``said`` and, of good ones, ``receipt``.

    Args:
        files: or folders of them. trusted: whose keys are whose. of: JSON of the push that all
            are to be of.

    Raises:
        ConfigError: a file that cannot be read, or is no result of a push.
    """
    trust, push = load_trust(trusted), _push_of(of) if of is not None else None
    good: list[Receipt] = []
    rows = []
    for file in _files_of(files):
        try:
            receipt = _check(_read(file), trust, push, good)
        except ReceiptError as error:
            rows.append({"file": str(file), "is_good": False, "said": f"refused: {error}"})
            continue
        good.append(receipt)
        told = {"receipt": _plain(receipt)}
        rows.append({"file": str(file), "is_good": True, "said": words_of(receipt)} | told)
    return rows


def _files_of(given: Sequence[Path]) -> list[Path]:
    """Files, and those of folders."""
    found = []
    for path in given:
        inside = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(str(path), "no receipts", "a folder of `push --receipts`")
        found += inside
    return found


def words_of(receipt: Receipt) -> str:
    """What a receipt says, in one line."""
    when = datetime.fromtimestamp(receipt.at_ns // NS_PER_SECOND, UTC)
    labels = ", ".join(f"{key}={value}" for key, value in receipt.labels)
    place = f" ({labels})" if labels else ""
    what = f"{receipt.name!r}, {format_size(receipt.n_bytes)}, BLAKE3 {receipt.digest[:16]}.."
    said = f"{receipt.receiver}{place} has {what}, from {receipt.sender}"
    return f"{said}, {when:%Y-%m-%dT%H:%M:%S}Z"


def _check(
    octets: bytes, trust: Trust, push: tuple[int, dict[str, str]] | None, good: list[Receipt]
) -> Receipt:
    receipt = decode(octets)
    verify(receipt, trust)
    if push is not None:
        require_of(receipt, *push)
    require_once([*good, receipt])
    return receipt


def _plain(receipt: Receipt) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in receipt.__struct_fields__}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), error.strerror, "a receipt that can be read") from error


def _push_of(path: Path) -> tuple[int, dict[str, str]]:
    """Flow of a push, and the digest of each of its receivers."""
    try:
        told = json.loads(_read(path))
        digests = {str(row["id"]): str(row["blake3"]) for row in told["receivers"]}
        return int(told["flow"]), digests
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError("--of", str(path), "what `fanfold push --json` printed") from error
