"""`fanfold trees`: what a tree protocol sends, keeps and takes on a topology."""

from typing import Annotated, Any, get_type_hints

import msgspec
import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import bold, print_json, screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.told_net import told_net
from fanfold.cli.verb import refuse, refuse_but
from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.topo.net import Net
from fanfold.trees.catalog import CATALOG, protocol_of
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree_run import TreeRun, build_tree
from fanfold.trees.tree_summary import Latency, TreeSummary, build_summary
from fanfold.units import format_duration, format_size, parse_duration

AT = "NODE@TIME, such as h3@5s"
MAX_DIGITS = 10
CUT = "NODE-NODE@TIME, such as leaf0-spine1@5s"


def trees(
    ctx: typer.Context,
    protocol: Annotated[str | None, typer.Argument(help="such as pim-sm")] = None,
    *,
    topology: Annotated[
        str | None, typer.Option(help="such as fat-tree:k=8 or import:FILE.graphml")
    ] = None,
    source: Annotated[str, typer.Option(help="host that sends")] = "",
    members: Annotated[
        str,
        typer.Option(help="all, a number of hosts, or names such as h1,h3-5; they join at 0s"),
    ] = "all",
    packets: Annotated[int, typer.Option(help="that the source sends from 0s on")] = 100,
    gap: Annotated[str, typer.Option(help="between packets")] = "1ms",
    join: Annotated[list[str] | None, typer.Option(help=AT)] = None,
    leave: Annotated[list[str] | None, typer.Option(help=AT)] = None,
    fail: Annotated[list[str] | None, typer.Option(help=CUT)] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE, such as process_ps=50us, rp=core1"),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="of topologies that draw", callback=checked_seed)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Build a tree by its protocol's own messages; without a name, list protocols."""
    if protocol is None:
        refuse_but(ctx, ("protocol", "as_json"), "none without a PROTOCOL, which it is about")
        _print_catalog(as_json)
        return
    protocol_of(protocol)
    if topology is None:
        raise ConfigError("--topology", "nothing", "such as fat-tree:k=8")
    net = told_net(topology, seed)
    names = {net.node_name(node): node for node in range(net.n_nodes)}
    start = _node(names, source, "--source", net.n_hosts) if source else 0
    events = [GroupEvent(0, "join", host) for host in _members(net, names, members, start)]
    if packets == 0:
        refuse(ctx, ("gap",), "none beside --packets 0")
    else:
        gap_ps = parse_duration(gap, "--gap")
        events.append(GroupEvent(0, "send", n=packets, gap_ps=gap_ps))
    for text in join or ():
        events.append(_member(names, text, "--join", net.n_hosts))
    for text in leave or ():
        events.append(_member(names, text, "--leave", net.n_hosts))
    events += [_failure(names, text) for text in fail or ()]
    run = build_tree(protocol, net, start, events, _settings(setting or []))
    summary = build_summary(net, run)
    if as_json:
        print_json(summary)
    else:
        _show(net, run, summary)


def _print_catalog(as_json: bool) -> None:
    if as_json:
        rows = [{"name": row.name, "summary": row.summary} for row in CATALOG]
        print_json(rows)
        return
    table = Table("PROTOCOL", "is", box=SIMPLE)
    for row in CATALOG:
        table.add_row(row.name, row.summary)
    screen().print(table)


def _node(names: dict[str, int], name: str, field: str, below: int) -> int:
    node = names.get(name, below)
    if node >= below:
        raise ConfigError(field, name, "the name of a host of the topology")
    return node


def _members(net: Net, names: dict[str, int], text: str, source: int) -> list[int]:
    """Hosts by number, spread evenly over all but the source, or by name."""
    others = [host for host in range(net.n_hosts) if host != source]
    if text == "all":
        return others
    if text.isdecimal() and text.isascii() and len(text) < MAX_DIGITS:
        if int(text) > len(others):
            raise ConfigError("--members", text, f"0..{len(others)}, or names")
        return [others[i * len(others) // int(text)] for i in range(int(text))]
    hosts = [name for name, node in names.items() if node < net.n_hosts]
    return [names[name] for name in expand_nodes(text, hosts, "--members")]


def _timed(text: str, field: str, allowed: str) -> tuple[str, int]:
    what, is_timed, at = text.rpartition("@")
    if not is_timed:
        raise ConfigError(field, text, allowed)
    return what, parse_duration(at, field)


def _member(names: dict[str, int], text: str, field: str, n_hosts: int) -> GroupEvent:
    name, at_ps = _timed(text, field, AT)
    host = _node(names, name, field, n_hosts)
    return GroupEvent(at_ps, "join" if field == "--join" else "leave", host)


def _failure(names: dict[str, int], text: str) -> GroupEvent:
    what, at_ps = _timed(text, "--fail", CUT)
    parts = what.split("-")
    for i in range(1, len(parts)):
        a, b = "-".join(parts[:i]), "-".join(parts[i:])
        if a in names and b in names:
            return GroupEvent(at_ps, "fail", nodes=(names[a], names[b]))
    raise ConfigError("--fail", text, CUT)


def _settings(pairs: list[str]) -> TreeSettings:
    """Settings of a run; times with their unit, or in ps."""
    known = get_type_hints(TreeSettings)
    values: dict[str, Any] = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not is_pair or key not in known:
            raise ConfigError("--set", pair, f"KEY=VALUE, KEY one of {', '.join(known)}")
        if key.endswith("_ps") and not value.isdecimal():
            values[key] = int(parse_duration(value, f"--set {key}"))
        else:
            values[key] = value
    try:
        return msgspec.convert(values, TreeSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError("--set", ",".join(pairs), str(error)) from error


def _show(net: Net, run: TreeRun, told: TreeSummary) -> None:
    console = screen()
    title = f"{told.protocol} on {net.name}, {told.n_members} members"
    console.print(bold(title))
    console.print(_facts(told))
    console.print(_messages(run))
    console.print(_event_table(net, run))


def _facts(told: TreeSummary) -> Table:
    table = Table(box=SIMPLE, show_header=False)
    state = told.state
    timed = {"join": told.join, "leave": told.leave, "mending": told.mend}
    rows = {f"{what} latency": _latency(took) for what, took in timed.items() if took.n}
    rows |= {
        "state": f"{state.n_entries:,} entries in {state.n_routers:,} routers, "
        f"{state.most_entries} in one; {format_size(state.n_bytes)}; "
        f"peak {state.peak_entries:,} entries",
        "messages": f"{told.n_messages:,}, {format_size(told.n_message_bytes)} on links; "
        f"{told.n_setup_messages:,} of them before the group",
        "refresh": f"{told.refresh_ppb // 10**6 / 1000:.3f} messages a second",
        "tree": f"{told.n_tree_links:,} links",
        "packets": f"{told.n_sent:,} sent; {told.n_lost:,} of {told.n_due:,} copies lost, "
        f"{told.n_extra:,} twice, {told.n_waited:,} waits; {told.n_data_hops:,} links crossed",
    }
    for row in rows.items():
        table.add_row(*row)
    return table


def _latency(took: Latency) -> str:
    never = f", {took.n_never} never" if took.n_never else ""
    return f"{_time(took.p50_ps)} p50, {_time(took.max_ps)} max{never}, of {took.n}"


def _messages(run: TreeRun) -> Table:
    table = Table("message", box=SIMPLE)
    for column in ("number", "links crossed", "bytes"):
        table.add_column(column, justify="right")
    for row in run.messages:
        table.add_row(row.kind, f"{row.n:,}", f"{row.n_hops:,}", format_size(row.n_bytes))
    return table


def _event_table(net: Net, run: TreeRun) -> Table:
    """Rows of what did not happen at 0, at most a screen of them."""
    table = Table("event", box=SIMPLE)
    for column in ("at", "took", "messages", "bytes", "table changes", "cut off"):
        table.add_column(column, justify="right")
    for row in [row for row in run.events if row.at_ps > 0][:20]:
        host = f" {net.node_name(row.host)}" if row.host >= 0 else ""
        table.add_row(
            f"{row.what}{host}",
            format_duration(row.at_ps),
            _time(row.took_ps) if row.what != "send" else "",
            f"{row.n_messages:,}",
            format_size(row.n_bytes),
            f"{row.n_writes:,}",
            f"{row.n_affected:,}",
        )
    return table


def _time(span_ps: int) -> str:
    return "never" if span_ps < 0 else format_duration(span_ps)
