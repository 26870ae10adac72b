"""What one field of a fabric file may hold, whichever table it stands in."""

import re

from fanfold.errors import ConfigError
from fanfold.units import format_size, parse_size

LEAST_CACHE, MOST_CACHE = 1 << 20, 1 << 36
MOST_LABELS = 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_NAME_RULE = "a letter or digit, then up to 62 of letters, digits, '.', '_', '-'"


def check_name(name: str, field: str) -> None:
    """Raise ConfigError where a node, a fabric or a tenant can have no such name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(field, name, _NAME_RULE)


def check_labels(labels: tuple[tuple[str, str], ...], field: str) -> None:
    """Raise ConfigError where labels hold what a rule could not ask for."""
    for key, value in labels:
        check_name(value, f"{field}.{key}")
        if not _NAME.fullmatch(key) or "." in key:
            raise ConfigError(field, key, "keys of letters, digits, '_', '-'")
    if len(labels) > MOST_LABELS:
        raise ConfigError(field, f"{len(labels)} labels", f"at most {MOST_LABELS}")


def check_cache(text: str, field: str) -> None:
    """Raise ConfigError where a BFR can keep no store of this size."""
    n_bytes = parse_size(text, field)
    if n_bytes != 0 and not LEAST_CACHE <= n_bytes <= MOST_CACHE:
        allowed = f"0, or {format_size(LEAST_CACHE)} to {format_size(MOST_CACHE)}"
        raise ConfigError(field, text, allowed)
