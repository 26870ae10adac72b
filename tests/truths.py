"""`make truths`: figures of the study beside what they must be by a closed form or a count.

Nothing of fanfold is imported: the command line is asked, the right value is worked out here.
Prints a line a case; 1: some figure is not what it must be.

    python tests/truths.py [NAME ...]
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FANFOLD = str(Path(sys.executable).with_name("fanfold"))
CONFIGS = Path(__file__).parent / "unit/work/configs/recent"
MIB, PS = 2**20, 10**12
PAYLOAD, HEADER, ACK, FAN_HEADERS = 4096, 64, 64, 92
"""Bytes of packets as docs/simulator.md charges them; a fan's with a BitString of 64 bits."""


class Case(NamedTuple):
    """A figure: what it is, what fanfold says, what is right, and how far off it may be.

    within: a share of what is right; a bound where ``is_most``.
    """

    what: str
    found: float
    right: float
    within: float = 0.0
    is_most: bool = False

    def holds(self) -> bool:
        if self.is_most:
            return self.found <= self.right
        return abs(self.found - self.right) <= self.within * abs(self.right)

    def line(self) -> str:
        right = f"{'at most' if self.is_most else 'right'} {self.right:,.9g}"
        off = f" within {self.within:.2%}" if self.within >= 1e-4 else ""
        mark = "as it must be" if self.holds() else "WRONG"
        return f"{self.what}: {self.found:,.9g}, {right}{off}: {mark}"


def ask(*args: str, inputs: dict[str, str] | None = None) -> dict[str, Any]:
    """One command with ``--json`` in a folder of its own, its input files there."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (inputs or {}).items():
            (Path(folder) / name).write_text(text)
        env = {**os.environ, "NO_COLOR": "1"}
        argv = [FANFOLD, *args, "--json"]
        done = subprocess.run(
            argv, check=False, cwd=folder, env=env, capture_output=True, text=True
        )
    told: dict[str, Any] = json.loads(done.stdout or "{}")
    if "error" in told or not told:
        raise SystemExit(
            f"{' '.join(argv)}: exit {done.returncode}: {told or done.stderr[-400:]}"
        )
    return told


def compare(topology: str, workload: str, *more: str, **kind: Any) -> dict[str, dict[str, Any]]:
    """Rows of a comparison by scheme."""
    told = ask("compare", "--topology", topology, "--workload", workload, *more, **kind)
    return {run["scheme"]: run for run in told["runs"]}


def idle_time() -> Iterator[Case]:
    """A link of 100 Gbit/s carries a copy for each GPU outside the server."""
    flags = ("--model", "llama3-70b", "--gpus", "1024", "--sweep", "rate=100Gbps")
    told = ask("study", "model-push", *flags)
    size = 141_107_412_992
    wire = size + math.ceil(size / PAYLOAD) * HEADER
    outer, inner = 1016 * wire * 8 / 100e9, 7 * wire * 8 / 3600e9
    row = next(row for row in told["rows"] if row["scheme"] == "unicast")
    idle = row["values"]["idle_gpu_ps"] / PS
    yield Case("idle GPU seconds of unicast", idle, 1016 * outer + 7 * inner, 1e-5)


def rates() -> Iterator[Case]:
    """A fan over a star: all bytes once, the last packet once more, two delays."""
    fan = PAYLOAD + FAN_HEADERS
    for gbps in (7, 900, 3200, 3600):
        rows = compare(f"star:hosts=4,rate={gbps}Gbps", "broadcast:64MiB", "--schemes", "bier")
        n = 64 * MIB // PAYLOAD
        last = (n * fan + fan) * 8 * PS / (gbps * 10**9) + 2 * 10**6
        yield Case(f"{gbps} Gbit/s: last packet, ps", rows["bier"]["last_ps"], last, 2 / last)


def rungs() -> Iterator[Case]:
    """What ``auto`` takes is as near to packets as its row says."""
    flags = ("--gpus", "1024", "--schemes", "double-binary-tree")
    net, work = "fat-tree:k=16,rate=100Gbps", "all_reduce:64MiB"
    packets = compare(net, work, *flags, "--fidelity", "packet")["double-binary-tree"]
    auto = compare(net, work, *flags)["double-binary-tree"]
    bound = auto["error_ppm"] / 1e6
    yield Case(
        f"{auto['fidelity']}, ms by packets",
        auto["end_ps"] / 1e9,
        packets["end_ps"] / 1e9,
        bound,
    )
    yield Case("bytes on all links", auto["fabric_bytes"], packets["fabric_bytes"])


def sizes() -> Iterator[Case]:
    """Every scheme has its row, whatever the size, in a minute; a ring takes its rounds."""
    n_rows = {}
    for work in ("broadcast:1MiB", "all_reduce:64MiB"):
        small = compare("fat-tree:k=4", work.replace("64MiB", "1MiB"))
        n_rows[work] = len(small)
        seconds = 0.0
        for k in (16, 32, 64):
            began = time.monotonic()
            rows = compare(f"fat-tree:k={k}", work)
            seconds += time.monotonic() - began
            yield Case(f"{work}, {k**3 // 4:,} hosts: rows", len(rows), n_rows[work])
        yield Case(f"{work}: seconds of the three", seconds, 60, is_most=True)
    n, net = 8192, "fat-tree:k=32"
    ring = compare(net, "all_reduce:64MiB", "--schemes", "ring")["ring"]
    n_pkts = 2 * (n - 1) * math.ceil(64 * MIB / n / PAYLOAD)
    data = 2 * (n - 1) * 64 * MIB // n + n_pkts * HEADER
    yield Case("ring of 8,192, bytes of a host", ring["source_bytes"], data + n_pkts * ACK)


def folds() -> Iterator[Case]:
    """Sixteen fans that meet: one word of all for each, none unfolded."""
    row = compare("star:hosts=16", "all_gather:1MiB", "--schemes", "fanfold")["fanfold"]
    yield Case("words of all receivers", row["n_folds_complete"], 16)
    yield Case("words that nobody folded", row["n_folds_unfolded"] + row["n_folds_partial"], 0)


def rails() -> Iterator[Case]:
    """Nothing is lost, so nothing is sent again, and the verdict is that of the times."""
    told = ask("study", "moe-dispatch", "--gpus", "64")
    values = {row["scheme"]: row["values"] for row in told["rows"]}
    again = sum(v["repair_bytes"] for v in values.values())
    yield Case("moe-dispatch: bytes sent again by all schemes", again, 0)
    best = min(values, key=lambda name: values[name]["time_all_ps"])
    yield Case(f"verdict names the first, {best}", f"choose {best}" in told["verdict"][0], True)


def slow_host() -> Iterator[Case]:
    """A link of 2 or 5 among 100 Gbit/s takes what its line takes."""
    for gbps in (2, 5):
        nodes = [{"id": "hub"}, *({"id": f"h{i}", "role": "host"} for i in range(6))]
        nodes[0]["role"] = "switch"
        links = [
            {"source": f"h{i}", "target": "hub", "rate": f"{gbps if i == 3 else 100}Gbps"}
            for i in range(6)
        ]
        net = {"directed": False, "multigraph": False, "nodes": nodes, "links": links}
        inputs = {"slow.json": json.dumps(net)}
        rows = compare(
            *("import:slow.json,delay=1us", "broadcast:64MiB", "--schemes", "fanfold"),
            inputs=inputs,
        )
        line = 64 * MIB / PAYLOAD * (PAYLOAD + FAN_HEADERS) * 8 / (gbps * 1e9)
        row = rows["fanfold"]
        yield Case(f"{gbps} of 100 Gbit/s: unfinished", row["n_unfinished"], 0)
        yield Case(f"{gbps} of 100 Gbit/s: seconds", row["last_ps"] / PS, line, 0.1)


def waits() -> Iterator[Case]:
    """A ring at 0.01 % loss keeps nine tenths of its goodput; a loss is sent again once."""
    for work in ("broadcast:64MiB", "all_reduce:64MiB"):
        args = ("fat-tree:k=4,rate=100Gbps", work, "--schemes", "ring")
        calm = compare(*args, "--fidelity", "packet")["ring"]
        lossy = compare(*args, "--loss", "0.01%")["ring"]
        kept = calm["end_ps"] / lossy["end_ps"]
        yield Case(f"ring, {work}: share of goodput lost", 1 - kept, 0.1, is_most=True)
        again = lossy["repair_pkts"] / lossy["dropped_pkts"]
        yield Case(f"ring, {work}: sent again for each lost", again, 1)


def shared_queues() -> Iterator[Case]:
    """Queues before slow spines are deep and nothing is lost: each packet goes once."""
    text = """seed = 1
