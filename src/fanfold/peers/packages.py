"""What peers need of this machine: commands and libraries of Debian packages."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from ctypes.util import find_library

LIBRARY = "lib "
INSTALL_S = 600.0
ASK_S = 20.0


def lacking(packages: dict[str, str]) -> list[str]:
    """Packages whose command or library is not here."""
    return [package for package, what in packages.items() if not _has(what)]


def install(packages: Iterable[str]) -> None:
    """Have apt install packages, where there is apt and this is root; failures stay lacking."""
    wanted = sorted(packages)
    if not wanted or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(  # noqa: S603 - no shell
            ["apt-get", "install", "-y", "-qq", *wanted],  # noqa: S607 - where it is differs
            capture_output=True,
            timeout=INSTALL_S,
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions, of those that dpkg knows."""
    wanted = sorted(packages)
    if not wanted or not shutil.which("dpkg-query"):
        return {}
    words = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *wanted]
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(  # noqa: S603 - no shell
            words, capture_output=True, text=True, timeout=ASK_S, check=False
        ).stdout
        return dict(row.split() for row in told.splitlines() if len(row.split()) == 2)
    return {}


def _has(what: str) -> bool:
    if what.startswith(LIBRARY):
        return find_library(what.removeprefix(LIBRARY)) is not None
    return shutil.which(what) is not None
