"""`fanfold fabric`: a fabric of several machines, made with its keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fanfold.cli.console import print_json, say, tell_warning
from fanfold.cli.flag_groups import taken_apart
from fanfold.cli.operator import OperatorKeys, site_of
from fanfold.cli.reroute_flags import CutLinks, JoinLinks, LinkWeights
from fanfold.errors import CheckFailed, ConfigError

if TYPE_CHECKING:
    from fanfold.api.fabric_init import MadeFabric
    from fanfold.topo.fabric import Fabric

PATH_MTU = 1500
"""Of the smallest link where nobody says otherwise."""
app = typer.Typer(help="A fabric of several machines, with its keys.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A fabric of several machines, with its keys."""


class Listed(NamedTuple):
    """Nodes one by one."""

    hosts: Annotated[
        str, typer.Option(help="h0=10.0.0.10,h1=10.0.0.11; of several BFRs h0=10.0.0.10@leaf1")
    ] = ""
    bfrs: Annotated[str, typer.Option(help="leaf1=10.0.0.1,leaf2=10.0.0.2")] = ""
    links: Annotated[
        str,
        typer.Option(
            help="of BFRs, leaf1-spine1,leaf2-spine1  [default: each with each]",
            show_default=False,
        ),
    ] = ""


class Shaped(NamedTuple):
    """All nodes at once."""

    topology: Annotated[
        str, typer.Option(help="instead of lists: leaf-spine:leaves=2, as `lab up` takes it")
    ] = ""
    addresses: Annotated[
        str,
        typer.Option(help="of a topology's nodes: 10.1.0.0/24, or a file of NAME ADDRESS"),
    ] = ""
    config: Annotated[
        Path | None,
        typer.Option(help="fabric TOML without keys, instead of both", show_default=False),
    ] = None