topology = "leaf-spine:leaves=4,spines=2,hosts=16,rate=400Gbps,spine-rate=10Gbps"
schemes = ["parameter-server", "halving-doubling", "ring", "direct"]
[workload]
kind = "all_reduce"
n_bytes = 4194304
ranks = 16
[settings]
queue_bytes = 1000000000
"""
    for run in ask("compare", "deep.toml", inputs={"deep.toml": text})["runs"]:
        yield Case(f"{run['scheme']}: sent again for no loss", run["repair_pkts"], 0)


def queues() -> Iterator[Case]:
    """All_gather at 400G with 64 KiB a port takes what each host's own link takes."""
    text = """seed = 1
topology = "fat-tree:k=4,rate=400Gbps"
schemes = ["fanfold"]
[workload]
kind = "all_gather"
n_bytes = 16777216
[settings]
queue_bytes = 65536
"""
    told = ask("compare", "queues.toml", inputs={"queues.toml": text})
    row = told["runs"][0]
    line = 15 / 16 * 16 * MIB / PAYLOAD * (PAYLOAD + FAN_HEADERS) * 8 / 400e9
    yield Case("drops", row["dropped_pkts"], 0)
    yield Case("all_gather of 16 MiB, us", row["end_ps"] / 1e6, line * 1e6, 0.05)


def planes() -> Iterator[Case]:
    """A fan uses one plane of four, and the row says so."""
    rows = compare("superpod:gpus=8,planes=4", "broadcast:1MiB", "--schemes", "fanfold")
    yield Case("planes: '1 of 4'", "of 4" in rows["fanfold"]["planes"], True)


def models() -> Iterator[Case]:
    """Parameters as their makers publish them."""
    published = {
        "gpt-oss-120b": 116.8e9,
        "glm-4.5-air": 106e9,
        "kimi-k2-thinking": 1_026e9,
        "qwen3-next-80b-a3b": 80e9,
        "minimax-m2": 229e9,
    }
    for name, right in published.items():
        told = ask("workload", "training", "--model", str(CONFIGS / f"{name}.json"))
        yield Case(f"{name}, parameters in 1e9", told["parameters"] / 1e9, right / 1e9, 0.03)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "idle": idle_time,
    "rates": rates,
    "rungs": rungs,
    "sizes": sizes,
    "folds": folds,
    "rails": rails,
    "slow": slow_host,
    "waits": waits,
    "shared": shared_queues,
    "queues": queues,
    "planes": planes,
    "models": models,
}


def main(names: list[str]) -> int:
    n_wrong = 0
    for name in names or CASES:
        for case in CASES[name]():
            n_wrong += not case.holds()
            print(f"{name}: {case.line()}", flush=True)
    return int(n_wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
