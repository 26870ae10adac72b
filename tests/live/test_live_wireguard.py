"""WireGuard under a fabric whose links are open: what crosses a wire is WireGuard's alone."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from live_site import Site, random_bytes
from shaped_net import LEAF, Star, tool

pytestmark = pytest.mark.live

NEEDED = ("wireguard-go", "wireguard-tools")
UDP_PORT, MORE = 51820, 80
"""WireGuard's own port, and how much larger than the fabric's MTU a link is."""
RATE, SIZE = 200_000_000, 4_000_000
MARK = b"no word of this may cross a link"
LOOK_S = 5
"""Longer than the push takes on a busy machine."""
LOOK = """
import socket, sys, time
device, mark = sys.argv[1], bytes.fromhex(sys.argv[2])
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.bind((device, 0))
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
print("looks", flush=True)
frames = marked = 0
ends = time.monotonic() + float(sys.argv[3])
while time.monotonic() < ends:  # HELLOs come each second
    frame = sock.recv(1 << 17)
    frames += 1
    marked += mark in frame
print(frames, marked, flush=True)
"""


@pytest.fixture(scope="module")
def wireguard() -> None:
    """Debian's, in user space: not every kernel has it."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("no /dev/net/tun here, so no WireGuard in user space")
    if os.geteuid() == 0 and shutil.which("wireguard-go") is None and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "-q", "--no-install-recommends", *NEEDED]):
            subprocess.run(["apt-get", *words], capture_output=True, check=False, timeout=300)
    if shutil.which("wireguard-go") is None or shutil.which("wg") is None:
        if os.environ.get("CI"):
            pytest.fail("WireGuard is missing: apt-get install -y wireguard-go wireguard-tools")
        pytest.skip(
            "no WireGuard here; on Debian: apt-get install -y wireguard-go wireguard-tools"
        )


class Tunnels(Star):
    """A star whose links are tunnels over links with addresses of their own."""

    def down(self) -> None:
        for node in self.fabric.nodes:  # daemons of the tunnels, and all else there
            done = subprocess.run(
                ["ip", "netns", "pids", self.space(node.name)],
                capture_output=True,
                text=True,
                check=False,
            )
            for pid in done.stdout.split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        super().down()

    def _device(self, name: str) -> str:
        return f"w{os.getpid()}{name}"

    def device(self, host: str, name: str) -> str:
        """The tunnel's device at one end of a host's link."""
        return self._device(f"{host}{'a' if name == host else 'b'}")

    def _link(self, host: str) -> None:
        super()._link(host)
        k = self.hosts.index(host)
        ends = {host: (LEAF, f"10.86.{k}.1"), LEAF: (host, f"10.86.{k}.2")}
        keys = {name: tool("wg", "genkey").strip() for name in ends}
        for name, (device, under) in ends.items():
            other = LEAF if name == host else host
            self._ip(name, f"addr add {under}/30 dev {device}")
            self._tunnel(host, name, keys[name], public(keys[other]), ends[other][1])
        self._lead(host)

    def _tunnel(self, host: str, name: str, key: str, peer: str, there: str) -> None:
        device, space = self.device(host, name), ["ip", "netns", "exec", self.space(name)]
        daemon = [*space, "wireguard-go", device]
        quiet = subprocess.DEVNULL  # what it becomes would hold a pipe open
        subprocess.run(daemon, check=True, stdout=quiet, stderr=quiet, timeout=20)
        file = self.folder / f"{device}.key"
        file.write_text(key)
        port = UDP_PORT + self.hosts.index(host)
        words = f"set {device} listen-port {port} private-key {file} peer {peer}"
        allowed = f"allowed-ips 0.0.0.0/0 endpoint {there}:{port}"
        subprocess.run([*space, "wg", *words.split(), *allowed.split()], check=True)
        self._ip(name, f"link set {device} mtu {self.fabric.mtu} up")

    def _lead(self, host: str) -> None:
        """Between the fabric's addresses all goes by the tunnel."""
        own, other = self.fabric.by_name[host].address, self.fabric.by_name[LEAF].address
        near, far = self.device(host, host), self.device(host, LEAF)
        self._ip(host, f"addr add {own}/32 dev {near}")
        self._ip(host, f"route replace {other}/32 dev {near} src {own}")
        self._ip(host, f"route replace default dev {near} src {own}")
        self._ip(LEAF, f"route replace {own}/32 dev {far} src {other}")

    def look(self, name: str, device: str) -> "subprocess.Popen[str]":
        """Look for MARK in what a device sends and takes, for LOOK_S."""
        words = [device, MARK.hex(), LOOK_S]
        seen = self._open(name, "-c", LOOK, *words, first=("python3",))
        assert seen.stdout is not None
        assert seen.stdout.readline() == "looks\n"
        return seen


def public(key: str) -> str:
    done = subprocess.run(
        ["wg", "pubkey"], input=key, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def net(wireguard: None, site: Site, tmp_path: Path) -> Iterator[Tunnels]:
    made = Tunnels(site, tmp_path, dict.fromkeys(("h0", "h1", "h2"), RATE), 8900)
    made.wire_mtu = 8900 + MORE
    try:
        made.up()
        yield made
    finally:
        made.down()


def test_what_crosses_a_wire_is_wireguards_alone(net: Tunnels, tmp_path: Path) -> None:
    file = tmp_path / "file.bin"
    file.write_bytes((MARK + random_bytes(4064, 1)) * (SIZE // 4096))
    wire, tunnel = net.look(LEAF, "h1"), net.look(LEAF, net.device("h1", LEAF))
    told = net.push(file)
    assert {row["state"] for row in told["receivers"]} == {"verified"}, told
    frames, marked = map(int, wire.communicate()[0].split())
    assert frames > SIZE // 9000
    assert marked == 0
    assert (
        int(tunnel.communicate()[0].split()[1]) > 100
    )  # so the look sees what is in the clear
