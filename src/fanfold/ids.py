"""Names and numbers of nodes: node lists and BFR-ids.

A node list is "h1,h3-5,leaf[1-2]" or Slurm's "node[01-16,20]"; a padded start pads the range.
A BFR-id is 1..65535, RFC 8279 section 2; its bit is in ``wire.bitstring``.
"""

import re
from collections.abc import Collection, Iterator
from typing import NewType

from fanfold.errors import ConfigError
from fanfold.nearest import ASKS, nearest

BfrId = NewType("BfrId", int)

MAX_BFR_ID = 65535
MAX_NODES = 65536
"""Names one list may spell out."""
MAX_NAMED = 16
"""Names an error message lists before it counts the rest."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_TAIL_RANGE = re.compile(r"([^\[\]]*?)([0-9]{1,9}-[0-9]{1,9})", re.ASCII)
_OTHER_RANGE = re.compile(r"([^\[\]]*?)([0-9]{1,9})(?:-|:|\.\.+)\1?([0-9]{1,9})", re.ASCII)
_ALLOWED = 'node lists such as "h1,h3-5,leaf[1-2]"'


def check_bfr_id(value: int, field: str) -> BfrId:
    """The BFR-id, or ConfigError outside 1..65535 (RFC 8279 section 2)."""
    if not 1 <= value <= MAX_BFR_ID:
        raise ConfigError(field, value, f"1..{MAX_BFR_ID}")
    return BfrId(value)


def expand_nodes(
    text: str, known: Collection[str], field: str, *, may_repeat: bool = False
) -> tuple[str, ...]:
    """Names of a node list in order, each once, or as often as it stands there.

    Raises:
        ConfigError: bad syntax, an empty list, or a name that is not among ``known``.
    """
    names: list[str] = []
    for item in _items(text, field):
        for name in (item,) if item in known else _expand(item, field):
            if name not in known:
                raise ConfigError(field, name, _known_names(name, known))
            names.append(name)
    return tuple(names if may_repeat else dict.fromkeys(names))


def _items(text: str, field: str) -> list[str]:
    """Split at the commas outside brackets."""
    items = [item.strip() for item in re.split(r",(?![^\[]*\])", text)]
    if not all(items):
        raise ConfigError(field, text, _ALLOWED)
    return items


def _expand(item: str, field: str) -> Iterator[str]:
    """Names of one item: the first bracket varies slowest."""
    if "[" in item:
        head, _, rest = item.partition("[")
        inside, closed, tail = rest.partition("]")
        if not closed or "]" in head:
            raise ConfigError(field, item, _ALLOWED)
        tails = tuple(_expand(tail, field)) if tail else ("",)
        spans = [n for span in inside.split(",") for n in _numbers(span.strip(), item, field)]
        if len(spans) * len(tails) > MAX_NODES:
            raise ConfigError(field, item, f"at most {MAX_NODES} names")
        yield from (f"{head}{n}{t}" for n in spans for t in tails)
    elif match := _TAIL_RANGE.fullmatch(item):
        yield from (f"{match[1]}{n}" for n in _numbers(match[2], item, field))
    elif "]" in item:
        raise ConfigError(field, item, _ALLOWED)
    else:
        yield item


def _numbers(span: str, item: str, field: str) -> list[str]:
    """Numbers of "7", "1-16" or "01-16"."""
    match = _RANGE.fullmatch(span)
    if match is None:
        raise ConfigError(field, item, _ALLOWED)
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < first + MAX_NODES:
        raise ConfigError(field, item, f"rising ranges of at most {MAX_NODES} names")
    width = len(match[1]) if match[1].startswith("0") else 0
    return [f"{n:0{width}d}" for n in range(first, last + 1)]


def _known_names(got: str, known: Collection[str]) -> str:
    names = sorted(known)
    near = _meant(got, names)
    if not near and not _OTHER_RANGE.fullmatch(got):
        near = nearest(got, names, is_numbered=True)
    if near:
        return f"{ASKS}{near}?"
    listed = ", ".join(names[:MAX_NAMED])
    return listed + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")


def _meant(got: str, names: list[str]) -> str:
    """A list in our form, of one in another: "h1-h3", "h1..3", "h1;h3", "h1 h3"."""
    match = _OTHER_RANGE.fullmatch(got)
    list_ = f"{match[1]}{match[2]}-{match[3]}" if match else re.sub(r"[;\s]+", ",", got)
    try:
        every = [name for item in _items(list_, "") for name in _expand(item, "")]
    except ConfigError:
        return ""
    return list_ if list_ != got and every and set(every) <= set(names) else ""