@app.command()
@taken_apart
def init(
    folder: Annotated[Path, typer.Argument(help="a new folder; its name is the fabric's")],
    *,
    listed: Listed,
    shaped: Shaped,
    name: Annotated[
        str, typer.Option(help="of the fabric  [default: the folder's]", show_default=False)
    ] = "",
    mtu: Annotated[
        int | None,
        typer.Option(
            help=f"bytes that the smallest link carries  [default: {PATH_MTU}]",
            show_default=False,
        ),
    ] = None,
    senders: Annotated[
        str, typer.Option(help="hosts that may push  [default: all]", show_default=False)
    ] = "",
    is_open: Annotated[
        bool, typer.Option("--open", help="without keys: whoever reaches it may use it")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Write a fabric and its keys, a folder for each machine; say what goes where."""
    from fanfold.api.fabric_init import init_fabric  # noqa: PLC0415 - as in `keys`
    from fanfold.ids import expand_nodes  # noqa: PLC0415 - as above

    fabric = _fabric_of(name or folder.absolute().name, listed, shaped, mtu, is_open=is_open)
    hosts = [node.name for node in fabric.nodes if node.role == "host"]
    if senders and is_open:
        raise ConfigError("--senders", senders, "none beside --open: anybody may push")
    chosen = expand_nodes(senders, hosts, "--senders") if senders else ()
    made = init_fabric(fabric, folder, senders=chosen, is_open=is_open)
    rows = [_row(made, node.name) for node in made.fabric.nodes]
    if as_json:
        print_json({"file": str(made.file), "is_new": made.is_new, "nodes": rows})
        return
    _tell(made, rows)


@app.command()
def reroute(
    config: Annotated[Path, typer.Argument(help="fabric TOML that the nodes run")],
    out: Annotated[
        Path, typer.Option(help="fabric TOML of the next version, for all machines")
    ],
    operator: OperatorKeys = None,
    cut: CutLinks = None,
    join: JoinLinks = None,
    weight: LinkWeights = None,
) -> None:
    """Give the nodes of several machines new tables, while pushes go on."""
    from fanfold.api.reroute import install_at, rerouted  # noqa: PLC0415 - as above
    from fanfold.topo.fabric_file import save_fabric  # noqa: PLC0415 - as above

    site = site_of(config, operator)
    fabric = rerouted(site.fabric, cut or (), join or (), weight or ())
    save_fabric(fabric, out)
    failed = install_at(site, fabric)
    n = len(fabric.nodes) - len(failed)
    say(f"{out}: tables of version {fabric.version} at {n} nodes; copy it to all machines")
    if failed:
        who = "; ".join(f"{node}: {error}" for node, error in failed.items())
        raise CheckFailed(f"version {fabric.version} is not at {who}")


def _fabric_of(
    name: str, listed: Listed, shaped: Shaped, mtu: int | None, *, is_open: bool
) -> "Fabric":
    """The fabric of lists, of a topology or of a file: one of the three."""
    from fanfold.api.fabric_lists import listed_fabric, placed_fabric  # noqa: PLC0415 - as above
    from fanfold.topo.fabric_file import load_fabric  # noqa: PLC0415 - as above

    given = {f"--{key}": text for key, text in (*_of(listed), *_of(shaped)) if text}
    if shaped.config is not None:
        _refuse(given, ("--config",), "--config, which has the whole fabric")
        if mtu is not None:
            raise ConfigError("--mtu", mtu, "none beside --config, which has it")
        fabric = load_fabric(shaped.config)
        return _sized(fabric, fabric.line_mtu(), is_open=is_open)
    if shaped.topology:
        _refuse(given, ("--topology", "--addresses"), "--topology, which has all nodes")
        fabric, notes = placed_fabric(name, shaped.topology, shaped.addresses)
        for note in notes:
            tell_warning(note)
    else:
        _refuse(given, ("--hosts", "--bfrs", "--links"), "lists of hosts and BFRs")
        fabric = listed_fabric(name, listed.hosts, listed.bfrs, listed.links)
    return _sized(fabric, PATH_MTU if mtu is None else mtu, is_open=is_open)


def _sized(fabric: "Fabric", room: int, *, is_open: bool) -> "Fabric":
    """The fabric with packets that links of so many bytes carry, trailers included."""
    import msgspec  # noqa: PLC0415 - as above

    from fanfold.kernels.layout import TRAILER_BYTES  # noqa: PLC0415 - as above
    from fanfold.topo.fabric_rules import MTU_RANGE  # noqa: PLC0415 - as above

    extra = 0 if is_open else TRAILER_BYTES
    least, most = MTU_RANGE[0] + extra, MTU_RANGE[1]
    if not least <= room <= most:
        raise ConfigError("--mtu", room, f"{least}..{most}")
    return msgspec.structs.replace(fabric, mtu=room - extra)


def _of(group: Any) -> list[tuple[str, Any]]:
    return list(group._asdict().items())


def _refuse(given: dict[str, Any], own: tuple[str, ...], beside: str) -> None:
    for flag, text in given.items():
        if flag not in own:
            raise ConfigError(flag, str(text), f"none beside {beside}")


def _row(made: "MadeFabric", name: str) -> dict[str, str]:
    """What a machine gets, and what is typed there."""
    node = made.fabric.by_name[name]
    own = made.folder / name
    if made.operator is None:
        carry, there, keys = made.file, made.file.name, ""
    else:
        carry, there, keys = own, f"{name}/{made.file.name}", f" --keys {name}"
    words = f"--config {there} --node {name}{keys}"
    run = f"fanfold bfr {words}" if node.role == "bfr" else f"fanfold receive {words}"
    run += "" if node.role == "bfr" else " --into incoming"
    row = {"node": name, "address": node.address, "copy": str(carry), "run": run}
    if node.role == "host":
        row["push"] = f"fanfold push FILE --config {there} --from {name}{keys}"
    return row


def _tell(made: "MadeFabric", rows: list[dict[str, str]]) -> None:
    n_hosts = sum("push" in row for row in rows)
    what = f"{n_hosts} hosts, {len(rows) - n_hosts} BFRs"
    how = "open, nobody has keys" if made.operator is None else "keys of links and of ends"
    done = "" if made.is_new else "; it was there, nothing was changed"
    say(f"{made.file}: {what}, {how}{done}")
    say("packets of links, at most: " + f"{made.fabric.line_mtu()} bytes")
    for row in rows:
        flags = "-rp" if made.operator is not None else "-p"
        say(f"{row['node']}:  scp {flags} {row['copy']} {row['address']}:")
        say(f"  there:  {row['run']}")
    first = next(row for row in rows if "push" in row)
    say(f"push:  {first['push']}")
    if made.operator is None:
        tell_warning("open: whoever reaches these machines may push, read and forge")
        return
    say(f"operator:  {made.operator} stays with who runs the fabric")
    say("each folder holds secret keys for its machine alone; remove it here once it is there")
