"""`fanfold vat`: virtual aggregation trees, drawn and held against the rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from fanfold.cli.console import bold, print_json, printable, screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.told_net import told_net
from fanfold.cli.vat_install import install, place_of, remove
from fanfold.cli.verb import refuse
from fanfold.errors import ConfigError, ExitCode
from fanfold.ids import expand_nodes
from fanfold.topo.net import Net
from fanfold.topo.nets import IMPORT
from fanfold.topo.vat import NONE, Vat, VatFigures, VatNode, Ways, edges, figures
from fanfold.topo.vat_build import Job, build_vats
from fanfold.topo.vat_file import MAX_SLOTS, VatFile, load_vat_file, texts_of, vats_of
from fanfold.topo.vat_laid import lay_trees
from fanfold.topo.vat_rules import VatFault, check_vats

Quota = Annotated[
    int | None,
    typer.Option(help="slots of a job at each of its switches  [default: an even share]"),
]
Check = Annotated[
    Path | None,
    typer.Option(
        help="trees to check, as --json prints them; a file of import: lies beside it"
    ),
]
InstallOn = Annotated[
    str, typer.Option("--install", help="lab, or fabric TOML of nodes by hand, to make them on")
]
RemoveFrom = Annotated[str, typer.Option("--remove", help="the same, to undo them on")]
DEFAULT_SLOTS = 128
MAX_BITS = 64
"""Hosts up to which an A-BM is shown as bits."""
MAX_DRAWN = 32
"""VAT nodes that are drawn, of all jobs."""
MAX_NAMED = 8
MAX_FAULTS = 20
MAX_DIGITS = 10
"""Of a number of hosts; more of them are no number."""
WIDTH = 120
OF_JOBS = ("members", "root", "jobs", "quota")


def vat(
    ctx: typer.Context,
    *,
    topology: Annotated[
        str | None, typer.Option(help="such as fat-tree:k=8 or import:FILE.graphml")
    ] = None,
    members: Annotated[
        str, typer.Option(help="all, a number of hosts, or names such as h1,h3-5")
    ] = "all",
    root: Annotated[
        str, typer.Option(help="switch or host of the result  [default: the best switch]")
    ] = "",
    jobs: Annotated[int, typer.Option(help="jobs that members are dealt to in turn")] = 1,
    slots: Annotated[
        int | None, typer.Option(help="of each switch  [default: 128, or as the file has it]")
    ] = None,
    quota: Quota = None,
    check: Check = None,
    install_on: InstallOn = "",
    remove_from: RemoveFrom = "",
    group: Annotated[int, typer.Option(help="number of the first job's group")] = 1,
    seed: Annotated[
        int, typer.Option(help="of topologies that draw", callback=checked_seed)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Lay aggregation trees over a topology, or check those of a file."""
    if install_on or remove_from:
        _lay(check, install_on, remove_from, group)
        return
    file, topology = _asked(ctx, check, topology)
    net = told_net(topology, seed)
    n_slots = slots if slots is not None else file.slots if file else DEFAULT_SLOTS
    if slots is not None or not file:
        _check_count("--slots", n_slots)
    if file:
        vats = vats_of(net, file)
    else:
        vats = build_vats(net, _jobs(net, members, root, jobs, (quota, n_slots)), n_slots)
    faults = check_vats(net, vats, n_slots)
    wrong = {fault.job for fault in faults}
    ways = Ways(net)
    told = {tree.job: figures(ways, tree) for tree in vats if tree.job not in wrong}
    if as_json:
        rows = [_fault_text(net, fault) for fault in faults]
        whole = VatFile(
            texts_of(net, vats),
            beside(topology, Path.cwd()),
            n_slots,
            list(told.values()),
            rows,
        )
        print_json(whole)
    else:
        _show(net, vats, told, faults)
    if faults:
        raise typer.Exit(ExitCode.PARTIAL)


def _lay(check: Path | None, install_on: str, remove_from: str, group: int) -> None:
    """Make the trees of a file on running nodes, or undo them."""
    if check is None:
        raise ConfigError("--check", "nothing", "a file of trees beside --install, --remove")
    file = load_vat_file(check)
    place = place_of(install_on or remove_from)
    if remove_from:
        remove(place, lay_trees(place.fabric, file), group)
        return
    for j, tree in enumerate(install(place, file, group)):
        where = f"{len(tree.rows)} nodes, {tree.slots} slots at each VAT node"
        print(f"{tree.job}: group {group + j}, {len(tree.members)} ranks, {where}")


def _asked(
    ctx: typer.Context, check: Path | None, topology: str | None
) -> tuple[VatFile | None, str]:
    """File of trees, if any, and the topology: a flag goes before the file."""
    file = None
    if check is not None:
        refuse(ctx, OF_JOBS, "none beside --check, whose file has the trees")
        file = load_vat_file(check)
        topology = topology or beside(file.topology, check.parent)
    if not topology:
        raise ConfigError("--topology", "nothing", "such as fat-tree:k=8")
    return file, topology


