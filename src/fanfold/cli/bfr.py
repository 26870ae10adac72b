"""`fanfold bfr`: one BFR by hand, on a machine of its own."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fanfold.api.keys import Place, link_key_of, operators_at
from fanfold.api.log import log_line
from fanfold.api.node_metrics import parse_place, serve_node
from fanfold.api.nodes import make_host
from fanfold.cli.console import tell_warning
from fanfold.cli.key_flags import KeyFolder, KeyLogFile
from fanfold.cli.metrics_flag import Metrics
from fanfold.cli.telling import telling
from fanfold.errors import ConfigError
from fanfold.live.warm import warm
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.openness import check_links


def bfr(
    config: Annotated[Path, typer.Option(help="fabric TOML")],
    node: Annotated[str, typer.Option(help="which BFR of it this is")],
    cache: Annotated[
        str, typer.Option(help="DATA kept to repair from, 64MB; 0 none  [default: of the file]")
    ] = "",
    keys: KeyFolder = None,
    metrics: Metrics = "",
    keylog: KeyLogFile = None,
) -> None:
    """Forward and fold until interrupted."""
    fabric = load_fabric(config)
    if cache:
        fabric = msgspec.structs.replace(fabric, cache=cache)
        check_fabric(fabric, "--cache")
    bfrs = [n.name for n in fabric.nodes if n.role == "bfr"]
    if node not in bfrs:
        raise ConfigError("--node", node, ", ".join(bfrs))
    link_key = link_key_of(fabric, node, keys, config)
    if line := check_links(fabric, node, str(config)):
        tell_warning(line)
    with telling() as say:
        warm(say)
    place = parse_place(metrics) if metrics else None
    words: dict[str, Any] = {"tell": log_line, "link_key": link_key}
    words["operators"] = operators_at(node, Place(keys))
    host = make_host(fabric, node, None, Path(), **words)
    if place:
        serve_node(host, place)
    print(f"{node}: forwarding on {fabric.by_name[node].address}:{fabric.port}", flush=True)
    host.run()
