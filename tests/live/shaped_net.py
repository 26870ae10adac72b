"""A leaf with hosts in network namespaces, each link of its own rate by tbf; needs root.

Segments leave one by one, so that a queue counts packets as a wire would.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_site import Site, finish, wait_for
from msgspec.structs import replace

from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine

SUBNET = "10.85.0"
BURST_BYTES, QUEUE_BYTES = 64 << 10, 512 << 10
"""At 200 Mbit/s the queue holds 20 ms."""
LEAF = "leaf1"
COMMAND = (sys.executable, "-m", "fanfold")


def tool(*words: str) -> str:
    """Run ``ip`` or ``tc`` well."""
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=20).stdout


class Star:
    """Hosts h0 to hN around one BFR, each node a namespace.

    Args:
        rates: bits per second of a host's link by its name, both ways. mtu: of the fabric.
    """

    def __init__(self, site: Site, folder: Path, rates: Mapping[str, int], mtu: int) -> None:
        made = leaf_spine(1, 0, len(rates) - 1, name="star", prefix=0)
        nodes = tuple(
            replace(node, address=f"{SUBNET}.{i + 1}") for i, node in enumerate(made.nodes)
        )
        self.site, self.folder, self.rates, self.wire_mtu = site, folder, rates, mtu
        self.fabric: Fabric = replace(made, nodes=nodes, mtu=mtu, open="all")
        self.prefix = f"fft{os.getpid()}"
        self.config = folder / "star.toml"
        self.hosts = sorted(rates)
        assert set(self.hosts) == {n.name for n in nodes if n.role == "host"}
        self.running: list[subprocess.Popen[str]] = []
        save_fabric(self.fabric, self.config)

    def up(self) -> None:
        """Namespaces, links, the BFR and a receiver at each host but h0."""
        for node in self.fabric.nodes:
            tool("ip", "netns", "add", self.space(node.name))
            self._ip(node.name, "link set lo up")
        self._ip(LEAF, f"addr add {self.fabric.by_name[LEAF].address}/32 dev lo")
        for host in self.hosts:
            self._link(host)
        self._start(LEAF, "bfr", "--config", self.config, "--node", LEAF)
        for host in self.hosts[1:]:
            into = self.folder / host
            self._start(
                host, "receive", "--config", self.config, "--node", host, "--into", into
            )
        for process in self.running:
            assert process.stdout is not None
            assert process.stdout.readline()

    def down(self) -> None:
        """Processes and namespaces end."""
        for process in self.running:
            process.terminate()
        for process in self.running:
            finish(process, 30)
        for node in self.fabric.nodes:
            subprocess.run(["ip", "netns", "del", self.space(node.name)], check=False)

    def space(self, name: str) -> str:
        """Namespace of a node."""
        return f"{self.prefix}-{name}"

    def command(self, name: str, *args: object, first: Sequence[str] = COMMAND) -> list[str]:
        """A fanfold command in a node's namespace; ``first``: what runs it."""
        return ["ip", "netns", "exec", self.space(name), *first, *map(str, args)]

    def start_push(
        self, path: Path, *flags: object, first: Sequence[str] = COMMAND
    ) -> subprocess.Popen[str]:
        """Start a push from h0."""
        words = ("push", path, "--config", self.config, "--json", *flags)
        return self._open("h0", *words, first=first)

    def push(self, path: Path, *flags: object, timeout_s: float = 60.0) -> dict[str, Any]:
        """Push from h0; its result, whatever its exit code."""
        _, out, err = finish(self.start_push(path, *flags), timeout_s)
        assert out, err
        told: dict[str, Any] = json.loads(out)
        return told

    def sent_bytes(self, name: str, device: str) -> int:
        """Bytes that a node has sent on a device."""
        told = json.loads(
            tool("ip", "-n", self.space(name), "-s", "-j", "link", "show", device)
        )
        return int(told[0]["stats64"]["tx"]["bytes"])

    def queue(self, name: str, device: str) -> dict[str, Any]:
        """Counters of the queue of a device."""
        told = tool("tc", "-n", self.space(name), "-s", "-j", "qdisc", "show", "dev", device)
        found: dict[str, Any] = json.loads(told)[0]
        return found

    def set_mtu(self, name: str, device: str, mtu: int) -> None:
        """Change a device's MTU while all runs."""
        self._ip(name, f"link set {device} mtu {mtu}")

    def _open(
        self, name: str, *args: object, first: Sequence[str] = COMMAND
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(name, *args, first=first),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.site.env,
        )

    def _start(self, name: str, *args: object) -> None:
        self.running.append(self._open(name, *args))

    def _link(self, host: str) -> None:
        mtu, peer = self.wire_mtu, self.space(LEAF)
        own, other = self.fabric.by_name[host].address, self.fabric.by_name[LEAF].address
        self._ip(
            host,
            f"link add {LEAF} mtu {mtu} type veth peer name {host} mtu {mtu} netns {peer}",
        )
        self._ip(host, f"addr add {own}/32 dev {LEAF}")
        for name, device in ((host, LEAF), (LEAF, host)):
            self._ip(name, f"link set {device} gso_max_segs 1 up")
            shape = f"rate {self.rates[host]}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
            words = f"qdisc add dev {device} root tbf {shape}"
            tool("tc", "-n", self.space(name), *words.split())
        self._ip(host, f"route add {other}/32 dev {LEAF} src {own}")
        self._ip(host, f"route add default via {other} dev {LEAF} onlink src {own}")
        self._ip(LEAF, f"route add {own}/32 dev {host} src {other}")

    def _ip(self, name: str, words: str) -> None:
        tool("ip", "-n", self.space(name), *words.split())


@contextmanager
def star(site: Site, folder: Path, rates: Mapping[str, int], mtu: int = 9000) -> Iterator[Star]:
    """A star that runs, and is gone afterwards."""
    made = Star(site, folder, rates, mtu)
    try:
        made.up()
        yield made
    finally:
        made.down()


__all__ = ["Star", "star", "wait_for"]
