"""`make bench`: the measurements of the README, again on this machine."""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import arrays
import beside
import files
import forwarding
import goodput
import keyed
import link_keys
import loss
import pushes
import shaped
import shaped_peers
import starts
from jobs import JobError
from labs import N_RECEIVERS
from measure import Part, room_of, scratch
from rich.console import Console
from rich.table import Table

from fanfold.errors import FanfoldError
from fanfold.units import format_size, parse_rate, parse_size

SPARE = 1 << 30
LOSS_BYTES = 256 << 20
WITH = {"shaped": ("peers",)}


def main() -> int:
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # labs and namespaces are undone
    console = Console(width=None if sys.stdout.isatty() else 130)
    machine = _machine()
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()))
    parts: list[Part] = []
    failed = 0
    with scratch() as folder:
        size = _fitting(args.size, folder, console)
        todo: dict[str, Callable[[], Part]] = {
            "forwarding": lambda: forwarding.run(args.rounds or 9, 1.0),
            "link_keys": lambda: link_keys.run(args.rounds or 9, 1.0),
            "keys": lambda: keyed.run_keys(folder, size, args.rounds or 3),
            "starts": lambda: starts.run(folder, args.rounds or 20),
            "loss": lambda: loss.run(folder, min(size, LOSS_BYTES), args.rounds or 5),
            "goodput": lambda: goodput.run(folder, size),
            "files": lambda: files.run(folder, args.rounds or 3),
            "arrays": lambda: arrays.run(args.rounds or 9),
            "gloo": lambda: beside.run(folder, args.rounds or 9, args.array or beside.SIZES),
            "broadcasts": lambda: beside.run_broadcasts(folder, args.rounds or 5),
            "pushes": lambda: pushes.run_pushes(folder, args.rate, args.rounds or 5),
            "shaped": lambda: shaped.run(folder, args.rate, args.rounds or 3),
            "peers": lambda: shaped_peers.run_peers(
                folder, min(size, LOSS_BYTES), args.rate, args.rounds or 3
            ),
        }
        for name in _wanted(args.only, todo):
            try:
                part = todo[name]()
            except (JobError, FanfoldError) as error:
                console.print(f"{name}: {error}", style="red")
                failed += 1
                continue
            parts.append(part)
            _show(part, console)
    if args.json:
        told = {"machine": machine, "parts": [part.plain() for part in parts]}
        args.json.write_text(json.dumps(told, indent=1) + "\n")
    return 4 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--size", type=lambda text: parse_size(text, "--size"), default="1GiB")
    names = [
        "forwarding",
        "link_keys",
        "keys",
        "starts",
        "loss",
        "goodput",
        "files",
        "arrays",
        "gloo",
        "broadcasts",
        "pushes",
        "shaped",
        "peers",
    ]
    parser.add_argument("--only", action="append", choices=names, help="repeat for several")
    parser.add_argument("--rounds", type=int, default=0, help="fewer or more of what repeats")
    parser.add_argument("--array", action="append", type=_size, help="sizes of `gloo` alone")
    parser.add_argument(
        "--rate", type=_rate, default="200Mbps", help="of links of `pushes`, `shaped`, `peers`"
    )
    parser.add_argument("--json", type=Path, help="write every figure here too")
    return parser.parse_args()


def _wanted(only: list[str] | None, all_parts: Iterable[str]) -> list[str]:
    """Parts by name; files by other tools on shaped links go with the collectives there."""
    names = only or list(all_parts)
    with_peers = [each for name in names for each in (name, *WITH.get(name, ()))]
    return list(dict.fromkeys(with_peers))


def _size(text: str) -> int:
    return parse_size(text, "--array")


def _rate(text: str) -> int:
    return parse_rate(text, "--rate")


def _machine() -> dict[str, str]:
    model = "CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = os.getloadavg()[0]
    return {
        "CPUs": f"{len(os.sched_getaffinity(0))} of {model}",
        "Linux": platform.release().split("-")[0],
        "Python": platform.python_version(),
        "load before": f"{load:.2f}",
    }


def _fitting(size: int, folder: Path, console: Console) -> int:
    """The size asked for, or the largest that leaves room for the file and its copies."""
    room = (room_of(folder) - SPARE) // (N_RECEIVERS + 1)
    if size <= room:
        return size
    least = max(room >> 24 << 24, 1 << 24)
    console.print(
        f"{format_size(size)} and {N_RECEIVERS} copies do not fit here: {format_size(least)}"
    )
    return least


def _show(part: Part, console: Console) -> None:
    table = Table(title=part.title, title_justify="left", title_style="bold")
    for title in part.columns.values():
        table.add_column(title)
    for row in part.rows:
        table.add_row(*(str(row.get(key, "")) for key in part.columns))
    console.print(table)
    for label, text in (("Source", part.source), ("Limits", part.limits)):
        console.print(f"{label}: {text}", style="dim", highlight=False)
    for note in part.notes:
        console.print(f"- {note}", highlight=False)
    console.print()


if __name__ == "__main__":
    sys.exit(main())
