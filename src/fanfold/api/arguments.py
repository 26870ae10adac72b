"""Refusals by the name of an argument: what commands call ``--from`` is ``source`` here."""

from collections.abc import Iterator
from contextlib import contextmanager

from fanfold.errors import ConfigError

_NAMES = {"from": "source", "path": "path", "as": "name"}


@contextmanager
def by_argument(**names: str) -> Iterator[None]:
    """Let what is refused below be called as the caller's arguments are.

    Args:
        names: what else is called otherwise here, by its name below.

    Raises:
        ConfigError: what was refused; ``field`` is the argument.
    """
    try:
        yield
    except ConfigError as error:
        name = error.field.lstrip("-").replace("-", "_") if _is_flag(error) else error.field
        known = (_NAMES | names).get(name.lower(), name)
        if known == error.field:
            raise
        raise ConfigError(known, error.got, error.allowed) from error


def _is_flag(error: ConfigError) -> bool:
    return error.field.startswith("--") or error.field == "PATH"
