"""Results of a push as tables for people."""

from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import screen
from fanfold.push.planes import BY_BGP
from fanfold.push.relayed import RelayedResult
from fanfold.push.result import LinkResult, PushResult
from fanfold.units import format_rate, format_size


def show_push(result: PushResult) -> None:
    """Links, receivers, and the line of totals."""
    console = screen()
    console.print(_links(result))
    console.print(_receivers(result))
    if isinstance(result, RelayedResult):
        console.print(_relays(result))
    for line in summary(result):
        console.print(line)


def summary(result: PushResult) -> list[str]:
    """The figures people look for first."""
    share = result.source_link_bytes / max(result.bytes, 1)
    lines = [
        _outcome(result),
        f"source link carried {share:.3f} x the data, everything included: "
        f"{format_size(result.source_link_bytes)}",
        f"feedback at the source: {result.feedback['at_source']} packets for "
        f"{result.n_blocks} blocks; unfolded it would have been "
        f"{result.feedback['unfolded_equivalent']}",
        f"repairs by the source: {result.repairs['packets']} packets, "
        f"{format_size(result.repairs['bytes'])}",
    ]
    if result.planes:
        lines.append(_planes(result))
    if result.unheard:
        lines.append(f"no counters from {', '.join(result.unheard)}: their links show ?")
    if result.suspects:
        lines.append(f"all who fell silent are behind: {', '.join(result.suspects)}")
    return lines + result.notes


def _planes(result: PushResult) -> str:
    """Share of each plane of what left the source."""
    whole = max(sum(x.bytes + x.repair_bytes for x in result.planes), 1)
    parts = [
        f"{x.plane}: {100 * (x.bytes + x.repair_bytes) / whole:.1f} %" for x in result.planes
    ]
    said = [":".join(str(x.weight) for x in result.planes)]
    if any(each.source == BY_BGP for each in result.weights):
        words = [":".join(map(str, each.weights.values())) for each in result.weights]
        after = [f" after {each.seconds:.1f} s" for each in result.weights[1:]]
        said = [f"{w}{when}" for w, when in zip(words, [" by BGP", *after], strict=True)]
    share = f"planes, share of all bytes that left: {', '.join(parts)}"
    return f"{share}; weights {', '.join(said)}"


def _outcome(result: PushResult) -> str:
    """At how many, and how fast; nobody's time where nobody has it."""
    n_verified = sum(r.state == "verified" for r in result.receivers)
    said = f"{result.name}: {format_size(result.bytes)} verified at {n_verified} of "
    said += f"{len(result.receivers)} receivers"
    if not n_verified:
        return said if result.data_seconds else f"{said}; no data was sent"
    if not result.data_seconds:
        return f"{said}, which had it all already"
    return f"{said} in {result.data_seconds:.2f} s, {format_rate(result.goodput_bps)} each"


def _links(result: PushResult) -> Table:
    table = Table(title="data on each link", box=SIMPLE)
    table.add_column("link", no_wrap=True)
    for column in ("predicted packets", "packets", "predicted bytes", "bytes", "repair bytes"):
        table.add_column(column, justify="right")
    for link in result.links:
        if link.predicted_packets or link.packets or link.repair_packets:
            mark = "" if is_as_predicted(link) or not link.counted else " !"
            table.add_row(
                f"{link.src} > {link.dst}",
                f"{link.predicted_packets:,}",
                f"{link.packets:,}{mark}" if link.counted else "?",
                f"{link.predicted_bytes:,}",
                f"{link.bytes:,}" if link.counted else "?",
                f"{link.repair_bytes:,}" if link.counted else "?",
            )
    return table


def is_as_predicted(link: LinkResult) -> bool:
    """Packets and bytes are exactly what was predicted."""
    return (link.packets, link.bytes) == (link.predicted_packets, link.predicted_bytes)


def _relays(result: RelayedResult) -> Table:
    """Who passed it on at each site, why, and how that went."""
    table = Table(title="relays", box=SIMPLE)
    for column in ("site", "relay", "chosen for", "from", "verified", "seconds", "note"):
        table.add_column(column)
    for site in result.relays:
        for one in site.passes:
            n = f"{len(one.verified)} of {len(one.targets)}"
            spent = f"{one.began_seconds:.2f} to {one.ended_seconds:.2f}"
            cells = (one.source, n, spent, one.error)
            table.add_row(site.site, site.relay, site.reason, *cells)
        if not site.passes:
            table.add_row(site.site, site.relay, site.reason, "", "", "", "it passed nothing")
    return table


def _receivers(result: PushResult) -> Table:
    table = Table(title="receivers", box=SIMPLE)
    for column in ("host", "state", "seconds", "BLAKE3", "note"):
        table.add_column(column)
    for r in result.receivers:
        note = r.error or ("went at its own pace" if r.split else "")
        table.add_row(
            r.id, r.state, f"{r.seconds:.2f}" if r.seconds else "", r.blake3[:16], note
        )
    return table
