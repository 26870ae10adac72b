"""One file to all receivers by one peer: started, watched, ended, and what came of it."""

import os
import resource
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
from blake3 import blake3

from fanfold.errors import CheckFailed
from fanfold.live.spaces import inside
from fanfold.peers.ground import Ground, cpu_of, kill
from fanfold.units import Ppb

NAME = "sent.bin"
"""Of the file, at its sender and at each receiver."""
LOOK_S, STANDS_S = 0.02, 1.0
"""Between two looks; where so much was between them, the machine stood still."""
READY_S = 30.0
TIMES, MORE_S = 12, 40.0
"""A command is ended after so many times the link's time for the file, and seconds on top:
fanfold waits 30 s for a silent receiver before it names it."""
DIES_AT = 4
"""A receiver dies when one part of so many of the file has come to it."""
PIECE = 1 << 22
LISTENS = {"tcp": "0A", "udp": "07"}
"""State of a socket in /proc/net that takes what comes."""


class Outcome(msgspec.Struct, frozen=True):
    """What one transfer took.

    seconds: of the sender's whole command, or where that has no end of its own ``had_s``.
    had_s: from its start to the last byte written at a living receiver that has the right file,
    0 where none has. code: exit code, None where it had to be ended. is_late: by the bound.
    right, wrong: receivers with the file, with another one.
    sender_bytes, all_bytes: on the sender's link, on all. cpu_s: of all its processes.
    softirq_s: of the whole machine. n_lost: packets. dead: who was killed, "" for nobody.
    named: whom its output says to have failed. said: its last line.
    stood_s: this machine stood still for so long meanwhile, as a virtual one does.
    """

    peer: str
    loss_ppb: Ppb
    seconds: float
    had_s: float
    code: int | None
    is_late: bool
    right: list[str]
    wrong: list[str]
    sender_bytes: int
    all_bytes: int
    cpu_s: float
    softirq_s: float
    n_lost: int
    dead: str
    named: list[str]
    said: str
    stood_s: float = 0.0


