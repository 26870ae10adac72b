"""`fanfold reduce-bench`: collectives on a lab, size by size, timed and checked."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.api.site import Site
from fanfold.cli.console import screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.verb import refuse
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.group.bench import COLLECTIVES, KINDS, OPS, Line, sweep
from fanfold.group.expectation import JOINED, Case
from fanfold.group.ways import draw_group_around, plane_of_group
from fanfold.live.chance import draw_group
from fanfold.live.lab import Lab
from fanfold.live.rank import WINDOW
from fanfold.live.rank_build import check_tenants
from fanfold.live.status import read_all
from fanfold.topo.fabric import Fabric
from fanfold.units import format_duration, format_size, parse_size

WIDTHS = {"float64": 8, "int64": 8, "bfloat16": 2, "float16": 2}
MAX_BYTES = 1 << 30
MAX_STEPS = 64
MAX_DIGITS = 12
"""Of a number of values or ranks; more of them are no number."""
UNCOUNTED = ("send",)
"""Bytes of these go by groups of two, which the counters of the whole group leave out."""


def reduce_bench(
    ctx: typer.Context,
    lab: Annotated[str, typer.Option("--lab", "--name", help="which lab")] = "lab",
    ranks: Annotated[str, typer.Option(help="how many hosts, or their names by commas")] = "4",
    collective: Annotated[
        str, typer.Option(help=f"by commas, or all: {', '.join(COLLECTIVES)}")
    ] = "all_reduce",
    sizes: Annotated[
        str, typer.Option(help="instead of --begin to --end: values 0,1,8193, bytes 64MiB")
    ] = "",
    begin: Annotated[str, typer.Option("--begin", "-b", help="smallest array")] = "8B",
    end: Annotated[str, typer.Option("--end", "-e", help="largest array")] = "16MiB",
    factor: Annotated[int, typer.Option("--factor", "-f", help="from size to size")] = 8,
    dtype: Annotated[
        str, typer.Option(help=f"by commas, or all: {', '.join(KINDS)}")
    ] = "float32",
    op: Annotated[str, typer.Option(help=f"by commas, or all: {', '.join(OPS)}")] = "sum",
    rounds: Annotated[int, typer.Option("--rounds", "-n", help="timed rounds of each")] = 5,
    seed: Annotated[int, typer.Option(help="of the values", callback=checked_seed)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Time collectives on a running lab, one process a rank; exit 4 when a value is wrong."""
    if not 1 <= rounds <= 1000:
        raise ConfigError("--rounds", rounds, "1..1000")
    if sizes:
        refuse(ctx, ("begin", "end", "factor"), "none beside --sizes, which take their place")
    kinds, ops = chosen("--dtype", dtype, KINDS), chosen("--op", op, tuple(OPS))
    wanted = chosen("--collective", collective, COLLECTIVES)
    if not set(wanted) & set(JOINED):
        refuse(ctx, ("op",), f"none but with {', '.join(JOINED)}, which add up")
    cases = [
        Case(which, kind, how, n_values)
        for which in wanted
        for kind in kinds
        for how in (ops if which in JOINED else ops[:1])
        for n_values in counts_of(sizes, begin, end, factor, WIDTHS.get(kind, 4))
    ]
    site = Site(Lab(lab), None)
    fabric = site.fabric
    members = members_of(fabric, ranks)
    check_tenants(fabric, members)
    group = draw_group_around(fabric, members, failed_links(site, members), draw_group)
    tell = _progress(cases)
    lines = sweep(
        fabric,
        members,
        cases,
        rounds=rounds,
        seed=seed,
        group=group,
        progress=tell,
        watch=_watch(Lab(lab)),
        enter=site.enter,
    )
    tell(len(cases))
    _tell(lines, members, plane_of_group(fabric, members, group), as_json=as_json)
    _require_right(lines)


def failed_links(site: Site, members: Sequence[str]) -> frozenset[frozenset[str]]:
    """Links of members that these, or their neighbours, see as down just now."""
    near = {other for name in members for other in site.fabric.neighbours[name]}
    answers = site.begin_statuses([*members, *sorted(near)], members[0])()
    return frozenset(
        frozenset((name, to))
        for name, status in read_all(site.fabric, answers).items()
        for to, row in status.neighbours.items()
        if row.state == "down"
    )


def _require_right(lines: list[Line]) -> None:
    """Every value is right, and the same on all ranks."""
    bad = [line for line in lines if line.n_wrong or not line.same]
    if bad:
        first = bad[0].case
        raise CheckFailed(
            f"reduce-bench: {len(bad)} of {len(lines)} lines are wrong, the first is "
            f"{first.collective} of {first.n_values} {first.kind}, {first.op}"
        )


def members_of(fabric: Fabric, text: str) -> list[str]:
    """Hosts by names, or the first so many that are not the push source h0."""
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    hosts.sort(key=lambda name: name == "h0")
    if _is_count(text):
        if not 2 <= int(text) <= len(hosts):
            raise ConfigError("--ranks", text, f"2..{len(hosts)} or names: {', '.join(hosts)}")
        return hosts[: int(text)]
    names = text.split(",")
    unknown = [name for name in names if name not in hosts]
    if unknown or len(set(names)) != len(names) or len(names) < 2:
        raise ConfigError("--ranks", text, f"two or more different of {', '.join(hosts)}")
    return names


