"""Collectives of PyTorch over the planes of a lab beside one plane, and with a plane cut.

    python bench/plane_sums.py [--rounds 3] [--size 64MiB] [--rate 100Mbps] [--json FILE]

The pod of bench/planes.py, ranks as processes in the network namespaces of their hosts. Each
collective goes over plane 0 alone and over all; then the port of the last rank in one plane is
cut in the middle of an all_reduce. All of one collective must have the same bits. Ends with
code 4 where they do not, or where 4 planes carry an all_reduce less than 3.5 times as fast.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from planes import CUT, _lab, build_fabric
from rich.console import Console
from rich.table import Table

from fanfold.api.failing import fail, heal
from fanfold.live.lab import Lab
from fanfold.live.spaces import space_of
from fanfold.units import parse_rate, parse_size

SUMS = ("all_reduce", "reduce_scatter", "broadcast", "all_gather", "all_to_all")
APART = ("reduce_scatter", "all_to_all")
"""Whose results differ from rank to rank."""
CUT_PART = 0.4
"""Of the time of an all_reduce over all planes, after which the port is cut."""
ASKED, WAIT_S = 3.5, 170.0
N = 4
Rows = dict[str, list[tuple[float, int]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=lambda text: parse_size(text, "--size"), default="64MiB")
    parser.add_argument(
        "--rate", type=lambda text: parse_rate(text, "--rate"), default="100Mbps"
    )
    parser.add_argument("--only", default=",".join(SUMS), help="collectives, by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.exit(3, "needs root for network namespaces\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the lab is undone
    names = args.only.split(",")
    with _lab(build_fabric(args.rate, is_slow=False)) as lab:
        one = run_ranks(lab, "0", names, args.size, args.rounds)
        every = run_ranks(lab, "auto", names, args.size, args.rounds)
        usual = statistics.median(took for took, _ in every["all_reduce"])
        cut = run_ranks(lab, "auto", ["cut", "after"], args.size, 1, CUT_PART * usual)
    show(one, every, cut, args.size)
    alike = {bits for rows in (one, every) for _, bits in rows["all_reduce"]}
    alike |= {bits for rows in cut.values() for _, bits in rows}
    others = [{b for rows in (one, every) for _, b in rows[name]} for name in names]
    ratio = statistics.median(took for took, _ in one["all_reduce"]) / usual
    if args.json:
        args.json.write_text(json.dumps({"one": one, "every": every, "cut": cut}, indent=2))
    is_same = all(len(bits) == 1 for bits in (alike, *others))
    print(f"the same bits: {is_same}; all_reduce {ratio:.2f}x, {ASKED}x asked")
    return 0 if is_same and ratio >= ASKED else 4


def run_ranks(
    lab: Lab, planes: str, names: Sequence[str], size: int, rounds: int, cut_s: float = 0.0
) -> Rows:
    """What rank 0 took for each round of each collective, and digests of results."""
    meet = lab.folder / f"meet{time.monotonic_ns()}"
    mark = meet.with_suffix(".mark")
    words = [__file__, "--", str(meet), str(size), str(rounds), *names]
    more = {"FANFOLD_LAB": lab.name, "FANFOLD_PLANES": planes, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            ["ip", "netns", "exec", space_of(lab.name, f"h{r}"), sys.executable, *words],
            env={**os.environ, **more, "RANK": str(r), "FANFOLD_HOST": f"h{r}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for r in range(N)
    ]
    try:
        ends = time.monotonic() + WAIT_S
        while cut_s and not mark.exists():
            assert time.monotonic() < ends, "no rank began"
            time.sleep(0.005)
        if cut_s:
            time.sleep(cut_s)
            fail(lab, "link", f"h{N - 1}-leaf{CUT}")
        told = [json.loads(rank.communicate(timeout=WAIT_S)[0]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
        heal(lab)
    for name in names:
        digests = {bits for rows in told for _, bits in rows[name]}
        assert name in APART or len(digests) == 1, name
    first: Rows = told[0]
    return first


def be_rank(meet: str, size: int, rounds: int, names: Sequence[str]) -> None:
    """One rank: times and digests as JSON."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    rank, found = int(os.environ["RANK"]), dict[str, Any]()
    dist.init_process_group(
        "fanfold",
        init_method=f"file://{meet}",
        rank=rank,
        world_size=N,
        timeout=timedelta(seconds=WAIT_S),
    )
    random = torch.Generator().manual_seed(rank)
    values = torch.randn(size // 4, generator=random)
    for name in names:
        found[name] = []
        for _ in range(rounds + 1):
            mine, out = values.clone(), torch.zeros(size // 4)
            part = mine[: size // 4 // N]
            dist.barrier()
            if name == "cut" and found[name] and rank == 0:
                Path(meet).with_suffix(".mark").touch()
            began = time.monotonic()
            result = collect(name, mine, out, part)
            took = time.monotonic() - began
            found[name].append((took, zlib.crc32(result.numpy().tobytes())))
        del found[name][0]  # of the first, slots are asked for
    dist.destroy_process_group()
    print(json.dumps(found), flush=True)


def collect(name: str, mine: Any, out: Any, part: Any) -> Any:
    """Do one collective; the tensor of its result."""
    import torch.distributed as dist  # noqa: PLC0415

    match name:
        case "broadcast":
            dist.broadcast(mine, 1)
        case "all_gather":
            dist.all_gather_single(out, part)
            return out
        case "reduce_scatter":
            dist.reduce_scatter_single(part, mine)
            return part
        case "all_to_all":
            dist.all_to_all_single(out, mine)
            return out
        case _:
            dist.all_reduce(mine)
    return mine


def show(one: Rows, every: Rows, cut: Rows, size: int) -> None:
    table = Table("64 MiB a rank" if size == 64 << 20 else f"{size} bytes a rank", "s", "each")
    for what, rows in (("plane 0", one), ("4 planes", every), ("4 planes, one cut", cut)):
        for name, runs in rows.items():
            middle = statistics.median(took for took, _ in runs)
            each = " ".join(f"{took:.2f}" for took, _ in runs)
            table.add_row(f"{name}, {what}", f"{middle:.2f}", each)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:
        be_rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    else:
        sys.exit(main())
