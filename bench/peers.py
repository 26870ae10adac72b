"""uftp and udpcast as Debian ships them: one sender and eight receivers in namespaces.

Both bind fixed ports, so each receiver has a network namespace of its own; a veth pair each and
one bridge join them. Everything carries one prefix and is removed afterwards.
"""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from jobs import Job, JobError, run, run_well
from labs import N_RECEIVERS

MTU = 9000
SETTLE_S = 1.0
UFTP_BLOCK = 8800
UDPCAST_BLOCK = 8900
UDP_BUFFER = 4 << 20


def lacking(packages: dict[str, str]) -> list[str]:
    """Debian packages whose command is missing, after trying to install them as root."""
    gone = [package for package, command in packages.items() if not shutil.which(command)]
    if gone and os.geteuid() == 0 and shutil.which("apt-get"):
        with suppress(JobError):
            run(["apt-get", "install", "-y", "-qq", *gone], 300)
    return [package for package, command in packages.items() if not shutil.which(command)]


class Net:
    """A switch with a sender and eight receivers; node 0 sends."""

    def __init__(self) -> None:
        self.prefix = f"ffb{os.getpid()}"
        self.switch = f"{self.prefix}-sw"

    def up(self) -> None:
        """Create everything.

        Raises:
            JobError: not root, or the kernel has no namespaces, veth or bridge.
        """
        if os.geteuid() != 0:
            raise JobError("needs root for network namespaces")
        self._ip("netns", "add", self.switch)
        self._ip(
            "-n", self.switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"
        )
        self._ip("-n", self.switch, "link", "set", "br0", "mtu", str(MTU), "up")
        for i in range(N_RECEIVERS + 1):
            name = self.node(i)
            self._ip("netns", "add", name)
            peer = ["peer", "name", f"p{i}", "mtu", str(MTU), "netns", self.switch]
            link = ["link", "add", "eth0", "mtu", str(MTU), "type", "veth", *peer]
            self._ip("-n", name, *link)
            self._ip("-n", self.switch, "link", "set", f"p{i}", "master", "br0", "up")
            address = f"10.83.0.{i + 1}/24"
            self._ip("-n", name, "addr", "add", address, "brd", "+", "dev", "eth0")
            self._ip("-n", name, "link", "set", "lo", "up")
            self._ip("-n", name, "link", "set", "eth0", "up")
            self._ip("-n", name, "route", "add", "224.0.0.0/4", "dev", "eth0")

    def down(self) -> None:
        for name in [self.switch, *(self.node(i) for i in range(N_RECEIVERS + 1))]:
            run(["ip", "netns", "del", name], 20)

    def node(self, i: int) -> str:
        return f"{self.prefix}-{i}"

    def job(self, i: int, command: Sequence[str], log: Path | None = None) -> Job:
        """A command in a node's namespace."""
        return Job(["ip", "netns", "exec", self.node(i), *command], log=log)

    def sent_bytes(self) -> int:
        """Bytes that left the sender's device, all headers included."""
        command = ["ip", "netns", "exec", self.node(0), "cat"]
        return int(run_well([*command, "/sys/class/net/eth0/statistics/tx_bytes"], 20))

    def _ip(self, *words: str) -> None:
        run_well(["ip", *words], 20)


@contextmanager
def net() -> Iterator[Net]:
    made = Net()
    try:
        made.up()
        yield made
    finally:
        made.down()


class Transfer:
    """What one transfer by a peer took."""

    def __init__(self, seconds: float, cpu_s: float, link_bytes: int, moving_s: float = 0.0):
        self.seconds, self.cpu_s, self.link_bytes = seconds, cpu_s, link_bytes
        self.moving_s = moving_s


def folders(into: Path) -> list[Path]:
    """An empty folder for each receiver."""
    found = [into / f"r{i + 1}" for i in range(N_RECEIVERS)]
    for folder in found:
        folder.mkdir(parents=True, exist_ok=True)
    return found


def uftp(made: Net, file: Path, into: Path, rate_mbps: int, timeout_s: float) -> Transfer:
    """uftp at a fixed rate, closed group, so that it starts when all eight have answered."""
    receivers = []
    logs = into / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    buffer = ["-B", str(UDP_BUFFER)]
    try:
        for i, folder in enumerate(folders(into), start=1):
            words = ["uftpd", "-d", "-q", "-I", "eth0", "-D", str(folder), "-U", f"0x{i:08x}"]
            command = [*words, *buffer, "-c", "20971520"]
            receivers.append(made.job(i, command, logs / f"uftpd{i}.log"))
        time.sleep(SETTLE_S)
        group = ",".join(f"0x{i + 1:08x}" for i in range(N_RECEIVERS))
        before = made.sent_bytes()
        rate = str(rate_mbps * 1000 if rate_mbps > 0 else -1)
        command = ["uftp", "-R", rate, "-I", "eth0", "-t", "4", "-r", "0.05", *buffer]
        command += ["-b", str(UFTP_BLOCK), "-H", group, str(file)]
        ended = made.job(0, command, logs / "uftp.log").end(timeout_s)
        if ended.code:
            raise JobError(f"uftp: exit {ended.code}")
        n_bytes = made.sent_bytes() - before
        return Transfer(ended.seconds, ended.cpu_s + sum(r.stop() for r in receivers), n_bytes)
    finally:
        for receiver in receivers:
            if receiver.process.returncode is None:
                receiver.stop()


def udpcast(made: Net, file: Path, into: Path, timeout_s: float) -> Transfer:
    """udpcast in its default, acknowledged mode; the sender starts when eight connected."""
    receivers = []
    logs = into / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        for i, folder in enumerate(folders(into), start=1):
            words = ["udp-receiver", "--file", str(folder / file.name), "--interface", "eth0"]
            command = [*words, "--nokbd", "--start-timeout", "60", "--receive-timeout", "30"]
            receivers.append(made.job(i, command, logs / f"receiver{i}.log"))
        time.sleep(SETTLE_S)
        before = made.sent_bytes()
        command = ["udp-sender", "--file", str(file), "--interface", "eth0", "--nokbd"]
        command += ["--min-receivers", str(N_RECEIVERS), "--full-duplex", "-b"]
        command += [str(UDPCAST_BLOCK), "--start-timeout", "60"]
        ended = made.job(0, command, logs / "sender.log").end(timeout_s)
        if ended.code:
            raise JobError(f"udp-sender: exit {ended.code}")
        n_bytes = made.sent_bytes() - before
        cpu_s = ended.cpu_s + sum(r.end(20).cpu_s for r in receivers)
        return Transfer(ended.seconds, cpu_s, n_bytes)
    finally:
        for receiver in receivers:
            if receiver.process.returncode is None:
                receiver.stop()
