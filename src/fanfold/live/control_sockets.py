"""Callers of control sockets: many nodes asked at once, in bounded time whoever is silent.

Silence is measured from the last answer: as long as nodes answer one after the other, a busy
machine is not a dead one, up to ``MOST`` times the patience in all.
"""

import json
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

MAX_ANSWER_BYTES = 1 << 22
MOST = 3
PART_BYTES = 1 << 16

Answer = dict[str, Any]
Where = Path | tuple[str, int]


class Call(NamedTuple):
    """One question: to whom, what, and from which address when it goes over TCP."""

    where: Where
    request: dict[str, Any]
    source: str = ""


class _Line:
    """One connection: what is still to be sent, what came."""

    def __init__(self, call: Call) -> None:
        where = str(call.where) if isinstance(call.where, Path) else call.where
        is_local = isinstance(where, str)
        self.sock = socket.socket(socket.AF_UNIX if is_local else socket.AF_INET)
        self.sock.setblocking(False)
        self.left = json.dumps(call.request).encode() + b"\n"
        self.came = b""
        try:
            if call.source and not is_local:
                self.sock.bind((call.source, 0))
            self.sock.connect(where)
        except BlockingIOError:
            if is_local:  # its queue is full: nobody accepts
                self.sock.close()
                raise
        except OSError:
            self.sock.close()
            raise

    def turn(self) -> bool:
        """Send or read what can be; True when the answer is whole. Raises OSError."""
        if self.left:
            error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "refused")
            self.left = self.left[self.sock.send(self.left) :]
            return False
        part = self.sock.recv(PART_BYTES)
        self.came += part
        return not part or b"\n" in part or len(self.came) > MAX_ANSWER_BYTES


def ask_all(calls: Mapping[str, Call], patience_s: float) -> dict[str, Answer]:
    """Ask all at once; an answer with ``error`` for who cannot be reached, or says nothing.

    Args:
        patience_s: seconds without any answer after which the rest is no longer waited for.
    """
    answers: dict[str, Answer] = {}
    with selectors.DefaultSelector() as waiting:
        lines: dict[str, _Line] = {}
        try:
            for name, call in calls.items():
                try:
                    lines[name] = _Line(call)
                    waiting.register(lines[name].sock, selectors.EVENT_WRITE, name)
                except OSError as error:
                    answers[name] = {"error": f"no answer: {error}"}
            _wait(waiting, lines, answers, patience_s)
        finally:
            for line in lines.values():
                line.sock.close()
    late = {"error": f"no answer: silent for {patience_s:g} s"}
    return {name: answers.get(name, late) for name in calls}


class Asking:
    """Nodes asked in a thread; called, it waits for the answers and gives them."""

    def __init__(self, calls: Mapping[str, Call], patience_s: float) -> None:
        self._answers: dict[str, Answer] = {}
        self._thread = threading.Thread(
            target=lambda: self._answers.update(ask_all(calls, patience_s)), daemon=True
        )
        self._thread.start()

    def __call__(self) -> dict[str, Answer]:
        """What they answered in time."""
        self._thread.join()
        return self._answers

    def is_done(self, within_s: float) -> bool:
        """Nobody is waited for any more, or will be so soon."""
        self._thread.join(within_s)
        return not self._thread.is_alive()


def begin_asking(calls: Mapping[str, Call], patience_s: float) -> Asking:
    """Ask all in a thread."""
    return Asking(calls, patience_s)


def _wait(
    waiting: selectors.BaseSelector,
    lines: Mapping[str, _Line],
    answers: dict[str, Answer],
    patience_s: float,
) -> None:
    now = time.monotonic()
    until, at_most = now + patience_s, now + MOST * patience_s
    while waiting.get_map() and (left := min(until, at_most) - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            name = key.data
            answer = _turn(waiting, lines[name], name)
            if answer is not None:
                waiting.unregister(lines[name].sock)
                answers[name] = answer
                until = time.monotonic() + patience_s


def _turn(waiting: selectors.BaseSelector, line: _Line, name: str) -> Answer | None:
    """Take one connection further; its answer when that is there, or will never be."""
    try:
        if line.turn():
            return read_answer(line.came)
    except BlockingIOError:
        return None
    except OSError as error:
        return {"error": f"no answer: {error}"}
    if not line.left:
        waiting.modify(line.sock, selectors.EVENT_READ, name)
    return None


def read_answer(line: bytes) -> Answer:
    """One line of a node as an object, or an answer that says what is wrong with it."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"error": f"no answer: {error}"}
    return answer if isinstance(answer, dict) else {"error": "not an object"}


def call(where: Where, request: dict[str, Any], timeout_s: float = 3.0) -> Answer:
    """Ask a node; an answer with ``error`` when it cannot be reached."""
    return ask_all({"": Call(where, request)}, timeout_s)[""]
