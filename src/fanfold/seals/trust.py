"""A trust file: whose key is whose, and what each may do here.

    [[trust]]
    node = "h0"                # of the fabric
    key = "ff1:..."            # as `fanfold keys show` prints it
    prefix = "models"          # it may write below this path only; may be left out
    max_bytes = "200GB"        # of its pushes at once; may be left out
    label = "training"         # said in the log; may be left out
    is_sender = true           # false: its words are believed, its pushes refused
    until = "2027-01-31"       # its last day, UTC, or 2027-01-31T12:00; may be left out

A node may have several keys, while one takes the place of the other. A sender looks up its
receivers in the same file.
"""

import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fanfold.errors import ConfigError
from fanfold.seals.keys import KeyPair, PublicKey, read_public, write_whole
from fanfold.toml_table import read_table, write_table
from fanfold.units import parse_size

MAX_TEXT = 200
NEVER_S = 1 << 62
WARN_S = 14 * 86_400
"""So long before a key ends whoever trusts it says so."""


class TrustRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file."""

    node: str
    key: str
    prefix: str = ""
    max_bytes: str = ""
    label: str = ""
    is_sender: bool = True
    until: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trust: tuple[TrustRow, ...] = ()


class Trusted(msgspec.Struct, frozen=True):
    """A key that is trusted.

    max_bytes: None, as many as there is room for. until_s: when that ends, seconds since 1970;
    until: the same as the file says it. is_over: it did.
    """

    node: str
    key: PublicKey
    prefix: str = ""
    max_bytes: int | None = None
    label: str = ""
    is_sender: bool = True
    until_s: int = NEVER_S
    until: str = ""
    is_over: bool = False


Trust = Mapping[str, tuple[Trusted, ...]]
"""Node -> its keys, in the order of the file."""


class Seals(NamedTuple):
    """What a push is signed with. trust: whose key is whose. is_sealed: the bytes as well."""

    keys: KeyPair
    trust: Trust
    is_sealed: bool = False


def load_trust(path: Path) -> Trust:
    """Keys of a file, by node.

    Raises:
        ConfigError: no such file, no TOML, or the first fault, as "FILE: trust[3].key".
    """
    found: dict[str, tuple[Trusted, ...]] = {}
    nodes: dict[PublicKey, str] = {}
    for i, row in enumerate(_rows(path)):
        field = f"{path}: trust[{i}]"
        one = _checked(row, field)
        if nodes.setdefault(one.key, one.node) != one.node:
            raise ConfigError(f"{field}.key", f"the key of {nodes[one.key]}", "one node a key")
        found[one.node] = (*found.get(one.node, ()), one)
    return found


def trust_at(trust: Trust, unix_s: int) -> Trust:
    """The same at a time: keys that ended are over."""
    return {
        node: tuple(msgspec.structs.replace(row, is_over=row.until_s <= unix_s) for row in rows)
        for node, rows in trust.items()
    }


def ending(trust: Trust, unix_s: int) -> list[str]:
    """A line for each key that is over, or will be soon."""
    lines = []
    for row in (row for rows in trust.values() for row in rows):
        left_s = row.until_s - unix_s
        if left_s <= 0:
            lines.append(f"the key {row.key.short} of {row.node} ended ({row.until})")
        elif left_s <= WARN_S:
            days = left_s // 86_400
            lines.append(
                f"the key {row.key.short} of {row.node} ends in {days} days ({row.until})"
            )
    return lines


def add_trust(path: Path, row: TrustRow) -> bool:
    """Add a key to a file, which is made where it is not there; False: it was in it already.

    Raises:
        ConfigError: as ``load_trust``, or another node has that key.
    """
    rows = [*_rows(path)] if path.exists() else []
    one = _checked(row, "keys trust")
    for i, old in enumerate(rows):
        if _checked(old, f"{path}: trust[{i}]").key != one.key:
            continue
        if old.node != row.node:
            raise ConfigError("--node", row.node, f"{old.node}, whose key this is in {path}")
        if old == row:
            return False
        rows[i] = row  # it may do other things now
        save_trust(path, rows)
        return True
    save_trust(path, [*rows, row])
    return True


def remove_trust(path: Path, node: str, key: PublicKey | None = None) -> int:
    """Take the keys of a node out of a file, or one of them; how many senders are left.

    Raises:
        ConfigError: as ``load_trust``, or it has no such row.
    """
    rows = _rows(path)
    gone = {i for i, row in enumerate(rows) if row.node == node}
    if key is not None:
        gone &= {i for i, row in enumerate(rows) if read_public(row.key, f"{path}: key") == key}
    if not gone:
        names = ", ".join(dict.fromkeys(row.node for row in rows)) or "nobody: it is empty"
        got = node if key is None else f"{node} by {key.short}"
        raise ConfigError("NAME", got, f"who is in {path}: {names}")
    left = [row for i, row in enumerate(rows) if i not in gone]
    save_trust(path, left)
    return len({row.node for row in left if row.is_sender})


def is_below(path: str, prefix: str) -> bool:
    """Whether a path is a folder's own or one below it."""
    return not prefix or path == prefix or path.startswith(prefix + "/")


def save_trust(path: Path, rows: Iterable[TrustRow]) -> None:
    """Write a trust file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, write_table(_File(tuple(rows))))


def _rows(path: Path) -> tuple[TrustRow, ...]:
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), error.strerror, "a trust file that can be read") from error
    except ValueError as error:  # not TOML, with its line; or not UTF-8
        raise ConfigError(str(path), str(error), "TOML") from error
    return read_table(_File, table, f"{path}: ").trust


def _checked(row: TrustRow, field: str) -> Trusted:
    prefix = row.prefix.rstrip("/")
    names = prefix.split("/") if prefix else []
    if any(name in ("", ".", "..") for name in names):
        raise ConfigError(f"{field}.prefix", row.prefix, "a path below the receiver's folder")
    if len(row.label) > MAX_TEXT or not row.label.isprintable():
        raise ConfigError(f"{field}.label", row.label[:MAX_TEXT], f"{MAX_TEXT} letters")
    most = parse_size(row.max_bytes, f"{field}.max_bytes") if row.max_bytes else None
    key = read_public(row.key, f"{field}.key")
    until_s = _end_of(row.until, f"{field}.until")
    return Trusted(row.node, key, prefix, most, row.label, row.is_sender, until_s, row.until)


def _end_of(text: str, field: str) -> int:
    """Seconds since 1970 when a day, or a time, is over; without a zone it is UTC."""
    if not text:
        return NEVER_S
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        allowed = "a day or a time of ISO 8601, such as 2027-01-31"
        raise ConfigError(field, text[:MAX_TEXT], allowed) from error
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    is_day = len(text) <= len("2027-01-31") and "T" not in text
    return int((when + timedelta(days=int(is_day))).timestamp())
