"""Folders of this user: what is compiled, and what is kept; a home may be missing or locked.

FANFOLD_CACHE_DIR and FANFOLD_STATE_DIR name them; else XDG_CACHE_HOME and XDG_STATE_HOME do,
else they lie below the home folder.
"""

import os
from pathlib import Path

from fanfold.errors import EnvironmentLack

CACHE = "FANFOLD_CACHE_DIR"
STATE = "FANFOLD_STATE_DIR"
PRIVATE = 0o700


def cache_home() -> Path:
    """Folder of compiled kernels."""
    return _home(CACHE, "XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """Folder of labs, received files and results."""
    return _home(STATE, "XDG_STATE_HOME", ".local/state")


def make_folder(folder: Path, variable: str) -> Path:
    """The folder, made where it is not there yet.

    Args:
        variable: what names another one.

    Raises:
        EnvironmentLack: this user may not write there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if variable == STATE:
            _keep_private(folder)
    except OSError as error:
        raise EnvironmentLack(f"{folder}: {error.strerror}; {_advice(variable)}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentLack(f"{folder}: may not be written; {_advice(variable)}")
    return folder


def _keep_private(folder: Path) -> None:
    """Nobody else reads what arrived and came out; a folder that was named stays as it is."""
    is_named = bool(os.environ.get(STATE))
    above = () if is_named or folder.parent != state_home() else (folder.parent,)
    for each in (folder, *above):
        info = each.stat()
        if info.st_uid == os.getuid() and info.st_mode & 0o077:
            each.chmod(PRIVATE)


def _home(variable: str, standard: str, below: str) -> Path:
    named = os.environ.get(variable)
    if named:
        return Path(named)
    base = os.environ.get(standard)
    try:
        return (Path(base) if base else Path.home() / below) / "fanfold"
    except RuntimeError as error:  # a user without an entry, and no HOME
        raise EnvironmentLack(f"no home folder here; {_advice(variable)}") from error


def _advice(variable: str) -> str:
    return f"set {variable} to a folder that you can write"
