"""A leaf-spine of network namespaces whose links all have one rate.

Every node is a namespace with one address; hosts reach each other through routers' kernels as
well, so that TCP crosses the same links. Segments leave one by one: a packet of 64 KB would
not be one on a wire, and 1 % of loss not 1 %.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs import JobError, run, run_well
from msgspec.structs import replace

from fanfold.live.line_loss import Loss
from fanfold.live.spaces import inside
from fanfold.topo.fabric import Fabric, Node
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PPB_ONE

N_LEAVES, N_SPINES = 4, 2
SUBNET = "10.84.0"
WIRE = 9014 / 8972
"""Bytes of a full packet on a link to its payload in UDP."""
BURST_BYTES, QUEUE_BYTES = 128 << 10, 512 << 10
"""A burst below 64 KB takes what is sent at once apart; 20 ms of queue at 200 Mbit/s."""


class ShapedNet:
    """Namespaces and links of a fabric.

    Attributes:
        fabric: hosts h1..hN, h0 on the first leaf; leaves, spines. prefix: of all names.
    """

    def __init__(self, n_hosts: int, rate_bps: int) -> None:
        made = leaf_spine(N_LEAVES, N_SPINES, n_hosts, name="shaped")
        nodes = tuple(
            replace(node, address=f"{SUBNET}.{i + 1}") for i, node in enumerate(made.nodes)
        )
        self.fabric: Fabric = replace(made, nodes=nodes, open="all")
        self.hosts = [node for node in nodes if node.role == "host"]
        self.bfrs = [node for node in nodes if node.role == "bfr"]
        self.rate_bps = rate_bps
        self.prefix = f"ffs{os.getpid()}"

    def up(self) -> None:
        """Create everything.

        Raises:
            JobError: not root, or the kernel lacks namespaces, veth or tbf.
        """
        if os.geteuid() != 0:
            raise JobError("needs root for network namespaces")
        if not (shutil.which("ip") and shutil.which("tc")):
            raise JobError("needs ip and tc: apt install iproute2")
        for node in self.fabric.nodes:
            run_well(["ip", "netns", "add", self.space(node.name)], 20)
        for link in self.fabric.links:
            ends = (
                f"name {link.b} mtu {self.fabric.mtu}",
                f"name {link.a} mtu {self.fabric.mtu}",
            )
            peer = f"peer {ends[1]} netns {self.space(link.b)}"
            self._ip(link.a, f"link add {ends[0]} type veth {peer}")
            for own, other in ((link.a, link.b), (link.b, link.a)):
                self._ip(own, f"link set {other} gso_max_segs 1 up")
                limits = f"burst {BURST_BYTES} limit {QUEUE_BYTES}"
                rate = f"root tbf rate {self.rate_bps}bit {limits}"
                self._run(own, f"tc qdisc add dev {other} {rate}")
        for node in self.fabric.nodes:
            self._address(node)
        for node in self.fabric.nodes:
            self._routes(node)

    def down(self) -> None:
        for node in self.fabric.nodes:
            run(["ip", "netns", "del", self.space(node.name)], 20)

    def space(self, name: str) -> str:
        """Namespace of a node."""
        return f"{self.prefix}-{name}"

    def command(self, name: str, words: list[str]) -> list[str]:
        """A command in a node's namespace."""
        return ["ip", "netns", "exec", self.space(name), *words]

    def lossy(self, chance: float) -> Loss:
        """Loss on the link of each host, both ways, until closed."""
        devices = []
        for host in self.hosts:
            leaf = self.uplink(host.name)
            devices += [self.device(host.name, leaf), self.device(leaf, host.name)]
        return Loss(round(chance * PPB_ONE), devices)

    def uplink(self, host: str) -> str:
        """Leaf of a host, and its device there."""
        return self.fabric.neighbours[host][0]

    def device(self, name: str, other: str) -> tuple[str, int]:
        """Namespace and number of a node's device toward another."""
        told = run_well(["ip", "-n", self.space(name), "-j", "link", "show", other], 20)
        return self.space(name), int(json.loads(told)[0]["ifindex"])

    def _address(self, node: Node) -> None:
        self._ip(node.name, "link set lo up")
        device = self.uplink(node.name) if node.role == "host" else "lo"
        self._ip(node.name, f"addr add {node.address}/32 dev {device}")
        if node.role == "bfr":
            with inside(self.space(node.name)):
                Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
                # by ports, so that the connections of a pair share both spines
                Path("/proc/sys/net/ipv4/fib_multipath_hash_policy").write_text("1")

    def _routes(self, node: Node) -> None:
        """To neighbours by their links; hosts up to the leaf, leaves up, spines down."""
        by_name = self.fabric.by_name
        near = self.fabric.neighbours[node.name]
        for other in near:
            to = f"{by_name[other].address}/32 dev {other} src {node.address}"
            self._ip(node.name, f"route add {to}")
        if node.name.startswith("spine"):
            for host in self.hosts:
                leaf = self.uplink(host.name)
                via = f"via {by_name[leaf].address} dev {leaf} onlink"
                self._ip(node.name, f"route add {host.address}/32 {via} src {node.address}")
            return
        up = [n for n in near if by_name[n].role == "bfr"]
        hops = " ".join(f"nexthop via {by_name[n].address} dev {n} onlink" for n in up)
        self._ip(node.name, f"route add default src {node.address} {hops}")

    def _ip(self, name: str, words: str) -> None:
        run_well(["ip", "-n", self.space(name), *words.split()], 20)

    def _run(self, name: str, words: str) -> None:
        run_well(self.command(name, words.split()), 20)


@contextmanager
def shaped_net(n_hosts: int, rate_bps: int) -> Iterator[ShapedNet]:
    made = ShapedNet(n_hosts, rate_bps)
    try:
        made.up()
        yield made
    finally:
        made.down()
