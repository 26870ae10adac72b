"""`fanfold workload chakra:FOLDER`, `goal:FILE`: what a recorded trace holds."""

from pathlib import Path

from rich.text import Text

from fanfold.cli.console import bold, print_json, screen
from fanfold.cli.workload_cells import table_of
from fanfold.units import PPB_ONE, format_duration, format_rate
from fanfold.work.trace_files import TraceForm, load_trace
from fanfold.work.trace_rows import gist_of, rows_of


def show_trace(
    file: tuple[TraceForm, Path],
    skip_unknown: bool,
    ops_per_s: int,
    links: tuple[int, int],
    as_json: bool,
) -> None:
    """Print kinds of phases, the longest path, and what was left out or assumed.

    Args:
        file: form and path. links: bits per second, ps of latency.
    """
    (form, path), (rate_bps, latency_ps) = file, links
    trace = load_trace(form, path, skip_unknown, ops_per_s)
    rows, gist = rows_of(trace), gist_of(trace, rate_bps, latency_ps)
    told = {"workload": form, **gist._asdict(), "rows": rows}
    told |= {"skipped": trace.skipped, "notes": trace.notes}
    if as_json:
        print_json(told)
        return
    console = screen()
    console.print(Text.assemble(bold(str(path)), f": {gist.n_ranks:,} ranks"))
    console.print(table_of(rows))
    late = f"{format_duration(latency_ps)} of latency" if latency_ps else "no latency"
    shown = f"{format_rate(rate_bps)} and {late}"
    share = gist.share_ppb * 1000 // int(PPB_ONE)
    busy = f"{format_duration(gist.busy_ps)}, {share // 10}.{share % 10} % of that"
    console.print(f"no scheme is faster than {format_duration(gist.path_ps)}: links of {shown}")
    console.print(f"the busiest rank computes {busy}")
    for name, n in trace.skipped.items():
        console.print(f"left out: {name}, {n} times")
    for note in trace.notes:
        console.print(f"assumed: {note}")
