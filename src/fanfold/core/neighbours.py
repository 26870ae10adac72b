"""Neighbours of a node: sessions with all of them, what is lost, and who is told of it.

A link whose loss leaves no other way, such as the only one of a host, is watched at a slow pace
and shown, and no table changes for it. For the others a fall takes effect at once; a session
that is up again counts after a hold that grows with the falls of late.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fanfold.core.bucket import Bucket
from fanfold.core.ear import Ear
from fanfold.core.link_states import LinkSet, LinkStates, News
from fanfold.core.session import DOWN, UP, Pace, Session
from fanfold.units import NEVER, PS_PER_MS, PS_PER_SECOND
from fanfold.wire.hello import Diag, Hello
from fanfold.wire.link import LinkMessage
from fanfold.wire.notice import Notice

HOLD_PS = 200 * PS_PER_MS
MAX_DOUBLED = 4
LATELY_PS = 30 * PS_PER_SECOND
"""Falls of so long ago make no hold longer; the first one of late makes none."""
SYNC_PS = 200 * PS_PER_MS
LAG_PS = 5 * PS_PER_SECOND
"""A timer that was late is told of for so long, twice as long at most."""
MOST_LAG_MS = 1 << 12
REST_PS = PS_PER_MS
EARLY = 8
"""A HELLO leaves with others where it is due within one part in so many of its interval."""


class SendLink(NamedTuple):
    """Send a message to the neighbour at a port."""

    port: int
    message: LinkMessage


class NeighbourLost(msgspec.Struct, frozen=True):
    """A session that was up has fallen: why, and after what silence."""

    port: int
    diag: Diag
    silent_ps: int


class NeighbourBack(msgspec.Struct, frozen=True):
    """A session is up."""

    port: int


class LinksChanged(msgspec.Struct, frozen=True):
    """Tables are to do without these links from now on, and with all others."""

    failed: LinkSet


LinkEffect = SendLink | NeighbourLost | NeighbourBack | LinksChanged


class Ground(NamedTuple):
    """What a node knows of its fabric.

    fabric: its digest. own: this node. near: neighbours of each node, by port. has_other_way:
    of each port of this node: without its link there is another way.
    """

    fabric: int
    own: int
    near: Sequence[Sequence[int]]
    has_other_way: Sequence[bool]


class Neighbours:
    """Sessions of one node and the states of links that it knows.

    Args:
        first_disc: of the first session; those of an earlier life differ.
    """

    def __init__(self, now_ps: int, ground: Ground, first_disc: int, pace: Pace) -> None:
        self.ground, self.pace = ground, pace
        self.states = LinkStates(ground.fabric, ground.own, ground.near)
        n_ports = len(ground.near[ground.own])
        self.sessions = [Session(first_disc + k, pace) for k in range(n_ports)]
        self.sync_ps: int = SYNC_PS
        """Between two times that a neighbour is sent all that is known."""
        self.lost = 0
        """Bit p - 1: port p is not used."""
        self.failed: LinkSet = frozenset()
        self._told = 0
        self._back_ps: list[int] = [NEVER] * n_ports
        self._falls: list[list[int]] = [[] for _ in range(n_ports)]
        self._sync_ps = [0] * n_ports
        self._own_bucket = Bucket(8, 200 * PS_PER_MS)
        self._bucket = Bucket(64, 5 * PS_PER_MS)
        self._ear = Ear(now_ps)
        self._seen_ps = now_ps
        self._heard_ps = self._ear.time_ps(now_ps)
        self._due_ps = now_ps
        self._lags = [(0, 0), (0, 0)]  # (since, worst) of this period and the one before
        self._turn = first_disc

    def listen(self, now_ps: int, empty_ps: int, last_ps: Sequence[int]) -> None:
        """What this node could hear until now; before all other calls.

        empty_ps: when its socket was found empty last. last_ps: by port from 0 on, when
        something came last; 0: never.
        """
        self._note_lag(now_ps)
        self._ear.listen(now_ps, self._due_ps, empty_ps)
        before_ps, self._heard_ps = self._heard_ps, self._ear.time_ps(now_ps)
        for port, session in enumerate(self.sessions, start=1):
            if last_ps[port] >= self._seen_ps:
                since_ps = before_ps + last_ps[port] - self._seen_ps
                session.on_life(min(since_ps, self._heard_ps))
        self._seen_ps = now_ps

    def on_hello(self, now_ps: int, port: int, hello: Hello, out: list[LinkEffect]) -> bool:
        """A neighbour's HELLO; False: of another fabric, or another session."""
        session = self.sessions[port - 1]
        before = session.state
        if hello.fabric != self.ground.fabric or not session.on_hello(self._heard_ps, hello):
            return False
        self._note_state(now_ps, port, before, out)
        is_other = hello.digest != self.states.digest and self.ground.has_other_way[port - 1]
        if is_other and session.state == UP and now_ps >= self._sync_ps[port - 1]:
            self._sync_ps[port - 1] = now_ps + self.sync_ps
            out.extend(SendLink(port, notice) for notice in self.states.kept())
        self.on_timer(now_ps, out)
        return True

    def on_notice(self, now_ps: int, port: int, notice: Notice, out: list[LinkEffect]) -> bool:
        """A NOTICE that a neighbour sent or sent on; False: nothing that it could say."""
        if not self.ground.has_other_way[port - 1] or not self.states.is_sound(notice):
            return False
        if self.sessions[port - 1].state == DOWN:
            return False  # in ``init`` it may have overtaken the HELLO that says ``up``
        news = self.states.take(notice)
        if news == News.OWN:
            self._told = -1  # what is so now is told anew, above it
        elif news == News.NEWER and self._bucket.take(now_ps):
            self._flood(notice, port, out)
        elif news == News.OLDER and self._bucket.take(now_ps):
            out.append(SendLink(port, self.states.kept_of(notice.origin)))
        self._settle(now_ps, out)
        return True

    def on_busy(self, now_ps: int, out: list[LinkEffect], *, is_busy: bool) -> None:
        """Traffic passes this node, or has ceased."""
        for k, session in enumerate(self.sessions):
            session.want(self._heard_ps, often=is_busy and self.ground.has_other_way[k])
        self.on_timer(now_ps, out)

    def learn_way(self, port: int) -> None:
        """A neighbour's answers will take longer, or less, from now on."""
        self.sessions[port - 1].learn_way(self._heard_ps)

    def on_timer(self, now_ps: int, out: list[LinkEffect]) -> None:
        """Sessions that are silent for too long, HELLOs that are due, links good again."""
        for port, session in enumerate(self.sessions, start=1):
            before = session.state
            if session.expire(self._heard_ps):
                self._note_state(now_ps, port, before, out)
            if now_ps >= self._back_ps[port - 1]:
                self._back_ps[port - 1] = NEVER
                self.lost &= ~(1 << port - 1)
        self._settle(now_ps, out)
        if any(now_ps >= session.due_ps for session in self.sessions):
            self._speak(now_ps, out)

    def deadline_ps(self, now_ps: int) -> int:
        """When ``on_timer`` has something to do."""
        due_ps = min((session.due_ps for session in self.sessions), default=NEVER)
        due_ps = min(due_ps, *self._back_ps, NEVER)
        for session in self.sessions:
            if session.state != DOWN:
                left_ps = session.dies_ps() - self._ear.time_ps(now_ps)
                due_ps = min(due_ps, now_ps + max(left_ps, REST_PS))
        if self._told != self.lost:
            due_ps = min(due_ps, max(self._own_bucket.free_ps(), now_ps + REST_PS))
        self._due_ps = due_ps
        return due_ps

    def is_settled(self, port: int) -> bool:
        """A HELLO like the last one would be no news, but a sign of life."""
        return self.sessions[port - 1].is_settled(self._digest_for(port))

    def lag_ms(self) -> int:
        """How late timers ran lately: 0, or the next power of two or three quarters of one."""
        worst_ms = max(worst for _, worst in self._lags) // PS_PER_MS
        steps = (n for k in range(2, 13) for n in (1 << k, 3 << k - 1))
        return next((n for n in steps if n > worst_ms), MOST_LAG_MS) if worst_ms >= 4 else 0

    def _note_lag(self, now_ps: int) -> None:
        late_ps = max(now_ps - max(self._due_ps, self._seen_ps), 0)
        since_ps, worst_ps = self._lags[0]
        if now_ps - since_ps > LAG_PS:
            self._lags = [(now_ps, late_ps), self._lags[0]]
            if now_ps - since_ps > 2 * LAG_PS:
                self._lags[1] = (now_ps, 0)
        else:
            self._lags[0] = (since_ps, max(worst_ps, late_ps))

    def _note_state(self, now_ps: int, port: int, before: int, out: list[LinkEffect]) -> None:
        session, k = self.sessions[port - 1], port - 1
        if before == UP and session.state != UP:
            out.append(NeighbourLost(port, session.diag, session.silent_ps))
            falls = [at for at in self._falls[k] if now_ps - at < LATELY_PS]
            self._falls[k] = [*falls[-MAX_DOUBLED - 1 :], now_ps]
            self._back_ps[k] = NEVER
            self.lost |= int(self.ground.has_other_way[k]) << k
        elif before != UP and session.state == UP:
            out.append(NeighbourBack(port))
            n_falls = sum(now_ps - at < LATELY_PS for at in self._falls[k])
            hold_ps = HOLD_PS << min(n_falls - 2, MAX_DOUBLED) if n_falls > 1 else 0
            self._back_ps[k] = now_ps + hold_ps
            self._sync_ps[k] = 0

    def _settle(self, now_ps: int, out: list[LinkEffect]) -> None:
        """Let tables follow what is lost, and tell of it where that is new."""
        failed = self.states.failed(self.lost)
        if failed != self.failed:
            self.failed = failed
            out.append(LinksChanged(failed))
        if self._told != self.lost and self._own_bucket.take(now_ps):
            self._told = self.lost
            self._flood(self.states.tell(self.lost), 0, out)

    def _digest_for(self, port: int) -> int:
        """Who has one way only learns nothing of use from states of links."""
        return self.states.digest if self.ground.has_other_way[port - 1] else 0

    def _flood(self, notice: Notice, but: int, out: list[LinkEffect]) -> None:
        for port, session in enumerate(self.sessions, start=1):
            is_served = self.ground.has_other_way[port - 1] and port != but
            if is_served and session.state == UP:
                out.append(SendLink(port, notice))

    def _speak(self, now_ps: int, out: list[LinkEffect]) -> None:
        """Send HELLOs that are due, and with them those that nearly are."""
        self._turn = self._turn * 0x5DEECE66D + 0xB & 0xFFFFFFFFFFFF
        jitter = self._turn >> 40
        lag_ms = self.lag_ms()
        for port, session in enumerate(self.sessions, start=1):
            if now_ps + session.pace_ps // EARLY >= session.due_ps:
                digest = self._digest_for(port)
                hello = session.hello(now_ps, self.ground.fabric, digest, lag_ms, jitter)
                out.append(SendLink(port, hello))
