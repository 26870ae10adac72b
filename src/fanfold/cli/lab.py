"""`fanfold lab`: a fabric's nodes as processes of this machine."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich.table import Table

from fanfold.api.lab_status import describe, no_such_lab
from fanfold.cli.console import screen, tell_warning
from fanfold.cli.flag_groups import taken_apart
from fanfold.cli.key_flags import KeyLogFile
from fanfold.cli.reroute_flags import CutLinks, JoinLinks, LinkWeights
from fanfold.cli.telling import telling
from fanfold.errors import CheckFailed, ConfigError
from fanfold.live.lab import Lab, labs_home, list_labs
from fanfold.push.gray import GrayLink
from fanfold.push.notes import words_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.openness import may_be_open, told_lab
from fanfold.units import format_size

app = typer.Typer(help="Node processes of a fabric on this machine.", no_args_is_help=True)
Name = Annotated[str, typer.Option("--name", "--lab", help="which lab")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
LabKeys = Annotated[
    bool, typer.Option(help="keys for each host, which takes signed pushes only")
]
LinkKeys = Annotated[
    bool, typer.Option("--link-keys", help="keys for each link; no packet passes without")
]
Hello = Annotated[
    str, typer.Option(help="how often busy neighbours speak; three times silent: lost")
]
Fsync = Annotated[bool, typer.Option(help="what hosts receive survives a power cut")]
MetricsPort = Annotated[
    int,
    typer.Option(
        min=0, max=65535, help="each node serves /metrics there, at its address; 0: none"
    ),
]
Namespaces = Annotated[
    bool, typer.Option(help="a network namespace a node, veth pairs as links; needs root")
]
Limits = Annotated[
    str, typer.Option(help="of arrays at each BFR, array_groups=128,array_slots=4096")
]
Cache = Annotated[
    str, typer.Option(help="DATA that each BFR keeps to repair from; 0 none  [default: 16MiB]")
]
Bgp = Annotated[
    bool, typer.Option(help="FRR at hosts and leaves of all planes, routes by weight; root")
]
Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant", help="hosts apart from others, red:h1-3 or red:h1-3:rate=100Mbps,slots=256"
    ),
]
OF_ARRAYS = ("complete", "partial", "passed", "full", "quota", "unlike", "overlap")
"""Counters of arrays that a table has room for; --json has all."""
OF_CACHE = ("hit", "miss", "evicted", "heavy", "spent")
COLUMNS = (
    *("node", "pid", "state", "table", "neighbours", "sent", "received", "drops", "folds"),
    "cache",
    "arrays",
)
PATIENCE_S = 1.0
"""A start that takes longer says what it does, off a terminal too."""
LEAVES, SPINES, HOSTS, MTU, HELLO = 2, 2, 8, 9000, "50ms"
"""Of a lab where nobody says otherwise."""


class Shape(NamedTuple):
    """Of a leaf-spine."""

    leaves: Annotated[int | None, typer.Option(help=f"leaf BFRs  [default: {LEAVES}]")] = None
    spines: Annotated[int | None, typer.Option(help=f"spine BFRs  [default: {SPINES}]")] = None
    hosts: Annotated[
        int | None,
        typer.Option(help=f"receivers; the source h0 comes on top  [default: {HOSTS}]"),
    ] = None
    mtu: Annotated[
        int | None, typer.Option(help=f"bytes of a link's largest packet  [default: {MTU}]")
    ] = None


class Bounds(NamedTuple):
    """What each BFR keeps at most."""

    limits: Limits = ""
    cache: Cache = ""


class Source(NamedTuple):
    """Where a lab's fabric is from, but for flags."""

    config: Annotated[Path | None, typer.Option(help="fabric TOML instead of a leaf-spine")] = (
        None
    )
    topology: Annotated[
        str | None,
        typer.Option(help="instead of a leaf-spine: fat-tree:k=4, import:FILE, see `topo`"),
    ] = None


