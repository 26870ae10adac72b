"""TOML tables to frozen structs and back; each fault is named by its dotted key.

Only what scenarios and fabric files need: text, whole numbers, booleans, tables, and lists of
any one of these.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo, fields

from fanfold.errors import ConfigError
from fanfold.nearest import one_of

T = TypeVar("T", bound=msgspec.Struct)
UNSAID = (NoneType, msgspec.UnsetType)


def read_table(kind: type[T], table: dict[str, Any], prefix: str) -> T:
    """Struct of a table; ``prefix`` stands before each key in an error, "FILE: " for example.

    Raises:
        ConfigError: the first unknown, missing or wrong key.
    """
    return kind(**read_values(fields(kind), table, prefix))


def read_values(
    known: Iterable[FieldInfo],
    table: dict[str, Any],
    prefix: str,
    words: Callable[[Any], str] | None = None,
) -> dict[str, Any]:
    """Values of one table by field, converted one by one, so that each fault has its key.

    Args:
        words: what a field of a type may hold, where the usual words do not do.

    Raises:
        ConfigError: the first unknown, missing or wrong key.
    """
    wanted = {field.name: field for field in known}
    for key in table:
        if key not in wanted:
            raise ConfigError(prefix + key, "an unknown key", one_of(key, wanted))
    say = words or allowed_of
    for name, field in wanted.items():
        if field.required and name not in table:
            raise ConfigError(prefix + name, "nothing", say(field.type))
    return {key: _value(value, wanted[key], prefix, say) for key, value in table.items()}


def allowed_of(kind: Any) -> str:
    """What a field may hold, in words."""
    return _words(inspect.type_info(kind))


def write_table(value: msgspec.Struct) -> str:
    """TOML that ``read_table`` reads back as an equal struct; None and UNSET are left out."""
    return "\n\n".join(_blocks(value, "")) + "\n"


def _value(value: object, field: FieldInfo, prefix: str, say: Callable[[Any], str]) -> Any:
    name = prefix + field.name
    info = inspect.type_info(field.type)
    if isinstance(info, inspect.UnionType):
        tables = [t for t in info.types if isinstance(t, inspect.StructType)]
        info = tables[0] if tables else info
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        return read_table(info.cls, value, f"{name}.")
    if isinstance(info, inspect.VarTupleType) and isinstance(value, list):
        item = info.item_type
        if isinstance(item, inspect.StructType) and all(isinstance(v, dict) for v in value):
            return tuple(read_table(item.cls, v, f"{name}[{i}].") for i, v in enumerate(value))
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as err:
        raise ConfigError(name, value, say(field.type)) from err


def _words(info: inspect.Type) -> str:
    for kind, words in _WORDS:
        if isinstance(info, kind):
            return words(info)
    return "text in quotes"


def _whole(info: Any) -> str:
    low, high = info.ge, info.le if info.lt is None else info.lt - 1
    if low is None or high is None:
        return "a whole number"
    return f"a whole number, {low}..{high}"


def _either(info: Any) -> str:
    return " or ".join(_words(t) for t in info.types if not isinstance(t, inspect.NoneType))


_WORDS: tuple[tuple[type[inspect.Type], Callable[[Any], str]], ...] = (
    (inspect.IntType, _whole),
    (inspect.BoolType, lambda _: "true or false"),
    (inspect.LiteralType, lambda info: ", ".join(map(str, info.values))),
    (inspect.StructType, lambda info: f"a table of {', '.join(f.name for f in info.fields)}"),
    (inspect.VarTupleType, lambda info: f"a list, each {_words(info.item_type)}"),
    (
        inspect.TupleType,
        lambda info: f"a list of {len(info.item_types)}, each {_words(info.item_types[0])}",
    ),
    (inspect.UnionType, _either),
)


def _blocks(value: msgspec.Struct, name: str) -> Iterator[str]:
    """The struct's own lines, then a block for each table in it."""
    items = [(f.name, getattr(value, f.name)) for f in fields(value)]
    plain = [(k, v) for k, v in items if not _is_table(v)]
    lines = [f"{k} = {_toml(v)}" for k, v in plain if not isinstance(v, UNSAID)]
    if lines:
        yield "\n".join(([f"[{name}]"] if name else []) + lines)
    for key, inner in items:
        path = f"{name}.{key}" if name else key
        if isinstance(inner, msgspec.Struct):
            yield from _blocks(inner, path)
        elif _is_table(inner):
            for row in inner:
                (block,) = _blocks(row, path)
                yield block.replace(f"[{path}]", f"[[{path}]]", 1)


def _is_table(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and isinstance(value[0], msgspec.Struct)
    return isinstance(value, msgspec.Struct)


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"[{', '.join(_toml(v) for v in value)}]"
        case str():  # JSON's escapes are TOML's, but for the one that JSON lets through
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return str(value)
