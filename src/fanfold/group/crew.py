"""Ranks as processes of one command: what each returns is heard, and none outlives it."""

import json
import os
import select
import signal
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fanfold.errors import CheckFailed, EnvironmentLack, FanfoldError
from fanfold.live.clock import now_ps
from fanfold.live.syscalls import end_with_parent
from fanfold.units import PS_PER_SECOND

CAUSES: dict[str, type[FanfoldError]] = {
    "failed": CheckFailed,
    "lack": EnvironmentLack,
    "unexpected": FanfoldError,
}
LOOK_S = 0.5
"""How often ``watch`` is called."""
GRACE_PS = 3 * PS_PER_SECOND
"""Once one rank has failed the others have so long to say what they saw."""
PART = 1 << 16


class Crew:
    """One process for each of ``names``, by rank; errors begin with ``what``."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        self.what, self.names = what, names
        self._pids: dict[int, int] = {}
        self._rank_of: dict[int, int] = {}
        self._said = [b""] * len(names)

    def run(self, task: Callable[[int], Any], watch: Callable[[], None]) -> list[Any]:
        """What ``task(rank)`` returns in each process, as JSON can carry it.

        Args:
            watch: called now and then meanwhile; what it raises ends all.

        Raises:
            FanfoldError: the first rank's that failed; CheckFailed: one died without a word.
        """
        try:
            for rank in range(len(self.names)):
                self._start(rank, task)
            self._hear(watch)
        finally:
            self._end()
        answers = [json.loads(word) if word else None for word in self._said]
        for answer in answers:
            if isinstance(answer, dict):
                raise CAUSES[answer["cause"]](f"{self.what}: {answer['error']}")
        return answers

    def _start(self, rank: int, task: Callable[[int], Any]) -> None:
        read, write = os.pipe()
        parent, stops = os.getpid(), {signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # a fork is known, or there is none
        pid = os.fork()
        if pid == 0:
            end_with_parent(parent)
            os.close(read)
            _be_rank(rank, task, write)
        os.close(write)
        self._pids[rank] = pid
        self._rank_of[read] = rank
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)

    def _hear(self, watch: Callable[[], None]) -> None:
        """Read until all have ended; not for long once one has failed."""
        until = None
        waiting = set(self._rank_of)
        while waiting and (until is None or now_ps() < until):
            ready, _, _ = select.select(list(waiting), [], [], LOOK_S)
            for fd in ready:
                part, rank = os.read(fd, PART), self._rank_of[fd]
                self._said[rank] += part
                if part:
                    continue
                waiting.discard(fd)
                if not self._said[rank]:
                    whose = f"rank {rank} ({self.names[rank]})"
                    raise CheckFailed(f"{self.what}: {whose} {self._death(rank)}")
                if self._said[rank].startswith(b"{") and until is None:
                    until = now_ps() + GRACE_PS
            watch()

    def _death(self, rank: int) -> str:
        code = os.waitstatus_to_exitcode(os.waitpid(self._pids.pop(rank), 0)[1])
        return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"

    def _end(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)  # it has said all, or nobody listens
            os.waitpid(pid, 0)
        for fd in self._rank_of:
            os.close(fd)


def _be_rank(rank: int, task: Callable[[int], Any], write: int) -> NoReturn:
    """Do the task and end the process; Ctrl-C stays blocked, it is for who started it."""
    code = 1
    try:
        _tell(write, task(rank))
        code = 0
    except FanfoldError as error:
        cause = "lack" if isinstance(error, EnvironmentLack) else "failed"
        _tell(write, {"error": f"rank {rank}: {error}", "cause": cause})
    except BaseException as error:  # a fork has nobody above it to tell
        text = f"rank {rank}: {type(error).__name__}: {error}"
        _tell(write, {"error": text, "cause": "unexpected"})
    finally:
        os._exit(code)


def _tell(write: int, value: Any) -> None:
    with os.fdopen(write, "wb") as file:
        file.write(json.dumps(value).encode())
