"""Short pushes with loss: does every one of them reach everybody, and how soon."""

from pathlib import Path
from statistics import median
from typing import Any

from jobs import JobError
from labs import N_RECEIVERS, bench_lab, leaf_of
from measure import Part, hash_file, random_file

SIZE = 4 << 20
LOSS = "0.01"
LIMIT_S = 60.0


def run(folder: Path, n: int) -> Part:
    """``n`` pushes, each of new bytes and with a seed of its own."""
    lossy = [w for i in range(N_RECEIVERS) for w in ("--loss", f"{LOSS}@{leaf_of(i + 1)}")]
    runs: list[dict[str, Any]] = []
    with bench_lab(folder / "state") as lab:
        for seed in range(1, n + 1):
            file = folder / f"short{seed}.bin"
            digest = random_file(file, SIZE)
            try:
                pushed = lab.push(file, LIMIT_S, [*lossy, "--seed", str(seed)])
            except JobError as error:
                runs.append({"seed": seed, "complete": False, "why": str(error)})
                continue
            same = all(hash_file(copy) == digest for copy in lab.copies(file.name))
            failed = [r["error"] for r in pushed.told["receivers"] if r["state"] != "verified"]
            runs.append(
                {
                    "seed": seed,
                    "complete": pushed.is_complete and same,
                    "why": "; ".join(failed) if failed else "" if same else "a copy differs",
                    "seconds": pushed.told["seconds"],
                    "command_s": round(pushed.command_s, 3),
                    "repair_packets": pushed.told["repairs"]["packets"],
                }
            )
            file.unlink()
            lab.forget()
    times = [r["seconds"] for r in runs if r["complete"]] or [0.0]
    commands = [r["command_s"] for r in runs if r["complete"]] or [0.0]
    row = {
        "pushes": n,
        "complete": sum(r["complete"] for r in runs),
        "median_s": round(median(times), 3),
        "max_s": round(max(times), 3),
        "command_s": round(median(commands), 3),
        "repair_packets": median(r["repair_packets"] for r in runs if r["complete"])
        if times != [0.0]
        else 0,
        "runs": runs,
    }
    return Part(
        name="starts",
        title="Short pushes: 4 MiB to 8, 1 % loss on every receiver's link",
        columns={
            "pushes": "pushes",
            "complete": "complete",
            "median_s": "seconds, median",
            "max_s": "seconds, max",
            "repair_packets": "repair packets, median",
            "command_s": "whole command, median",
        },
        rows=[row],
        source="`seconds` of `fanfold push --json`: first packet to last receiver's word; every"
        " copy's BLAKE3 is compared outside of it. A new seed and new bytes each time",
        limits="Loss is drawn by the nodes on arrival, independent for each packet, both ways."
        " Loopback has no delay, so a retry costs far less than across a city.",
        notes=[f"seed {r['seed']}: {r['why']}" for r in runs if not r["complete"]],
    )
