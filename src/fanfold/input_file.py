"""Bytes of a file that an operator names."""

from pathlib import Path

from fanfold.errors import ConfigError


def read_input(path: Path) -> bytes:
    """All of a file.

    Raises:
        ConfigError: it cannot be read, by its path.
    """
    try:
        return path.read_bytes()
    except OSError as err:
        raise ConfigError(str(path), err.strerror, "a file that can be read") from err
