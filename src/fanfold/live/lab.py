"""A fabric's nodes as processes of this machine: up, status, down, and what a crash leaves.

``live/supervisor.py`` is the process above them. A lab's folder holds its fabric, its processes
with their start times (a recycled pid is not mistaken for ours), control sockets and logs.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.folders import STATE, make_folder, state_home
from fanfold.live.birth import Say, hear, nobody
from fanfold.live.control_sockets import call
from fanfold.live.spaces import pids_in_spaces, remove_spaces, remove_speaker_homes
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric

STOP_S = 5.0
MAX_NAME = 60
LOG = "lab.log"
FABRIC_FILE = "fabric.toml"
SUPERVISOR = "supervisor"
FAILURES = "failures.json"
"""What has failed by hand (api/failing.py)."""
AVOIDED = "avoided.json"
"""Links that tables do without because a push named them gray (api/avoiding.py)."""
PLANES, PLANE_AGENT = "planes.json", "plane-agent.json"
"""Of a lab with BGP: its plan, and who makes kernel routes of BGP's (live/plane_agent.py)."""
MAX_SOCKET_PATH = 107
"""Of the path of a Unix socket (sun_path has 108, and its end is a zero)."""

RESTART_S = 30.0

Supervise = Callable[["Lab", Fabric, int], None]
"""(lab, fabric, pipe to who waits): becomes the process above the nodes, never returns."""


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
        self.control_sockets = Path(f"{self.folder}/control")
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
        return load_fabric(self.folder / FABRIC_FILE)

    def control_socket(self, node: str) -> Path:
        """Unix socket of a node."""
        return self.control_sockets / f"{node}.sock"

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
        return self._read("lab.json")

    def _read(self, file: str) -> dict[str, Any]:
        """What a file of the lab says of processes; nothing where it says nothing sound."""
        try:
            state = json.loads((self.folder / file).read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and "pid" in state else {}

    # Doing.

    def up(
        self,
        fabric: Fabric,
        supervise: Supervise,
        say: Say = nobody,
        prepare: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Start every node; returns when all answer, however long, while there is progress.

        supervise: ``live/supervisor.py``. say: told what is being done. prepare: done first.

        Returns:
            ``seconds`` and ``cleaned``: processes left over from a crash that were ended.

        Raises:
            ConfigError: the lab is up already. EnvironmentLack: a node could not start; nothing
                is left running.
        """
        with self._alone():
            return self._up(fabric, supervise, say, prepare)

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

    def _up(
        self, fabric: Fabric, supervise: Supervise, say: Say, prepare: Callable[[], None]
    ) -> dict[str, Any]:
        if self.is_up():
            allowed = "a lab that is not up; `fanfold lab down` ends this one"
            raise ConfigError("--name", self.name, allowed)
        began = time.monotonic()
        _check_paths(self.control_socket(node) for node in (*fabric.by_name, SUPERVISOR))
        cleaned = self.down()
        self.control_sockets.mkdir(parents=True, exist_ok=True)
        save_fabric(fabric, self.folder / FABRIC_FILE)
        prepare()
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            supervise(self, fabric, tell)
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
        end_all(alive)
        self._end_planes()
        remove_spaces(self.name)
        for item in ("lab.json", FABRIC_FILE, FAILURES, AVOIDED):
            (self.folder / item).unlink(missing_ok=True)
        shutil.rmtree(self.control_sockets, ignore_errors=True)
        if purge:
            shutil.rmtree(self.folder, ignore_errors=True)
        return len(alive)

    def _end_planes(self) -> None:
        """End BGP speakers of a lab and all else in its namespaces, and who made its routes."""
        if not (self.folder / PLANES).exists():
            return
        agent = self._read(PLANE_AGENT)
        own = [agent["pid"]] if agent and is_alive(agent["pid"], agent["started"]) else []
        end_all([*own, *pids_in_spaces(self.name)])
        remove_speaker_homes(self.name)
        for item in (PLANES, PLANE_AGENT):
            (self.folder / item).unlink(missing_ok=True)

    def restart(self, node: str) -> dict[str, Any]:
        """Start one node that died, or end it first when it lives."""
        if node not in self.fabric().by_name:
            raise ConfigError("node", node, ", ".join(self.fabric().by_name))
        request = {"do": "restart", "node": node}
        answer = call(self.control_socket(SUPERVISOR), request, RESTART_S)
        if "error" in answer:
            raise EnvironmentLack(f"lab {self.name!r}: {node}: {answer['error']}")
        return answer

    def keep(self, fabric: Fabric) -> None:
        """Write the lab's fabric: the same nodes and links, other tables."""
        save_fabric(fabric, self.folder / "fabric.toml.new")
        (self.folder / "fabric.toml.new").replace(self.folder / FABRIC_FILE)

    def save(self, nodes: dict[str, dict[str, Any]]) -> None:
        """Write the lab's processes; the supervisor calls it."""
        state = {"pid": os.getpid(), "started": start_time(os.getpid()), "nodes": nodes}
        fresh = self.folder / "lab.json.new"
        fresh.write_text(json.dumps(state, indent=1))
        fresh.replace(self.folder / "lab.json")


def _check_paths(control_sockets: Iterable[Path]) -> None:
    """Refuse a state folder whose sockets no node could open."""
    longest = max(control_sockets, key=lambda path: len(os.fsencode(path)))
    if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
        what = f"{longest}: a socket's path has at most {MAX_SOCKET_PATH} bytes"
        raise EnvironmentLack(f"{what}; set {STATE} to a folder with a shorter path")


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


def process_state(pid: int) -> str:
    """State of a process as one letter, T where it is stopped; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def is_alive(pid: int, started: str) -> bool:
    """The very process, not one that took over its number, and not a zombie.

    A process whose first thread is a zombie holds its sockets until its last thread is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == started and (fields[0] != "Z" or int(fields[17]) > 1)


def end_all(pids: list[int]) -> None:
    """End processes: asked to, and after STOP_S killed."""
    for number, wait_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        for pid in pids:
            _signal(pid, number)
            _signal(pid, signal.SIGCONT)  # who is stopped hears of nothing else
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
