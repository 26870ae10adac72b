"""A hunt through seeds of tests/swarm.py, and faults that it must find.

    python tests/hunt.py [--seeds N] [--seed S] [--plants [NAMES]]

--plants plants each fault in a copy of the sources and says with how many seeds it was caught.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from swarm import LawError, run_seed

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
            words = ["--seeds", str(n_seeds), "--seed", str(first)]
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


def main() -> int:
    """Seeds until one shows a violation; 1 then."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--plants", nargs="?", const="", help="plant faults, all or by name")
    options = parser.parse_args()
    if options.plants is not None:
        return plant_all(options.seed, options.seeds, options.plants)
    began, seen = time.monotonic(), []
    for n, seed in enumerate(range(options.seed, options.seed + options.seeds), 1):
        try:
            seen.append(run_seed(seed))
            if n % SHOWN == 0:
                print(f"{n} of {options.seeds}", file=sys.stderr, flush=True)
        except LawError as wrong:
            print(wrong, file=sys.stderr)
            print(f"caught with seed {n} of {options.seeds}: {str(wrong).splitlines()[0]}")
            return 1
    took = time.monotonic() - began
    print(
        f"{options.seeds} seeds from {options.seed} on without a violation, {took:.0f} s;"
        f" {sum(s.is_middle for s in seen)} with a take-over in the middle,"
        f" {sum(s.is_told for s in seen)} first senders told,"
        f" {sum(s.is_rerouted for s in seen)} pushes rerouted,"
        f" {sum(s.n_repairs for s in seen)} packets repaired,"
        f" {sum(s.n_bad for s in seen)} refused for what was in them,"
        f" {sum(s.is_full for s in seen)} pushed again after a full disk"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
