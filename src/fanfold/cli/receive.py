"""`fanfold receive`: one BFER by hand, on a machine of its own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fanfold.api.keys import Place, describe_gate, gate_of, link_key_of, operators_at
from fanfold.api.log import log_line
from fanfold.api.node_metrics import parse_place, serve_node
from fanfold.api.nodes import make_host, watch_gate
from fanfold.cli.console import say, tell_warning
from fanfold.cli.key_flags import KeyFolder, KeyLogFile, Trusted
from fanfold.cli.metrics_flag import Metrics
from fanfold.cli.telling import telling
from fanfold.errors import ConfigError
from fanfold.live.warm import warm
from fanfold.push.store import Store
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.openness import check_links, check_receiver
from fanfold.units import parse_size


def receive(
    config: Annotated[Path, typer.Option(help="fabric TOML")],
    node: Annotated[str, typer.Option(help="which host of it this is")],
    into: Annotated[Path, typer.Option(help="folder for received files")],
    recheck: Annotated[
        bool, typer.Option(help="read files back and hash them once more")
    ] = False,
    fsync: Annotated[bool, typer.Option(help="survive a power cut")] = False,
    keys: KeyFolder = None,
    trusted: Trusted = None,
    max_bytes: Annotated[
        str,
        typer.Option(
            help="of one sender's pushes at once, such as 200GB  [default: as the disk has]",
            show_default=False,
        ),
    ] = "",
    metrics: Metrics = "",
    keylog: KeyLogFile = None,
) -> None:
    """Receive pushes into a folder until interrupted."""
    fabric = load_fabric(config)
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    if node not in hosts:
        raise ConfigError("--node", node, ", ".join(hosts))
    most = parse_size(max_bytes, "--max-bytes") if max_bytes else None
    Store(into).require_usable("--into")
    place = parse_place(metrics) if metrics else None
    gate = gate_of(fabric, node, Place(keys, trusted))
    line = check_links(fabric, node, str(config))
    check_receiver(fabric, node, str(config), is_open=gate.is_open)
    if line:
        tell_warning(line)
    with telling() as tell:
        warm(tell)
    words: dict[str, Any] = {"recheck": recheck, "fsync": fsync}
    words["link_key"] = link_key_of(fabric, node, keys, config)
    words["operators"] = operators_at(node, Place(keys, trusted))
    host = make_host(
        fabric, node, None, into, max_bytes=most, tell=log_line, gate=gate, **words
    )
    watch_gate(gate, Place(keys, trusted), host, log_line)
    if place:
        serve_node(host, place)
    where = f"{fabric.by_name[node].address}:{fabric.port}"
    say(f"{node}: receiving into {into} on {where}")
    say(describe_gate(node, gate))
    host.run()
