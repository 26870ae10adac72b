"""uftp by Debian's package: IP multicast at a fixed rate, repeated passes for what was lost."""

import re
import subprocess
from typing import ClassVar

from fanfold.peers.ground import GROUPS, SENDER, UPLINK
from fanfold.peers.transfer import Peer, Transfer

PORT = 1044
BUFFER = str(4 << 20)
CACHE = str(20 << 20)
LESS = 100
"""Bytes of a block below the MTU, as its manual asks; 8800 are the most."""
MOST, HOPS = 8800, "8"
PER_CENT = 95
"""Of the link's rate: uftp counts no headers."""
FIRST_ROUND_TRIP = "0.05"
_LOST = re.compile(r"lost|not registered|abort|reject|fail|dropp|timed? ?out", re.IGNORECASE)


class Uftp(Peer):
    """A closed group: it begins when all have answered."""

    name = "uftp"
    packages: ClassVar = {"uftp": "uftp"}

    def receive(self, t: Transfer) -> None:
        """A daemon at each receiver."""
        for host, number in _numbers(t).items():
            words = ["uftpd", "-d", "-q", "-I", UPLINK, "-M", GROUPS[0], "-U", number]
            words += ["-D", str(t.into(host)), "-B", BUFFER, "-c", CACHE]
            t.commands["receiver"] = words
            t.start(host, host, words)
        for host in t.receivers:
            t.await_port(host, "udp", PORT)

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """The sender knows whom it sends to."""
        rate = t.ground.rate_bps * PER_CENT // 100 // 1000
        words = ["uftp", "-R", str(rate), "-I", UPLINK, "-t", HOPS, "-r", FIRST_ROUND_TRIP]
        words += ["-b", str(min(t.ground.mtu - LESS, MOST)), "-B", BUFFER]
        words += ["-M", GROUPS[0], "-P", GROUPS[1], "-H", ",".join(_numbers(t).values())]
        words.append(str(t.file))
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Clients that it says are lost."""
        lines = [line for line in said.splitlines() if _LOST.search(line)]
        return {h for h, number in _numbers(t).items() if any(number in line for line in lines)}


def _numbers(t: Transfer) -> dict[str, str]:
    """What a receiver is called: eight hexadecimal digits."""
    return {host: f"0x{i:08X}" for i, host in enumerate(t.receivers, 1)}
