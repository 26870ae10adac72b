"""Libraries that not everybody has: loaded where they are used, and named where they lack."""

import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

from fanfold.errors import EnvironmentLack


def load(module: str, extra: str) -> Any:
    """A library that an extra of fanfold brings.

    Raises:
        EnvironmentLack: it is not installed; the command that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise _lack(module, extra, "") from error


def require(packages: tuple[str, ...], extra: str, who: str = "") -> None:
    """Check that what an extra brings is here.

    Args:
        who: the command or flag that needs it.

    Raises:
        EnvironmentLack: what lacks, and the command that installs it.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise _lack(", ".join(missing), extra, who)


def _lack(missing: str, extra: str, who: str) -> EnvironmentLack:
    what = f"{who}: " if who else ""
    return EnvironmentLack(f"{what}no module {missing} here; {install(extra)}")


def install(extra: str) -> str:
    """The command that installs an extra, from the folder that fanfold was installed from."""
    return f"pip install '{_origin()}[{extra}]'"


def _origin() -> str:
    """Folder of the sources where pip knows one, else the name that an index has."""
    metadata = import_module("importlib.metadata")
    try:
        told = metadata.distribution("fanfold").read_text("direct_url.json")
        url = urlsplit(json.loads(told or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError):
        return "fanfold"
    return unquote(url.path) if url.scheme == "file" else "fanfold"
