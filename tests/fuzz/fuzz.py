"""`make fuzz`: coverage-guided fuzzing of codecs and kernels, and property tests at random.

Ends by itself after FANFOLD_FUZZ_SECONDS, 600 if not set: half of it for the targets of
targets.py under atheris, one after the other, half for the files of tests/property
with new seeds. Without atheris (`pip install atheris`, no requirement) these take all of it.

    python tests/fuzz/fuzz.py [--seconds N] [--only TARGET]
    python tests/fuzz/fuzz.py --one TARGET [FILE...]    run a target, or only on what was found
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GRACE_S = 30
"""A target that is asked to stop, and does not, is ended after this."""
NAMES = ("codecs", "packets", "manifests", "nodes", "rings", "speakers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = int(os.environ.get("FANFOLD_FUZZ_SECONDS", "600"))
    parser.add_argument("--seconds", type=int, default=default)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--one", choices=NAMES)
    parser.add_argument("rest", nargs="*")
    options, more = parser.parse_known_args()
    if options.one:
        return run_one(options.one, [*options.rest, *more])
    until = time.monotonic() + options.seconds
    names = [options.only] if options.only else list(NAMES)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not here: codecs and kernels get property tests only")
        names = []
    share = options.seconds // (len(names) if options.only else 2 * max(len(names), 1))
    bad = [name for name in names if not fuzz(name, share)]
    if not options.only and not hunt(until):
        bad.append("property")
    print(f"fuzz: {', '.join(bad) or 'nothing'} found")
    return int(bool(bad))


def run_one(name: str, args: list[str]) -> int:
    """Fuzz one target in this process, or try files on it; ends the process."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "src")]
    warnings.simplefilter("error")
    import atheris  # noqa: PLC0415 - not a requirement of the project

    with atheris.instrument_imports(include=["fanfold"]):
        import targets  # noqa: PLC0415

    atheris.Setup([sys.argv[0], *args], targets.TARGETS[name])
    atheris.Fuzz()
    return 0


def fuzz(name: str, seconds: int) -> bool:
    """One target in a process of its own for so long; what it finds stays in .fuzz/."""
    kept = ROOT / ".fuzz" / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make_seeds(name, Path(folder))
        command = [sys.executable, __file__, "--one", name, folder]
        command += [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20"]
        command += [f"-artifact_prefix={kept}/", "-print_final_stats=1", "-verbosity=1"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds + GRACE_S,
            check=False,
        )
    said = done.stdout + done.stderr
    runs = [line for line in said.splitlines() if "number_of_executed_units" in line]
    print(f"fuzz {name}: {seconds} s, {runs[0].split()[-1] if runs else '?'} inputs")
    if done.returncode:
        print(said[-3000:])
    return done.returncode == 0


def make_seeds(name: str, folder: Path) -> None:
    """Write the inputs a target starts from."""
    code = "import sys, targets, pathlib\n"
    code += "for i, x in enumerate(targets.seeds(sys.argv[1])):\n"
    code += "    pathlib.Path(sys.argv[2], str(i)).write_bytes(x)\n"
    paths = os.pathsep.join(map(str, (HERE, ROOT / "tests", ROOT / "src")))
    env = {**os.environ, "PYTHONPATH": paths, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", code, name, str(folder)], env=env, check=True)


def hunt(until: float) -> bool:
    """Property tests at random, round after round with new seeds, until the time is over.

    Each file gets its share of what is left of the time, and is cut short then.
    """
    files = sorted((ROOT / "tests" / "property").glob("test_*.py"))
    n_runs = n_whole = 0
    while time.monotonic() < until:
        for i, file in enumerate(files):
            share = max((until - time.monotonic()) / (len(files) - i), 1)
            is_whole, found = hunt_in(file, share)
            if found:
                print(found)
                return False
            n_runs += 1
            n_whole += is_whole
    runs = f"{n_runs} runs of {len(files)} files, {n_whole} to their end"
    print(f"property tests: {runs}; no law fell")
    return True


def hunt_in(file: Path, timeout_s: float) -> tuple[bool, str]:
    """Whether a file came to its end, and what fell."""
    seed = f"--hypothesis-seed={time.time_ns() % 2**32}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        str(file),
        "--hypothesis-profile=hunt",
        seed,
    ]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, ""
    return True, f"{file.name} {seed}\n{done.stdout[-3000:]}" if done.returncode else ""


if __name__ == "__main__":
    raise SystemExit(main())
