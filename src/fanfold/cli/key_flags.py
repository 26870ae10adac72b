"""Flags of keys that several commands have."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fanfold.live.key_log import KEY_LOG, KeyLog

KeyFolder = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="folder of its keys  [default: of `fanfold keys`]", show_default=False
    ),
]
Trusted = Annotated[
    Path | None,
    typer.Option(
        "--trusted", help="whose keys are whose  [default: as --keys]", show_default=False
    ),
]
Sign = Annotated[bool, typer.Option("--sign", help="receivers can prove who sent it")]
Seal = Annotated[bool, typer.Option("--seal", help="sign, and nobody on the way can read it")]
Receipts = Annotated[
    Path | None,
    typer.Option(
        "--receipts",
        help="a folder for what receivers sign that they have it",
        show_default=False,
    ),
]


def _use_key_log(path: Path | None) -> Path | None:
    """Let this process, and what it starts, write a key log."""
    if path is not None:
        KeyLog(path.absolute()).close()
        os.environ[KEY_LOG] = str(path.absolute())
    return path


KeyLogFile = Annotated[
    Path | None,
    typer.Option(
        "--keylog",
        callback=_use_key_log,
        help="write keys of links and sealed pushes for Wireshark; who has it reads all",
        show_default=False,
    ),
]
