"""A node's control socket: how long it listens, and to how many."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fanfold.live import control
from fanfold.live.control import Commands, open_local
from fanfold.live.control_sockets import call


@pytest.fixture
def control_socket(tmp_path: Path) -> Iterator[Path]:
    """A control socket whose commands run at once, in the thread that asked."""
    commands = Commands({"status": lambda request: {"got": request}}, lambda: None)
    commands._wake = commands.run_waiting
    path = tmp_path / "d.sock"
    close = open_local(path, commands)
    yield path
    close()


def connect(stack: ExitStack, control_socket: Path) -> socket.socket:
    sock = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
    sock.settimeout(10)
    for _ in range(1000):
        try:
            sock.connect(str(control_socket))
        except BlockingIOError:  # its queue is full
            time.sleep(0.01)
        else:
            return sock
    raise AssertionError("nobody accepts")


def test_a_line_in_pieces_is_a_line(control_socket: Path) -> None:
    with ExitStack() as stack:
        sock = connect(stack, control_socket)
        for part in (b'{"do": "st', b'atus", "x": 5}', b"\nmore"):
            sock.sendall(part)
            time.sleep(0.01)
        assert json.loads(sock.recv(4096)) == {"got": {"do": "status", "x": 5}}


@pytest.mark.parametrize("size", [control.MAX_LOCAL_LINE, control.MAX_LOCAL_LINE + 1])
def test_a_line_too_long_is_refused(control_socket: Path, size: int) -> None:
    request = {"do": "status", "x": ""}
    request["x"] = "x" * (size - len(json.dumps(request)))
    answer = call(control_socket, request)
    assert ("got" in answer) == (size <= control.MAX_LOCAL_LINE), str(answer)[:80]


def test_who_sends_a_byte_now_and_then_is_let_go(
    control_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "TIMEOUT_S", 0.3)
    with ExitStack() as stack:
        sock = connect(stack, control_socket)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                sock.sendall(b"x")
            except OSError:
                break
            time.sleep(0.05)
        assert time.monotonic() < until - 3


def test_no_more_callers_than_places(control_socket: Path) -> None:
    n_before = threading.active_count()
    with ExitStack() as stack:
        held = [connect(stack, control_socket) for _ in range(control.MAX_CALLERS)]
        for _ in range(200):
            if threading.active_count() - n_before == control.MAX_CALLERS:
                break
            time.sleep(0.02)
        one_more = connect(stack, control_socket)
        assert one_more.recv(10) == b""
        held[0].close()
        time.sleep(0.1)
        assert "got" in call(control_socket, {"do": "status"})