class LabOptions(NamedTuple):
    """What its links and files are."""

    rings: Annotated[
        bool, typer.Option(help="arrays between ranks and BFRs by shared memory")
    ] = True
    fsync: Fsync = False
    namespaces: Namespaces = False
    bgp: Bgp = False


class Secrets(NamedTuple):
    """Keys of hosts and links, and where those of sessions are written."""

    keys: LabKeys = False
    link_keys: LinkKeys = False
    keylog: KeyLogFile = None


@app.command()
@taken_apart
def up(
    name: Name = "lab",
    *,
    shape: Shape,
    bounds: Bounds,
    source: Source,
    ground: LabOptions,
    secrets: Secrets,
    tenant: Tenants = None,
    hello: Hello = HELLO,
    metrics: MetricsPort = 0,
    as_json: Json = False,
) -> None:
    """Start a leaf-spine lab, any topology, or the fabric of a TOML file."""
    lab = Lab(name)
    if lab.is_up():
        raise ConfigError(
            "--name", name, "a lab that is not up; `fanfold lab down` ends this one"
        )
    from fanfold.api import labs  # noqa: PLC0415 - who only looks at a lab needs no node
    from fanfold.api.tenants import with_tenants  # noqa: PLC0415 - as above
    from fanfold.live.plane_lab import plan_for  # noqa: PLC0415 - as above

    pace = labs.parse_pace(hello)
    fabric = _fabric_of(name, source, shape)
    fabric = with_tenants(_bounded(fabric, *bounds), tenant or ())
    flags = {"has_rings": ground.rings, "fsync": ground.fsync}
    flags |= {"has_spaces": ground.namespaces, "has_keys": secrets.keys}
    flags["has_link_keys"] = secrets.link_keys
    plan = None
    if ground.bgp:
        plan = plan_for(source.topology, fabric, has_spaces=ground.namespaces)
    if not ground.namespaces and plan is None:
        _tell_open(name, fabric, secrets)
    with telling(PATIENCE_S) as say:
        told = labs.start_lab(
            lab, fabric, **flags, pace=pace, metrics_port=metrics, plan=plan, say=say
        )
    if as_json:
        up_now = {"lab": name, "nodes": len(fabric.nodes), "log": str(lab.log)}
        print(json.dumps(up_now | told))
        return
    _tell_up(lab, len(fabric.nodes), told)


def _tell_open(name: str, fabric: Fabric, secrets: Secrets) -> None:
    """Say what of a lab at addresses of other machines is open, where its file asks for it."""
    is_bare = may_be_open(fabric, "links")  # else it gets keys by itself
    open_now = told_lab(
        fabric,
        has_keys=secrets.keys,
        has_link_keys=secrets.link_keys or not is_bare,
    )
    if open_now:
        tell_warning(f"lab {name}: {open_now}")


def _tell_up(lab: Lab, n_nodes: int, told: dict[str, Any]) -> None:
    if told["cleaned"]:
        ended = f"ended {told['cleaned']} processes a crash had left"
        print(f"lab {lab.name}: {ended}", file=sys.stderr)
    more = f", {told['sessions']} BGP sessions" if "sessions" in told else ""
    up_in = f"{told['seconds']:.2f} s; log {lab.log}"
    print(f"lab {lab.name}: {n_nodes} nodes{more} up in {up_in}")


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
    from fanfold.api import failing  # noqa: PLC0415 - as above

    told = failing.restart(Lab(name), node)
    print(json.dumps(told) if as_json else f"lab {name}: {node} runs as process {told['pid']}")


