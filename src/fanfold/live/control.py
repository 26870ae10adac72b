"""A node's control socket: one JSON line in, one JSON line out, over a stream socket.

On a Unix socket of a lab's own folder every command works, for the node's own user and root; on
TCP, at the node's own address and port, only ``status`` does, and only for those whom it
concerns: callers with an address of the fabric file, and on the node's own machine processes of
its own user or of root; to those ``vat`` and ``table`` are open too. Strangers get no counters
and no flow ids. The fabric's operator proves itself by its key, from any address, and may
change nodes (operators.py). Commands run in the node's loop, the threads here only wait.
"""

import json
import os
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fanfold.errors import EnvironmentLack
from fanfold.live.control_sockets import Answer
from fanfold.live.operators import (
    MAY,
    NOBODY,
    REFUSED,
    Operators,
    draw_challenge,
    is_challenge,
    open_order,
)
from fanfold.live.owner import local_owner, unix_owner

MAX_LINE = 65536
MAX_LOCAL_LINE = 1 << 22
"""On a Unix socket: a table of 43,750 BFERs, four neighbours each."""
TIMEOUT_S = 5.0
MAX_CALLERS = 256
"""Connections that wait at one control socket."""
MAX_OPERATORS = 4
"""Of these who send an order, which may be as long as a table."""

ANYBODY = frozenset({"status"})
OWNERS = frozenset({"status", "table", "vat"})
"""What processes of the node's own user and machine may ask for over TCP too."""
STRANGER: Answer = {"error": "told to nodes of the fabric and to this node's user only"}

Handler = Callable[[dict[str, Any]], Answer]
Seen = Callable[[str, Answer], Answer]
"""(address of who asks, answer): what of it concerns them."""


class Commands:
    """Commands waiting for the node's loop."""

    def __init__(self, handlers: dict[str, Handler], wake: Callable[[], None]) -> None:
        self._handlers, self._wake = handlers, wake
        self._queue: queue.SimpleQueue[tuple[dict[str, Any], Future[Answer]]] = (
            queue.SimpleQueue()
        )

    def run_waiting(self) -> None:
        """Run what waits; called by the loop."""
        while not self._queue.empty():
            request, future = self._queue.get()
            try:
                future.set_result(self._handlers[request["do"]](request))
            except Exception as error:  # what a peer asks for never ends the node
                future.set_result({"error": f"{type(error).__name__}: {error}"})

    def ask(self, line: bytes, allowed: frozenset[str]) -> Answer:
        """Answer one line; called by the threads."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"error": "not a JSON object"}
        verb = request.get("do") if isinstance(request, dict) else None
        if not isinstance(verb, str) or verb not in allowed:
            return {"error": f"do: allowed: {', '.join(sorted(allowed))}"}
        future: Future[Answer] = Future()
        self._queue.put((request, future))
        self._wake()
        try:
            return future.result(TIMEOUT_S)
        except TimeoutError:
            return {"error": "the node did not answer in time"}

    def allowed(self, *, is_local: bool, is_own: bool) -> frozenset[str]:
        """Commands for one socket; is_own: the caller is of the node's user, or root."""
        known = frozenset(self._handlers)
        return known if is_local else known & (OWNERS if is_own else ANYBODY)