def chosen(flag: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    """Words by commas, or all."""
    words = list(allowed) if text == "all" else text.split(",")
    for word in words:
        if word not in allowed:
            raise ConfigError(flag, word, f"all, {', '.join(allowed)}")
    return words


def counts_of(sizes: str, begin: str, end: str, factor: int, width: int) -> list[int]:
    """Values of each array; ``width``: bytes of one value."""
    if not sizes:
        return [n // width for n in sizes_of(begin, end, factor)]
    counts = [_count_of(word, width) for word in sizes.split(",")]
    for n, word in zip(counts, sizes.split(","), strict=True):
        if not 0 <= n * width <= MAX_BYTES:
            raise ConfigError("--sizes", word, f"arrays of 0..{MAX_BYTES} bytes")
    return counts


def _count_of(word: str, width: int) -> int:
    """Values of "8193" or "64MiB"."""
    if _is_count(word):
        return int(word)
    n_values, rest = divmod(int(parse_size(word, "--sizes")), width)
    if rest:
        raise ConfigError("--sizes", word, f"whole values of {width} bytes")
    return n_values


def _is_count(word: str) -> bool:
    return word.isdecimal() and word.isascii() and len(word) < MAX_DIGITS


def sizes_of(begin: str, end: str, factor: int) -> list[int]:
    """Bytes from the smallest to the largest; 0 is a size."""
    low, high = parse_size(begin, "--begin"), parse_size(end, "--end")
    if high > MAX_BYTES:
        raise ConfigError("--end", end, f"at most {format_size(MAX_BYTES)}")
    if low > high:
        raise ConfigError("--begin", begin, f"at most --end, {end}")
    if not 2 <= factor <= 1 << 20:
        raise ConfigError("--factor", factor, "2..1048576")
    sizes, at = [int(low)], max(int(low), 1)
    while (at := at * factor) <= high and len(sizes) < MAX_STEPS:
        sizes.append(at)
    return sizes


def as_row(line: Line, n_ranks: int) -> dict[str, object]:
    """One line as JSON: integers, bandwidths in bits a second."""
    plain, bus = line.bandwidth(n_ranks)
    return {
        **line.case._asdict(),
        "ranks": n_ranks,
        "bytes": line.n_bytes,
        "time_ps": line.time_ps,
        "algbw_bps": int(plain * 8),
        "busbw_bps": int(bus * 8),
        "uplink_ppm": None if line.case.collective in UNCOUNTED else line.uplink_ppm,
        "sent_again": line.sent_again,
        "wrong": line.n_wrong,
        "same_bits": line.same,
        "slots": line.n_slots,
        "slots_refused": line.n_refused,
        "summed_at": "rank 0's host" if line.at_host else "BFRs",
    }


def _progress(cases: Sequence[Case]) -> Callable[[int], None]:
    """Say on a terminal which case it is at; past the last one, end the line."""

    def tell(i: int) -> None:
        if not sys.stderr.isatty():
            return
        if i == len(cases):
            print(file=sys.stderr)
            return
        case = cases[i]
        what = f"{case.collective} of {case.n_values} {case.kind}, {case.op}"
        print(f"\r\x1b[K{i + 1} of {len(cases)}: {what}", end="", file=sys.stderr, flush=True)

    return tell


def _show(lines: list[Line], members: list[str]) -> None:
    n = len(members)
    table = Table(title=f"ranks {', '.join(members)}", box=SIMPLE)
    table.add_column("collective")
    for name in ("size", "type", "op", "time", "algbw", "busbw", "sent/size", "again", "wrong"):
        table.add_column(name, justify="right")
    for line in lines:
        plain, bus = line.bandwidth(n)
        table.add_row(
            line.case.collective,
            format_size(line.n_bytes) if line.n_bytes else "0 B",
            line.case.kind,
            line.case.op,
            format_duration(line.time_ps),
            f"{plain / 1e9:.3f} GB/s",
            f"{bus / 1e9:.3f} GB/s",
            "" if line.case.collective in UNCOUNTED else f"{line.uplink_ppm / 1e6:.3f}",
            str(line.sent_again),
            str(line.n_wrong) if line.same else f"{line.n_wrong}, bits differ",
        )
    screen().print(table)
    note = room_note(lines, members)
    if note:
        print(note)


def room_note(lines: list[Line], members: list[str]) -> str:
    """What came of BFRs that had too few slots; empty where all had enough."""
    worst = max(lines, key=lambda line: (line.at_host, line.n_refused))
    told = "; `fanfold lab status --json` counts it as full and quota"
    if worst.at_host:
        return f"no BFR had slots for this group: host {members[0]} summed{told}"
    if worst.n_refused:
        return (
            f"BFRs had too few slots, {worst.n_refused} times: {worst.n_slots} in place of "
            f"{2 * WINDOW}, or a root further up{told}"
        )
    return ""


def _tell(
    lines: list[Line], members: list[str], plane_of: tuple[int, int], *, as_json: bool
) -> None:
    """A group has one root, which is in one plane; plane_of: that, and how many there are."""
    plane, n_planes = plane_of
    if as_json:
        print(json.dumps([as_row(line, len(members)) | {"plane": plane} for line in lines]))
        return
    _show(lines, members)
    if n_planes > 1:
        print(f"all of it went over plane {plane}, one of {n_planes}")


def _watch(lab: Lab) -> Callable[[], None]:
    """Raise EnvironmentLack when the lab is gone: no rank need wait for its deadline."""

    def look() -> None:
        if not lab.is_up():
            raise EnvironmentLack(f"reduce-bench: lab {lab.name!r} went down meanwhile")

    return look
