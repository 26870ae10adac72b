"""Gray links named, and no others: how many pushes, of how many blocks, name what.

    python bench/gray.py [--runs 100] [--seen 20] [--json FILE]

A lab of 2 leaves, 2 spines and 4 hosts. Pushes over links that are well, and with a receiver
that is slow (its link takes a tenth of the push's rate) or stands still, must name none.
Pushes over one link that loses 0.1 or 1 % of packets, or damages 1 %, or loses in one
direction only, have as many packets as the test needs to name it with 95 % chance
(docs/failures.md): how many do, and whether another link is named.
"""

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from failures import lab_of
from jobs import FANFOLD, run, run_well
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fanfold.live.lab import Lab

SHAPE = ["--leaves", "2", "--spines", "2", "--hosts", "4"]
PACKET, BLOCK = 8180, 64
WELL_BYTES = 16_000_000
SLOW, RATE = "h4", "200Mbps"


class Case(NamedTuple):
    """Flags of the push, or words of `lab fail`; packets; the directions that may be named."""

    name: str
    flags: tuple[str, ...] = ()
    fails: str = ""
    packets: int = WELL_BYTES // PACKET
    ways: frozenset[tuple[str, str]] = frozenset()


WELL = (
    Case("all links well"),
    Case("a receiver's link at a tenth", ("--impair", f"rate=20Mbps@leaf2-{SLOW}")),
    Case("a receiver stands still for 1 s", fails=f"pause {SLOW} 1s"),
)
BOTH = frozenset({("leaf1", "h1"), ("h1", "leaf1")})
DOWN = frozenset({("leaf1", "h1")})
GRAY = (
    Case("loses 0.1 %", (), "gray leaf1-h1 0.1%", 9200, BOTH),
    Case("loses 1 %", (), "gray leaf1-h1 1%", 915, BOTH),
    Case("loses 10 %", (), "gray leaf1-h1 10%", 89, BOTH),
    Case("damages 1 %", ("--impair", "corrupt=1%@leaf1-h1"), "", 915, DOWN),
    Case("loses 1 %, one direction", ("--loss", "0.01@leaf1-h1"), "", 915, DOWN),
)


class Seen(NamedTuple):
    """Of the pushes of a case: that named the link, another one, and that ended whole."""

    runs: int
    named: int
    others: int
    whole: int
    said: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="over links that are well, each")
    parser.add_argument("--seen", type=int, default=20, help="over each gray link")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with lab_of("gray", SHAPE) as lab:
        rows = {case: _pushes(lab, case, args.runs) for case in WELL}
        rows |= {case: _pushes(lab, case, args.seen) for case in GRAY}
    _show(rows)
    if args.json:
        told = {case.name: seen._asdict() for case, seen in rows.items()}
        args.json.write_text(json.dumps(told, indent=2))
    is_right = all(seen.others == 0 and seen.whole == seen.runs for seen in rows.values())
    return 0 if is_right else 1


def _pushes(lab: Lab, case: Case, runs: int) -> Seen:
    count: Counter[str] = Counter()
    said = []
    if case.fails.startswith("gray"):
        run_well([*FANFOLD, "lab", "fail", *case.fails.split(), "--name", lab.name], 30)
    for k in track(range(runs), case.name, console=Console(stderr=True)):
        result = _push(lab, case, k)
        ways = {(row["from"], row["to"]) for row in result["gray"]}
        count["named"] += bool(ways & case.ways)
        count["others"] += bool(ways - case.ways)
        count["whole"] += all(row["state"] == "verified" for row in result["receivers"])
        said += [f"{a}>{b}" for a, b in sorted(ways - case.ways)]
    run_well([*FANFOLD, "lab", "heal", "--name", lab.name], 30)
    return Seen(runs, count["named"], count["others"], count["whole"], said)


def _push(lab: Lab, case: Case, k: int) -> Any:
    """One push of its own bytes; the receiver that stands still does so from its start."""
    path = lab.folder / "pushed.bin"
    path.write_bytes(os.urandom(case.packets * PACKET))
    if case.fails.startswith("pause"):
        run_well([*FANFOLD, "lab", "fail", *case.fails.split(), "--name", lab.name], 30)
    command = [*FANFOLD, "push", str(path), "--lab", lab.name, "--json", "--rate", RATE]
    ended = run([*command, "--seed", str(k), *case.flags], 120)
    return json.loads(ended.out)


def _show(rows: dict[Case, Seen]) -> None:
    table = Table("link", "blocks", "pushes", "link named", "another named", "all verified")
    for case, seen in rows.items():
        blocks = -(-case.packets // BLOCK)
        table.add_row(case.name, str(blocks), *(str(n) for n in seen[:4]))
    Console(width=None if sys.stdout.isatty() else 130).print(table)


if __name__ == "__main__":
    sys.exit(main())