class _Connection(socketserver.StreamRequestHandler):
    timeout = TIMEOUT_S

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, (_UnixControl, _TcpControl))
        try:
            line = _read_line(self.connection, MAX_LOCAL_LINE if server.is_local else MAX_LINE)
            if isinstance(server, _TcpControl) and is_challenge(line):
                self.wfile.write(json.dumps(self._operate(server)).encode() + b"\n")
                return
            answer = STRANGER
            find_owner = unix_owner if server.is_local else local_owner
            owner = find_owner(self.connection)
            is_own = owner in (0, os.getuid())
            if is_own or is_known(self.connection, owner, server.known):
                allowed = server.commands.allowed(is_local=server.is_local, is_own=is_own)
                answer = server.commands.ask(line, allowed)
                if not is_own:
                    answer = server.seen(self.connection.getpeername()[0], answer)
            self.wfile.write(json.dumps(answer).encode() + b"\n")
        except OSError:
            return  # the other side left; nothing is lost but its answer

    def _operate(self, server: "_TcpControl") -> Answer:
        """Let somebody prove to be the operator, and answer the order."""
        operators = server.operators
        if operators is None:
            return NOBODY
        if not server.orders.acquire(blocking=False):
            return {"error": f"{MAX_OPERATORS} operators are here; try again"}
        try:
            if not operators.who():
                return NOBODY
            challenge = draw_challenge()
            self.wfile.write(json.dumps({"challenge": challenge}).encode() + b"\n")
            line = _read_line(self.connection, MAX_LOCAL_LINE)
            order = open_order(operators, challenge, line)
            known = server.commands.allowed(is_local=True, is_own=True)
            return REFUSED if order is None else server.commands.ask(order, known & MAY)
        finally:
            server.orders.release()


def _read_line(sock: socket.socket, most: int) -> bytes:
    """One line, all of it within TIMEOUT_S: who sends a byte now and then holds no thread."""
    until = time.monotonic() + TIMEOUT_S
    line = b""
    while b"\n" not in line and len(line) < most:
        sock.settimeout(max(until - time.monotonic(), 0.001))
        part = sock.recv(min(65536, most - len(line)))
        if not part:
            break
        line += part
    sock.settimeout(TIMEOUT_S)
    return line.partition(b"\n")[0]


class Bounded(socketserver.ThreadingMixIn):
    """At most MAX_CALLERS threads; whoever comes on top is hung up on."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._places = threading.BoundedSemaphore(MAX_CALLERS)
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a caller a thread, or hang up."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # type: ignore[attr-defined]  # of the server beside

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one caller, and let the next one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


def _as_it_is(address: str, answer: Answer) -> Answer:
    del address
    return answer


class _UnixControl(Bounded, socketserver.UnixStreamServer):
    request_queue_size = 64
    is_local = True
    commands: Commands
    known: frozenset[str] = frozenset()
    seen = staticmethod(_as_it_is)


class _TcpControl(Bounded, socketserver.TCPServer):
    request_queue_size = 64
    allow_reuse_address = True
    is_local = False
    commands: Commands
    known: frozenset[str] = frozenset()
    operators: Operators | None = None
    orders: threading.BoundedSemaphore
    seen: Seen = staticmethod(_as_it_is)


def open_local(path: Path, commands: Commands) -> Callable[[], None]:
    """Serve on a Unix socket; returns what closes it."""
    path.unlink(missing_ok=True)
    control_socket = _UnixControl(str(path), _Connection)
    path.chmod(0o600)
    return _serve(control_socket, commands)


def is_known(sock: socket.socket, owner: int | None, known: frozenset[str]) -> bool:
    """Whether a caller over TCP is one whom a node's counters concern.

    owner: of its process, None on another machine.
    """
    return owner is None and sock.getpeername()[0] in known


def open_tcp(
    address: str,
    port: int,
    commands: Commands,
    known: frozenset[str],
    seen: Seen = _as_it_is,
    operators: Operators | None = None,
) -> Callable[[], None]:
    """Serve callers with a known address, and operators, on TCP; returns what closes it."""
    try:
        control_socket = _TcpControl((address, port), _Connection)
    except OSError as error:
        raise EnvironmentLack(f"TCP port {port} of {address}: {error.strerror}") from error
    control_socket.known, control_socket.seen = known, seen
    control_socket.operators = operators
    control_socket.orders = threading.BoundedSemaphore(MAX_OPERATORS)
    return _serve(control_socket, commands)


def _serve(
    control_socket: _UnixControl | _TcpControl, commands: Commands
) -> Callable[[], None]:
    control_socket.commands = commands
    thread = threading.Thread(target=control_socket.serve_forever, args=(0.5,), daemon=True)
    thread.start()

    def close() -> None:
        control_socket.shutdown()
        control_socket.server_close()

    return close
