"""A fabric's nodes as processes of this machine: up, status, down, and what a crash leaves.

One supervisor loads imports and compiled kernels once and forks the nodes from itself, so a
node costs its own tables and buffers only. A lab's folder holds its fabric, its processes with
their start times (a recycled pid is not mistaken for ours), doors and logs.
"""

import fcntl
import gc
import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError, EnvironmentLack, FanfoldError
from fanfold.folders import STATE, make_folder, state_home
from fanfold.live.birth import OK, PID, Say, hear, nobody, say_to
from fanfold.live.birth import tell as tell_line
from fanfold.live.control import Commands, call, open_local
from fanfold.live.host import Host
from fanfold.live.warm import warm
from fanfold.topo.fabric import Fabric, load_fabric, save_fabric

STOP_S = 5.0
MAX_NAME = 60
LOG = "lab.log"

MakeHost = Callable[[Fabric, str, Path, Path], Host]
"""(fabric, node, its door, its folder for received files)"""


def labs_home() -> Path:
    """Folder of all labs of this user."""
    return state_home() / "labs"


class Lab:
    """One lab by name; nothing here runs until ``up``."""

    def __init__(self, name: str) -> None:
        if (
            not name
            or len(name) > MAX_NAME
            or not name.replace("-", "a").replace("_", "a").isalnum()
        ):
            raise ConfigError("lab", name, f"1 to {MAX_NAME} letters, digits, - and _")
        self.name = name
        self.folder = labs_home() / name
        self.doors = Path(f"{self.folder}/doors")
        self.log = self.folder / LOG

    # Looking.

    def is_up(self) -> bool:
        """The supervisor that wrote the folder still lives."""
        state = self._state()
        return bool(state) and is_alive(state["pid"], state["started"])

    def has_leftovers(self) -> bool:
        """A folder without a living supervisor: something crashed."""
        return bool(self._state()) and not self.is_up()

    def fabric(self) -> Fabric:
        """Fabric of a running lab.

        Raises:
            EnvironmentLack: the lab is not up.
        """
        if not self.is_up():
            raise EnvironmentLack(
                f"lab {self.name!r}: not up; see `fanfold lab status`, start it with "
                f"`fanfold lab up --name {self.name}`"
            )
        return load_fabric(self.folder / "fabric.toml")

    def door(self, node: str) -> Path:
        """Unix socket of a node."""
        return self.doors / f"{node}.sock"

    def hosts(self, node: str) -> Path:
        """Where a node's receiver puts files."""
        return self.folder / "hosts" / node

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Nodes with pid and whether they live."""
        state = self._state()
        return {
            name: {**entry, "alive": is_alive(entry["pid"], entry["started"])}
            for name, entry in state.get("nodes", {}).items()
        }

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads((self.folder / "lab.json").read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and "pid" in state else {}

    # Doing.

    def up(self, fabric: Fabric, make_host: MakeHost, say: Say = nobody) -> dict[str, Any]:
        """Start every node; returns when all answer, however long, while there is progress.

        say: told what is being done.

        Returns:
            ``seconds`` and ``cleaned``: processes left over from a crash that were ended.

        Raises:
            ConfigError: the lab is up already. EnvironmentLack: a node could not start; nothing
                is left running.
        """
        with self._alone():
            return self._up(fabric, make_host, say)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from starting the same lab meanwhile."""
        make_folder(labs_home(), STATE)
        fd = os.open(labs_home() / f"{self.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            allowed = "a lab that nobody is starting just now"
            raise ConfigError("--name", self.name, allowed) from error
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # forked nodes hold the descriptor too
            os.close(fd)

    def _up(self, fabric: Fabric, make_host: MakeHost, say: Say) -> dict[str, Any]:
        if self.is_up():
            allowed = "a lab that is not up; `fanfold lab down` ends this one"
            raise ConfigError("--name", self.name, allowed)
        began = time.monotonic()
        cleaned = self.down()
        self.doors.mkdir(parents=True, exist_ok=True)
        save_fabric(fabric, self.folder / "fabric.toml")
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            _supervise(self, fabric, make_host, tell)
        os.close(tell)
        os.waitpid(pid, 0)
        say(f"lab {self.name}: starting {len(fabric.nodes)} nodes, log {self.log}")
        error = hear(told, 0, say)
        if error:
            self.down()
            raise EnvironmentLack(f"lab {self.name!r}: {error}; see {self.log}")
        return {"seconds": round(time.monotonic() - began, 3), "cleaned": cleaned}

    def down(self, *, purge: bool = False) -> int:
        """End every process of the lab, also those a crash left; returns how many.

        Received files stay unless ``purge``.
        """
        state = self._state()
        pids = [(e["pid"], e["started"]) for e in state.get("nodes", {}).values()]
        if state:
            pids.insert(0, (state["pid"], state["started"]))
        alive = [pid for pid, started in pids if is_alive(pid, started)]
        _end(alive)
        for item in ("lab.json", "fabric.toml"):
            (self.folder / item).unlink(missing_ok=True)
        shutil.rmtree(self.doors, ignore_errors=True)
        if purge:
            shutil.rmtree(self.folder, ignore_errors=True)
        return len(alive)

    def restart(self, node: str) -> dict[str, Any]:
        """Start one node that died, or end it first when it lives."""
        if node not in self.fabric().by_name:
            raise ConfigError("node", node, ", ".join(self.fabric().by_name))
        answer = call(self.door("supervisor"), {"do": "restart", "node": node}, 30.0)
        if "error" in answer:
            raise EnvironmentLack(f"lab {self.name!r}: {node}: {answer['error']}")
        return answer

    def save(self, nodes: dict[str, dict[str, Any]]) -> None:
        """Write the lab's processes; the supervisor calls it."""
        state = {"pid": os.getpid(), "started": start_time(os.getpid()), "nodes": nodes}
        fresh = self.folder / "lab.json.new"
        fresh.write_text(json.dumps(state, indent=1))
        fresh.replace(self.folder / "lab.json")


def claim_range(prefix: int) -> int | None:
    """Keep a range of loopback addresses for a lab while its processes live.

    The claim is a name in the network namespace that the addresses are of, an abstract Unix
    socket: who binds it first has it, whatever the state folder and the user. Forked nodes
    inherit the descriptor, and the last one to end frees the range.

    Returns:
        Descriptor that gives the range back when closed; None where another lab has it.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0fanfold-range-{prefix}")
    except OSError:
        claim.close()
        return None
    return claim.detach()


def list_labs() -> list[str]:
    """Names of labs that have a folder with state."""
    home = labs_home()
    return sorted(p.parent.name for p in home.glob("*/lab.json")) if home.is_dir() else []


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def is_alive(pid: int, started: str) -> bool:
    """The very process, not one that took over its number, and not a zombie.

    A process whose first thread is a zombie holds its sockets until its last thread is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == started and (fields[0] != "Z" or int(fields[17]) > 1)


def _end(pids: list[int]) -> None:
    for number, wait_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        for pid in pids:
            _signal(pid, number)
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            pids = [pid for pid in pids if is_alive(pid, start_time(pid))]
            if not pids:
                return
            time.sleep(0.02)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _supervise(lab: Lab, fabric: Fabric, make_host: MakeHost, tell: int) -> None:
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


class _Supervisor:
    """Parent of a lab's nodes."""

    def __init__(self, lab: Lab, fabric: Fabric, make_host: MakeHost, tell: int) -> None:
        self.lab, self.fabric, self.make_host, self.tell = lab, fabric, make_host, tell
        self.nodes: dict[str, dict[str, Any]] = {}
        self.is_stopped = False
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
        except FanfoldError:
            self._stop_all()
            raise
        commands = Commands({"restart": self._restart}, self._poke)
        close_door = open_local(self.lab.door("supervisor"), commands)
        self.lab.save(self.nodes)
        tell_line(self.tell, OK)
        os.close(self.tell)
        self.tell = os.open(os.devnull, os.O_WRONLY)
        self._woken.settimeout(0.5)
        while not self.is_stopped:
            self._reap()
            try:
                self._woken.recv(64)
            except TimeoutError:
                continue
            commands.run_waiting()
        close_door()
        self._stop_all()

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
            host = self.make_host(self.fabric, name, self.lab.door(name), self.lab.hosts(name))
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
            _end([old["pid"]])
        self._reap()
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
        _end(pids)
