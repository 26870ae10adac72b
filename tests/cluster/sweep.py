"""One sweep on this machine, on a Slurm and on a Dask: the same bytes, whoever is killed.

    python tests/cluster/sweep.py --points 200

Half-way one worker of the cluster gets SIGKILL, the process that runs points. The study must
end, with the digest that it has on this machine; each row is written once. Prints seconds.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from one_machine import dask, lacking, slurm

MARKS = {"slurm": "submitit.core._submit", "dask": "spawn_main"}


def command(points, out, more):
    sizes = ",".join(f"{20_000 + 4_000 * i}B" for i in range(points))
    argv = [str(Path(sys.executable).with_name("fanfold")), "study", "model-push"]
    argv += ["--topology", "star:hosts=8", "--gpus", "8", "--schemes", "fanfold"]
    return [*argv, "--sweep", f"size={sizes}", "--out", str(out), "--json", *more]


def workers_of(mark, root):
    """Processes that run points, below a process of ours."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        is_worker = b"python" in argv[0] and any(mark.encode() in each for each in argv)
        if is_worker and root.encode() in environ_of(entry):
            found.append(int(entry.name))
    return sorted(found)


def environ_of(entry):
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


def rows_of(out):
    """Rows that are there, with the time that each was written."""
    files = (out / "tasks").glob("[!.]*.json") if (out / "tasks").is_dir() else ()
    return {file.name: file.stat().st_mtime_ns for file in files}


def run(name, argv, out, env, points, mark=""):
    """Seconds, digest of the study, lines of progress; kills one worker at a third."""
    began = time.monotonic()
    told, errors = (out.with_suffix(end) for end in (".json", ".err"))
    with told.open("w") as into, errors.open("w") as log:  # a pipe that nobody reads would fill
        process = subprocess.Popen(argv, env=env, stdout=into, stderr=log)
    killed, seen = 0, {}
    while process.poll() is None:
        seen = rows_of(out) | seen
        if mark and not killed and len(seen) >= points // 3:
            for victim in workers_of(mark, env["FANFOLD_SWEEP"])[:1]:
                os.kill(victim, signal.SIGKILL)
                killed = victim
        time.sleep(0.2)
    took = time.monotonic() - began
    assert not process.returncode, f"{name}: exit {process.returncode}\n{errors.read_text()}"
    assert killed or not mark, f"{name}: no worker was killed"
    rows = rows_of(out)
    if twice := [row for row, at in seen.items() if rows[row] != at]:
        raise SystemExit(f"{name}: {len(twice)} rows were written twice")
    n_rows = len(json.loads(told.read_text())["rows"])
    if n_rows != points:
        raise SystemExit(f"{name}: {n_rows} rows of {points}")
    digest = (out / "studies" / "last").read_text()
    lines = sum(" runs, " in line for line in errors.read_text().splitlines())
    print(f"{name:22} {took:7.1f} s  {digest}  {lines} lines of progress", flush=True)
    return digest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--only", default="slurm,dask")
    asked = parser.parse_args()
    if "slurm" in asked.only and (names := lacking()):
        what = "on Debian: apt install slurmctld slurmd slurm-client munge"
        raise SystemExit(f"no {', '.join(names)} here; {what}")
    root = Path(tempfile.mkdtemp(prefix="fanfold-sweep-"))
    root.chmod(0o755)
    os.environ["FANFOLD_SWEEP"] = str(root)
    n_cpus, points = len(os.sched_getaffinity(0)), asked.points
    try:
        out = root / "here"
        wanted = run("here", command(points, out, []), out, dict(os.environ), points)
        got = {}
        if "slurm" in asked.only:
            with slurm(root / "cluster", n_cpus) as env:
                out = root / "slurm"
                argv = command(points, out, ["--submit", "slurm"])
                got["slurm"] = run("slurm, one killed", argv, out, env, points, MARKS["slurm"])
        if "dask" in asked.only:
            with dask(root / "scheduler", n_cpus) as address:
                out = root / "dask"
                argv = command(points, out, ["--submit", address])
                env = dict(os.environ)
                got["dask"] = run("dask, one killed", argv, out, env, points, MARKS["dask"])
        wrong = [name for name, digest in got.items() if digest != wanted]
        if wrong:
            raise SystemExit(f"other bytes than here: {', '.join(wrong)}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
