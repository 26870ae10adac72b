"""udpcast by Debian's package: IP multicast in slices that every receiver acknowledges."""

import re
import subprocess
from typing import ClassVar

from fanfold.peers.ground import GROUPS, SENDER, UPLINK
from fanfold.peers.transfer import NAME, Peer, Transfer

PORT = 9000
LESS = 100
"""Bytes of a block below the MTU; 1456 are documented, larger ones are taken."""
HOPS = "8"
WAITS_S = "60"
RETRIES = "30"
"""Its own 200 keep all waiting for a dead receiver for minutes."""
HELLO_MS = "100"
"""As its manual asks where packets are lost: without, a lost request to connect hangs it."""
_CAME = re.compile(r"New connection from ([0-9.]+) +\(#(\d+)\)")
_MISSED = re.compile(r"notAnswered=\[([\d,]*)\]")


class Udpcast(Peer):
    """Its acknowledged mode, which begins when so many receivers are there."""

    name = "udpcast"
    packages: ClassVar = {"udpcast": "udp-sender"}

    def receive(self, t: Transfer) -> None:
        """One command a receiver."""
        for host in t.receivers:
            words = ["udp-receiver", "--file", str(t.into(host) / NAME), "--interface", UPLINK]
            words += ["--mcast-rdv-address", GROUPS[0], "--ttl", HOPS, "--nokbd"]
            words += ["--start-timeout", WAITS_S]
            t.commands["receiver"] = words
            t.start(host, host, words)
        for host in t.receivers:
            t.await_port(host, "udp", PORT)

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """The sender counts receivers."""
        words = ["udp-sender", "--file", str(t.file), "--interface", UPLINK, "--nokbd"]
        words += ["--mcast-rdv-address", GROUPS[0], "--mcast-data-address", GROUPS[1]]
        words += [
            "--ttl",
            HOPS,
            "--min-receivers",
            str(len(t.receivers)),
            "--full-duplex",
            *("--retries-until-drop", RETRIES),
            *("--rexmit-hello-interval", HELLO_MS),
        ]
        words += ["-b", str(t.ground.mtu - LESS), "--start-timeout", WAITS_S]
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Receivers that do not answer; it counts them as they came."""
        came = dict(_CAME.findall(said))
        missed = _MISSED.findall(said)
        numbers = missed[-1].split(",") if missed else []
        addresses = {address for address, n in came.items() if n in numbers}
        return {host for host in t.receivers if t.ground.address(host) in addresses}
