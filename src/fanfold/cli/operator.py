"""The flag of whoever runs a fabric of several machines, and what it opens."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanfold.errors import ConfigError

if TYPE_CHECKING:
    from fanfold.api.site import Site

OperatorKeys = Annotated[
    Path | None,
    typer.Option(
        "--operator",
        help="folder of the operator's keys, which nodes trust  [default: of `fanfold keys`]",
        show_default=False,
    ),
]


def site_of(config: Path, operator: Path | None) -> "Site":
    """A fabric of several machines whose nodes take orders by the operator's key.

    Raises:
        ConfigError: no such file or keys.
    """
    from fanfold.api.site import Site  # noqa: PLC0415 - who gives no orders asks no node
    from fanfold.live.lab import Lab  # noqa: PLC0415 - as above
    from fanfold.seals.keys import keys_folder, load_keys  # noqa: PLC0415 - as above
    from fanfold.topo.labels import OPERATOR  # noqa: PLC0415 - as above

    try:
        keys = load_keys(operator or keys_folder(OPERATOR))
    except ConfigError as error:
        raise ConfigError("--operator", error.got, error.allowed) from error
    return Site(Lab("lab"), config, operator=keys)
