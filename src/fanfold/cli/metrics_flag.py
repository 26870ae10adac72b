"""`--metrics` of commands that are a node."""

from typing import Annotated

import typer

Metrics = Annotated[
    str,
    typer.Option(
        help="ADDRESS:PORT, or a port at the node's address, that serves Prometheus /metrics"
    ),
]
