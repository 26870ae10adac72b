"""`fanfold lab`: a fabric's nodes as processes of this machine."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from fanfold.api.lab_status import describe, no_such_lab
from fanfold.cli.console import screen
from fanfold.cli.telling import telling
from fanfold.errors import ConfigError
from fanfold.live.lab import Lab, labs_home, list_labs
from fanfold.push.notes import words_of
from fanfold.topo.fabric import Fabric, load_fabric
from fanfold.topo.fabric_rules import check_fabric

app = typer.Typer(help="Node processes of a fabric on this machine.", no_args_is_help=True)
Name = Annotated[str, typer.Option("--name", "--lab", help="which lab")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
OF_ARRAYS = ("complete", "partial", "passed", "full", "quota", "unlike", "overlap")
"""Counters of arrays that a table has room for; --json has all."""
PATIENCE_S = 1.0
"""A start that takes longer says what it does, off a terminal too."""
LEAVES, SPINES, HOSTS, MTU = 2, 2, 8, 9000
"""Of a lab where nobody says otherwise."""


@app.command()
def up(
    name: Name = "lab",
    leaves: Annotated[int | None, typer.Option(help=f"leaf BFRs  [default: {LEAVES}]")] = None,
    spines: Annotated[int | None, typer.Option(help=f"spine BFRs  [default: {SPINES}]")] = None,
    hosts: Annotated[
        int | None,
        typer.Option(help=f"receivers; the source h0 comes on top  [default: {HOSTS}]"),
    ] = None,
    mtu: Annotated[
        int | None, typer.Option(help=f"bytes of a link's largest packet  [default: {MTU}]")
    ] = None,
    limits: Annotated[
        str, typer.Option(help="of arrays at each BFR, array_groups=128,array_slots=4096")
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="fabric TOML instead of a leaf-spine")
    ] = None,
    rings: Annotated[
        bool, typer.Option(help="arrays between ranks and BFRs by shared memory")
    ] = True,
    fsync: Annotated[
        bool, typer.Option(help="what hosts receive survives a power cut")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a leaf-spine lab, or the fabric of a TOML file, on loopback addresses."""
    lab = Lab(name)
    if lab.is_up():
        raise ConfigError(
            "--name", name, "a lab that is not up; `fanfold lab down` ends this one"
        )
    shape = {"--leaves": leaves, "--spines": spines, "--hosts": hosts, "--mtu": mtu}
    from fanfold.api import labs  # noqa: PLC0415 - who only looks at a lab needs no node

    fabric = _fabric_of(name, config, shape, labs.pick_fabric)
    if limits:
        some = labs.parse_limits(limits, fabric.limits)
        fabric = msgspec.structs.replace(fabric, limits=some)
        check_fabric(fabric, "--limits")
    with telling(PATIENCE_S) as say:
        told = labs.start_lab(lab, fabric, has_rings=rings, fsync=fsync, say=say)
    if as_json:
        up_now = {"lab": name, "nodes": len(fabric.nodes), "log": str(lab.log)}
        print(json.dumps(up_now | told))
        return
    if told["cleaned"]:
        print(
            f"lab {name}: ended {told['cleaned']} processes a crash had left", file=sys.stderr
        )
    print(f"lab {name}: {len(fabric.nodes)} nodes up in {told['seconds']:.2f} s; log {lab.log}")


@app.command()
def status(name: Name = "", as_json: Json = False) -> None:
    """Show labs, or the nodes and counters of one."""
    if name and not Lab(name).folder.exists():
        raise no_such_lab(name)
    labs = [name] if name else list_labs()
    report = [describe(Lab(each)) for each in labs]
    if as_json:
        print(json.dumps(report))
        return
    if not report:
        print(f"no lab is up (state folder {labs_home()})")
    for each in report:
        show(each)


@app.command()
def down(
    name: Name = "lab",
    purge: Annotated[bool, typer.Option(help="delete received files too")] = False,
    as_json: Json = False,
) -> None:
    """End a lab's processes, also those a crash left behind."""
    lab = Lab(name)
    if not lab.folder.exists():
        raise no_such_lab(name)
    was_up = lab.is_up()
    n = lab.down(purge=purge)
    if as_json:
        print(json.dumps({"lab": name, "ended": n, "was_up": was_up}))
        return
    print(
        f"lab {name}: {n} processes ended" + ("" if was_up or not n else " (left by a crash)")
    )


@app.command()
def restart(
    node: Annotated[str, typer.Argument(help="which node")],
    name: Name = "lab",
    as_json: Json = False,
) -> None:
    """Start a node that died again, or one that lives anew."""
    told = Lab(name).restart(node)
    print(json.dumps(told) if as_json else f"lab {name}: {node} runs as process {told['pid']}")


def _fabric_of(
    name: str,
    config: Path | None,
    shape: dict[str, int | None],
    pick_fabric: Callable[..., Fabric],
) -> Fabric:
    """The fabric of a file, or a leaf-spine by flags; both together are refused."""
    given = {flag: value for flag, value in shape.items() if value is not None}
    if config is None:
        usual = {"--leaves": LEAVES, "--spines": SPINES, "--hosts": HOSTS, "--mtu": MTU}
        return pick_fabric(name, *(usual | given).values())
    for flag, value in given.items():
        raise ConfigError(flag, value, "none beside --config, which has the whole fabric")
    return load_fabric(config)


def show(report: dict[str, Any]) -> None:
    """A lab's nodes as a table."""
    table = Table(title=f"lab {report['lab']}: {'up' if report['up'] else 'not up'}")
    for column in ("node", "pid", "state", "sent", "received", "drops", "folds", "arrays"):
        table.add_column(column)
    for name, entry in report["nodes"].items():
        answer = entry.get("status", {})
        links = answer.get("links", {}).values()
        state = "alive" if entry["alive"] else f"dead (exit {entry.get('exit', '?')})"
        table.add_row(
            name,
            str(entry["pid"]),
            state,
            str(_packets(links, "tx")),
            str(_packets(links, "rx")),
            _words(answer.get("drops", {})),
            _words(answer.get("folds", {})),
            _words({k: n for k, n in answer.get("arrays", {}).items() if k in OF_ARRAYS}),
        )
    screen().print(table)
    for name, entry in report["nodes"].items():
        answer = entry.get("status", {})
        lost = {to: link.get("lost", {}) for to, link in answer.get("links", {}).items()}
        for line in words_of(name, lost, answer.get("drops", {})):
            print(line)
    print(f"log: {report['log']}")


def _packets(links: Any, way: str) -> int:
    return sum(counts[0] for link in links for counts in link[way].values())


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{word} {n}" for word, n in counts.items())
