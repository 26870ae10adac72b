"""Collectives over links of one rate: fanfold in the BFRs, gloo between the hosts."""

import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from jobs import FANFOLD, Job, JobError
from measure import Part
from shaped_net import WIRE, ShapedNet, shaped_net

from fanfold.live.line_loss import LossError
from fanfold.topo.fabric_file import save_fabric

N_RANKS = 8
"""h1 to h8; h0 is the root of broadcasts on top."""
START_S = 180.0
OURS, GLOO = "fanfold", "gloo"


class Case(NamedTuple):
    """One operation on links of one kind."""

    what: str
    n_bytes: int
    loss: float

    def name(self) -> str:
        lost = f", {self.loss:.0%} lost" if self.loss else ""
        return f"{self.what} of {self.n_bytes >> 20} MiB{lost}"

    def limit_s(self, net: ShapedNet) -> float:
        """A link's time for the array once, in full packets."""
        return self.n_bytes * WIRE * 8 / net.rate_bps


class Round(NamedTuple):
    """One operation by one peer.

    seconds: first rank's begin to last rank's end. uplink: most bytes that a host sent, to the
    array's. lost: packets dropped on links. again: blocks sent again by ranks. n_wrong: values,
    and 1 when ranks differ. ranks: what each told.
    """

    seconds: float
    uplink: float
    lost: int
    again: int
    n_wrong: int
    ranks: list[dict[str, Any]]


CASES = (
    Case("all_reduce", 64 << 20, 0.0),
    Case("all_reduce", 64 << 20, 0.01),
    Case("broadcast", 256 << 20, 0.0),
)


def run(folder: Path, rate_bps: int, n_rounds: int) -> Part:
    """Every case by every peer, in changing order."""
    notes: list[str] = []
    found: dict[tuple[Case, str], list[Round]] = {}
    with ExitStack() as stack:
        net = stack.enter_context(shaped_net(N_RANKS, rate_bps))
        peers = _peers(net, folder, stack, notes)
        for case in CASES:
            for i in range(n_rounds):
                for name in list(peers)[:: 1 if i % 2 == 0 else -1]:
                    if name == GLOO and case.what == "broadcast" and i > 0:
                        continue  # over a minute each
                    try:
                        took = _round(net, peers[name], case, i + 1)
                    except LossError as error:
                        notes.append(f"{case.name()}: {error}")
                        continue
                    found.setdefault((case, name), []).append(took)
        limits = {case: case.limit_s(net) for case in CASES}
    return Part(
        name="shaped",
        title=f"{N_RANKS} ranks over links of {rate_bps / 1e6:g} Mbit/s each way",
        columns={
            "what": "operation",
            "peer": "by",
            "seconds": "s",
            "to_limit": "of the limit",
            "to_gloo": "of gloo's time",
            "uplink": "busiest uplink, arrays",
            "lost": "packets lost",
            "wrong": "wrong",
            "rounds": "each round, s",
        },
        rows=[_row(case, name, found, limits[case]) for case, name in found],
        source="Begin of the first rank to end of the last, after a barrier; medians. Uplink:"
        " what the interface of the busiest host sent, headers and repairs included, by bytes"
        " of the array. The limit is a link's time for the array once, in packets of 9,000"
        f" bytes: {', '.join(f'{case.name()} {limits[case]:.2f} s' for case in CASES)}; a ring"
        f" of {N_RANKS} takes {2 * (N_RANKS - 1) / N_RANKS} times as long. Wrong: values off"
        " the exact sum by more than the way of adding may be, any rank, all rounds",
        limits="A leaf-spine of 4 leaves and 2 spines in network namespaces, tbf on both ends"
        " of every link, packets of up to 9,000 bytes leave one by one. Loss: on hosts' links,"
        " both ways, on arrival, each packet by itself. No delay but that of queues. All"
        " processes share this machine's processors: with others busy, times are longer.",
        notes=notes,
    )


def _peers(
    net: ShapedNet, folder: Path, stack: ExitStack, notes: list[str]
) -> dict[str, list["Rank"]]:
    """BFRs are started, and ranks of each peer."""
    config = folder / "shaped.toml"
    save_fabric(net.fabric, config)
    for node in net.bfrs:
        stack.enter_context(_bfr(net, node.name, config))
    peers = {OURS: stack.enter_context(_ranks(net, OURS, config))}
    if importlib.util.find_spec("torch"):
        peers[GLOO] = stack.enter_context(_ranks(net, GLOO, config))
        ways = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        notes.append(f"gloo of PyTorch {version('torch')}, over TCP with {ways}")
    else:
        notes.append("gloo is left out: no PyTorch here: pip install 'fanfold[torch]'")
    return peers


