"""fanfold itself: `fanfold push` to the nodes of the lab, which are up before."""

import json
import subprocess
import sys

from fanfold.errors import CheckFailed
from fanfold.peers.transfer import Peer, Transfer

WARM_BYTES = 1 << 16
WARM_S = 300.0
"""Kernels may have to be compiled."""


class Pushed(Peer):
    """One copy on each link, repaired by the nearest holder."""

    name = "fanfold"
    is_of_nodes = True

    def receive(self, t: Transfer) -> None:
        """Receivers are nodes of the lab."""
        t.commands["receiver"] = ["fanfold", "lab", "up", "--namespaces"]

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """The command as a user types it; it enters the namespace by itself."""
        words = ["push", str(t.file), "--lab", t.ground.lab.name, "--json"]
        t.commands["sender"] = ["fanfold", *words]
        return t.start("sender", "", [sys.executable, "-m", "fanfold", *words])

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Receivers that are not verified."""
        del t
        for line in said.splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and "receivers" in told:
                return {r["id"] for r in told["receivers"] if r["state"] != "verified"}
        return set()

    def mend(self, t: Transfer) -> None:
        """A node that died is started again."""
        if t.victim and t.victim not in t.ground.nodes():
            t.ground.lab.restart(t.victim)


def warm(t: Transfer) -> None:
    """A push of little, so that no kernel is compiled and no session made in what is timed.

    Raises:
        CheckFailed: it did not reach all.
    """
    job = Pushed().send(t)
    try:
        code = job.wait(WARM_S)
    except subprocess.TimeoutExpired:
        code = -1
    finally:
        t.end()
    if code != 0:
        last = (t.said("sender").strip().splitlines() or ["nothing was said"])[-1]
        raise CheckFailed(f"fanfold: a first push of {WARM_BYTES} bytes: exit {code}; {last}")
