"""Lists of words by key, the part of YAML that lists of a flat file are written in.

    key: [ a, 2, 3.5 ]     in one line or several
    key:
      - a                  or a line each
    # a comment, also behind a value

Nothing else of YAML is read: no maps in lists, no anchors, no tags, no text over lines.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.topo.graph_net import short
from fanfold.topo.text_lines import Word, text_of

_COMMENT = re.compile(r"(?:^|\s)#.*")
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*))?", re.ASCII)
FORM = "KEY: [ VALUE, VALUE ], or a line with - VALUE for each"


def yml_lists(path: Path) -> dict[str, list[Word]]:
    """Values of each key with their places, in the order of the file; quotes are taken off.

    Raises:
        ConfigError: no such file, no text, or a line that is of another form.
    """
    found: dict[str, list[Word]] = {}
    key = ""
    for where, text, is_inner in _lines(path):
        row = _KEY.fullmatch(text)
        if row is not None and not is_inner:
            key = row[1]
            if key in found:
                raise ConfigError(f"{where} {short(key)}", short(text), "each key once")
            found[key] = _values((row[2] or "").strip(), where)
        elif text.startswith("- ") and key:
            found[key].append(_word(text[2:], where))
        else:
            raise ConfigError(where, short(text), FORM)
    return found


def _lines(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Lines that say something, a list over several as one; whether they stand further in."""
    where, is_inner = "", False
    parts: list[str] = []
    depth = 0
    for n, text in enumerate(text_of(path).split("\n"), 1):
        bare = _COMMENT.sub("", text).strip()
        if not bare or bare in ("---", "..."):
            continue
        if not parts:
            where, is_inner = f"{path}: line {n}", text[:1].isspace()
        parts.append(bare)
        depth += bare.count("[") - bare.count("]")
        if depth <= 0:
            yield where, " ".join(parts), is_inner
            parts, depth = [], 0
    if parts:
        raise ConfigError(where, short(parts[0]), "its ] before the file ends")


def _values(text: str, where: str) -> list[Word]:
    """Words of ``[ a, b ]``, or the one that stands alone."""
    if not text.startswith("["):
        return [_word(text, where)] if text else []
    body = text[1:].removesuffix("]")
    if not text.endswith("]") or "[" in body or "]" in body:
        raise ConfigError(where, short(text), FORM)
    parts = body.split(",")
    if not parts[-1].strip():  # YAML lets a comma stand behind the last
        parts.pop()
    return [_word(part, where) for part in parts]


def _word(text: str, where: str) -> Word:
    bare = text.strip()
    for mark in "\"'":
        if len(bare) > 1 and bare[0] == bare[-1] == mark:
            bare = bare[1:-1]
    if not bare or bare[0] in "&*!|>{[%@`\"'":
        raise ConfigError(where, short(text.strip()), FORM)
    return Word(bare, where)