def _round(net: ShapedNet, ranks: list["Rank"], case: Case, seed: int) -> Round:
    those = ranks[1:] if case.what == "all_reduce" else ranks
    task = {"what": case.what, "n_bytes": case.n_bytes, "seed": seed}
    loss = net.lossy(case.loss) if case.loss else None
    try:
        told = ask(those, task, 60 + 12 * case.limit_s(net))
        lost = loss.count() if loss else 0
    finally:
        if loss:
            loss.close()
    is_same = len({t.pop("digest") for t in told}) == 1
    return Round(
        seconds=max(t["ended"] for t in told) - min(t["began"] for t in told),
        uplink=max(t["sent_bytes"] for t in told) / case.n_bytes,
        lost=lost,
        again=sum(t["counters"].get("sent_again", 0) for t in told),
        n_wrong=sum(t["n_wrong"] for t in told) + (not is_same),
        ranks=told,
    )


def _row(
    case: Case, name: str, found: dict[tuple[Case, str], list[Round]], limit_s: float
) -> dict[str, Any]:
    took = found[case, name]
    seconds = median(r.seconds for r in took)
    row: dict[str, Any] = {
        "what": case.name(),
        "peer": name,
        "seconds": f"{seconds:.2f}",
        "to_limit": f"{seconds / limit_s:.2f}",
        "uplink": f"{max(r.uplink for r in took):.3f}",
        "lost": ", ".join(str(r.lost) for r in took) if case.loss else "none",
        "wrong": sum(r.n_wrong for r in took),
        "rounds": ", ".join(f"{r.seconds:.2f}" for r in took),
        "all": [r._asdict() for r in took],
    }
    if name == OURS and (case, GLOO) in found:
        row["to_gloo"] = f"{seconds / median(r.seconds for r in found[case, GLOO]):.2f}"
    return row


class Rank:
    """A rank's process, which is told what to do by lines."""

    def __init__(self, name: str, command: Sequence[str], env: dict[str, str], log: Path):
        self.name, self._log = name, log
        self._text = b""
        self.told: dict[str, Any] = {}
        with log.open("wb") as err:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                env={**os.environ, **env},
            )
        assert self.process.stdout is not None
        self.out = self.process.stdout.fileno()

    def tell(self, task: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # its answer says so
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

    def take(self) -> bool:
        """Read what is there; True when ``told`` is its answer.

        Raises:
            JobError: the process ended.
        """
        more = os.read(self.out, 1 << 16)
        if not more:
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise JobError(f"{self.name} ended: {said[-1] if said else 'says nothing'}")
        self._text += more
        line, end, rest = self._text.partition(b"\n")
        if end:
            self.told, self._text = json.loads(line), rest
        return bool(end)


def ask(ranks: Sequence[Rank], task: dict[str, Any], timeout_s: float) -> list[dict[str, Any]]:
    """Answers of all ranks to one task."""
    for rank in ranks:
        rank.tell(task)
    return answers(ranks, timeout_s)


def answers(ranks: Sequence[Rank], timeout_s: float) -> list[dict[str, Any]]:
    """Next line of each rank.

    Raises:
        JobError: some rank ended, or was not done in time.
    """
    until = time.monotonic() + timeout_s
    waiting = {rank.out: rank for rank in ranks}
    while waiting:
        ready = select.select(list(waiting), [], [], max(until - time.monotonic(), 0))[0]
        if not ready:
            late = ", ".join(rank.name for rank in waiting.values())
            raise JobError(f"{late}: not done after {timeout_s:.0f} s")
        for out in ready:
            if waiting[out].take():
                del waiting[out]
    return [rank.told for rank in ranks]


@contextmanager
def _ranks(net: ShapedNet, name: str, config: Path) -> Iterator[list[Rank]]:
    program = [sys.executable, str(Path(__file__).with_name("shaped_rank.py")), name]
    ranks: list[Rank] = []
    try:
        for r in range(N_RANKS + 1):
            env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": net.uplink(f"h{r}")}
            command = net.command(f"h{r}", [*program, str(config), str(r)])
            log = config.with_name(f"{name}{r}.log")
            ranks.append(Rank(f"{name}, rank {r}", command, env, log))
        answers(ranks, START_S)
        yield ranks
    finally:
        for rank in ranks:
            rank.process.kill()
        for rank in ranks:
            rank.process.communicate()


@contextmanager
def _bfr(net: ShapedNet, name: str, config: Path) -> Iterator[None]:
    words = [*FANFOLD, "bfr", "--config", str(config), "--node", name]
    job = Job(net.command(name, words))
    try:
        if "forwarding" not in job.line():
            raise JobError(f"{name}: {job.end(5).err.strip()}")
        yield
    finally:
        job.stop()
