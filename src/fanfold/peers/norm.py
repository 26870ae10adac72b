"""NORM (RFC 5740) by Debian's libnorm: IP multicast at a fixed rate, repaired by parity."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from fanfold.peers.ground import GROUPS, SENDER, UPLINK
from fanfold.peers.transfer import NAME, Peer, Transfer

PORT = 6003
LESS = 128
"""Bytes of a segment below the MTU: headers of IP, UDP and NORM."""
DATA, PARITY = 64, 8
PER_CENT = 95
FIRST_ROUND_TRIP_S = 0.01
PROGRAM = [sys.executable, "-IS", str(Path(__file__).with_name("norm_end.py"))]


class Norm(Peer):
    """The package has no programs; both ends are ours, on the library."""

    name = "norm"
    packages: ClassVar = {"libnorm1": "lib norm"}

    def receive(self, t: Transfer) -> None:
        """One process a receiver."""
        for host, node in _nodes(t).items():
            told = _ends(node) | {"path": str(t.into(host) / NAME)}
            words = [*PROGRAM, "receive", json.dumps(told)]
            t.commands["receiver"] = words
            t.start(host, host, words)
        for host in t.receivers:
            t.await_port(host, "udp", PORT)

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """A fixed rate below the link's; the sender waits for the acknowledgement of each."""
        told = _ends(1) | {
            "path": str(t.file),
            "rate_bps": t.ground.rate_bps * PER_CENT // 100,
            "segment": t.ground.mtu - LESS,
            "data": DATA,
            "parity": PARITY,
            "grtt_s": FIRST_ROUND_TRIP_S,
            "nodes": _nodes(t),
        }
        words = [*PROGRAM, "send", json.dumps(told)]
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Receivers without an acknowledgement."""
        del t
        return {x.split()[0] for x in said.splitlines() if x.endswith("has not acknowledged")}


def _nodes(t: Transfer) -> dict[str, int]:
    return {host: i for i, host in enumerate(t.receivers, 2)}


def _ends(node: int) -> dict[str, Any]:
    return {"group": GROUPS[2], "port": PORT, "interface": UPLINK, "node": node}
