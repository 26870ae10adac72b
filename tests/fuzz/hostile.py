"""`make hostile`: pushes and sums while mutated captures hit every port; hostile_run.py has it.

FANFOLD_HOSTILE_SECONDS   how long in all, 600 if not set; a third of it against kernels
                          that check the bounds of every array (NUMBA_BOUNDSCHECK=1)
FANFOLD_HOSTILE_SEED      of what is sent, 1 if not set
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main() -> int:
    """The parent runs itself twice: with plain kernels, then with checked ones."""
    if len(sys.argv) > 1:
        for flags in ((), ("--seal",)):  # half of it open, half with keys
            run_once(float(sys.argv[1]) / 2, int(sys.argv[2]), flags)
        return 0
    total = float(os.environ.get("FANFOLD_HOSTILE_SECONDS", "600"))
    seed = int(os.environ.get("FANFOLD_HOSTILE_SEED", "1"))
    for checked, share in (("0", 2 / 3), ("1", 1 / 3)):
        kind = "bounds-checked" if checked == "1" else "plain"
        print(f"hostile: {total * share:.0f} s against {kind} kernels, seed {seed}", flush=True)
        env = {**os.environ, "NUMBA_BOUNDSCHECK": checked}
        command = [sys.executable, __file__, str(total * share), str(seed)]
        if subprocess.run(command, env=env, check=False).returncode:
            print(f"hostile: seed {seed} failed against {kind} kernels")
            return 1
    print("hostile: every law held")
    return 0


def run_once(seconds: float, seed: int, flags: tuple[str, ...]) -> None:
    """A lab of its own, and everything on it."""
    sys.path[:0] = [str(TESTS / "live"), str(TESTS)]
    from hostile_run import FLAGS, HostileRun  # noqa: PLC0415 - on a path that is known now
    from live_site import LiveLab, Site  # noqa: PLC0415

    state = Path(tempfile.mkdtemp(prefix="fanfold-"))
    site = Site(state)
    try:
        lab = LiveLab(site, "hostile", *FLAGS, *(("--keys",) if flags else ()))
        run = HostileRun(lab, state, seed, flags)
        seen = run.run(seconds)
        lab.down()
    finally:
        site.end_all()
        shutil.rmtree(state, ignore_errors=True)
    print(f"  pushes {' '.join(flags) or 'in the open mode'}")
    for what, n in sorted(seen.items()):
        print(f"  {what}: {n}")
    print(f"  slowest push, its command's start counted: {run.slowest_s:.1f} s", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