class Transfer:
    """One transfer that is under way.

    Attributes:
        file: what is sent. loss_ppb: on hosts' links. victim: who is to die, "" for nobody.
        commands: of the sender and of one receiver, as they were run.
    """

    def __init__(
        self, ground: Ground, file: Path, folder: Path, loss_ppb: Ppb, victim: str = ""
    ) -> None:
        self.ground, self.file, self.folder = ground, file, folder
        self.loss_ppb, self.victim = loss_ppb, victim
        self.n_bytes = file.stat().st_size
        self.receivers = ground.receivers
        self.commands: dict[str, list[str]] = {}
        self._jobs: list[subprocess.Popen[bytes]] = []

    @property
    def bound_s(self) -> float:
        """After so long the sender's command is ended."""
        return TIMES * self.ground.limit_s(self.n_bytes) + MORE_S

    def into(self, host: str) -> Path:
        """Folder where a receiver puts the file."""
        return self.ground.lab.hosts(host)

    def log(self, name: str) -> Path:
        """What a process printed."""
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        """The same as text."""
        try:
            return self.log(name).read_text(errors="replace")
        except OSError:
            return ""

    def start(
        self, name: str, host: str, words: Sequence[str], **more: str
    ) -> subprocess.Popen[bytes]:
        """Start a command in a host's namespace, or with host "" outside of all.

        name: of its log. more: goes into its environment.
        """
        entering = ["ip", "netns", "exec", self.ground.space(host)] if host else []
        with self.log(name).open("wb") as out:
            job = subprocess.Popen(  # noqa: S603 - no shell
                [*entering, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **more},
                start_new_session=True,  # Ctrl-C is for us alone
            )
        self._jobs.append(job)
        return job

    def await_port(self, host: str, kind: str, port: int) -> None:
        """Until a process of a host listens at a port, of "tcp" or "udp"."""

        def listens() -> bool:
            rows: list[str] = []
            with inside(self.ground.space(host)):
                for form in (kind, f"{kind}6"):
                    with suppress(OSError):
                        rows += Path(f"/proc/thread-self/net/{form}").read_text().splitlines()
            found = (row.split() for row in rows)
            return any(r[1].endswith(f":{port:04X}") and r[3] == LISTENS[kind] for r in found)

        self.await_true(listens, f"{host} to listen at {kind} port {port}")

    def await_true(self, is_true: Any, what: str) -> None:
        """Look until something holds.

        Raises:
            CheckFailed: it does not for long.
        """
        until = time.monotonic() + READY_S
        while not is_true():
            if time.monotonic() > until:
                raise CheckFailed(f"waited {READY_S:g} s for {what}; {self._last_words()}")
            time.sleep(LOOK_S)

    def end(self) -> None:
        """End all that was started, and wait for it and for what it left behind."""
        orphans = self.ground.strangers()
        kill([*(job.pid for job in self._jobs if job.poll() is None), *orphans])
        self.ground.clear()
        for job in self._jobs:
            job.wait()
        for pid in children() | set(orphans):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _last_words(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        last = [
            line for log in logs for line in log.read_text(errors="replace").split("\n")[-2:]
        ]
        return next((line for line in reversed(last) if line.strip()), "nothing was said")


def children() -> set[int]:
    """Processes whose parent is this one."""
    found: set[int] = set()
    for each in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= {int(word) for word in each.read_text().split()}
    return found


def run_transfer(peer: "Peer", t: Transfer, digest: str) -> Outcome:
    """One transfer, measured.

    Raises:
        CheckFailed: its receivers did not start.
    """
    for host in t.receivers:
        empty(t.into(host))
    with ExitStack() as stack:
        stack.callback(peer.mend, t)
        loss = t.ground.lossy(t.loss_ppb) if t.loss_ppb else None
        if loss:
            stack.callback(loss.close)
        stack.callback(t.end)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        nodes = {pid: cpu_of(pid) for pid in t.ground.nodes().values()}
        softirq = softirq_s()
        peer.receive(t)
        before = t.ground.sent_bytes()
        began, wall_ns = time.monotonic(), time.time_ns()
        job = peer.send(t)
        watched = _watch(peer, t, job)
        seconds = time.monotonic() - began
        after = t.ground.sent_bytes()
        n_lost = loss.count() if loss else 0
        softirq = softirq_s() - softirq
        of_nodes = sum(
            max(cpu_of(p), watched.last.get(p, was)) - was for p, was in nodes.items()
        )
        t.end()
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        right, wrong, had_ns = judge(peer, t, digest)
        said = t.said("sender")
        named = sorted(peer.dead(t, said)) if t.victim else []
    cpu_s = spent.ru_utime + spent.ru_stime - usage.ru_utime - usage.ru_stime
    had_s = max(had_ns - wall_ns, 0) / 1e9 if right else 0.0
    if watched.code is None and not watched.is_late:
        seconds = had_s  # nobody but us knew that it was over
    return Outcome(
        peer=peer.name,
        loss_ppb=t.loss_ppb,
        seconds=round(seconds, 3),
        had_s=round(had_s, 3),
        code=watched.code,
        is_late=watched.is_late,
        right=right,
        wrong=wrong,
        sender_bytes=after[0] - before[0],
        all_bytes=after[1] - before[1],
        cpu_s=round(cpu_s + (of_nodes if peer.is_of_nodes else 0.0), 3),
        softirq_s=round(softirq, 2),
        n_lost=n_lost,
        dead=t.victim if watched.is_dead else "",
        named=named,
        said=next((line for line in reversed(said.splitlines()) if line.strip()), "")[:200],
        stood_s=round(watched.stood_s, 2),
    )


class Watched(NamedTuple):
    """How a sender's command ended.

    code: None where it had no end. is_late: by the bound. is_dead: the victim was killed
    meanwhile. last: CPU seconds of its node until then. stood_s: nobody looked for so long.
    """

    code: int | None
    is_late: bool
    is_dead: bool
    last: dict[int, float]
    stood_s: float


def _watch(peer: "Peer", t: Transfer, job: subprocess.Popen[bytes]) -> Watched:
    """Until the sender's command ends or has to."""
    until = time.monotonic() + t.bound_s
    arrived = t.ground.counters(t.victim) if t.victim else {}
    last: dict[int, float] = {}
    is_dead, stood_s, looked = False, 0.0, time.monotonic()
    with _ended(job) as end:
        while looked < until + stood_s:
            is_ended = bool(end.poll(LOOK_S * 1000))
            before, looked = looked, time.monotonic()
            if looked - before > STANDS_S:
                stood_s += looked - before
            if is_ended:
                return Watched(job.wait(), False, is_dead, last, stood_s)
            if t.victim and not is_dead and _came(t, arrived) * DIES_AT >= t.n_bytes:
                is_dead = True
                last = _kill_host(t, has_node=peer.is_of_nodes)
            if peer.is_over(t, is_dead):
                return Watched(None, False, is_dead, last, stood_s)
    return Watched(None, True, is_dead, last, stood_s)


@contextmanager
def _ended(job: subprocess.Popen[bytes]) -> Iterator[select.poll]:
    fd = os.pidfd_open(job.pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        yield poll
    finally:
        os.close(fd)


def _came(t: Transfer, before: dict[str, tuple[int, int]]) -> int:
    now = t.ground.counters(t.victim)
    return sum(rx for rx, _ in now.values()) - sum(rx for rx, _ in before.values())


def _kill_host(t: Transfer, *, has_node: bool) -> dict[int, float]:
    """All processes of a host that take part die; CPU seconds of its node until then."""
    node = t.ground.nodes().get(t.victim) if has_node else None
    last = {node: cpu_of(node)} if node else {}
    kill([*t.ground.strangers(t.victim), *last])
    return last


def judge(peer: "Peer", t: Transfer, digest: str) -> tuple[list[str], list[str], int]:
    """Receivers with the right file, those with another one, and when the last had it.

    Of one that was killed nothing counts. The time is of the wall's clock, in ns.
    """
    right: list[str] = []
    wrong: list[str] = []
    had_ns = 0
    for host in t.receivers:
        copy = peer.copy(t, host)
        if host == t.victim or not copy.is_file():
            continue
        if digest_of(copy) == digest:
            right.append(host)
            had_ns = max(had_ns, copy.stat().st_ctime_ns)
        else:
            wrong.append(host)
    return right, wrong, had_ns


def digest_of(path: Path) -> str:
    """BLAKE3 of a file."""
    h = blake3()
    with path.open("rb") as file:
        while part := file.read(PIECE):
            h.update(part)
    return h.hexdigest()


def empty(folder: Path) -> None:
    """An empty folder at this path."""
    folder.mkdir(parents=True, exist_ok=True)
    for top, folders, files in os.walk(folder, topdown=False):
        for name in files:
            (Path(top) / name).unlink(missing_ok=True)
        for name in folders:
            (Path(top) / name).rmdir()


def softirq_s() -> float:
    """Seconds that all processors spent in the kernel's work for the network and the like."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[7]) / os.sysconf("SC_CLK_TCK")


class Peer:
    """A way to get a file to many hosts; each has a file of its own and a row in the catalog.

    Attributes:
        name: as it is typed. packages: of Debian, each with a command, or "lib" and the name of
        a library. is_of_nodes: nodes of fanfold do its work.
    """

    name = ""
    packages: ClassVar[dict[str, str]] = {}
    is_of_nodes = False

    def receive(self, t: Transfer) -> None:
        """Start receivers; returns when they are ready."""
        raise NotImplementedError

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """Start the sender's command, whose log is called "sender"."""
        raise NotImplementedError

    def copy(self, t: Transfer, host: str) -> Path:
        """Where the file lies at a receiver."""
        return t.into(host) / NAME

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Receivers of which the sender's output says that they failed."""
        del t, said
        return set()

    def is_over(self, t: Transfer, is_dead: bool) -> bool:
        """All living have it, for a command that has no end of its own; is_dead: one died."""
        del t, is_dead
        return False

    def mend(self, t: Transfer) -> None:
        """Undo what a transfer left at nodes."""
