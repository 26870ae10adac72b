"""Commands forked from one process that holds their imports and compiled code.

A process of its own spends a second of one core on both, before a command begins. That this
works is for other tests: `make demo`'s, README's, and those of tests/unit/cli. Programs of
PyTorch, which take longer, are forked from another one (torch_forks.py).

    python forks.py FD      the process itself: one request a packet on socket FD
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

MAX_REQUEST = 1 << 16
KEPT_FDS = 3
Fds = list[int]
Request = tuple[list[str], dict[str, str], str]


def heard(fd: int, timeout: float | None) -> bool:
    """Whether there is something to read, of any number of a descriptor."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(None if timeout is None else max(timeout, 0) * 1000))


class Nursery:
    """The process that forks commands; started when the first one is asked for.

    program: what it runs, with the number of a socket.
    """

    def __init__(self, env: Mapping[str, str], program: str = __file__) -> None:
        self._env, self._program, self._lock = env, program, threading.Lock()
        self._sock: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def pids(self) -> set[int]:
        """The process itself, when there is one."""
        return {self._process.pid} if self._process else set()

    def start(self, words: Sequence[str], more: Mapping[str, str]) -> "Command":
        """Start one command; ``more`` goes into its environment."""
        with self._lock:
            if self._sock is None:
                self._sock = self._begin()
            return Command(self._sock, words, more)

    def end(self) -> None:
        """End it; what it forked goes on."""
        if self._sock is not None and self._process is not None:
            self._sock.close()
            self._process.wait(10)
            self._sock = self._process = None

    def _begin(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, self._program, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env=dict(self._env),
            )
        return ours


class Command:
    """A forked command: of ``subprocess.Popen`` what these tests use."""

    def __init__(
        self, sock: socket.socket, words: Sequence[str], more: Mapping[str, str]
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        out, err, told = os.pipe(), os.pipe(), os.pipe()
        request = json.dumps([self.args, dict(more), str(Path.cwd())]).encode()
        assert len(request) < MAX_REQUEST
        socket.send_fds(sock, [request], [out[1], err[1], told[1]])
        for _, write in (out, err, told):
            os.close(write)
        self.stdout, self.stderr = (os.fdopen(read) for read, _ in (out, err))
        self._told = told[0]
        self.pid = self._hear()
        self._said: list[str] = []
        self._readers: list[threading.Thread] = []

    def poll(self) -> int | None:
        """Exit code, minus a signal; None while it runs."""
        if self.returncode is None and heard(self._told, 0):
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Exit code when it is over."""
        if self.returncode is None:
            if not heard(self._told, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._hear()
            os.close(self._told)
        return self.returncode

    def _hear(self) -> int:
        """The next line of the process that forks."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._told, 1)
            assert byte, "the process that forks is gone"
            line += byte
        return int(line)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it printed on stdout and stderr."""
        until = time.monotonic() + timeout if timeout is not None else None
        if not self._readers:
            self._said = ["", ""]
            self._readers = [
                threading.Thread(target=self._read, args=(i,), daemon=True) for i in (0, 1)
            ]
            for reader in self._readers:
                reader.start()
        for reader in self._readers:
            reader.join(None if until is None else max(until - time.monotonic(), 0))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(until - time.monotonic(), 0))
        return self._said[0], self._said[1]

    def _read(self, i: int) -> None:
        with (self.stdout, self.stderr)[i] as pipe:
            self._said[i] = pipe.read()

    def send_signal(self, number: int) -> None:
        """Send one, unless it is over."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


# The process itself.


def load() -> None:
    """Import and compile what commands on labs need."""
    for name in ("api.labs", "cli.bfr", "cli.lab", "cli.push", "cli.receive"):
        import_module(f"fanfold.{name}")
    from fanfold.live.warm import warm  # noqa: PLC0415

    warm()


def run_command(words: list[str]) -> int:
    """What ``fanfold`` does with these words; its exit code."""
    from fanfold.cli.main import run  # noqa: PLC0415

    sys.argv = ["fanfold", *words]
    code = run()
    atexit._run_exitfuncs()
    return code


def serve(
    sock: socket.socket,
    run: Callable[[list[str]], int],
    leave: Callable[[int], NoReturn] = os._exit,
) -> None:
    """Fork until nobody is there to ask; tell how each fork ended.

    Args:
        run: what a fork does with its words, to an exit code. leave: how it ends.
    """
    gc.collect()
    gc.freeze()
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([sock, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            tell_ends(running)
        if sock in ready:
            request, fds, _, _ = socket.recv_fds(sock, MAX_REQUEST, KEPT_FDS)
            if not request:
                return
            running[fork((sock, woken, wake), json.loads(request), fds, run, leave)] = fds[2]


def fork(
    ours: Sequence[socket.socket],
    request: Request,
    fds: Fds,
    run: Callable[[list[str]], int],
    leave: Callable[[int], NoReturn],
) -> int:
    """Start one; its process."""
    pid = os.fork()
    if pid == 0:
        for end in ours:
            end.detach()  # their numbers will be other files'
        become(request, fds, run, leave)
    os.write(fds[2], f"{pid}\n".encode())
    for fd in fds[:2]:
        os.close(fd)
    return pid


def tell_ends(running: dict[int, int]) -> None:
    """Exit code of each fork that is over, to who started it."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            told = running.pop(pid)
            with suppress(BrokenPipeError):
                os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(told)


def become(
    request: Request,
    fds: Fds,
    run: Callable[[list[str]], int],
    leave: Callable[[int], NoReturn],
) -> NoReturn:
    """Be the command."""
    words, more, folder = request
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd, mine in zip(fds, (1, 2), strict=False):
            os.dup2(fd, mine)
        os.closerange(KEPT_FDS, os.sysconf("SC_OPEN_MAX"))
        os.environ.update(more)
        os.chdir(folder)
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # else nobody would see it
        traceback.print_exc()
    finally:
        leave(code)


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])), run_command)
