"""The actors of docs/threats.md, each alone against a lab whose links and hosts have keys.

    off-path   packets of an address that is nobody's
    local      packets of every node's address, by who may not read its key
    insider    h6's own key and session: whatever it likes, in its own node's name
    recorder   what passed on any link, again, from the address that it came from
    flooder    handshakes with sound proofs, HELLOs and noise, from neighbours' addresses
    sender     pushes of h6, trusted, that end at any time, and packets of their flows changed

Laws are those of hostile_run.py, and a push is said to be verified for a file that is there.
"""

import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from hostile_run import BURST, OUTSIDER, PORT, RATE, STRANGER, HostileRun, bound, dirty_kb
from live_site import LiveLab, random_bytes

from fanfold.core.link_keys import proven
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.live.chance import draw_octets
from fanfold.live.event_loop import EventLoop
from fanfold.live.key_watch import OwnKey
from fanfold.live.link_driver import PUSH_PATIENCE_PS, drive_links, room_for_links
from fanfold.live.ports import Limits, build_node_state, build_sock, open_flow_socket
from fanfold.seals.link_keys import load_link_key, read_link_public
from fanfold.wire.handshake import BODY_BYTES, FIRST, Handshake
from fanfold.wire.link import build_link, is_link

UDP_AT = 14 + 20 + 8
ALL_FRAMES = 3
BITSTRING_BYTES = 32
KEPT = 3000
HELD_S = 120.0
"""A push that somebody holds up ends within this."""
ALONE_S = 3.0
"""Other actors have their sessions by then."""
LAB = ("--keys", "--link-keys")


class ActorRun(HostileRun):
    """Actors at once, named as "insider+flooder", against a lab while it pushes and adds up.

    flags: of each push.
    """

    def __init__(
        self,
        lab: LiveLab,
        folder: Path,
        seed: int,
        actors: str,
        flags: tuple[str, ...] = ("--seal",),
    ) -> None:
        super().__init__(lab, folder, seed, flags)
        self.acts = self.acts_of(actors.split("+"))
        self.may_be_held, self.push_s = True, HELD_S  # as the page says; counted
        self.may_lack_keys = flooder in self.acts

    def acts_of(self, actors: list[str]) -> list[Callable[[Any, float], None]]:
        """What they do."""
        return [ACTORS[actor] for actor in actors]

    def act(self, act: Callable[[Any, float], None]) -> None:
        """One of them to its end; what it cannot do is a fault of the run."""
        try:
            act(self, self.until)
        except Exception as error:
            self.faults.append(f"{act.__name__}: {type(error).__name__}: {error}")

    def run(self, seconds: float) -> dict[str, int]:
        self.capture()
        self.until = time.monotonic() + 2
        self.pushes()
        before = {n: dirty_kb(self.lab.pid(n)) for n in self.lab.nodes()}
        self.until = time.monotonic() + seconds
        workers = [threading.Thread(target=work) for work in (self.pushes, self.sums)]
        workers += [threading.Thread(target=self.act, args=(act,)) for act in self.acts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert self.faults == [], self.faults
        self.push()
        assert self.faults == [], self.faults
        self.check(before)
        self.show()
        return self.seen

    def show(self) -> None:
        """Nothing more."""


def off_path(run: ActorRun, until: float) -> None:
    run.blast([STRANGER], until)


def local_user(run: ActorRun, until: float) -> None:
    run.blast([n.address for n in run.fabric.nodes], until)


def insider(run: ActorRun, until: float) -> None:
    """Packets with sound trailers of h6's own session."""
    maker, fabric = run.maker(), run.fabric
    sock = open_flow_socket(fabric.by_name[OUTSIDER].address, OUTSIDER)
    state = build_node_state(fabric, OUTSIDER, Limits())
    io = build_sock(sock, len(state.ports.addr), n_links=room_for_links(fabric, OUTSIDER))
    loop = EventLoop(sock, io, state, None)
    key = OwnKey(load_link_key(run.lab.folder / "keys" / OUTSIDER))
    driver = drive_links(loop, fabric, OUTSIDER, key, patience_ps=PUSH_PATIENCE_PS)
    assert driver is not None
    try:
        driver.wait_for_keys(loop.step)
        while time.monotonic() < until and not run.faults:
            for _ in range(BURST):
                is_seen = run.random.random() < 0.6
                packet = maker.mutated(run.random.choice(run.captured) if is_seen else None)
                sent = len(packet) < 9000 and loop.send_beside(packet, 1, PORT)
                run.count("datagrams" if sent else "datagrams refused")
            loop.step(0)
            time.sleep(BURST / RATE)
    finally:
        driver.close()
        loop.close()


def recorder(run: ActorRun, until: float) -> None:
    """Frames of loopback, each sent again from its own address, at once and later."""
    kept: deque[tuple[str, tuple[str, int], bytes]] = deque(maxlen=KEPT)
    socks: dict[str, socket.socket] = {}
    with ExitStack() as stack:
        tap = stack.enter_context(
            closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        )
        tap.bind(("lo", ALL_FRAMES))
        tap.setblocking(False)
        while time.monotonic() < until and not run.faults:
            take_frames(run, tap, kept)
            for _ in range(BURST if kept else 0):
                source, to, packet = run.random.choice(kept)
                if source not in socks:
                    socks[source] = bound(stack, source)
                try:
                    socks[source].sendto(packet, to)
                except OSError:
                    run.count("datagrams refused")
                run.count("datagrams")
            time.sleep(BURST / RATE)


def take_frames(
    run: ActorRun, tap: socket.socket, kept: deque[tuple[str, tuple[str, int], bytes]]
) -> None:
    owners = {n.address for n in run.fabric.nodes}
    for _ in range(64):
        try:
            frame = tap.recv(1 << 17)
        except BlockingIOError:
            return
        source, dest = socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])
        port = int.from_bytes(frame[36:38], "big")
        if frame[23] == socket.IPPROTO_UDP and source in owners and dest in owners:
            kept += [(source, (dest, port), one) for one in packets_of(frame[UDP_AT:])[:4]]


