"""What a process that starts says to the one that waits: lines over a pipe, then the end.

``say`` and a text is progress, ``ok`` the good end; anything else is why it did not start. A
wait lasts as long as there is progress: a line, or processor time that the process gets. A busy
machine is slow, not dead.
"""

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

QUIET_S = 120.0
"""Without a line and without a tick of processor time for so long: it hangs."""
LOOK_S = 0.5
SAY, OK, PID = "say ", "ok", "pid "

Say = Callable[[str], None]


def nobody(text: str) -> None:
    """Who does not want to hear."""
    del text


def tell(fd: int, text: str) -> None:
    """Write one line; what comes when nobody waits any more is lost."""
    try:
        os.write(fd, f"{text}\n".encode())
    except OSError:
        return


def say_to(fd: int) -> Say:
    """A function that tells progress to whoever waits at the other end."""
    return lambda text: tell(fd, SAY + text)


def hear(fd: int, pid: int, say: Say, quiet_s: float = QUIET_S) -> str:
    """Wait for a process's end of its start; closes ``fd``.

    Args:
        fd: reading end of its pipe. pid: its processor time is progress; 0: a line
            ``pid N`` names it. say: told its lines, and "" for progress without any.

    Returns:
        Empty when it is up, else why not.
    """
    try:
        return _hear(fd, pid, say, quiet_s)
    finally:
        os.close(fd)


def _hear(fd: int, pid: int, say: Say, quiet_s: float) -> str:
    text, spent, moved = "", cpu_ticks(pid), time.monotonic()
    while time.monotonic() - moved < quiet_s:
        ready, _, _ = select.select([fd], [], [], LOOK_S)
        now = cpu_ticks(pid)
        if ready or now > spent:
            spent, moved = now, time.monotonic()
            say("")
        if not ready:
            continue
        part = os.read(fd, 4096)
        if not part:
            return text.strip() or "its process died before it was up"
        *lines, text = (text + part.decode(errors="replace")).split("\n")
        for line in lines:
            if line.startswith(PID):
                pid = int(line.removeprefix(PID))
            elif line.startswith(SAY):
                say(line.removeprefix(SAY))
            else:
                return line.removeprefix(OK)
    return f"not up, and no progress for {quiet_s:.0f} s"


def cpu_ticks(pid: int) -> int:
    """Processor time of a process, in ticks; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
