"""Network namespaces of a lab: each node in one of its own, each link a veth pair; needs root.

A node's device to the neighbour behind port p is ``p<p>``; its address stands on ``lo``. The
kernel's routes are one shortest path to each node, so that what is sent to a node by unicast
crosses the links of the fabric as well. Namespaces are called ``ff.LAB.NODE``.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanfold.errors import EnvironmentLack

RUN = Path("/run/netns")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
CLONE_NEWNET = 0x40000000
SPEAKERS = Path("/run/frr")
"""Where BGP speakers of labs have their folders (``live/frr.py``)."""
TOOL_S = 60.0


def space_of(lab: str, node: str) -> str:
    """Namespace of a node; names of labs have no dots."""
    return f"ff.{lab}.{node}"


def remove_spaces(lab: str) -> int:
    """Take away the namespaces of a lab, with all that is in them; how many there were."""
    found = sorted(path.name for path in RUN.glob(f"{space_of(lab, '')}*"))
    if found:
        run_ip("", [f"netns del {name}" for name in found])
    return len(found)


def speaker_home(lab: str, node: str) -> Path:
    """Folder of a node's BGP speaker; its name is what ``vtysh -N`` takes."""
    return SPEAKERS / f"ff:{lab}:{node}"


def remove_speaker_homes(lab: str) -> None:
    """Remove the folders of a lab's BGP speakers."""
    for home in SPEAKERS.glob(speaker_home(lab, "*").name):
        shutil.rmtree(home, ignore_errors=True)


def pids_in_spaces(lab: str, node: str = "*") -> list[int]:
    """Processes that run in the namespaces of a lab or of one node, whoever started them."""
    spaces = {_inode(path) for path in RUN.glob(space_of(lab, node))} - {None}
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _inode(Path(f"/proc/{pid}/ns/net")) in spaces]


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def enter_space(lab: str, node: str, *, forwards: bool = False) -> bool:
    """Put this thread, and what it starts, in a node's namespace; False where there is none.

    forwards: the kernel passes on there what is for others.
    """
    try:
        fd = os.open(RUN / space_of(lab, node), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, CLONE_NEWNET) != 0:
            why = os.strerror(ctypes.get_errno())
            raise EnvironmentLack(f"{node}: cannot enter its network namespace: {why}")
    finally:
        os.close(fd)
    if forwards:
        FORWARD.write_text("1")
    return True


@contextmanager
def inside(space: str) -> Iterator[None]:
    """This thread in a namespace, by the name of that, for a time."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd: int) -> None:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            why = os.strerror(ctypes.get_errno())
            raise EnvironmentLack(f"{space}: cannot enter this network namespace: {why}")

    with Path("/proc/thread-self/ns/net").open("rb") as own:
        with (RUN / space).open("rb") as there:
            enter(there.fileno())
        try:
            yield
        finally:
            enter(own.fileno())


def run_ip(space: str, lines: list[str]) -> None:
    """Run lines of ``ip``, all or the first that fails."""
    words = ["ip", *(["-n", space] if space else []), "-batch", "-"]
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            words,
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=TOOL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLack(f"ip: {error}; see that iproute2 is installed") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[:200]
        raise EnvironmentLack(f"ip: {said}; see `ip netns`")