def beside(topology: str, folder: Path) -> str:
    """The topology, a relative file of ``import:`` as seen from a folder; rates stay behind it.

    What is printed has the whole path, so that it can be checked wherever it is kept.
    """
    name, is_named, rest = topology.partition(":")
    return f"{IMPORT}:{folder / rest}" if is_named and name == IMPORT else topology


def _jobs(
    net: Net, members: str, root: str, n_jobs: int, shares: tuple[int | None, int]
) -> list[Job]:
    """Jobs 0, 1 and so on; worker i of all is in job i modulo n_jobs."""
    hosts = _members(net, members)
    if not 1 <= n_jobs <= len(hosts):
        raise ConfigError("--jobs", n_jobs, f"1..{len(hosts)}, the members")
    quota, n_slots = shares
    if quota is None:
        quota = max(n_slots // n_jobs, 1)
    if not 1 <= quota <= n_slots:
        raise ConfigError("--quota", quota, f"1..{n_slots}, the slots of a switch")
    index = {net.node_name(node): node for node in range(net.n_nodes)}
    if root and root not in index:
        raise ConfigError("--root", root, "the name of a switch or host of the topology")
    at = index[root] if root else NONE
    return [Job(f"job{j}", tuple(hosts[j::n_jobs]), at, quota) for j in range(n_jobs)]


def _members(net: Net, text: str) -> list[int]:
    if text == "all":
        return list(range(net.n_hosts))
    if text.isdecimal() and text.isascii() and len(text) < MAX_DIGITS:
        if not 1 <= int(text) <= net.n_hosts:
            raise ConfigError("--members", text, f"1..{net.n_hosts}, or names")
        return [i * net.n_hosts // int(text) for i in range(int(text))]
    index = {net.node_name(host): host for host in range(net.n_hosts)}
    return [index[name] for name in expand_nodes(text, index.keys(), "--members")]


def _check_count(field: str, value: int) -> None:
    if not 1 <= value <= MAX_SLOTS:
        raise ConfigError(field, value, f"1..{MAX_SLOTS}")


def _fault_text(net: Net, fault: VatFault) -> dict[str, object]:
    names = [net.node_name(node) for node in fault.nodes if node < net.n_nodes]
    return {"job": fault.job, "rule": fault.rule, "nodes": names, "text": fault.text}


def _show(
    net: Net, vats: Sequence[Vat], told: dict[str, VatFigures], faults: Sequence[VatFault]
) -> None:
    console = screen()
    console.print(bold(net.name))
    left = MAX_DRAWN
    for tree in vats:
        if tree.job in told:
            console.print(_line(told[tree.job], tree.quota))
            if left > 0:
                console.print(picture(net, tree, left))
            left -= len(tree.nodes)
    for fault in faults[:MAX_FAULTS]:
        console.print(Text.assemble(bold(fault.rule, "bold red"), " ", printable(fault.text)))
    if len(faults) > MAX_FAULTS:
        console.print(f"and {len(faults) - MAX_FAULTS} faults more")
    n_sound = len(told)
    console.print(f"{n_sound} of {len(vats)} trees keep all rules")


def _line(told: VatFigures, quota: int) -> str:
    return (
        f"{told.job}: {told.n_workers} workers, {told.n_nodes} VAT nodes, depth {told.depth}, "
        f"fan-in {told.fan_in}, {quota} slots each; a block crosses {told.n_links} links up, "
        f"{told.n_unicast_links} by unicast"
    )


def picture(net: Net, tree: Vat, most: int) -> Tree:
    """VAT nodes with their A-BMs, workers at their node, at most so many nodes."""
    (root,) = tree.roots
    drawn = Tree(_label(net, root))
    at = {root.at: drawn}
    order = [root]
    for node in order:
        order += [low for low in tree.nodes if low.parent == node.at]
    for node in order[:most]:
        if node.parent != NONE:
            at[node.at] = at[node.parent].add(_label(net, node))
    workers = _workers(net, tree)
    for place in at.keys() & workers.keys():
        at[place].add(_named(workers[place]))
    if len(order) > most:
        drawn.add(f"and {len(order) - most} VAT nodes more")
    return drawn


def _workers(net: Net, tree: Vat) -> dict[int, list[str]]:
    """Names of the workers that send to each VAT node."""
    workers: dict[int, list[str]] = {}
    for sender, target, _ in edges(tree):
        if sender < net.n_hosts:
            workers.setdefault(target, []).append(net.node_name(sender))
    return workers


def _label(net: Net, node: VatNode) -> str:
    name = net.node_name(node.at)
    if net.n_hosts > MAX_BITS:
        return f"{name} {node.a_bm.bit_count()} workers"
    bits = "".join(str(node.a_bm >> host & 1) for host in range(net.n_hosts))
    return f"{name} {bits}"


def _named(names: list[str]) -> str:
    if len(names) <= MAX_NAMED:
        return " ".join(names)
    return f"{names[0]} .. {names[-1]}, {len(names)} workers"
