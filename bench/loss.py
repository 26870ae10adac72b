"""One receiver's link loses 1 %: what that costs everybody, and where repairs travel."""

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from jobs import JobError
from labs import BenchLab, bench_lab, leaf_of
from measure import Part, random_file, spread

VICTIM = 8
LOSS = "0.01"


class Case:
    """What pushes of one kind gave."""

    def __init__(self, name: str, more: list[str]) -> None:
        self.name, self.more = name, more
        self.mbps: list[float] = []
        self.repairs: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()

    def add(self, told: dict[str, Any], drops: Counter[str]) -> None:
        self.mbps.append(told["goodput_bps"] / 1e6)
        self.drops.update(drops)
        for row in told["links"]:
            self.repairs[f"{row['from']}-{row['to']}"] += row["repair_bytes"]

    def row(self, size: int) -> dict[str, Any]:
        n = max(len(self.mbps), 1)
        by_link = {link: total // n for link, total in sorted(self.repairs.items()) if total}
        links = [f"{link} {total:,} ({total / size:.2%})" for link, total in by_link.items()]
        return {
            "case": self.name,
            "mbps": round(median(self.mbps)) if self.mbps else 0,
            "mbps_spread": spread(self.mbps, 0),
            "drops": ", ".join(f"{word} {n}" for word, n in self.drops.items()) or "none",
            "repair_bytes": "\n".join(links) or "none",
            "by_link": by_link,
            "all_mbps": [round(r) for r in self.mbps],
        }


def run(folder: Path, size: int, n_rounds: int) -> Part:
    """Alternate pushes without and with loss, new bytes each time."""
    link = leaf_of(VICTIM)
    clean = Case("no loss", [])
    lossy = Case(f"1 % on {link}", ["--loss", f"{LOSS}@{link}"])
    notes: list[str] = []
    with bench_lab(folder / "state") as lab:
        for i in range(n_rounds):
            for case in (clean, lossy) if i % 2 == 0 else (lossy, clean):
                why = _push(lab, case, folder / f"loss{i}.bin", size, i + 1)
                if why:
                    notes.append(f"round {i + 1}, {case.name}: {why}")
    rows = [clean.row(size), lossy.row(size)]
    if clean.mbps and lossy.mbps:
        pairs = [b / a for a, b in zip(clean.mbps, lossy.mbps, strict=False)]
        rows[1]["ratio"] = round(median(lossy.mbps) / median(clean.mbps), 3)
        rows[1]["ratio_spread"] = spread(pairs, 2)
    return Part(
        name="loss",
        title=f"Loss on one link: {size >> 20} MiB to 8",
        columns={
            "case": "case",
            "mbps": "Mbit/s to each, median",
            "mbps_spread": "over rounds",
            "ratio": "to no loss",
            "drops": "drops, all nodes, all rounds",
            "repair_bytes": "repair bytes by link, mean of a push",
        },
        rows=rows,
        source="`goodput_bps` of `fanfold push --json`: file bytes over the time from the first"
        f" DATA to the last receiver verified; {n_rounds} rounds, alternating. Repairs: what"
        " each link's sending end counted",
        limits="Loss is drawn by the nodes on arrival, independent for each packet, both ways;"
        " bursts and delay are not tried here. Repairs without loss are what a busy machine"
        " dropped or delayed.",
        notes=notes,
    )


def _push(lab: BenchLab, case: Case, file: Path, size: int, seed: int) -> str:
    """One push of new bytes; returns what went wrong."""
    random_file(file, size)
    try:
        pushed = lab.push(file, 60 + size / 4e6, [*case.more, "--seed", str(seed)])
    except JobError as error:
        return str(error)
    finally:
        file.unlink()
        lab.forget()
    if not pushed.is_complete:
        return f"not complete, exit {pushed.code}"
    case.add(pushed.told, pushed.drops)
    return ""