def packets_of(train: bytes) -> list[bytes]:
    """Packets of what loopback carried at once."""
    if is_link(train) or len(train) < 12 + BITSTRING_BYTES + 20:
        return [train]
    at = 12 + BITSTRING_BYTES + 2
    size = at - 2 + int.from_bytes(train[at : at + 2], "big") + TRAILER_BYTES
    return [train[i : i + size] for i in range(0, len(train), size)]


def flooder(run: ActorRun, until: float) -> None:
    time.sleep(ALONE_S)
    fabric, n = run.fabric, 0
    publics = {x.name: read_link_public(x.link_key, x.name) for x in fabric.nodes}
    pairs = [(a, b) for a in fabric.by_name for b in fabric.neighbours[a]]
    with ExitStack() as stack:
        socks = {x.name: bound(stack, x.address) for x in fabric.nodes}
        while time.monotonic() < until and not run.faults:
            for _ in range(BURST):
                n += 1
                src, to = run.random.choice(pairs)
                port = socks[src].getsockname()[1] if n % 3 else run.random.randrange(1, 65536)
                message = Handshake(FIRST, port, n, body=draw_octets(BODY_BYTES[FIRST]))
                packet = build_link(proven(publics[to], message))
                if n % 7 == 0:
                    packet = packet[:4] + draw_octets(len(packet) - 4)
                try:
                    socks[src].sendto(packet, (fabric.by_name[to].address, PORT))
                except OSError:
                    run.count("datagrams refused")
                run.count("datagrams")
            time.sleep(BURST / RATE)


def sender(run: ActorRun, until: float) -> None:
    """Trusted, and bad: pushes that end anywhere, and its own packets changed meanwhile."""
    worker = threading.Thread(target=bad_pushes, args=(run, until))
    worker.start()
    try:
        insider(run, until)
    finally:
        worker.join()


def bad_pushes(run: ActorRun, until: float) -> None:
    """Pushes to places of all kinds, ended in the middle."""
    path = run.folder / "evil.bin"
    path.write_bytes(random_bytes(300_000, run.seed))
    names = ("evil/a", "evil/b/c", "../evil", "/evil", "evil/" + "x" * 200, "evil\\..\\x")

    while time.monotonic() < until and not run.faults:
        flags = ("--from", OUTSIDER, "--as", run.random.choice(names), "--rate", "2Mbps")
        process = run.lab.start_push(path, "--to", "h1-5", *flags, *run.flags)
        time.sleep(run.random.uniform(0.1, 1.0))
        if process.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now
                os.kill(process.pid, run.random.choice((signal.SIGKILL, signal.SIGINT)))
        process.communicate(timeout=30)
        run.count("bad pushes")


ACTORS: dict[str, Callable[[ActorRun, float], None]] = {
    "off-path": off_path,
    "local": local_user,
    "insider": insider,
    "recorder": recorder,
    "flooder": flooder,
    "sender": sender,
}
