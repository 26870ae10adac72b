"""TCP flows of plain sockets between hosts of a lab with planes, and what its links carried."""

import contextlib
import json
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from fanfold.live.plane_build import in_space
from fanfold.live.spaces import space_of

DST_PORT = 5201
FIRST_PORT = 20_000
ETH_P_ALL = 3
PACKET_OUTGOING = 4
MOST_STILL_S = 0.5
Result = TypeVar("Result")


class Pair(NamedTuple):
    """Two hosts of a lab and their loopback addresses."""

    lab: str
    src: str
    dst: str
    own: str
    to: str


def leg_of_ports(pair: Pair, ports: Iterable[int]) -> dict[int, str]:
    """Device that the source's kernel sends a flow of each source port by; it is asked."""
    rest = f"{pair.to} from {pair.own} ipproto tcp dport {DST_PORT} sport"
    ports = list(ports)
    words = ["ip", "-n", space_of(pair.lab, pair.src), "-batch", "-"]
    lines = "\n".join(f"route get {rest} {port}" for port in ports)
    told = subprocess.run(words, input=lines, capture_output=True, text=True, check=True)
    found = [
        line.split(" dev ")[1].split()[0]
        for line in told.stdout.splitlines()
        if " dev " in line
    ]
    return dict(zip(ports, found, strict=True))


def plane_of(device: str) -> str:
    return device.partition("-")[0].removeprefix("plane")


def ports_by_weight(pair: Pair, weights: dict[str, int], n: int) -> dict[int, str]:
    """Source ports of n flows whose planes come out as the weights say, each with its device.

    As a host picks the UDP source ports of its queue pairs: the split is that of weights, and
    what carries each flow is for the kernel's hash to say.
    """
    total = sum(weights.values())
    left = Counter({p: n * w // total for p, w in weights.items()})
    by_rest = sorted(weights, key=lambda p: (-(n * weights[p] % total), p))
    left.update(by_rest[: n - sum(left.values())])
    chosen: dict[int, str] = {}
    for port, device in leg_of_ports(pair, range(FIRST_PORT, FIRST_PORT + 40 * n)).items():
        if left[plane_of(device)] > 0:
            left[plane_of(device)] -= 1
            chosen[port] = device
    assert len(chosen) == n, left
    return chosen


def sent_bytes(pair: Pair) -> Counter[str]:
    """Bytes that the source's links have sent, by plane."""
    words = ["ip", "-n", space_of(pair.lab, pair.src), "-s", "-j", "link", "show"]
    rows: list[dict[str, Any]] = json.loads(
        subprocess.run(words, capture_output=True, check=True).stdout
    )
    found: Counter[str] = Counter()
    for row in rows:
        if row["ifname"].startswith("plane"):
            found[plane_of(row["ifname"])] += row["stats64"]["tx"]["bytes"]
    return found


class Flows:
    """TCP connections from a source to a sink, one for each source port."""

    def __init__(self, pair: Pair, ports: Iterable[int]) -> None:
        self.pair = pair
        self._sink = in_space(pair.lab, pair.dst, lambda: _sink(pair.to))
        self._ends: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.flows = in_space(pair.lab, pair.src, lambda: [_flow(pair, port) for port in ports])

    def send(self, n_bytes: int) -> None:
        """So much by each, all at once; returns when it is acknowledged."""
        threads = [
            threading.Thread(target=flow.sendall, args=(bytes(n_bytes),)) for flow in self.flows
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while any(_unacked(flow) for flow in self.flows):
            time.sleep(0.005)

    @contextlib.contextmanager
    def pulse(self, every_s: float = 0.01, size: int = 400) -> Iterator[None]:
        """Meanwhile, a little by each now and then."""
        over = threading.Event()
        for flow in self.flows:
            flow.setblocking(False)

        def beat() -> None:
            while not over.wait(every_s):
                for flow in self.flows:
                    with contextlib.suppress(BlockingIOError):
                        flow.send(bytes(size))

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def close(self) -> None:
        self._sink.shutdown(socket.SHUT_RDWR)  # who waits at it is woken
        self._thread.join()
        for each in (*self.flows, *self._ends, self._sink):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._sink.accept()
            except OSError:
                return
            self._ends.append(end)
            thread = threading.Thread(target=_drain, args=(end,), daemon=True)
            thread.start()


def _unacked(flow: socket.socket) -> int:
    """Packets that are not acknowledged: tcpi_unacked of struct tcp_info."""
    info = flow.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("=I", info, 24)[0])


def _sink(address: str) -> socket.socket:
    sink = socket.socket()
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sink.bind((address, DST_PORT))
    sink.listen(128)
    return sink


def _flow(pair: Pair, port: int) -> socket.socket:
    flow = socket.socket()
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    flow.bind((pair.own, port))
    flow.settimeout(5)
    flow.connect((pair.to, DST_PORT))
    return flow


def _drain(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while end.recv(1 << 20):
            pass


class Seen(NamedTuple):
    """One packet that left a host."""

    at_s: float
    device: str
    port: int


class Capture:
    """Packets with payload that a source sends to a sink, by device and source port."""

    def __init__(self, pair: Pair) -> None:
        self._to = socket.inet_aton(pair.to)
        self.seen: list[Seen] = []
        self._sock = in_space(
            pair.lab,
            pair.src,
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)),
        )
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        self._sock.settimeout(0.2)
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._sock.close()

    def _run(self) -> None:
        while not self._is_over:
            try:
                octets, (device, kind, way, *_) = self._sock.recvfrom(200)
            except TimeoutError:
                continue
            is_data = way == PACKET_OUTGOING and kind == 0x0800 and octets[9] == 6
            if is_data and octets[16:20] == self._to and len(octets) > 100 and device != "lo":
                port = int.from_bytes(octets[20:22], "big")
                self.seen.append(Seen(time.monotonic(), device, port))


class Stalls:
    """How long this machine stood still at most, while the block ran."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Stalls":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._over.wait(0.02):
            now_s = time.monotonic()
            self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s


def wait_until(
    is_true: Callable[[], object],
    what: str,
    see: Callable[[], object] = str,
    n_looks: int = 500,
) -> None:
    """Look so many times: a machine that stands still for a minute costs one of them."""
    for _ in range(n_looks):
        if is_true():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within {n_looks} looks: {what}; got {see()}")


def unstalled(run: Callable[[], Result], tries: int = 3) -> Result:
    """What a run found in which this machine did not stand still; else the last one's."""
    for _ in range(tries - 1):
        with Stalls() as stalls:
            found = run()
        if stalls.longest_s < MOST_STILL_S:
            return found
    return run()
