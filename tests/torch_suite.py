"""PyTorch's own tests of process groups, by fanfold and by gloo, side by side.

    python tests/torch_suite.py [--ranks 4,8] [--backends fanfold,gloo] [--only TEXT,...]
                                [--exactly NAME,...] [--part K/N] [--json FILE] [--log FILE]

A lab of as many hosts is started and ended; what ranks print goes to the log. Exit code 1 where
a test fails by fanfold that gloo passes, but those of sparse tensors.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torch_gates import Outcomes, cases, load, names_of

LIMIT_S = 90
SPARSE = "sparse"
COMMAND = (sys.executable, "-m", "fanfold")


def main() -> int:
    args = arguments()
    if args.inside:
        return inside(args)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for n in map(int, args.ranks.split(",")):
        found[str(n)] = at_ranks(n, args)
        show(n, found[str(n)])
    if args.json:
        Path(args.json).write_text(json.dumps(found))
    return int(any(only_ours(each) for each in found.values()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--backends", default="fanfold,gloo")
    parser.add_argument("--only", default="")
    parser.add_argument("--exactly", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--json")
    parser.add_argument("--log", default=os.devnull)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


def at_ranks(n: int, args: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Outcomes by backend, each in a process of its own, on one lab."""
    with tempfile.TemporaryDirectory(prefix="fanfold-") as state:
        env = os.environ | {"FANFOLD_STATE_DIR": state, "FANFOLD_LAB": "suite"}
        env |= {"OMP_NUM_THREADS": "1"}
        lab = ("--name", "suite")
        up = ("lab", "up", *lab, "--hosts", str(n), "--leaves", "2")
        subprocess.run([*COMMAND, *up], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            return {name: by_backend(name, n, args, env) for name in args.backends.split(",")}
        finally:
            subprocess.run(
                [*COMMAND, "lab", "down", *lab, "--purge"],
                env=env,
                check=False,
                stdout=subprocess.DEVNULL,
            )


def by_backend(
    backend: str, n: int, args: argparse.Namespace, env: dict[str, str]
) -> dict[str, str]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = ["--inside", file.name, "--ranks", str(n), "--backends", backend]
        words += [
            "--only",
            args.only,
            "--exactly",
            args.exactly,
            "--part",
            args.part,
            "--log",
            args.log,
        ]
        own = [sys.executable, __file__, *words]
        subprocess.run(own, env=env, check=True)
        return json.loads(Path(file.name).read_text())


def inside(args: argparse.Namespace) -> int:
    """Tests of one backend; FILE gets their outcomes."""
    n, backend = int(args.ranks), args.backends
    progress = os.fdopen(os.dup(2), "w", buffering=1)
    log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    preload(backend)
    case = cases(load(backend, n, LIMIT_S))
    k, parts = map(int, args.part.split("/"))
    wanted = args.only.split(",") if args.only else [""]
    names = [name for name in names_of(case) if any(w in name for w in wanted)]
    if args.exactly:
        names = [name for name in names if name in args.exactly.split(",")]
    names = names[k - 1 :: parts]
    outcomes = Outcomes()
    for i, name in enumerate(names, start=1):
        start = time.monotonic()
        case(name).run(outcomes)
        took = time.monotonic() - start
        what = short(outcomes.of[name])
        progress.write(f"{backend} x {n} {i}/{len(names)} {name}: {took:.1f} s {what}\n")
    Path(args.inside).write_text(json.dumps(outcomes.of))
    return 0


def preload(backend: str) -> None:
    """Load what ranks would load each for itself."""
    if backend != "fanfold":
        return
    from fanfold.live.lab import Lab  # noqa: PLC0415
    from fanfold.live.rank import RankEnd, port_of_group  # noqa: PLC0415
    from fanfold.torch.build import build_communicator  # noqa: PLC0415,F401

    fabric = Lab(os.environ["FANFOLD_LAB"]).fabric()
    hosts = [node.name for node in fabric.by_bfr_id.values()]
    RankEnd(fabric, hosts, 0, group=1, port=port_of_group(1)).close()


def short(what: str) -> str:
    """An outcome in a line: of a failure what was raised last on the first rank."""
    told = [line for line in what.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    whole = what.split("Process ")[1:2] or [what]
    return (f"fail: {told[0]}" if told else whole[0].strip().replace("\n", " "))[:250]


def only_ours(found: dict[str, dict[str, str]]) -> dict[str, str]:
    """What fails by fanfold alone, sparse tensors left out."""
    gloo = found.get("gloo", {})
    return {
        name: what
        for name, what in found.get("fanfold", {}).items()
        if what.startswith("fail") and SPARSE not in name
        if not gloo.get(name, "").startswith("fail")
    }


def show(n: int, found: dict[str, dict[str, str]]) -> None:
    out = sys.stdout
    out.write(f"{n} ranks\n")
    for backend, of in found.items():
        words = [what.split(":")[0] for what in of.values()]
        counts = ", ".join(f"{words.count(w)} {w}" for w in ("pass", "fail", "skip"))
        out.write(f"  {backend:8} {counts}\n")
    for name, what in only_ours(found).items():
        out.write(f"  only by fanfold: {name}: {short(what)}\n")
    for name, what in found.get("gloo", {}).items():
        if what.startswith("fail"):
            ours = found.get("fanfold", {}).get(name, "")[:4]
            out.write(f"  by gloo too: {name} (fanfold: {ours})\n")


if __name__ == "__main__":
    sys.exit(main())
