"""Where transfers are compared: a leaf-spine of namespaces, each link at one rate.

It is a lab of `fanfold lab up --namespaces`, and on top of that a token bucket at both ends of
each link, segments that leave one by one, routes over all spines for TCP, and one static tree
for IP multicast over the first spine. A packet of 64 KB would not be one on a wire, and 1 % of
loss not 1 %.
"""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fanfold.api.labs import start_lab
from fanfold.errors import EnvironmentLack
from fanfold.live.birth import Say, nobody
from fanfold.live.lab import Lab
from fanfold.live.line_loss import Loss
from fanfold.live.mroutes import Branch, route_multicast
from fanfold.live.space_build import build_spaces, off_loopback
from fanfold.live.spaces import inside, pids_in_spaces, remove_spaces, run_ip, space_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import Bps, Ppb, format_rate

MAX_LEAVES, SPINES = 4, 2
LEAST_BURST, LEAST_QUEUE = 128 << 10, 512 << 10
"""Bytes. A burst below 64 KB takes what is sent at once apart; 20 ms of queue at 200 Mbit/s."""
ETHERNET, HEADERS = 14, 28
"""Bytes around an IP packet on a link; of IPv4 and UDP in it."""
GROUPS = ("239.81.0.1", "239.81.0.2", "239.81.0.3")
"""Of IP multicast, to all receivers."""
UPLINK = "p1"
"""A host's device: its port to its leaf."""
SENDER = "h0"
TICKS = os.sysconf("SC_CLK_TCK")
SET_CHILD_SUBREAPER = 36
TOOL_S = 30.0


