"""Pushes over links of one rate, lost on all or on hosts' links, beside what was predicted.

The simulator is asked first, of the same fabric file: what it says cannot know the run.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from jobs import FANFOLD, Job, JobError, run, run_well
from measure import Part, random_file
from msgspec.structs import replace
from shaped_net import QUEUE_BYTES, WIRE, ShapedNet, shaped_net

from fanfold.live.line_loss import Loss
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import save_fabric
from fanfold.units import PPB_ONE

N_RECEIVERS = 8
START_S = 180.0
SEEDS = 5
PAYLOAD = 8064
HOSTS, ALL = "hosts' links", "every link"
LARGE, SMALL = 256 << 20, 64 << 20
LOST = {
    (LARGE, HOSTS): (0.0, 0.001, 0.01),
    (SMALL, HOSTS): (0.003, 0.005, 0.01, 0.03, 0.05, 0.1),
    (SMALL, ALL): (0.0, 0.001, 0.01, 0.03, 0.05),
}


class Case(NamedTuple):
    """One size, and what is lost where."""

    n_bytes: int
    loss: float
    where: str

    def name(self) -> str:
        lost = f"{self.loss:.1%} on {self.where}" if self.loss else "none"
        return f"{self.n_bytes >> 20} MiB, lost: {lost}"


class Pushed(NamedTuple):
    """One push: whole command, what moved, copies on the sender's link and on all, verified."""

    whole_s: float
    moving_s: float
    source: float
    links: float
    n_verified: int
    words: float
    drops: int


CASES = tuple(Case(n, loss, where) for (n, where), rows in LOST.items() for loss in rows)


def run_pushes(folder: Path, rate_bps: int, n_rounds: int) -> Part:
    """Every case, after its prediction."""
    found: dict[Case, list[Pushed]] = {}
    notes: list[str] = []
    with shaped_net(N_RECEIVERS, rate_bps) as net, ExitStack() as stack:
        config = folder / "pushes.toml"
        save_fabric(_rated(net), config)
        predicted = {case: predict(folder, config, case) for case in CASES if can_predict(case)}
        stack.enter_context(_nodes(net, config, folder))
        for case in CASES:
            for _ in range(n_rounds):
                try:
                    found.setdefault(case, []).append(push(net, config, folder, case))
                except JobError as error:
                    notes.append(f"{case.name()}: {error}")
    return Part(
        name="pushes",
        title=f"Pushes to {N_RECEIVERS} over links of {rate_bps / 1e6:g} Mbit/s each way",
        columns={
            "what": "push",
            "whole": "whole command, s",
            "worst": "worst",
            "moving": "moving, s",
            "limit": "a link's time, s",
            "said": "predicted, s",
            "copies": "copies on the sender's link",
            "said_copies": "predicted",
            "links": "on all links",
            "words": "words a block",
            "drops": "drops of nodes",
            "verified": "verified",
        },
        rows=[_row(case, took, rate_bps, predicted.get(case)) for case, took in found.items()],
        source="Wall time of `fanfold push`, start to end; `seconds` of its JSON; medians. A"
        " link's time: the file once, in packets of 9,000 bytes. Copies: bytes sent, headers"
        f" and repairs, by those of the file. Predicted: mean of {SEEDS} seeds of"
        " `fanfold compare`, of the same fabric file, before the pushes",
        limits="A leaf-spine of 4 leaves and 2 spines in network namespaces, tbf on both ends"
        " of every link. Loss on arrival, both ways, each packet by itself. All processes share"
        " this machine's processors.",
        notes=notes,
    )


def _rated(net: ShapedNet) -> Fabric:
    rate = f"{net.rate_bps // 10**6}Mbps"
    return replace(
        net.fabric, links=tuple(replace(link, rate=rate) for link in net.fabric.links)
    )


def can_predict(case: Case) -> bool:
    """The simulator loses on every link, or on none."""
    return case.where == ALL or not case.loss


