"""Links that `lab reroute` and `fabric reroute` are told of."""

from typing import Annotated

import typer

CutLinks = Annotated[
    list[str] | None, typer.Option(help="link that no path uses, such as leaf1-spine1")
]
JoinLinks = Annotated[list[str] | None, typer.Option(help="link that paths use again")]
LinkWeights = Annotated[
    list[str] | None, typer.Option(help="what a link costs, such as leaf1-spine1=3")
]
