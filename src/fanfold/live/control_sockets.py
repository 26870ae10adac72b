"""Callers of control sockets: many nodes asked at once, in bounded time whoever is silent.

Silence is measured from the last answer: as long as nodes answer one after the other, a busy
machine is not a dead one, up to ``MOST`` times the patience in all.
"""

import json
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MAX_ANSWER_BYTES = 1 << 22
MOST = 3
AGAIN_S = 0.06
"""What has no answer by then is asked once more, on a connection of its own, and at three times
this: TCP sends the first packet of a connection again after a second, any other after 0.2 s."""
MOST_LINES = 3
PART_BYTES = 1 << 16

Answer = dict[str, Any]
Where = Path | tuple[str, int]


class Call(NamedTuple):
    """One question: to whom, what, and from which address when it goes over TCP.

    is_look: it changes nothing, so may be asked several times where packets are lost. sign: an
    operator's, which answers the node's challenge (operators.py), request being that for one.
    """

    where: Where
    request: dict[str, Any]
    source: str = ""
    is_look: bool = False
    sign: Callable[[str], dict[str, Any]] | None = None


class _Line:
    """One connection: what is still to be sent, what came."""

    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        where = str(call.where) if isinstance(call.where, Path) else call.where
        is_local = isinstance(where, str)
        self.sock = socket.socket(socket.AF_UNIX if is_local else socket.AF_INET)
        self.sock.setblocking(False)
        self.left = json.dumps(call.request).encode() + b"\n"
        self._sign = call.sign
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
        is_whole = not part or b"\n" in part or len(self.came) > MAX_ANSWER_BYTES
        return is_whole and not self._goes_on()

    def _goes_on(self) -> bool:
        """An operator answers the challenge that came, once."""
        sign, self._sign = self._sign, None
        challenge = read_answer(self.came).get("challenge") if sign is not None else None
        if sign is None or not isinstance(challenge, str):
            return False
        self.left, self.came = json.dumps(sign(challenge)).encode() + b"\n", b""
        return True


def ask_all(calls: Mapping[str, Call], patience_s: float) -> dict[str, Answer]:
    """Ask all at once; an answer with ``error`` for who cannot be reached, or says nothing.

    Args:
        patience_s: seconds without any answer after which the rest is no longer waited for.
    """
    with selectors.DefaultSelector() as waiting:
        asked = _Asked(waiting, calls)
        try:
            asked.wait(patience_s)
        finally:
            for line in asked.lines:
                line.sock.close()
    late = {"error": f"no answer: silent for {patience_s:g} s"}
    return {name: asked.answers.get(name, late) for name in calls}


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


class _Asked:
    """Who is asked, over which connections, and what was answered."""

    def __init__(self, waiting: selectors.BaseSelector, calls: Mapping[str, Call]) -> None:
        self.lines: list[_Line] = []
        self.answers: dict[str, Answer] = {}
        self._calls, self._waiting = calls, waiting
        self._n_open: Counter[str] = Counter()
        for name in calls:
            self._begin(name)

    def wait(self, patience_s: float) -> None:
        """Until all have answered, or nobody did for so long."""
        now = time.monotonic()
        until, at_most = now + patience_s, now + MOST * patience_s
        again = [now + AGAIN_S * step for step in (1, 3)][: MOST_LINES - 1]
        while self._n_open and (left := min(until, at_most) - time.monotonic()) > 0:
            if again and again[0] <= time.monotonic():
                again.pop(0)
                self._ask_again()
            soon = again[0] - time.monotonic() if again else left
            for key, _ in self._waiting.select(max(min(left, soon), 0)):
                if key.data.name not in self.answers and self._turn(key.data):
                    until = time.monotonic() + patience_s

    def _begin(self, name: str) -> None:
        try:
            line = _Line(name, self._calls[name])
        except OSError as error:
            if not self._n_open[name]:
                self.answers[name] = {"error": f"no answer: {error}"}
                del self._n_open[name]
            return
        self.lines.append(line)
        self._n_open[name] += 1
        self._waiting.register(line.sock, selectors.EVENT_WRITE, line)

    def _ask_again(self) -> None:
        for name in list(self._n_open):
            call = self._calls[name]
            if call.is_look and not isinstance(call.where, Path):
                self._begin(name)

    def _turn(self, line: "_Line") -> bool:
        """Take one connection further; whether it answered, or was the last to fail."""
        try:
            if not line.turn():
                event = selectors.EVENT_WRITE if line.left else selectors.EVENT_READ
                self._waiting.modify(line.sock, event, line)
                return False
            answer = read_answer(line.came)
        except BlockingIOError:
            return False
        except OSError as error:
            answer = {"error": f"no answer: {error}"}
        self._n_open[line.name] -= 1
        self._waiting.unregister(line.sock)
        if "error" in answer and self._n_open[line.name]:
            return False
        self.answers[line.name] = answer
        self._end(line.name)
        return True

    def _end(self, name: str) -> None:
        """Nothing more is waited for from this one."""
        del self._n_open[name]
        for line in self.lines:
            if line.name == name and line.sock in self._waiting.get_map():
                self._waiting.unregister(line.sock)


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
