"""TOML tables to frozen structs and back; each fault is named by its dotted key.

Only what scenarios and fabric files need: text, whole numbers, booleans, tables, and lists of
any one of these.
"""

from collections.abc import Callable, Iterable, Mapping
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
    return dump_toml(_rows(value))


def dump_toml(rows: Mapping[str, Any]) -> str:
    """TOML of nested rows, tables last among their neighbours; escapes are tomlkit's."""
    import tomlkit  # noqa: PLC0415 - who only reads does without it

    return tomlkit.dumps(rows)


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


def _rows(value: msgspec.Struct) -> dict[str, Any]:
    """Fields that say something, tables after the rest, as TOML has them."""
    said = {f.name: getattr(value, f.name) for f in fields(value)}
    plain = {key: _bare(got) for key, got in said.items() if not isinstance(got, UNSAID)}
    return dict(sorted(plain.items(), key=lambda row: _is_table(row[1])))


def _bare(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _rows(value)
    return [_bare(each) for each in value] if isinstance(value, tuple) else value


def _is_table(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict)
