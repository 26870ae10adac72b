"""A TCP connection to each receiver, all at once, with the congestion control of the system."""

import subprocess
import sys
from pathlib import Path

from fanfold.peers.ground import SENDER
from fanfold.peers.transfer import NAME, Peer, Transfer

PORT = 7000
PROGRAM = [sys.executable, "-IS", str(Path(__file__).with_name("tcp_end.py"))]


class Tcp(Peer):
    """What copying to each host costs."""

    name = "tcp"

    def receive(self, t: Transfer) -> None:
        """One process a receiver."""
        for host in t.receivers:
            place = [str(t.into(host) / NAME), t.ground.address(host), str(PORT)]
            words = [*PROGRAM, "receive", *place]
            t.commands["receiver"] = words
            t.start(host, host, words)
        for host in t.receivers:
            t.await_port(host, "tcp", PORT)

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """One process with a thread for each receiver."""
        ends = [f"{t.ground.address(host)}:{PORT}" for host in t.receivers]
        words = [*PROGRAM, "send", str(t.file), *ends]
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Addresses whose connection failed."""
        first = {line.split()[0] for line in said.splitlines() if " failed: " in line}
        return {host for host in t.receivers if t.ground.address(host) in first}