@app.command()
def fail(
    what: Annotated[
        str,
        typer.Argument(
            help="link, node, pause, gray, slow, port-corrupt; with --bgp port, half-cable, "
            "leaf"
        ),
    ],
    target: Annotated[
        str, typer.Argument(help="which node, link or port as leaf1-spine1, h3-plane2, plane2")
    ],
    amount: Annotated[
        str,
        typer.Argument(help="of a pause its time, of what is gray a share, or a rate: 3s, 1%"),
    ] = "",
    name: Name = "lab",
    as_json: Json = False,
) -> None:
    """Let a link, a node or a share of packets fail until `heal`; or stop a node for a time."""
    from fanfold.api import failing  # noqa: PLC0415 - as above

    said = failing.fail(Lab(name), what, target, amount)
    if as_json:
        print(json.dumps({"lab": name, "what": what, "target": target, "amount": amount}))
    else:
        print(f"lab {name}: {said}")


@app.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def execute(
    node: Annotated[str, typer.Argument(help="such as h1")],
    command: Annotated[
        list[str] | None, typer.Argument(help="what runs there, its own options too")
    ] = None,
    name: Name = "lab",
) -> None:
    """Run a command in the network namespace of a node; its exit code is this one's."""
    from fanfold.api.inside import command_in  # noqa: PLC0415 - as above

    words = command_in(Lab(name), node, command or ())
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606 - what was asked for


@app.command()
def heal(
    targets: Annotated[
        list[str] | None, typer.Argument(help="links and nodes; none: all that failed")
    ] = None,
    name: Name = "lab",
    as_json: Json = False,
) -> None:
    """Mend what `fail` broke: links carry again, nodes start again, stopped ones go on."""
    from fanfold.api import failing  # noqa: PLC0415 - as above

    mended = failing.heal(Lab(name), targets or ())
    if as_json:
        print(json.dumps({"lab": name, "healed": mended}))
    else:
        print(
            f"lab {name}: {', '.join(mended) + ' is well again' if mended else 'all is well'}"
        )


@app.command()
def reroute(
    name: Name = "lab",
    cut: CutLinks = None,
    join: JoinLinks = None,
    weight: LinkWeights = None,
    as_json: Json = False,
) -> None:
    """Give the nodes of a running lab new tables, while pushes go on."""
    from fanfold.api.reroute import install, rerouted  # noqa: PLC0415 - as above

    lab = Lab(name)
    fabric = rerouted(lab.fabric(), cut or (), join or (), weight or ())
    failed = install(lab, fabric)
    if as_json:
        print(json.dumps({"lab": name, "version": fabric.version, "failed": failed}))
    elif not failed:
        print(f"lab {name}: tables of version {fabric.version} at {len(fabric.nodes)} nodes")
    if failed:
        who = "; ".join(f"{node}: {error}" for node, error in failed.items())
        raise CheckFailed(f"lab {name}: version {fabric.version} is not at {who}")


def _bounded(fabric: Fabric, limits: str, cache: str) -> Fabric:
    """The fabric with other bounds of each BFR's memory, where flags name any."""
    from fanfold.api import labs  # noqa: PLC0415 - as above

    if limits:
        some = labs.parse_limits(limits, fabric.limits)
        fabric = msgspec.structs.replace(fabric, limits=some)
        check_fabric(fabric, "--limits")
    if cache:
        fabric = msgspec.structs.replace(fabric, cache=cache)
        check_fabric(fabric, "--cache")
    return fabric


def _fabric_of(name: str, source: Source, shape: Shape) -> Fabric:
    """The fabric of a file, of a topology, or a leaf-spine by flags; one of the three."""
    from fanfold.api import labs  # noqa: PLC0415 - as above

    given = {f"--{key}": n for key, n in shape._asdict().items() if n is not None}
    if source.config is not None:
        more = {"--topology": source.topology} if source.topology else {}
        for flag, value in (given | more).items():
            raise ConfigError(flag, value, "none beside --config, which has the whole fabric")
        return load_fabric(source.config)
    if source.topology is None:
        usual = {"--leaves": LEAVES, "--spines": SPINES, "--hosts": HOSTS, "--mtu": MTU}
        return labs.pick_fabric(name, *(usual | given).values())
    mtu = given.pop("--mtu", MTU)
    for flag, value in given.items():
        raise ConfigError(flag, value, "none beside --topology, which has the whole fabric")
    fabric, notes = labs.pick_net(name, source.topology, mtu)
    for note in notes:
        tell_warning(note)
    return fabric


