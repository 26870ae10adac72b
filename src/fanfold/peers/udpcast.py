"""udpcast by Debian's package: IP multicast in slices that every receiver acknowledges."""

import subprocess

from fanfold.peers.ground import GROUPS, UPLINK
from fanfold.peers.transfer import NAME, SENDER, Peer, Transfer

PORT = 9000
LESS = 100
"""Bytes of a block below the MTU; 1456 are documented, larger ones are taken."""
HOPS = "8"
WAITS_S = "60"


class Udpcast(Peer):
    """Its acknowledged mode, which begins when so many receivers are there."""

    name = "udpcast"
    packages = {"udpcast": "udp-sender"}

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
        words += ["--ttl", HOPS, "--min-receivers", str(len(t.receivers)), "--full-duplex"]
        words += ["-b", str(t.ground.mtu - LESS), "--start-timeout", WAITS_S]
        t.commands["sender"] = words
        return t.start("sender", SENDER, words)

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Receivers that it dropped."""
        lines = [x for x in said.splitlines() if "drop" in x.lower() or "timeout" in x.lower()]
        named = {h: t.ground.address(h) for h in t.receivers}
        return {h for h, address in named.items() if any(address in x for x in lines)}
