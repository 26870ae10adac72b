"""A hunt through seeds of tests/swarm.py, and faults that it must find.

    python tests/hunt.py [--seeds N] [--seed S] [--jobs J] [--plants [NAMES]]

--plants plants each fault in a copy of the sources and says with how many seeds it was caught.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from swarm import LawError, Seen, run_seed

PLANTS = (
    (
        "late slot freed twice",
        "kernels/slots.py",
        'row["late"] != 0:\n            row["armed"] = 0',
        'row["late"] != 0:\n            row["armed"] = 0\n            settle(fold, at)',
    ),
    (
        "stale table",
        "live/swap.py",
        "self._put(self._backups.tables(failed) if failed else self._given)\n\n    def",
        "self._put(self._given)\n\n    def",
    ),
    (
        "epoch ignored",
        "push/epochs.py",
        "self.epoch <= known.epoch and self != known",
        "False",
    ),
    ("backup loops", "kernels/spread.py", "nbr != 0 and nbr == port", "False and nbr == port"),
    (
        "floor word wrong",
        "kernels/speak.py",
        "max(block - advance_floor(collect, f), 0)",
        "max(block - advance_floor(collect, f) - 1, 0)",
    ),
)
"""(fault, file, old text, new text): each is planted in a copy of the sources."""

SHOWN = 25
"""A line after so many seeds."""
MANY, CHUNK = 100, 5
"""Seeds, from which on a process takes so many at a time."""


def plant_all(first: int, n_seeds: int, names: str) -> int:
    """How many seeds each planted fault lived; 1 when one outlived them all."""
    here = Path(__file__).resolve().parent
    n_lived = 0
    for name, file, old, new in PLANTS:
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="fanfold-plant-") as folder:
            source = Path(folder) / "fanfold"
            shutil.copytree(here.parent / "src/fanfold", source)
            text = (source / file).read_text()
            assert text.count(old) == 1, (name, text.count(old))
            (source / file).write_text(text.replace(old, new))
            env = {**os.environ, "PYTHONPATH": f"{folder}:{here}", "NUMBA_DISABLE_JIT": "1"}
            words = ["--seeds", str(n_seeds), "--seed", str(first), "--jobs", "1"]
            done = subprocess.run(
                [sys.executable, str(here / "hunt.py"), *words],
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr
        n_lived += done.returncode == 0
        print(f"{name:24} {last}", flush=True)
    return int(n_lived > 0)


def look_at(seed: int) -> Seen | str:
    """One seed; words of a violation."""
    try:
        return run_seed(seed)
    except LawError as wrong:
        return str(wrong)


def hunt(first: int, n_seeds: int, jobs: int, most_s: float) -> int:
    """Seeds until one shows a violation, 1 then, or until time is over."""
    began, seen, found = time.monotonic(), list[Seen](), ""
    seeds = range(first, first + n_seeds)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for told in pool.imap(look_at, seeds, chunksize=1 if n_seeds < MANY else CHUNK):
            if isinstance(told, str):
                found = told
                break
            seen.append(told)
            if len(seen) % SHOWN == 0:
                print(f"{len(seen)} of {n_seeds}", file=sys.stderr, flush=True)
            if 0 < most_s < time.monotonic() - began:
                break
        pool.terminate()
    if found:
        n = len(seen) + 1
        print(found, file=sys.stderr)
        print(f"caught with seed {n} of {n_seeds}: {found.splitlines()[0]}")
        return 1
    took = time.monotonic() - began
    print(
        f"{len(seen)} seeds from {first} on without a violation, {took:.0f} s;"
        f" {sum(s.is_middle for s in seen)} with a take-over in the middle,"
        f" {sum(s.is_told for s in seen)} first senders told,"
        f" {sum(s.is_rerouted for s in seen)} pushes rerouted,"
        f" {sum(s.n_repairs for s in seen)} packets repaired,"
        f" {sum(s.n_bad for s in seen)} refused for what was in them,"
        f" {sum(s.is_full for s in seen)} pushed again after a full disk"
    )
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=0, help="after which it ends; 0: none")
    parser.add_argument("--plants", nargs="?", const="", help="plant faults, all or by name")
    options = parser.parse_args()
    if options.plants is not None:
        return plant_all(options.seed, options.seeds, options.plants)
    return hunt(options.seed, options.seeds, options.jobs, options.seconds)


if __name__ == "__main__":
    raise SystemExit(main())
