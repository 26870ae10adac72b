"""One node's process: wait, pump, hand to a role, ask for the deadline; nothing else.

A role sees blocks, never single packets of a fan: local DATA was placed by the pump already.
Whatever a packet sets off in a role ends here: it is counted, and the node goes on.
"""

import errno
import socket
from collections.abc import Callable
from typing import Protocol

import numpy as np

from fanfold.errors import FanfoldError, MisuseError, WireError, WireReason
from fanfold.kernels import codes
from fanfold.kernels.codes import (
    DROP_BAD_HANDSHAKE,
    DROP_BAD_INNER,
    DROP_BAD_REPORT,
    DROP_UNKNOWN_PROTO,
)
from fanfold.kernels.jit import bind
from fanfold.kernels.slots import NEVER_PS
from fanfold.live import pump as p
from fanfold.live import sock as s
from fanfold.live.batch import take_turns
from fanfold.live.beside import Beside
from fanfold.live.clock import now_ps
from fanfold.live.exits import post
from fanfold.live.faults import Faults
from fanfold.live.ports import close_exits
from fanfold.units import PS_PER_SECOND
from fanfold.wire import inner
from fanfold.wire.inner import address_text
from fanfold.wire.link import is_handshake
from fanfold.wire.packet import Packet, parse

TURNS = 64
MAX_WAIT_PS = PS_PER_SECOND // 4
MAX_IN_A_ROW = 8
"""Turns that fail one after the other before a node ends, with a line that says of what."""
MEANT = (FanfoldError, OSError, MemoryError)
"""What says itself why a node, or a push, cannot go on."""


class Role(Protocol):
    """What a node does beyond forwarding."""

    def on_packet(self, now: int, packet: Packet, port: int) -> None:
        """A packet for this node that is not DATA of a followed flow."""

    def on_events(self, now: int) -> None:
        """Blocks of followed flows need attention; the pass in hand still stands."""

    def on_timer(self, now: int) -> None:
        """Time passed."""

    def deadline_ps(self, now: int) -> int:
        """When to be called at the latest."""


class Keeper(Protocol):
    """Who looks after a node's neighbours (live/keeper.py)."""

    def on_link(self, now: int, octets: bytes, port: int) -> None:
        """What a neighbour says to this node only."""

    def on_timer(self, now: int) -> None:
        """Time passed, or traffic came."""

    def deadline_ps(self, now: int) -> int:
        """When to be called at the latest."""