class Ground:
    """Namespaces and links while it is entered, with nodes of fanfold in them or without.

    Attributes:
        fabric: hosts h0, the sender, and h1..hN; leaves, spines. lab: its folder and names.
        receivers: names of hosts but h0.
    """

    def __init__(
        self, name: str, n_hosts: int, rate_bps: Bps, mtu: int, *, has_nodes: bool
    ) -> None:
        made = leaf_spine(min(MAX_LEAVES, n_hosts), SPINES, n_hosts, name=name)
        made = msgspec.structs.replace(
            made,
            mtu=mtu,
            links=tuple(
                msgspec.structs.replace(link, rate=format_rate(rate_bps)) for link in made.links
            ),
        )
        self.fabric: Fabric = off_loopback(made)
        self.lab, self.rate_bps, self.mtu, self.has_nodes = Lab(name), rate_bps, mtu, has_nodes
        hosts = [node.name for node in made.nodes if node.role == "host"]
        self.receivers = [name for name in hosts if name != SENDER]
        self._trees: list[socket.socket] = []

    @contextmanager
    def up(self, say: Say = nobody) -> Iterator["Ground"]:
        """Everything is there; at the end, however it comes, nothing is.

        Raises:
            EnvironmentLack: the kernel or a tool refuses.
        """
        try:
            if self.has_nodes:
                start_lab(self.lab, self.fabric, has_spaces=True, has_rings=False, say=say)
            else:
                build_spaces(self.lab.name, self.fabric)
            for node in self.fabric.nodes:
                self._shape(node.name)
            self._plant()
            _adopt_orphans(True)
            yield self
        finally:
            self.down()

    def down(self) -> None:
        """End all processes in the namespaces, then these."""
        for tree in self._trees:
            tree.close()
        self.clear()
        self.lab.down(purge=True)
        remove_spaces(self.lab.name)
        _adopt_orphans(False)

    def space(self, node: str) -> str:
        """Namespace of a node."""
        return space_of(self.lab.name, node)

    def address(self, node: str) -> str:
        """Address of a node."""
        return self.fabric.by_name[node].address

    def leaf(self, host: str) -> str:
        """What a host's link leads to."""
        return self.fabric.neighbours[host][0]

    def limit_s(self, n_bytes: int) -> float:
        """A link's time for so many bytes once, in full packets of UDP."""
        whole, payload = self.mtu + ETHERNET, self.mtu - HEADERS
        return n_bytes * whole * 8 / payload / self.rate_bps

    def lossy(self, loss_ppb: Ppb) -> Loss:
        """Loss on the link of each host, both ways, on arrival, until closed."""
        ends = [(host, UPLINK) for host in (SENDER, *self.receivers)]
        ends += [(self.leaf(host), self._port(self.leaf(host), host)) for host, _ in ends]
        return Loss(loss_ppb, [(self.space(node), self._index(node, at)) for node, at in ends])

    def counters(self, node: str) -> dict[str, tuple[int, int]]:
        """Bytes that each device of a node received and sent, headers of Ethernet included."""
        with inside(self.space(node)):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        rows = {
            name.strip(): words.split() for name, _, words in (x.partition(":") for x in lines)
        }
        return {n: (int(w[0]), int(w[8])) for n, w in rows.items() if n.startswith("p")}

    def sent_bytes(self) -> tuple[int, int]:
        """Bytes that h0's device sent, and all devices."""
        sent = {n.name: self.counters(n.name) for n in self.fabric.nodes}
        return sent[SENDER][UPLINK][1], sum(
            tx for node in sent.values() for _, tx in node.values()
        )

    def nodes(self) -> dict[str, int]:
        """Processes of fanfold that live here."""
        if not self.has_nodes:
            return {}
        return {n: int(entry["pid"]) for n, entry in self.lab.nodes().items() if entry["alive"]}

    def strangers(self, host: str = "*") -> list[int]:
        """Processes in the namespaces, or that of one host, that are no node of fanfold."""
        return sorted(set(pids_in_spaces(self.lab.name, host)) - set(self.nodes().values()))

    def clear(self) -> None:
        """End every stranger, however often it forks."""
        while pids := self.strangers():
            kill(pids)

    def _port(self, node: str, other: str) -> str:
        return f"p{self.fabric.port_to(node, other)}"

    def _index(self, node: str, device: str) -> int:
        with inside(self.space(node)):
            return socket.if_nametoindex(device)

    def _shape(self, node: str) -> None:
        """Rates of a node's devices, its routes over all spines, and what peers ask of it."""
        burst = max(LEAST_BURST, self.rate_bps // 8000)
        bucket = f"rate {self.rate_bps}bit burst {burst} limit {max(LEAST_QUEUE, 4 * burst)}"
        near = self.fabric.neighbours[node]
        ports = [self._port(node, other) for other in near]
        run_ip(self.space(node), [f"link set {port} gso_max_segs 1" for port in ports])
        lines = [f"qdisc add dev {port} root tbf {bucket}" for port in ports]
        _run(["tc", "-n", self.space(node), "-batch", "-"], "\n".join(lines))
        own = self.address(node)
        if self.fabric.by_name[node].role == "host":
            more = [f"addr add {own}/32 dev {UPLINK}"]
            more.append(f"route add 224.0.0.0/4 dev {UPLINK} src {own}")
            run_ip(self.space(node), more)
        up = [other for other in near if other.startswith("spine")]
        hops = " ".join(
            f"nexthop via {self.address(spine)} dev {self._port(node, spine)}" for spine in up
        )
        far = [h for h in (SENDER, *self.receivers) if up and h not in near]
        run_ip(
            self.space(node),
            [f"route replace {self.address(h)}/32 src {own} {hops}" for h in far],
        )
        with inside(self.space(node)):
            ipv4 = Path("/proc/sys/net/ipv4")
            for which in ("all", "default", *ports):
                (ipv4 / "conf" / which / "rp_filter").write_text("0")
            # else a connection begins by what the one before met, of whichever peer it was
            (ipv4 / "tcp_no_metrics_save").write_text("1")
            if self.fabric.by_name[node].role != "host":
                (ipv4 / "ip_forward").write_text("1")
                (ipv4 / "fib_multipath_hash_policy").write_text("1")  # by ports

    def _plant(self) -> None:
        """One multicast tree: all hosts, their leaves, the first spine."""
        hosts = (SENDER, *self.receivers)
        leaves = dict.fromkeys(map(self.leaf, hosts))
        below = {leaf: [h for h in hosts if self.leaf(h) == leaf] for leaf in leaves}
        first = next(n.name for n in self.fabric.nodes if n.name.startswith("spine"))
        rest = {leaf: [h for h in hosts if h not in below[leaf]] for leaf in leaves}
        trees = {
            leaf: [
                *((h, [h]) for h in below[leaf]),
                *([(first, rest[leaf])] * bool(rest[leaf])),
            ]
            for leaf in leaves
        }
        trees[first] = list(below.items())
        for node, branches in trees.items():
            made = [
                Branch(self._port(node, to), tuple(map(self.address, sources)))
                for to, sources in branches
            ]
            self._trees.append(route_multicast(self.space(node), made, GROUPS))


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that it waited for; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def kill(pids: Sequence[int]) -> None:
    """Kill processes at once; those that became ours are waited for."""
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def _adopt_orphans(is_on: bool) -> None:
    """Have what the processes below leave behind become children, whose times count."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


def _run(words: Sequence[str], text: str) -> None:
    """Run a tool on lines of text.

    Raises:
        EnvironmentLack: it is not here, or refuses.
    """
    try:
        subprocess.run(  # noqa: S603 - no shell
            words, input=text, capture_output=True, text=True, timeout=TOOL_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise EnvironmentLack(f"{words[0]}: {' '.join(said.split())[:200]}") from error
