"""One file to eight by fanfold and by other tools over the same links: `fanfold peers`."""

import json
from pathlib import Path
from typing import Any

from jobs import FANFOLD, JobError, run
from measure import Part, random_file

from fanfold.units import format_rate

LONGEST_S = 7200.0


def run_peers(folder: Path, size: int, rate_bps: int, n_rounds: int) -> Part:
    """The verb's rows, once as they are and once with a receiver that dies."""
    file = folder / "peers.bin"
    random_file(file, size)
    rate = ["--rate", format_rate(rate_bps), "--rounds", str(n_rounds)]
    whole = _told([str(file), *rate, "--install"])
    dead = _told([str(file), *rate, "--loss", "0", "--kill"])
    file.unlink()
    return Part(
        name="peers",
        title=f"{size >> 20} MiB to {whole['n_receivers']} over links of"
        f" {rate_bps / 1e6:g} Mbit/s each way, and with {dead['dead']} killed at a quarter",
        columns={
            "what": "case",
            "peer": "by",
            "seconds": "whole command, s",
            "rounds": "each round, s",
            "limit": "of the limit",
            "source": "copies on h0's link",
            "links": "on all links",
            "cpu": "CPU s",
            "has": "living that have it",
            "living": "had it after, s",
            "named": "names the dead",
            "exit": "exit",
        },
        rows=[_row(row, whole, "") for row in whole["rows"]]
        + [_row(row, dead, dead["dead"]) for row in dead["rows"]],
        source=f"`fanfold peers` and `--kill`; a link's time for the file {whole['limit_s']} s,"
        f" a command is ended after {whole['bound_s']} s. Has it: BLAKE3 at each receiver",
        limits="The namespaces, links and losses of `fanfold peers` (docs/peers.md). CPU: all"
        " processes of a peer; the kernel's forwarding of IP is not in it. All share this"
        " machine's processors.",
        notes=[
            f"{name}: {' '.join(commands['sender'])}"
            for name, commands in whole["commands"].items()
        ],
    )


def _told(words: list[str]) -> dict[str, Any]:
    """What the verb prints as JSON; rows that are not right are rows too.

    Raises:
        JobError: it printed none.
    """
    ended = run([*FANFOLD, "peers", *words, "--json"], LONGEST_S)
    if not ended.out.strip():
        raise JobError((ended.err.strip().splitlines() or [f"exit {ended.code}"])[-1])
    told: dict[str, Any] = json.loads(ended.out)
    return told


def _row(row: dict[str, Any], told: dict[str, Any], dead: str) -> dict[str, Any]:
    rounds = row["rounds"]
    what = f"{dead} dies" if dead else f"{row['loss_ppb'] / 1e7:g} % lost"
    if not rounds:
        return {"what": what, "peer": row["peer"], "seconds": row["note"], "all": row}
    codes = dict.fromkeys("bound" if o["is_late"] else str(o["code"]) for o in rounds)
    return {
        "what": what,
        "peer": row["peer"],
        "seconds": f"{row['seconds']:.2f}",
        "rounds": ", ".join(f"{o['seconds']:.2f}" for o in rounds),
        "limit": f"{row['limit_share']:.0%}",
        "source": f"{row['sender_copies']:.3f}",
        "links": f"{row['all_copies']:.2f}",
        "cpu": f"{row['cpu_s']:.2f}",
        "has": f"{row['n_right']} of {row['n_living']}",
        "living": f"{row['had_s']:.2f}" if row["n_right"] else "never",
        "named": f"{row['named']} of {len(rounds)}" if dead else "",
        "exit": ", ".join(codes),
        "all": row,
    }
