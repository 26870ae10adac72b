"""Nets by name: ``fat-tree:k=8``, ``torus:dims=4x4x4,rate=400Gbps``, ``import:FILE.graphml``.

A name is a row of the catalog, then its values. ``rate`` and ``delay`` of cables may follow
every name; after ``import:`` they stand for what the file leaves open.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.topo.limits import MAX_ROUTERS
from fanfold.topo.net import Net
from fanfold.topo.net_catalog import FILE_CATALOG, NET_CATALOG, NetRow, Param
from fanfold.topo.sketch import Line
from fanfold.units import parse_duration, parse_rate

IMPORT = "import"
FIELD = "topology"
DELAY = "1us"
_FILE_RATE = "100Gbps"
_FILE_TAIL = re.compile(r",(?=(?:rate|delay)=[^,]*(?:,(?:rate|delay)=[^,]*)*$)")
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


def build_named_net(text: str, seed: int = 0) -> Net:
    """Net of a name and its values.

    Args:
        seed: of nets that draw.

    Raises:
        ConfigError: "topology" and what is unknown, or the value that is not allowed.
    """
    name, _, rest = text.strip().partition(":")
    if name == IMPORT:
        return _import_net(rest)._replace(name=text.strip())
    row = _row(name)
    params = (*row.params, Param("rate", "rate", row.rate), Param("delay", "delay", DELAY))
    values = _values(_pairs(rest), params, name)
    line = Line(values.pop("rate"), values.pop("delay"))
    if row.is_seeded:
        values["seed"] = seed
    try:
        return row.build(**values, line=line)._replace(name=text.strip())
    except ConfigError as error:
        if error.field not in values:
            raise
        raise ConfigError(f"{FIELD} {name}.{error.field}", error.got, error.allowed) from error


def notes_of(text: str) -> tuple[str, ...]:
    """What is to be told of a topology that a file describes; nothing of others.

    Raises:
        ConfigError: as ``build_named_net``.
    """
    return build_named_net(text).notes if text.strip().startswith(f"{IMPORT}:") else ()


def file_of(text: str) -> tuple[Path, str] | None:
    """The file of ``import:`` and the values behind it with their comma; None of others."""
    name, _, rest = text.strip().partition(":")
    if name != IMPORT:
        return None
    file, *_ = _FILE_TAIL.split(rest)
    return Path(file), rest[len(file) :]


def with_rate(text: str, rate: str) -> str:
    """A name with a rate of its cables, where it and its row give none.

    Nets of files, and names that are wrong, stay as they are.
    """
    name, _, rest = text.strip().partition(":")
    row = next((row for row in NET_CATALOG if row.name == name), None)
    if row is None or row.rate != NetRow._field_defaults["rate"]:
        return text
    if any(part.partition("=")[0].strip() == "rate" for part in rest.split(",")):
        return text
    return f"{name}:{rest}{',' if rest else ''}rate={rate}"


def _import_net(rest: str) -> Net:
    file, *extras = _FILE_TAIL.split(rest)
    params = (Param("rate", "rate", _FILE_RATE), Param("delay", "delay", DELAY))
    values = _values(_pairs(",".join(extras)), params, IMPORT)
    path = Path(file)
    for row in FILE_CATALOG:
        if path.suffix == row.suffix:
            return row.load(path, Line(values["rate"], values["delay"]))
    endings = ", ".join(row.suffix for row in FILE_CATALOG)
    raise ConfigError(f"{FIELD} import", file, f"a file that ends in {endings}")


def _row(name: str) -> NetRow:
    rows = {row.name: row for row in NET_CATALOG}
    if name not in rows:
        raise ConfigError(FIELD, name, one_of(name, [*rows, IMPORT]))
    return rows[name]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(",") if text else ():
        key, is_pair, value = part.partition("=")
        if not is_pair:
            raise ConfigError(FIELD, part, "KEY=VALUE, joined by commas")
        yield key.strip(), value.strip()


def _values(
    pairs: Iterable[tuple[str, str]], params: tuple[Param, ...], name: str
) -> dict[str, Any]:
    """Values by argument of the function, in ranges, none twice, none left out."""
    known = {param.name: param for param in params}
    given: dict[str, str] = {}
    for key, value in pairs:
        if key not in known:
            raise ConfigError(f"{FIELD} {name}", key, one_of(key, known))
        if key in given:
            raise ConfigError(
                f"{FIELD} {name}.{key}", value, f"one value, not {given[key]} too"
            )
        given[key] = value
    values = {}
    for param in params:
        text = given.get(param.name, param.default)
        if text is None:
            needed = ",".join(f"{p.name}=..." for p in params if p.default is None)
            raise ConfigError(f"{FIELD} {name}.{param.name}", "nothing", f"{name}:{needed}")
        values[param.name.replace("-", "_")] = _value(
            text, param, f"{FIELD} {name}.{param.name}"
        )
    return values


def _value(text: str, param: Param, field: str) -> int | tuple[int, ...]:
    match param.kind:
        case "rate":
            return 0 if text == param.default == "same" else parse_rate(text, field)
        case "delay":
            return parse_duration(text, field)
        case "dims":
            return _dims(text, param, field)
        case "count":
            return _count(text, param, field)


def _count(text: str, param: Param, field: str) -> int:
    if not _COUNT.fullmatch(text) or not param.low <= int(text) <= param.high:
        raise ConfigError(field, text, f"{param.low}..{param.high}")
    return int(text)


def _dims(text: str, param: Param, field: str) -> tuple[int, ...]:
    dims = tuple(_count(part, param, field) for part in text.split("x"))
    product = 1
    for size in dims:
        product *= size
    if product > MAX_ROUTERS:
        raise ConfigError(field, text, f"at most {MAX_ROUTERS} routers")
    return dims