class EventLoop:
    """Socket, arrays and role of one node, and the loop around them."""

    def __init__(
        self, sock: socket.socket, io: s.Sock, node: p.Node, role: Role | None
    ) -> None:
        self.sock, self.io, self.node, self.role = sock, io, node, role
        self.keeper: Keeper | None = None
        self.links: Keeper | None = None
        """Who looks after keys of links (live/link_driver.py)."""
        self.beside = Beside(sock, io, node.ports.addr, node.counters.drops)
        self.on_pump: list[Callable[[], None]] = []
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        io.ints[s.WAKE_FD] = self._woken.fileno()
        self._n_failed = 0  # turns, one after the other
        self.faults = Faults(sock.getsockname()[0], node.counters.drops)
        self._serve: Callable[[s.Sock, p.Node, int, int], int] = p.serve
        self._served: tuple[s.Sock, p.Node] | None = None

    def run(self, is_over: Callable[[], bool]) -> None:
        """Work until ``is_over``; wakes at least four times a second to ask."""
        take_turns()
        while not is_over():
            self.step()

    def step(self, by_ps: int = NEVER_PS) -> int:
        """Serve until a role is needed or its time has come, let it look; the pump's code.

        Args:
            by_ps: when to return at the latest.

        Raises:
            FanfoldError, OSError, MemoryError: what a role says on purpose, or its turns failed
                again and again.
        """
        before = self._n_failed
        code = self._enter(min(self._until(), by_ps))
        if code == p.LOCAL:
            self._hand_over()
        if code == p.IDLE and int(self.io.polls[1]) >> 48:
            self._drain_wakes()
        try:
            self._take_turn()
            if self._n_failed == before:
                self._n_failed = 0
        except MEANT:
            raise
        except Exception as error:
            self._on_failed("a turn failed", error)
        return code

    def _enter(self, until_ps: int) -> int:
        """``serve``; arrays have the types that they had last time while they are the same."""
        io, node = self.io, self.node
        if self._served is None or io is not self._served[0] or node is not self._served[1]:
            self._served = io, node
            self._serve = bind(p.serve, io, node, TURNS, until_ps)
        return self._serve(io, node, TURNS, until_ps)

    def _until(self) -> int:
        now = now_ps()
        until_ps = now + MAX_WAIT_PS
        try:
            for part in (self.role, self.keeper, self.links):
                if part is not None:
                    until_ps = min(until_ps, part.deadline_ps(now))
        except MEANT:
            raise
        except Exception as error:
            self._on_failed("no deadline", error)
            return now
        return until_ps

    def _take_turn(self) -> None:
        if self.role is not None:
            now = now_ps()
            if self.node.collect.n_events[0]:
                self._take_events(self.role, now)
            self.role.on_timer(now)
        if self.keeper is not None:
            self.keeper.on_timer(now_ps())
        if self.links is not None:
            self.links.on_timer(now_ps())
        for hook in self.on_pump:
            hook()

    def _on_failed(self, what: str, error: Exception) -> None:
        """Count and tell a fault of a node's own turn; the last of many in a row ends it."""
        self.faults.note(what, error)
        self._n_failed += 1
        if self._n_failed >= MAX_IN_A_ROW:
            name, said = type(error).__name__, " ".join(str(error).split())[:200]
            text = f"node {self.faults.who} ends: {what} {self._n_failed} times in a row"
            raise MisuseError(f"{text}: {name}: {said}") from error

    def _drain_wakes(self) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return

    def wake(self) -> None:
        """End the current wait, from another thread or a signal handler."""
        try:
            self._wake.send(b"x")
        except BlockingIOError:
            return

    def send(self, packet: bytes | memoryview, port: int, dport: int) -> bool:
        """Send one packet to a UDP port of the neighbour at a port; False when it is lost.

        A plain system call costs less than entering compiled code, where it does not block.
        """
        row, addr = self.io.exits[port], int(self.node.ports.addr[port])
        if (
            row["fd"] == self.io.ints[s.FD]
            and row["used"] == 0
            and not (row["shut"] or row["keys"])
        ):
            try:
                self.sock.sendto(packet, socket.MSG_DONTWAIT, (address_text(addr), dport))
            except BlockingIOError:
                pass  # it waits in the queue
            except OSError as error:
                row["too_large" if error.errno == errno.EMSGSIZE else "refused"] += 1
                return False
            else:
                return True
        one = np.frombuffer(bytes(packet), np.uint8)  # of one type, that which warm.py loads
        return bool(post(self.io, port, addr, dport, one))

    def send_beside(self, packet: bytes, port: int, dport: int) -> bool:
        """Send one packet past the queue of a port; False where it is lost."""
        return self.beside.send(packet, port, dport)

    def packet_at(self, at: int) -> Packet | None:
        """Packet at an offset of the block in hand, or None when it is malformed (counted)."""
        end = min(at + int(self.io.ints[s.SEG]), int(self.io.ints[s.END]))
        try:
            return parse(self.io.buf[at:end].tobytes())
        except WireError as error:
            self.node.counters.drops[_drop_of(error)] += 1
            return None

    def _hand_over(self) -> None:
        plan, ints = self.node.plan, self.io.ints
        for i in range(int(plan.n[0])):
            k = int(plan.pkt[0, i])
            at = int(ints[s.FIRST]) + k * int(ints[s.SEG])
            match int(plan.kind[k]):
                case codes.OF_LINK:
                    self._hand_link(at)
                case codes.CLASS_OPAQUE if self.role is not None:
                    # where it came from was not checked
                    self.node.counters.drops[DROP_BAD_INNER] += 1
                case codes.CLASS_FEEDBACK | codes.CLASS_CONTROL if self.role is not None:
                    self._hand_packet(self.role, at)
                case _:
                    continue

    def _hand_packet(self, role: Role, at: int) -> None:
        packet = self.packet_at(at)
        if packet is None:
            return
        try:
            role.on_packet(now_ps(), packet, int(self.io.ints[s.PORT]))
        except Exception as error:  # a peer's bytes never end a node
            self.faults.note(f"{type(packet.message).__name__} refused", error)

    def _hand_link(self, at: int) -> None:
        ints = self.io.ints
        octets = self.io.buf[at : min(at + int(ints[s.SEG]), int(ints[s.END]))].tobytes()
        is_of_keys = self.links is not None and is_handshake(octets)
        keeper = self.links if is_of_keys else self.keeper
        if ints[s.PORT] == 0 and not is_of_keys:  # nor is there a neighbour
            self.node.counters.drops[DROP_BAD_HANDSHAKE] += 1
            return
        if keeper is None:
            return
        try:
            keeper.on_link(now_ps(), octets, int(ints[s.PORT]))
        except Exception as error:  # neither do a neighbour's
            self.faults.note("words of a neighbour refused", error)

    def _take_events(self, role: Role, now: int) -> None:
        try:
            role.on_events(now)
        except Exception as error:  # what is lost by it the sender asks for again
            self.faults.note("blocks refused", error)
            self.node.collect.n_events[0] = 0

    def close(self) -> None:
        """Give the socket back."""
        close_exits(self.io)
        self.sock.close()
        self._wake.close()
        self._woken.close()


def _drop_of(error: WireError) -> int:
    """Drop code of a packet for this node that a codec refused (RFC 8296 2.1.2: Proto)."""
    if error.reason == WireReason.BAD_PROTO:
        return DROP_UNKNOWN_PROTO
    return DROP_BAD_INNER if error.header == inner.HEADER else DROP_BAD_REPORT
