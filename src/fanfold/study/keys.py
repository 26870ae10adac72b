"""What can be set or swept in a study: keys, their kinds, defaults, and where those are from.

Inside all values are integers (bytes, ps, bits per second, ppb) or words.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.study.result import Default, Value
from fanfold.units import (
    PPB_ONE,
    parse_duration,
    parse_probability,
    parse_rate,
    parse_size,
)

Sort = Literal["count", "size", "rate", "duration", "share", "word", "text"]
MOST = 2**55


class Key(NamedTuple):
    """One key. default: as text, empty where the study works it out. words: of sort word."""

    name: str
    sort: Sort
    default: str
    source: str
    low: int = 1
    high: int = MOST
    words: tuple[str, ...] = ()


def read_value(key: Key, text: str) -> Value:
    """Value of a key from text; "" stays "", what the study works out.

    Raises:
        ConfigError: not of its sort, or out of range, by the name of the key.
    """
    text = text.strip()
    if not text:
        return ""
    read = READERS.get(key.sort)
    if read is not None:
        return read(text, key.name)
    if key.sort in ("count", "size"):
        value = _count(key, text) if key.sort == "count" else parse_size(text, key.name)
        return _within(key, value)
    if key.sort == "word" and text not in key.words:
        raise ConfigError(key.name, text, one_of(text, key.words))
    return text


def key_of(keys: Iterable[Key], name: str, kind: str) -> Key:
    """Key of a name.

    Raises:
        ConfigError: the study has no such key; the nearest name, or all.
    """
    rows = {key.name: key for key in keys}
    if name not in rows:
        raise ConfigError("--sweep", name, f"of {kind}: {one_of(name, tuple(rows))}")
    return rows[name]


def defaults_of(keys: Iterable[Key], given: Mapping[str, str]) -> list[Default]:
    """Rows of keys that nobody gave."""
    return [
        Default(key.name, key.default, key.source)
        for key in keys
        if key.name not in given and key.default
    ]


def _count(key: Key, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ConfigError(key.name, text, f"a whole number, {key.low}..{key.high}")
    return int(text)


def _within(key: Key, value: int) -> int:
    if not key.low <= value <= key.high:
        raise ConfigError(key.name, value, f"{key.low}..{key.high}")
    return value


def _share(text: str, field: str) -> int:
    share = parse_probability(text, field)
    if share == PPB_ONE:
        raise ConfigError(field, text, "less than one")
    return share


READERS: dict[str, Callable[[str, str], int]] = {
    "rate": parse_rate,
    "duration": parse_duration,
    "share": _share,
}
