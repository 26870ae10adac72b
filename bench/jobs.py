"""Processes of a measurement: started, timed, ended, and what CPU time they took."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FANFOLD = [str(Path(sys.executable).with_name("fanfold"))]
"""The command as a user of this environment has it."""


class JobError(Exception):
    """A command ended badly or not in time; the text says how."""


@dataclass
class Ended:
    """How a process ended."""

    code: int
    cpu_s: float
    seconds: float
    out: str
    err: str


class Job:
    """One process; ``end`` gives its CPU time exactly, its waited-for children included."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str] | None = None, log: Path | None = None
    ):
        self.name = Path(command[0]).name
        self.began = time.monotonic()
        self._log: IO[bytes] | None = log.open("wb") if log else None
        out = self._log or subprocess.PIPE
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """Next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def end(self, timeout_s: float) -> Ended:
        """Wait for its end, killed when that comes too late.

        Raises:
            JobError: it had to be killed.
        """
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._signal(signal.SIGKILL)

        timer = threading.Timer(timeout_s, kill)
        timer.start()
        texts: dict[str, bytes] = {}
        readers = [self._reader(texts, "out"), self._reader(texts, "err")]
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except BaseException:  # interrupted: leave nothing running
            self._signal(signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        seconds = time.monotonic() - self.began
        self.process.returncode = os.waitstatus_to_exitcode(status)
        for reader in readers:
            reader.join(2)
        if self._log:
            self._log.close()
        if late.is_set():
            raise JobError(f"{self.name}: not done after {timeout_s:.0f} s")
        return Ended(
            self.process.returncode,
            usage.ru_utime + usage.ru_stime,
            seconds,
            texts.get("out", b"").decode(errors="replace"),
            texts.get("err", b"").decode(errors="replace"),
        )

    def stop(self) -> float:
        """Terminate it; returns its CPU seconds."""
        self._signal(signal.SIGTERM)
        try:
            return self.end(5).cpu_s
        except JobError:
            return 0.0

    def _reader(self, texts: dict[str, bytes], name: str) -> threading.Thread:
        pipe = getattr(self.process, f"std{name}")

        def read() -> None:
            if pipe is not None:
                texts[name] = pipe.read()
                pipe.close()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            os.kill(self.pid, number)


def run(command: Sequence[str], timeout_s: float, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    return Job(command, env).end(timeout_s)


def run_well(
    command: Sequence[str], timeout_s: float, env: dict[str, str] | None = None
) -> str:
    """Standard output of a command that must succeed.

    Raises:
        JobError: it did not.
    """
    ended = run(command, timeout_s, env)
    if ended.code:
        words = (ended.err or ended.out).strip().splitlines()
        last = words[-1] if words else f"exit {ended.code}"
        raise JobError(f"{Path(command[0]).name}: {last}")
    return ended.out