def show(report: dict[str, Any]) -> None:
    """A lab's nodes as a table."""
    table = Table(title=f"lab {report['lab']}: {'up' if report['up'] else 'not up'}")
    for column in COLUMNS:
        table.add_column(column)
    for name, entry in report["nodes"].items():
        answer = entry.get("status", {})
        links = answer.get("links", {}).values()
        state = "alive" if entry["alive"] else f"dead (exit {entry.get('exit', '?')})"
        table.add_row(
            name,
            str(entry["pid"]),
            state,
            str(answer.get("table", {}).get("version", "")),
            _neighbours(answer.get("neighbours", {})),
            str(_packets(links, "tx")),
            str(_packets(links, "rx")),
            _words(answer.get("drops", {})),
            _words(answer.get("folds", {})),
            _words({k: n for k, n in answer.get("cache", {}).items() if k in OF_CACHE}),
            _words({k: n for k, n in answer.get("arrays", {}).items() if k in OF_ARRAYS}),
        )
    screen().print(table)
    for line in plane_lines(report.get("planes")):
        print(line)
    for what in report.get("failed", ()):
        print(f"failed by hand: {what}")
    for row in report.get("gray", ()):
        print(msgspec.convert(row, GrayLink).words())
    for name, entry in report["nodes"].items():
        answer = entry.get("status", {})
        lost = {to: link.get("lost", {}) for to, link in answer.get("links", {}).items()}
        for line in words_of(name, lost, answer.get("drops", {})):
            print(line)
    print("\n".join((*tenant_lines(report["nodes"]), f"log: {report['log']}")))


def plane_lines(planes: dict[str, Any] | None) -> list[str]:
    """Sessions, and of each host's kernel the weights of its planes, alike ones in one line."""
    if not planes:
        return []
    sessions = planes["sessions"]
    lines = [f"BGP sessions: {sessions['up']} of {sessions['of']} up"]
    for host, routes in planes["hosts"].items():
        alike: dict[str, list[str]] = {}
        for to, weights in routes.items():
            alike.setdefault(":".join(map(str, weights.values())), []).append(to)
        said = [f"{words} to {', '.join(to)}" for words, to in alike.items()]
        lines.append(f"{host}: planes by weight {'; '.join(said) or 'none'}")
    return lines


def tenant_lines(nodes: dict[str, Any]) -> list[str]:
    """What each tenant has in use at each BFR, and what was refused."""
    lines = []
    for name, entry in nodes.items():
        for tenant, use in entry.get("status", {}).get("tenants", {}).items():
            held, room = use["cache"]
            parts = [
                f"slots {use['slots'][0]} of {use['slots'][1]}",
                f"cache {format_size(held)} of {format_size(room)}",
                f"{use['packets']} packets, {format_size(use['bytes'])} in",
                *(f"{word} {n}" for word, n in use["refused"].items()),
            ]
            whom = "no tenant" if tenant == "-" else f"tenant {tenant}"
            lines.append(f"{name}: {whom}: {', '.join(parts)}")
    return lines


def _neighbours(told: dict[str, Any]) -> str:
    """How many are up, and since when others are not; who never was is not missed."""
    n_up = sum(row["state"] == "up" for row in told.values())
    down = [f"{to} down {r['since_s']:.1f} s" for to, r in told.items() if r["state"] == "down"]
    return ", ".join([f"{n_up} up", *down]) if told else ""


def _packets(links: Any, way: str) -> int:
    return sum(counts[0] for link in links for counts in link[way].values())


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{word} {n}" for word, n in counts.items())
