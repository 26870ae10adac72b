"""Flags of keys that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
