"""Messages between two ranks: matched by their tag, from a named rank or from any.

Each direction of a pair is a group of two of its own, a *stream*, whose rank 0 is the sender. A
message is two runs of blocks: a header, in which the sender says kind, size and tag and the
receiver nothing, and the bytes. The receiver takes messages from a stream while it waits for
one of it. What comes meanwhile with another tag, or when the message from any rank was found
elsewhere, is kept here for the receives that follow; so tags may be received in any order.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.group import layout
from fanfold.group.ask import N_FIELDS, Ask, text_of
from fanfold.group.communicator import Array, GroupError
from fanfold.group.rules import Inside
from fanfold.group.session import UNSAID, Session
from fanfold.group.values import MOVED, bytes_of, moved_kind
from fanfold.group.work import FabricWork
from fanfold.live.clock import now_ps
from fanfold.live.worker import Guard, Worker

MAX_TAG = 0x7FFFFFFF
A_TAG, A_LOW, A_HIGH = 3, 4, 5
"""Words of an ``Ask`` that a header is read by."""

Raw = NDArray[np.uint8]


def message_ask(array: Array, tag: int) -> Ask:
    """What a message is, as its header tells it.

    Raises:
        ConfigError: a tag that a header cannot say.
    """
    if not 0 <= tag <= MAX_TAG:
        raise ConfigError("tag", tag, f"0 to {MAX_TAG}")
    return Ask("send", MOVED, tag, array.nbytes, moved_kind=moved_kind(array.dtype))


class UnexpectedMessage(NamedTuple):
    """A message that nobody waited for."""

    asked: list[int]
    raw: Raw


class Receive:
    """One receive; over by the first message with its tag from one of ``sources``."""

    def __init__(self, sources: Sequence[int], array: Array, ask: Ask, until_ps: int) -> None:
        self.sources, self.until_ps = set(sources), until_ps
        self.asked, self.tag = ask.words(), ask.root
        self.raw = bytes_of(array, "array")
        self.future: Future[Inside | None] = Future()
        self.source = -1

    def misfit(self, source: int, asked: list[int]) -> GroupError | None:
        """Why a message is not what is received here."""
        if asked == self.asked:
            return None
        text = f"ranks were asked for different things: rank {source}: {text_of(asked)}"
        text = f"recv: {text}; this rank receives {text_of(self.asked)}"
        return GroupError(text, op="recv", ranks=[source])

    def end(self, source: int, error: Exception | None) -> None:
        """Tell who waits."""
        self.source = source
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Received(FabricWork):
    """A receive under way or over."""

    def __init__(self, receive: Receive) -> None:
        super().__init__("recv", receive.future)
        self._receive = receive

    def source(self) -> int:
        """Rank that the message came from; waits for it."""
        self.wait()
        return self._receive.source


class Stream:
    """One direction of a pair: its session, and the thread that works on it."""

    def __init__(self, session: Session, worker: Worker, ids: Sequence[int]) -> None:
        self.session, self.source = session, session.called[0]
        self._worker, self._ids = worker, ids
        self.sender = f"{self.source} ({session.end.members[0]})"
        self.unexpected: list[UnexpectedMessage] = []
        self.is_pulling = False

    def send(self, array: Array, ask: Ask, until_ps: int) -> FabricWork:
        """Send a message; done when the receiver has it."""
        raw = bytes_of(array, "array")

        def run() -> None:
            asked = ask.words()
            words = np.array([*asked, *(~word for word in asked)], np.int32)
            self.session.begin()
            self.session.join_words("send", words, until_ps)
            self._move("send", raw, until_ps)

        return FabricWork("send", self._worker.submit(run))

    def start(self, pull: "Callable[[Stream], None]") -> None:
        """Let the thread of this stream pull messages out of it."""
        self.is_pulling = True
        self._worker.submit(lambda: pull(self))

    def header(self, until_ps: int) -> list[int] | None:
        """What the next message is; None: none by the deadline, or nobody waits any more."""
        words = np.full(2 * N_FIELDS, UNSAID, np.int32)
        self.session.begin()
        most = self.session.join_words("recv", words, until_ps, may_end=True)
        if most is None:
            return None
        asked = most[:N_FIELDS]
        if (asked != ~most[N_FIELDS:]).any():
            text = f"recv: rank {self.source} asked for something else than a send"
            self.session.broken = GroupError(text, op="recv", ranks=[self.source])
            raise self.session.broken
        return [int(word) for word in asked]

    def take(self, raw: Raw, until_ps: int) -> None:
        """Take in the bytes of the message that the last header was of."""
        self._move("recv", raw, until_ps)

    def _move(self, name: str, raw: Raw, until_ps: int) -> None:
        segments = layout.broadcast(raw.size, 0, self.session.rank, self._ids)
        self.session.move(name, segments, raw, until_ps)


class MessageMatcher:
    """What a rank receives from all others, each by a stream."""

    def __init__(self) -> None:
        self._lock = Guard()
        self._streams: dict[int, Stream] = {}
        self._waiting: list[Receive] = []

    def receive(self, streams: Sequence[Stream], receive: Receive) -> Received:
        """Receive a message; ``streams``: of all its sources."""
        with self._lock:
            self._streams |= {stream.source: stream for stream in streams}
            found = next((s for s in streams if self._find(s, receive)), None)
            if found is None:
                self._waiting.append(receive)
                for stream in streams:
                    if not stream.is_pulling:
                        stream.start(self._pull)
        return Received(receive)

    def _find(self, stream: Stream, receive: Receive) -> bool:
        """Give it the first message of a stream that has its tag, if there is one."""
        for message in stream.unexpected:
            if message.asked[A_TAG] == receive.tag:
                stream.unexpected.remove(message)
                error = receive.misfit(stream.source, message.asked)
                if error is None:
                    receive.raw[:] = message.raw
                receive.end(stream.source, error)
                return True
        return False

    def _pull(self, stream: Stream) -> None:
        """Take messages from a stream while somebody waits for one of it."""
        while (until_ps := self._until(stream)) is not None:
            try:
                asked = stream.header(until_ps)
                if asked is not None:
                    self._take(stream, asked, until_ps)
            except Exception as error:
                self._break(stream, error)

    def _until(self, stream: Stream) -> int | None:
        """The next deadline of who waits for a stream; None: nobody does, none is pulled."""
        with self._lock:
            mine = [r for r in self._waiting if stream.source in r.sources]
            for late in [r for r in mine if r.until_ps <= now_ps()]:
                mine.remove(late)
                self._waiting.remove(late)
                late.end(-1, self._lateness(stream, late))
            stream.is_pulling = bool(mine)
            return min((r.until_ps for r in mine), default=None)

    def _lateness(self, stream: Stream, late: Receive) -> GroupError:
        if len(late.sources) == 1:
            return stream.session.lateness("recv", late.until_ps)
        who = ", ".join(self._streams[source].sender for source in sorted(late.sources))
        text = f"recv: deadline, not heard: any of rank {who}"
        return GroupError(text, op="recv", ranks=sorted(late.sources), is_deadline=True)

    def _take(self, stream: Stream, asked: list[int], until_ps: int) -> None:
        """Take in a message, for the first who waits for it, or to keep it."""
        with self._lock:
            found = self._first(stream, asked[A_TAG])
            if found is not None:
                self._waiting.remove(found)
        misfit = None if found is None else found.misfit(stream.source, asked)
        is_fit = found is not None and misfit is None
        room = np.zeros(0 if is_fit else asked[A_LOW] + (asked[A_HIGH] << 31), np.uint8)
        raw = found.raw if found is not None and is_fit else room
        try:
            stream.take(raw, until_ps if found is None else found.until_ps)
        except Exception as error:
            if found is not None:
                found.end(stream.source, error)
            raise
        if found is not None:
            found.end(stream.source, misfit)
            self._recall(found)
            return
        with self._lock:
            stream.unexpected.append(UnexpectedMessage(asked, raw))
            asked_since = self._first(stream, asked[A_TAG])
            if asked_since is not None and self._find(stream, asked_since):
                self._waiting.remove(asked_since)

    def _first(self, stream: Stream, tag: int) -> Receive | None:
        mine = (r for r in self._waiting if stream.source in r.sources and r.tag == tag)
        return next(mine, None)

    def _recall(self, receive: Receive) -> None:
        """What came by one stream is not waited for at others any more."""
        with self._lock:
            others = [self._streams[source] for source in receive.sources]
        for stream in others:
            if stream.source != receive.source:
                stream.session.end.recall()

    def _break(self, stream: Stream, error: Exception) -> None:
        """A stream is broken: nothing comes by it any more."""
        with self._lock:
            for receive in [r for r in self._waiting if stream.source in r.sources]:
                receive.sources.discard(stream.source)
                if not receive.sources:
                    self._waiting.remove(receive)
                    receive.end(stream.source, error)
