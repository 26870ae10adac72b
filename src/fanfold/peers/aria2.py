"""BitTorrent by Debian's aria2: all receivers trade pieces, one seeder, one tracker."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlunsplit

from fanfold.peers.ground import SENDER
from fanfold.peers.transfer import NAME, Peer, Transfer

TRACKER_PORT, PORT = 6969, 6881
PIECE = 1 << 20
COMPLETED, STARTED = "completed", "started"
QUIET = (
    *("--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false"),
    *("--summary-interval=0", "--console-log-level=warn", "--enable-color=false"),
)
SHARED = ("--seed-ratio=0.0", "--bt-max-peers=0", f"--listen-port={PORT}")
WORDS = ("aria2c", "--no-conf", *QUIET, *SHARED)


class Aria2(Peer):
    """The torrent is made, and receivers wait, before the clock runs; seeding has no end."""

    name = "aria2"
    packages: ClassVar = {"aria2": "aria2c"}

    def receive(self, t: Transfer) -> None:
        """A tracker at the sender, a client at each receiver that has asked it."""
        torrent(t)
        own = t.ground.address(SENDER)
        program = [sys.executable, "-I", str(Path(__file__).with_name("tracker_end.py")), own]
        t.start("tracker", SENDER, [*program, str(TRACKER_PORT)])
        t.await_port(SENDER, "tcp", TRACKER_PORT)
        for host in t.receivers:
            words = [*WORDS, f"--dir={t.into(host)}", "--file-allocation=none"]
            words.append(str(t.folder / "torrent"))
            t.commands["receiver"] = words
            t.start(host, host, words)
        n = len(t.receivers)
        t.await_true(lambda: len(_told(t, STARTED)) == n, "all clients to ask the tracker")

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """A seeder, which takes its file for whole."""
        words = [*WORDS, f"--dir={t.file.parent}", "--bt-seed-unverified=true"]
        words.append(str(t.folder / "torrent"))
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def is_over(self, t: Transfer, is_dead: bool) -> bool:
        """The tracker heard of all living that they have all."""
        alive = {t.ground.address(h) for h in t.receivers if not (is_dead and h == t.victim)}
        return alive <= _told(t, COMPLETED)


def torrent(t: Transfer) -> None:
    """The file's description, as the protocol of BitTorrent has it."""
    with t.file.open("rb") as file:
        sums = b"".join(
            hashlib.sha1(piece, usedforsecurity=False).digest()
            for piece in iter(lambda: file.read(PIECE), b"")
        )
    tracker = f"{t.ground.address(SENDER)}:{TRACKER_PORT}"
    where = urlunsplit(("http", tracker, "/announce", "", "")).encode()
    name = NAME.encode()
    info = b"d6:lengthi%de4:name%d:%s12:piece lengthi%de6:pieces%d:%se" % (
        *(t.n_bytes, len(name), name),
        *(PIECE, len(sums), sums),
    )
    text = b"d8:announce%d:%s4:info%se" % (len(where), where, info)
    (t.folder / "torrent").write_bytes(text)


def _told(t: Transfer, event: str) -> set[str]:
    """Addresses that announced an event."""
    rows = (line.split() for line in t.said("tracker").splitlines())
    return {row[1] for row in rows if len(row) == 2 and row[0] == event}
