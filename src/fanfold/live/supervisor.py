"""The process above a lab's nodes: it forks them, watches them and starts one anew.

It loads imports and compiled kernels once and forks the nodes from itself, so a node costs its
own tables and buffers only.
"""

import gc
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanfold.errors import EnvironmentLack, FanfoldError
from fanfold.live.birth import OK, PID, Say, hear, nobody, say_to
from fanfold.live.birth import tell as tell_line
from fanfold.live.control import Commands, Handler, open_local
from fanfold.live.host import Host
from fanfold.live.lab import SUPERVISOR, Lab, end_all, is_alive, start_time
from fanfold.live.spaces import enter_space
from fanfold.live.warm import warm
from fanfold.topo.fabric import Fabric

MakeHost = Callable[[Fabric, str, Path, Path], Host]
"""(fabric, node, its control socket, its folder for received files)"""


def supervise(make_host: MakeHost, lab: Lab, fabric: Fabric, tell: int) -> None:
    """Become a daemon, fork the nodes, watch them; never returns."""
    code = 0
    try:
        os.setsid()
        if pid := os.fork():
            tell_line(tell, f"{PID}{pid}")
            os._exit(0)
        _to_log(lab.log)
        _Supervisor(lab, fabric, make_host, tell).run()
    except FanfoldError as error:
        tell_line(tell, str(error))
        code = error.exit_code
    except BaseException as error:  # a daemon has nobody above it to tell
        traceback.print_exc()
        tell_line(tell, f"{type(error).__name__}: {error}")
        code = 1
    os._exit(code)


def _to_log(path: Path) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    sys.stderr.flush()
    for fd, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, fd)


def _log(line: str) -> None:
    """One line to the lab's log, which is stderr of all its processes."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _log_end(nodes: dict[str, dict[str, Any]], pid: int) -> None:
    """Say in the log how a node ended that could not say it itself."""
    for name, entry in nodes.items():
        if entry["pid"] == pid and entry["exit"] < 0:
            _log(f"{name}: ended by signal {-entry['exit']}")


LOOK_S = 0.5


class _Supervisor:
    """Parent of a lab's nodes."""

    def __init__(self, lab: Lab, fabric: Fabric, make_host: MakeHost, tell: int) -> None:
        self.lab, self.fabric, self.make_host, self.tell = lab, fabric, make_host, tell
        self.nodes: dict[str, dict[str, Any]] = {}
        self.is_stopped = False
        self._paused: dict[str, float] = {}
        self._wake, self._woken = socket.socketpair()

    def run(self) -> None:
        say = say_to(self.tell)
        warm(say)
        gc.collect()
        gc.freeze()  # a collector that walks shared pages would copy them into every node
        self.lab.save({})
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        try:
            n = len(self.fabric.nodes)
            for i, node in enumerate(self.fabric.nodes):
                say(f"starting {node.name}, {i + 1} of {n} nodes")
                self._start(node.name, say)
            handlers: dict[str, Handler] = {
                "restart": self._restart,
                "pause": self._pause,
                "resume": self._resume,
            }
            commands = Commands(handlers, self._poke)
            close_socket = open_local(self.lab.control_socket(SUPERVISOR), commands)
            self.lab.save(self.nodes)
        except BaseException:  # whatever it is, no node lives on without this process
            self._stop_all()
            raise
        tell_line(self.tell, OK)
        os.close(self.tell)
        self.tell = os.open(os.devnull, os.O_WRONLY)
        while not self.is_stopped:
            self._reap()
            self._woken.settimeout(self._resume_due())
            try:
                self._woken.recv(64)
            except TimeoutError:
                continue
            commands.run_waiting()
        close_socket()
        self._stop_all()

    def _pause(self, request: dict[str, Any]) -> dict[str, Any]:
        """Stop a node for some seconds."""
        name, until = request["node"], time.monotonic() + float(request["seconds"])
        os.kill(self.nodes[name]["pid"], signal.SIGSTOP)
        self._paused[name] = until
        return {"node": name}

    def _resume(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let a node that was stopped go on."""
        name = request["node"]
        self._paused.pop(name, None)
        entry = self.nodes[name]
        if is_alive(entry["pid"], entry["started"]):
            os.kill(entry["pid"], signal.SIGCONT)
        return {"node": name}

    def _resume_due(self) -> float:
        """Let nodes go on whose time is over; seconds until the next look."""
        now = time.monotonic()
        for name in [name for name, until in self._paused.items() if until <= now]:
            self._resume({"node": name})
        return min([LOOK_S, *(until - now for until in self._paused.values())])

    def _poke(self) -> None:
        self._wake.send(b"x")

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self.is_stopped = True
        self._poke()

    def _start(self, name: str, say: Say = nobody) -> None:
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            os.close(self.tell)  # or the one who waits for "ok" never sees the end
            self._be_node(name, tell)
        os.close(tell)
        self.nodes[name] = {"pid": pid, "started": start_time(pid)}
        error = hear(told, pid, say)
        if error:
            raise EnvironmentLack(error if error.startswith(name) else f"{name}: {error}")

    def _be_node(self, name: str, tell: int) -> None:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            is_bfr = self.fabric.by_name[name].role == "bfr"
            enter_space(self.lab.name, name, forwards=is_bfr)
            host = self.make_host(
                self.fabric, name, self.lab.control_socket(name), self.lab.hosts(name)
            )
            tell_line(tell, OK)
            os.close(tell)
            host.run()
            _log(f"{name}: ended by {host.ended_by or 'itself'}")
            code = 0
        except FanfoldError as error:
            _log(f"{name}: ended by {type(error).__name__}: {error}")
            traceback.print_exc()
            tell_line(tell, str(error))
        except BaseException as error:  # said to whoever waits, and kept in the lab's log
            traceback.print_exc()
            tell_line(tell, f"{name}: {type(error).__name__}: {error}")
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _restart(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["node"]
        old = self.nodes[name]
        if is_alive(old["pid"], old["started"]):
            end_all([old["pid"]])
        self._reap()
        self.fabric = self.lab.fabric()  # its tables may be newer than those of the start
        try:
            self._start(name)
        except EnvironmentLack as error:
            return {"error": str(error)}
        self.lab.save(self.nodes)
        return {"node": name, "pid": self.nodes[name]["pid"]}

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for entry in self.nodes.values():
                if entry["pid"] == pid:
                    entry["exit"] = os.waitstatus_to_exitcode(status)
                    _log_end(self.nodes, pid)
            self.lab.save(self.nodes)

    def _stop_all(self) -> None:
        pids = [e["pid"] for e in self.nodes.values() if is_alive(e["pid"], e["started"])]
        end_all(pids)
