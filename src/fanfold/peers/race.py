"""The same file by several peers over one ground, in changing order: rows of medians."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from blake3 import blake3

from fanfold.errors import CheckFailed, EnvironmentLack
from fanfold.folders import STATE
from fanfold.live.birth import Say
from fanfold.live.lab import Lab
from fanfold.live.spaces import RUN, pids_in_spaces
from fanfold.peers.ground import Ground, kill
from fanfold.peers.packages import install, lacking, versions
from fanfold.peers.pushed import WARM_BYTES, warm
from fanfold.peers.transfer import NAME, PIECE, Outcome, Peer, Transfer, run_transfer
from fanfold.units import Bps, Bytes, Ppb, format_size

FOLDER = "fanfold-peers-"
MEMORY = Path("/dev/shm")  # noqa: S108 - files in memory, as every measured peer has them
SPARE = 256 << 20
"""Bytes that stay free beside the copies."""


class Asked(NamedTuple):
    """What is to be compared.

    scratch: folder of the copies, None: in memory where there is room. kills: a receiver dies
    in each transfer. installs: what is lacking is installed.
    """

    file: Path
    n_hosts: int
    rate_bps: Bps
    mtu: int
    losses: Sequence[Ppb]
    rounds: int
    peers: Sequence[Peer]
    kills: bool
    installs: bool
    scratch: Path | None


class Row(msgspec.Struct):
    """All rounds of one peer at one loss; medians, but for right, the least of all rounds.

    n_right: living receivers with the right file. note: why it did not run, or what failed.
    goodput_bps: of the file, in the whole command. limit_share: a link's time for the file, to
    the whole command's. sender_copies, all_copies: bytes on the sender's link and on all, by
    those of the file. named: rounds whose output named the dead and nobody else.
    """

    peer: str
    loss_ppb: Ppb
    n_living: int
    n_right: int = 0
    seconds: float = 0.0
    had_s: float = 0.0
    goodput_bps: int = 0
    limit_share: float = 0.0
    sender_copies: float = 0.0
    all_copies: float = 0.0
    cpu_s: float = 0.0
    named: int = 0
    note: str = ""
    rounds: list[Outcome] = []

    @property
    def is_right(self) -> bool:
        """Every living receiver has the right file in every round, and no command was late."""
        return (
            bool(self.rounds)
            and not self.note
            and self.n_right == self.n_living
            and not any(o.is_late or o.wrong for o in self.rounds)
        )


class Race(msgspec.Struct):
    """What was found, and on what.

    limit_s: a link's time for the file once. bound_s: when a command was ended. dead: who was
    killed. commands: of each peer, as they ran. load: of the machine before, by its kernel.
    """

    n_bytes: Bytes
    n_receivers: int
    rate_bps: Bps
    mtu: int
    limit_s: float
    bound_s: float
    dead: str
    load: float
    rows: list[Row] = []
    commands: dict[str, dict[str, list[str]]] = {}
    versions: dict[str, str] = {}


def race(asked: Asked, say: Say, tell: Callable[[str], None]) -> Race:
    """Every peer at every loss, so many rounds; each second one goes the other way round.

    Args:
        say: hears of what is being done. tell: of each transfer that ended.

    Raises:
        EnvironmentLack: not root, or no room.
    """
    require_tools()
    needed = {package: peer.packages for peer in asked.peers for package in peer.packages}
    if asked.installs:
        install(package for package, of in needed.items() if package in lacking(of))
    gone = {peer.name: lacking(peer.packages) for peer in asked.peers}
    notes = {name: f"not here: apt install {' '.join(p)}" for name, p in gone.items() if p}
    here = [peer for peer in asked.peers if peer.name not in notes]
    with _scratch(asked) as (folder, name):
        file = folder / NAME
        digest = _copied(asked.file, file)
        has_nodes = any(peer.is_of_nodes for peer in here)
        ground = Ground(name, asked.n_hosts, asked.rate_bps, asked.mtu, has_nodes=has_nodes)
        found = _begun(asked, ground, file)
        found.versions = versions(needed)
        outcomes: dict[tuple[Ppb, str], list[Outcome]] = {}
        with ground.up(say):
            if any(asked.losses):
                ground.lossy(max(asked.losses)).close()  # or it is refused before anything ran
            if has_nodes:
                _warm(ground, folder)
            for peer, loss_ppb in order(here, asked.losses, asked.rounds):
                say(f"{peer.name}, {loss_ppb / 1e7:g} % lost")
                t = Transfer(ground, file, _logs(folder), loss_ppb, found.dead)
                try:
                    took = run_transfer(peer, t, digest)
                except CheckFailed as error:
                    notes[peer.name] = f"did not start: {error}"
                    continue
                found.commands[peer.name] = t.commands
                outcomes.setdefault((loss_ppb, peer.name), []).append(took)
                tell(told(took, asked.n_hosts - bool(found.dead)))
    found.rows = [
        row_of(p.name, ppb, outcomes.get((ppb, p.name), []), found, notes.get(p.name, ""))
        for ppb in asked.losses
        for p in asked.peers
    ]
    return found


def order(
    peers: Sequence[Peer], losses: Sequence[Ppb], rounds: int
) -> Iterator[tuple[Peer, Ppb]]:
    """Peers in turn at each loss, in each second round the other way round."""
    for i in range(rounds):
        for loss_ppb in losses:
            for peer in peers[:: -1 if i % 2 else 1]:
                yield peer, loss_ppb


def _begun(asked: Asked, ground: Ground, file: Path) -> Race:
    plain = Transfer(ground, file, file.parent, Ppb(0))
    return Race(
        n_bytes=Bytes(plain.n_bytes),
        n_receivers=asked.n_hosts,
        rate_bps=asked.rate_bps,
        mtu=asked.mtu,
        limit_s=round(ground.limit_s(plain.n_bytes), 3),
        bound_s=round(plain.bound_s, 1),
        dead=ground.receivers[len(ground.receivers) // 2] if asked.kills else "",
        load=round(os.getloadavg()[0], 2),
    )


def row_of(
    peer: str, loss_ppb: Ppb, took: Sequence[Outcome], found: Race, note: str = ""
) -> Row:
    """Medians of rounds; none where none ran."""
    row = Row(peer, loss_ppb, found.n_receivers - bool(found.dead), note=note)
    if not took:
        return row
    row.rounds = list(took)
    if n := sum(o.dead != found.dead for o in took):
        row.note = note or f"over before {found.dead} was to die, in {n} of {len(took)} rounds"
    row.n_right = min(len(o.right) for o in took)
    row.seconds = round(median(o.seconds for o in took), 3)
    row.had_s = round(median(o.had_s for o in took), 3)
    if row.n_right:
        row.goodput_bps = int(found.n_bytes * 8 / row.seconds)
        row.limit_share = round(found.limit_s / row.seconds, 3)
    row.sender_copies = round(median(o.sender_bytes for o in took) / found.n_bytes, 3)
    row.all_copies = round(median(o.all_bytes for o in took) / found.n_bytes, 2)
    row.cpu_s = round(median(o.cpu_s for o in took), 2)
    row.named = sum(o.named == [o.dead] for o in took)
    return row


def told(o: Outcome, n_living: int) -> str:
    """One transfer in words."""
    wrong = f", {len(o.wrong)} a broken one" if o.wrong else ""
    late = ", ended by the bound" if o.is_late else ""
    lost = f"{o.loss_ppb / 1e7:g} % lost"
    has = f"{len(o.right)} of {n_living} have the file{wrong}"
    stood = f", the machine stood still for {o.stood_s:.1f} s of it" if o.stood_s else ""
    return f"{o.peer}, {lost}: {o.seconds:.2f} s, {has}{late}{stood}"


def require_tools() -> None:
    """Refuse a machine where no ground can be made.

    Raises:
        EnvironmentLack: not root, or no ip and tc.
    """
    if os.geteuid() != 0:
        raise EnvironmentLack("peers: needs root, who may make network namespaces; see `id`")
    if not (shutil.which("ip") and shutil.which("tc")):
        raise EnvironmentLack("peers: needs ip and tc; apt install iproute2")


def sweep() -> None:
    """End what a comparison left that was killed itself."""
    for folder in MEMORY.glob(f"{FOLDER}*"):
        pid = folder.name.removeprefix(FOLDER).partition("-")[0]
        if not pid.isdigit() or Path(f"/proc/{pid}").exists():
            continue
        os.environ[STATE] = str(folder / "state")
        lab = Lab(_lab_of(pid))
        kill(pids_in_spaces(lab.name))
        lab.down(purge=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _scratch(asked: Asked) -> Iterator[tuple[Path, str]]:
    """A folder for all copies and the state of the lab, and the lab's name."""
    before = os.environ.get(STATE)
    if RUN.exists() and MEMORY.is_dir():
        sweep()
    needs = (asked.n_hosts + 1) * asked.file.stat().st_size + SPARE
    base = asked.scratch or (MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir()))
    if not base.is_dir():
        raise EnvironmentLack(f"--scratch {base}: no such folder; make it, or name another")
    if (room := room_of(base)) < needs:
        copies = f"{asked.n_hosts + 1} copies take {format_size(needs)}"
        raise EnvironmentLack(
            f"{base}: {copies}, {format_size(room)} are free; name another by --scratch"
        )
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=base))
    os.environ[STATE] = str(folder / "state")
    try:
        yield folder, _lab_of(str(os.getpid()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop(STATE)
        if before is not None:
            os.environ[STATE] = before


def room_of(folder: Path) -> int:
    """Free bytes where a folder lies, and not more than memory could take when it is there."""
    free = shutil.disk_usage(folder).free
    if folder.is_relative_to(MEMORY):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = min(free, int(line.split()[1]) * 1024 * 3 // 4)
    return free


def _lab_of(pid: str) -> str:
    return f"peers{pid}"


def _copied(file: Path, to: Path) -> str:
    """Copy the file, so that all read it from the same place; its BLAKE3."""
    h = blake3()
    with file.open("rb") as source, to.open("wb") as copy:
        while part := source.read(PIECE):
            h.update(part)
            copy.write(part)
    return h.hexdigest()


def _warm(ground: Ground, folder: Path) -> None:
    small = folder / "warm" / "warm.bin"
    small.parent.mkdir()
    small.write_bytes(bytes(WARM_BYTES))
    warm(Transfer(ground, small, small.parent, Ppb(0)))


def _logs(folder: Path) -> Path:
    """An empty folder for what is printed in one transfer."""
    logs = folder / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    return logs
