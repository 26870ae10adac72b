"""A comparison as a table for people, as JSON for programs, and a line while it runs."""

from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.box import SIMPLE
from rich.progress import Progress, SpinnerColumn
from rich.table import Table

from fanfold.api.comparing import per_second
from fanfold.cli.bars import Words
from fanfold.cli.console import error_screen, screen
from fanfold.cli.pulse import Pulse
from fanfold.live.clock import now_ps
from fanfold.results.query import Row
from fanfold.run import Run
from fanfold.scenario.fidelity import Choice
from fanfold.scenario.rung_bounds import bound_text
from fanfold.units import format_duration, format_size

_COLUMNS = (
    "scheme\nfidelity\nhops/s\nrun",
    "last receiver\np50\np99\nacknowledged",
    "busiest link\npackets\nbytes\n",
    "source\npackets\nbytes\n",
    "data hops\nall hops\nall bytes\n",
    "feedback\ndrops\nrepairs\nrepair bytes",
)
_SETUP = "set-up\nmessages\nentries\nmost"
"""Lines of a cell: what is asked first stands first."""


class Bar:
    """What runs now, how fast, how long still."""

    def __init__(self, *, is_shown: bool) -> None:
        console = error_screen()
        self._pulse = Pulse(is_on=not console.is_terminal)
        self._bar = Progress(
            SpinnerColumn(),
            Words("{task.description}"),
            console=console,
            transient=True,
            disable=not (is_shown and console.is_terminal),
        )
        self._task = self._bar.add_task("building the net and its routes")
        self._first: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, scheme: str, choice: Choice, told: Mapping[str, int]) -> None:
        """Take what the simulator tells of a scheme; several may run, and tell in turns.

        How fast one is counts from what it told first, as nobody told when it began.
        """
        n_hops, total, now = told["n_hops"], max(choice.n_hops, 1), now_ps()
        first_ps, first_hops = self._first.setdefault(scheme, (now, n_hops))
        spent_ps, new = now - first_ps, n_hops - first_hops
        fast, left = "?", "?"
        if spent_ps and new > 0:
            fast = format_count(per_second(new, spent_ps))
            left = format_duration(spent_ps * max(total - n_hops, 0) // new)
        text = (
            f"{scheme}, {choice.rung}: {min(100 * n_hops // total, 99)} % of {total:,} hops, "
            f"{told['n_done']:,} of {told['n_items']:,} items, "
            f"{fast} hops/s, {left} left"
        )
        self._bar.update(self._task, description=text)
        self._pulse.tell(text)


def format_count(n: int) -> str:
    """A count for people: "5.21 M"."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n // unit}.{n % unit * 100 // unit:02} {name}"
    return str(n)


def show_comparison(
    rows: Sequence[Row], runs: Sequence[Run], notes: Sequence[str] = ()
) -> None:
    """One table, and a line for each scheme that was refused or counted its work."""
    console = screen()
    table = Table(box=SIMPLE, title=_title(rows[0]) if rows else None, title_justify="left")
    table.show_lines = True
    has_trees = any(row["setup_ps"] for row in rows)
    for name in (*_COLUMNS, _SETUP) if has_trees else _COLUMNS:
        is_text = name.startswith("scheme")
        table.add_column(name, justify="left" if is_text else "right")
    by_id = {run.run_id: run for run in runs}
    for row in rows:
        cells = _cells(row, by_id[row["run_id"]])
        table.add_row(*cells, *([_setup(row)] if has_trees else []))
    console.print(table)
    for row in rows:
        console.print(f"{row['scheme']}: {_why(row)}")
    for run in runs:
        if run.refusal:
            console.print(f"left out: {run.scheme}: {run.refusal}")
    for note in notes:
        console.print(note)


def _title(row: Row) -> str:
    ranks = f" over {row['n_ranks']:,} hosts" if row["n_ranks"] else ""
    size = format_size(row["n_bytes"])
    return f"{row['workload']} of {size}{ranks}, {row['topology']}, seed {row['seed']}"


def _cells(row: Row, run: Run) -> list[str]:
    if run.wall_ps == 0:
        speed = "kept"
    elif run.n_hops == 0:
        speed = ""
    else:
        speed = format_count(per_second(run.n_hops, run.wall_ps))
    is_train = row["fidelity"] == "train"
    fidelity = f"train of {row['segment_pkts']}" if is_train else row["fidelity"]
    end = None if row["n_stuck"] else row["end_ps"]
    times = (row["last_ps"], row["p50_ps"], row["p99_ps"], end)
    counts = (row["feedback_pkts"], row["dropped_pkts"], row["repair_pkts"])
    cells = (
        (row["scheme"], fidelity, speed, row["run_id"]),
        tuple(_time(ps) for ps in times),
        (row["busiest_link"] or "", *_pile(row, "busiest")),
        (row["source"] or "", *_pile(row, "source")),
        (f"{row['data_hops']:,}", *_pile(row, "fabric")),
        (*(f"{n:,}" for n in counts), format_size(row["repair_bytes"])),
    )
    return ["\n".join(cell) for cell in cells]


def _setup(row: Row) -> str:
    """What trees took before the first packet, empty where there are none."""
    if not row["setup_ps"]:
        return ""
    counts = (row["control_msgs"], row["state_entries"], row["most_entries"])
    return "\n".join([format_duration(row["setup_ps"]), *(f"{n:,}" for n in counts)])


def _time(ps: int | None) -> str:
    return "never" if ps is None else format_duration(ps)


def _pile(row: Row, where: str) -> tuple[str, str]:
    return f"{row[f'{where}_pkts']:,}", format_size(row[f"{where}_bytes"])


def _why(row: Row) -> str:
    labels = {
        "packet": "packet by packet",
        "train": "trains of packets",
        "flow": "shares of links",
    }
    told = [f"{labels[row['fidelity']]}: {row['fidelity_why']}"]
    if row["fidelity"] != "packet" and not row["left_out"]:
        told.append(bound_text(row["error_ppm"]))
    if row["left_out"]:
        told.append(f"not ranked: {row['left_out']}")
    if row["bitstring_bits"]:
        told.append(f"BitStrings of {row['bitstring_bits']:,} bits")
    if row["planes"]:
        told.append(row["planes"])
    if row["stand_ins"]:
        told.append(row["stand_ins"])
    if row["busy_ps"] and row["end_ps"]:
        share = row["busy_ps"] * 1000 // row["end_ps"]
        busy = format_duration(row["busy_ps"])
        told.append(f"the busiest rank computes {busy}, {share // 10}.{share % 10} %")
    return "; ".join(told)