def predict(folder: Path, config: Path, case: Case) -> tuple[float, float]:
    """Seconds until the last receiver has all, and copies on the sender's link."""
    scenario = folder / "predicted.toml"
    words = ["compare", str(scenario), "--json", "--no-cache", "--out", str(folder / "runs")]
    rows = []
    for seed in range(1, SEEDS + 1):
        scenario.write_text(
            f'topology = "import:{config}"\nschemes = ["fanfold"]\nfidelity = "packet"\n'
            f'seed = {seed}\n[workload]\nkind = "broadcast"\nn_bytes = {case.n_bytes}\n'
            f"[settings]\npayload_bytes = {PAYLOAD}\nqueue_bytes = {QUEUE_BYTES}\n"
            f"loss_ppb = {round(case.loss * 1e9)}\n"
        )
        rows.append(json.loads(run_well([*FANFOLD, *words], START_S))["runs"][0])
    seconds = mean(row["last_ps"] for row in rows) / 1e12
    return seconds, mean(row["source_bytes"] for row in rows) / case.n_bytes


@contextmanager
def _nodes(net: ShapedNet, config: Path, folder: Path) -> Iterator[None]:
    jobs = []
    try:
        for node in net.fabric.nodes:
            words = ["bfr", "--config", str(config), "--node", node.name]
            if node.role == "host":
                words = ["receive", *words[1:], "--into", str(folder / node.name)]
            if node.name != "h0":
                command = net.command(node.name, [*FANFOLD, *words])
                jobs.append(Job(command, _env(folder), folder / f"{node.name}.log"))
        _await(net, config, folder)
        yield
    finally:
        for job in jobs:
            job.process.terminate()
        for job in jobs:
            job.end(20)


def _await(net: ShapedNet, config: Path, folder: Path) -> None:
    """Until a push of little is verified by all: kernels may have to be compiled."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if push(net, config, folder, Case(1 << 16, 0.0, HOSTS)).n_verified == N_RECEIVERS:
            return
    raise JobError(f"nodes did not start within {START_S:g} s; see {folder}/*.log")


def push(net: ShapedNet, config: Path, folder: Path, case: Case) -> Pushed:
    """One push of new bytes; what arrived is removed.

    Raises:
        JobError: it printed no result.
    """
    file = folder / "pushed.bin"
    random_file(file, case.n_bytes)
    words = ["push", str(file), "--config", str(config), "--from", "h0", "--json"]
    with ExitStack() as stack:
        if case.loss:
            stack.callback(_lose(net, case).close)
        ended = run(net.command("h0", [*FANFOLD, *words]), START_S, _env(folder))
    if not ended.out.strip():
        raise JobError((ended.err.strip().splitlines() or [f"exit {ended.code}"])[-1])
    told = json.loads(ended.out)
    for node in net.hosts:
        (folder / node.name / file.name).unlink(missing_ok=True)
    rows: list[dict[str, Any]] = told["links"]
    return Pushed(
        whole_s=ended.seconds,
        moving_s=told["seconds"],
        source=told["source_link_bytes"] / case.n_bytes,
        links=sum(row["bytes"] for row in rows) / case.n_bytes,
        n_verified=sum(r["state"] == "verified" for r in told["receivers"]),
        words=told["feedback"]["at_source"] / max(told["n_blocks"], 1),
        drops=sum(sum(by_reason.values()) for by_reason in told["drops"].values()),
    )


def _lose(net: ShapedNet, case: Case) -> Loss:
    if case.where == HOSTS:
        return net.lossy(case.loss)
    ends = [(link.a, link.b) for link in net.fabric.links]
    devices = [net.device(a, b) for a, b in (*ends, *((b, a) for a, b in ends))]
    return Loss(round(case.loss * PPB_ONE), devices)


def _env(folder: Path) -> dict[str, str]:
    return {"FANFOLD_STATE_DIR": str(folder / "state")}


def _row(
    case: Case, took: list[Pushed], rate_bps: int, said: tuple[float, float] | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "what": case.name(),
        "whole": f"{median(p.whole_s for p in took):.2f}",
        "worst": f"{max(p.whole_s for p in took):.2f}",
        "moving": f"{median(p.moving_s for p in took):.2f}",
        "limit": f"{case.n_bytes * WIRE * 8 / rate_bps:.2f}",
        "copies": f"{median(p.source for p in took):.3f}",
        "links": f"{median(p.links for p in took):.2f}",
        "words": f"{median(p.words for p in took):.2f}",
        "drops": sum(p.drops for p in took),
        "verified": f"{sum(p.n_verified for p in took)} of {N_RECEIVERS * len(took)}",
        "all": [p._asdict() for p in took],
    }
    if said is not None:
        row["said"], row["said_copies"] = f"{said[0]:.2f}", f"{said[1]:.3f}"
    return row
