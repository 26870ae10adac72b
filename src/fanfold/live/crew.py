"""Processes that are told lines and answer lines, and what such a process needs of threads.

What they say is handed on one line at a time: handlers of a crew, and who holds it, exclude one
another.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from subprocess import PIPE

END_S = 5.0
"""A process whose input ended has so long to end."""
WAIT_S = 0.1


class Crew:
    """Processes by name.

    Args:
        on_line: (name, one line of its output). on_end: (name), its output ended.
    """

    def __init__(
        self, on_line: Callable[[str, str], None], on_end: Callable[[str], None]
    ) -> None:
        self._on_line, self._on_end = on_line, on_end
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._turn = threading.Condition()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start one; a signal of the terminal does not reach it."""
        process = subprocess.Popen(  # noqa: S603 - no shell
            command, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True
        )
        self._processes[name] = process
        threading.Thread(target=self._hear, args=(name, process), daemon=True).start()

    def tell(self, name: str, line: str) -> bool:
        """Tell one a line; False where it is gone."""
        process = self._processes[name]
        try:
            if process.stdin is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """No handler runs meanwhile; who waits looks again afterwards."""
        with self._turn:
            yield
            self._turn.notify_all()

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until something holds, looking after each line; signals come through."""
        with self._turn:
            while not is_over():
                self._turn.wait(WAIT_S)

    def close(self) -> None:
        """End the input of all, and those that stay."""
        for process in self._processes.values():
            try:
                if process.stdin is not None:
                    process.stdin.close()
            except OSError:
                continue
        for process in self._processes.values():
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _hear(self, name: str, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            with self.held():
                self._on_line(name, line)
        with self.held():
            self._on_end(name)


class Inbox:
    """Lines of this process' own input, read by a thread.

    Args:
        is_word: whether a line is for ``on_word`` at once, and not for who asks. on_word: told
            of these, and of the end of the input.
    """

    def __init__(self, is_word: Callable[[str], bool], on_word: Callable[[], None]) -> None:
        self._is_word, self._on_word = is_word, on_word
        self._lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> str:
        """The next line, waited for; empty at the end."""
        return self._lines.get()

    def _read(self) -> None:
        for line in sys.stdin:
            if self._is_word(line.strip()):
                self._on_word()
            else:
                self._lines.put(line)
        self._on_word()
        self._lines.put("")


class Outbox:
    """Lines to this process' output, each whole, from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def say(self, line: str) -> None:
        """Write one line, at once."""
        with self._turn:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


@contextmanager
def looking(look: Callable[[], bool], every_s: float) -> Iterator[None]:
    """Call ``look`` again and again in a thread of its own, until it says that it is over."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s) and not look():
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
