"""`fanfold encodings`: what it costs to name many receivers in a packet, by every encoding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from fanfold.cli.console import print_json
from fanfold.cli.encoding_tables import show_catalog, show_plan, show_rows, show_sweep
from fanfold.cli.seed import checked_seed
from fanfold.cli.told_net import told_net
from fanfold.cli.verb import refuse, refuse_but
from fanfold.encodings.catalog import ALL, CATALOG, offers_of
from fanfold.encodings.encoder import MAX_BITS
from fanfold.encodings.planner import plan as plan_for
from fanfold.encodings.size_sweep import sweep as sweep_of
from fanfold.encodings.survey import MTU_BYTES, Options, survey
from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.placement import KINDS
from fanfold.topo.routes import build_routes
from fanfold.units import parse_size

T = TypeVar("T")
CONTIGUOUS = "contiguous:"
FEW = 9
MEMBERS = "all, a number of hosts drawn by seed, contiguous:N, or names such as h1,h3-5"


def encodings(
    ctx: typer.Context,
    topology: Annotated[
        str | None, typer.Option(help="such as fat-tree:k=8 or import:FILE.graphml")
    ] = None,
    *,
    members: Annotated[
        str | None, typer.Option(help=f"receivers: {MEMBERS}  [default: 9, or all if fewer]")
    ] = None,
    payload: Annotated[str, typer.Option(help="of the message, with inner headers")] = "7392B",
    encoding: Annotated[str, typer.Option(help="names joined by commas, or all")] = ALL,
    placement: Annotated[str, typer.Option(help="of BFR-ids: naive, rack or job")] = "naive",
    limit_bits: Annotated[
        int, typer.Option(help="bits that name receivers, at most; silicon often 256")
    ] = MAX_BITS,
    mtu: Annotated[str, typer.Option(help="header and payload of a packet")] = f"{MTU_BYTES}B",
    source: Annotated[str, typer.Option(help="host that sends  [default: the first]")] = "",
    plan: Annotated[
        bool, typer.Option("--plan", help="try every placement too, pick one, say why")
    ] = False,
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="groups of 1, 4, 16 and so on; of all: drawn by seed"),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="of members, and of topologies that draw", callback=checked_seed)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Name receivers by every encoding, send the packets hop by hop, count; or list them."""
    if topology is None:
        refuse_but(ctx, ("topology", "as_json"), "none without --topology, which it is about")
        show_catalog(CATALOG, as_json)
        return
    if plan and sweep:
        raise ConfigError("--plan", "--sweep too", "one of them")
    if plan:
        refuse(ctx, ("placement",), "none beside --plan, which tries all")
    if placement not in KINDS:
        raise ConfigError("--placement", placement, ", ".join(KINDS))
    names = _names(encoding)
    payload_bytes = int(parse_size(payload, "--payload"))
    mtu_bytes = int(parse_size(mtu, "--mtu"))
    net = told_net(topology, seed)
    start = _source(net, source)
    hosts = _members(net, _drawn(net, members, sweep=sweep), start, seed)
    options = Options(placement, ([start, *hosts],), limit_bits, mtu_bytes)
    title = f"{len(hosts):,} receivers of {net.n_hosts:,} hosts on {net.name}"
    what: Sequence[Any] = (net, build_routes(net), hosts, payload_bytes)
    how: Mapping[str, Any] = {"source": start, "encodings": names, "options": options}
    try:
        if plan:
            _show(plan_for(*what, **how), show_plan, title, as_json)
        elif sweep:
            _show(sweep_of(*what, **how), show_sweep, title, as_json)
        else:
            _show(survey(*what, **how), show_rows, title, as_json)
    except ConfigError as error:
        raise _by_flag(error) from error


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    try:
        offers_of(names)
    except ConfigError as error:
        raise _by_flag(error) from error
    return names


def _show(found: T, show: Callable[[str, T], None], title: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        show(title, found)


def _by_flag(error: ConfigError) -> ConfigError:
    flags = {"payload": "--payload", "mtu": "--mtu", "limit_bits": "--limit-bits"}
    flags |= {"encoding": "--encoding", "members": "--members"}
    return ConfigError(flags.get(error.field, error.field), error.got, error.allowed)


def _drawn(net: Net, members: str | None, *, sweep: bool) -> str:
    """Members as text; of a sweep over all, all are drawn."""
    if members is None:
        return str(max(min(FEW, net.n_hosts - 1), 1))
    return str(net.n_hosts - 1) if sweep and members == ALL else members


def _source(net: Net, name: str) -> int:
    if not name:
        return 0
    names = {net.node_name(host): host for host in range(net.n_hosts)}
    if name not in names:
        raise ConfigError("--source", name, "the name of a host of the topology")
    return names[name]


def _members(net: Net, text: str, source: int, seed: int) -> list[int]:
    """Receivers in the order in which a sweep takes them; the source is none of them.

    A number is drawn at random, so that such groups are scattered; contiguous:N is the block of
    N hosts, in the order of the hosts, that holds the source, which is one of the N.
    """
    others = [host for host in range(net.n_hosts) if host != source]
    if text == ALL:
        return others
    if text.isdecimal() and text.isascii() and len(text) < 10:
        if not 1 <= int(text) <= len(others):
            raise ConfigError("--members", text, f"1..{len(others)}, or names")
        drawn = stream(seed, "encodings/members").permutation(len(others))[: int(text)]
        return [others[i] for i in drawn.tolist()]
    if text.startswith(CONTIGUOUS):
        size = text.removeprefix(CONTIGUOUS)
        n = int(size) if size.isdecimal() and size.isascii() and len(size) < 10 else 0
        if not 2 <= n <= net.n_hosts:
            raise ConfigError("--members", text, f"contiguous:2 to contiguous:{net.n_hosts}")
        first = min(source // n * n, net.n_hosts - n)
        return [host for host in range(first, first + n) if host != source]
    names = {net.node_name(host): host for host in range(net.n_hosts)}
    hosts = [names[name] for name in expand_nodes(text, names, "--members")]
    found = [host for host in hosts if host != source]
    if not found:
        raise ConfigError("--members", text, "one host or more besides the source")
    return found
