"""`fanfold clean`: what unfinished pushes left at a receiver, removed."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fanfold.cli.console import screen
from fanfold.errors import ConfigError
from fanfold.live.clock import unix_ns
from fanfold.live.lab import Lab
from fanfold.push.store import Leftover, Store, StoreError
from fanfold.units import format_size

NS_PER_DAY = 86_400 * 10**9


class Removed(msgspec.Struct, frozen=True):
    """One half push. days: since it was open last. error: why it stays, empty when it went."""

    folder: str
    digest: str
    bytes: int
    days: float
    error: str = ""


def clean(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER...", help="what `receive --into` names"),
    ] = None,
    lab: Annotated[
        str, typer.Option("--lab", "--name", help="all receivers of a lab on this machine")
    ] = "",
    older: Annotated[
        int, typer.Option(min=0, help="only what nobody opened for so many days")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list, remove nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Remove the halves that broken pushes left to resume from; never one that is open."""
    found = [
        one
        for folder in folders_of(folders or [], lab)
        for one in cleaned(folder, older, is_dry=dry_run)
    ]
    n_bytes = sum(one.bytes for one in found if not one.error)
    if as_json:
        whole = {"removed": found, "bytes": n_bytes, "dry_run": dry_run}
        print(msgspec.json.encode(whole).decode())
    else:
        _tell(found, n_bytes, dry_run=dry_run)
    if any(one.error for one in found):
        raise typer.Exit(StoreError.exit_code)


def folders_of(folders: list[Path], lab: str) -> list[Path]:
    """Receivers' folders that are named, each once.

    Raises:
        ConfigError: none is named, or one does not exist.
    """
    found = list(folders)
    if lab:
        hosts = Lab(lab).folder / "hosts"
        if not hosts.is_dir():
            raise ConfigError("--lab", lab, "a lab whose hosts received something")
        found += sorted(path for path in hosts.iterdir() if path.is_dir())
    if not found:
        raise ConfigError("FOLDER", "nothing", "a receiver's folder, or --lab NAME")
    for folder in found:
        if not folder.is_dir():
            raise ConfigError("FOLDER", str(folder), "a folder that exists")
    return list(dict.fromkeys(found))


def cleaned(folder: Path, older: int, *, is_dry: bool) -> list[Removed]:
    """What was removed of one receiver's folder, or would be."""
    now = unix_ns()
    try:
        gone: list[Leftover] = Store(folder).sweep(now, older, is_dry=is_dry)
    except StoreError as error:
        return [Removed(str(folder), "", 0, 0.0, str(error))]
    return [
        Removed(str(folder), x.digest, x.n_bytes, round((now - x.newest_ns) / NS_PER_DAY, 2))
        for x in gone
    ]


def _tell(found: list[Removed], n_bytes: int, *, dry_run: bool) -> None:
    console = screen()
    for one in found:
        what = f"{one.folder}: push {one.digest[:16]}, {format_size(one.bytes)}, "
        line = f"{one.folder}: {one.error}" if one.error else what + f"{one.days:g} days old"
        console.print(line, markup=False, highlight=False)
    verb = "would be removed" if dry_run else "removed"
    n = sum(not one.error for one in found)
    console.print(
        f"{n} unfinished pushes {verb}, {format_size(n_bytes)}", markup=False, highlight=False
    )
