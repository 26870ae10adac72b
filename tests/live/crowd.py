"""`make crowd`: 300 receivers in two sets and in one, on a busy machine, without and with loss.

Each is a process of this machine, so the time is that of as many nodes on few processors; what
is asked is that all end verified and none is given up. 1: somebody did not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
from live_site import LiveLab, Site, random_bytes, states

from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine

LEAVES, SPINES = 4, 2
BUSY = (sys.executable, "-c", "while True: pass")
PUSH_S = 600.0
PREFIX = 251
"""No lab that takes a free range takes this one."""


def pss_mb(pids: list[int]) -> int:
    """Memory of processes, pages that they share counted once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            total += int(line.split()[1]) if line.startswith("Pss:") else 0
    return total // 1024


def push_once(lab: LiveLab, path: Path, *flags: str) -> bool:
    """One push, and what it took; whether all have it."""
    began = time.monotonic()
    done = lab.site.run(*lab.push_args(path, *flags), timeout_s=PUSH_S)
    wall_s = time.monotonic() - began
    told = json.loads(done.stdout or "{}")
    if "receivers" not in told:
        print(f"  {flags}: exit {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
        return False
    found = states(told)
    n_split = sum(r["split"] for r in told["receivers"])
    copies = told["source_link_bytes"] / path.stat().st_size
    errors = Counter(r["error"][:80] for r in told["receivers"] if r["error"])
    memory = pss_mb([node["pid"] for node in lab.nodes().values()])
    words = (
        " ".join(flags) or "no loss",
        str(dict(Counter(found.values()))),
        f"in {wall_s:.1f} s (data {told['data_seconds']:.1f} s)",
        f"{copies:.1f} copies on the source's link",
        f"{n_split} with lanes of their own",
        f"nodes {memory} MB",
        str(dict(errors) or ""),
    )
    print("  " + ", ".join(filter(None, words)), flush=True)
    return found == dict.fromkeys(lab.receivers, "verified")


def crowd(site: Site, folder: Path, bits: int, options: argparse.Namespace) -> bool:
    """All pushes through one lab."""
    made = leaf_spine(LEAVES, SPINES, options.hosts, name="crowd", prefix=PREFIX)
    config = folder / f"crowd{bits}.toml"
    save_fabric(msgspec.structs.replace(made, bitstring_bits=bits), config)
    lab = LiveLab(site, f"crowd{bits}", "--config", config)
    sets = -(-(options.hosts + 1) // bits)
    nodes = lab.nodes()
    memory = pss_mb([n["pid"] for n in nodes.values()])
    shape = f"{sets} x {bits} bits: {len(nodes)} nodes"
    print(f"{shape}, {memory} MB, up in {lab.told['seconds']:.1f} s", flush=True)
    busy = [subprocess.Popen(BUSY) for _ in range(len(os.sched_getaffinity(0)))]
    ends = []
    try:
        for k, flags in enumerate(((), ("--impair", "drop=1%", "--seed", "3"))):
            path = folder / f"crowd{bits}-{k}.bin"
            path.write_bytes(random_bytes(options.bytes, bits + k))
            ends.append(push_once(lab, path, *flags))
    finally:
        for process in busy:
            process.kill()
            process.wait()
        lab.down()
    return all(ends)


def main() -> int:
    """Both labs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=4_000_000)
    parser.add_argument("--bits", type=int, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fanfold-crowd-") as folder:
        site = Site(Path(folder) / "state")
        try:
            ends = [crowd(site, Path(folder), b, options) for b in options.bits or (256, 512)]
        finally:
            site.end_all()
    return int(not all(ends))


if __name__ == "__main__":
    raise SystemExit(main())
