"""Keys of a node's links: who asks whom for a session, when anew, and what a flood may cost.

A machine: bytes in, effects out. An *end* is who hears on a UDP port behind a port of this
node: a neighbour's node, or a push that sends from its address. A *session* is what one
handshake gave (docs/wire/link-keys.md). Two of one end are valid while one takes the place of
the other.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from fanfold.seals.link_keys import LABEL, LinkKey, SessionKeys, session_keys
from fanfold.seals.noise import Initiator, Responder
from fanfold.seals.primitives import is_same, mac_of
from fanfold.units import NEVER, PS_PER_MS, PS_PER_SECOND
from fanfold.wire import handshake as hs
from fanfold.wire.handshake import Handshake, encode

REKEY_PS = 120 * PS_PER_SECOND
"""Age of a session from which on its initiator asks for the next one."""
RESERVE_PS = 30 * PS_PER_SECOND
"""So much later the other end does, if the initiator has not."""
RETRY_PS, LONGEST_RETRY_PS = 200 * PS_PER_MS, PS_PER_SECOND
SECOND_START_PS = 100 * PS_PER_MS
"""Of two that start together one waits for the other's handshake."""
KEPT_PS = 10 * PS_PER_SECOND
"""A session that was replaced is forgotten when nothing came with it for so long."""
IDLE_PS = 300 * PS_PER_SECOND
"""So is that of a push, when it is quiet."""
LOOK_PS = 50 * PS_PER_MS
EASY_TRIES, EASY_PS = 16, PS_PER_SECOND
"""So many handshakes in such a time are answered at once; above, a cookie is asked for."""
COOKIE_PS = 120 * PS_PER_SECOND
ID_BYTES = 4
ROW_BITS = 12
"""Of the number of a session: its row; the rest is drawn."""
SEED_BYTES = 32
STAMP_BYTES = 8


class Peer(NamedTuple):
    """Who is at a port. public: its key, empty where the link has none.

    is_first: this process asks it for a session first; begins: it asks at all, a node does not
    ask ranks at its own address. also: another key of its, while one takes the other's place.
    """

    public: bytes
    addr: int
    is_first: bool
    begins: bool = True
    also: bytes = b""

    def known(self) -> frozenset[bytes]:
        """Every key that is its own now."""
        return frozenset((self.public, self.also)) - {b""}


class Ground(NamedTuple):
    """What a process knows when it starts.

    own: its node's key. own_port: UDP port that it hears on. node_port: that nodes do. n_rows:
    sessions at most. unix_ns: wall clock at time 0: a handshake is newer than those before it,
    those of earlier processes included. patience_ps: silence after something left that has it
    ask for a new session, as the neighbour may have lost its own.
    """

    own: LinkKey
    own_port: int
    node_port: int
    n_rows: int
    unix_ns: int
    patience_ps: int


class SendHandshake(NamedTuple):
    """Send a message to a UDP port of the neighbour at a port."""

    port: int
    dport: int
    message: Handshake


class TakeKeys(NamedTuple):
    """Begin to use a session; is_confirmed: the other end has its key already."""

    row: int
    id: int
    peer_id: int
    port: int
    dport: int
    keys: SessionKeys
    is_confirmed: bool


class DropKeys(NamedTuple):
    """Forget a session."""

    row: int


KeyEffect: TypeAlias = SendHandshake | TakeKeys | DropKeys
Look = Callable[[int], tuple[int, int]]
"""row of a session -> (sound packets that came with it, counter of the last that left)"""


class _Session:
    """A session in use, or the place of one that was asked for."""

    def __init__(self, row: int, own_id: int, now_ps: int) -> None:
        self.row, self.id, self.born_ps = row, own_id, now_ps
        self.is_ours = self.is_known = False
        self.peer = b""  # key of the other end
        self.replaced_ps: int = NEVER
        self.n_in = self.sent = 0
        self.heard_ps = now_ps
        self.waits_ps: int = NEVER

    def is_in_use(self) -> bool:
        """The other end has it, and none took its place."""
        return self.is_known and self.replaced_ps == NEVER


class _End:
    """Who hears on a UDP port behind a port, and what this node has with it."""

    def __init__(self, due_ps: int, *, is_asked: bool) -> None:
        self.sessions: list[_Session] = []
        self.is_asked = is_asked  # this node begins handshakes with it
        self.due_ps: int = due_ps if is_asked else NEVER
        self.n_tries = 0
        self.asked: tuple[_Session, Initiator] | None = None
        self.cookie, self.cookie_ps = b"", 0

    def newest(self) -> _Session | None:
        known = [s for s in self.sessions if s.is_known]
        return max(known, key=lambda s: s.born_ps) if known else None


class LinkKeys:
    """Sessions of one process.

    Args:
        peers: by port, 0 of ranks at the node's own address. draw: octets that nobody can
        guess. look: what compiled code counted.
    """

    def __init__(
        self,
        now_ps: int,
        ground: Ground,
        peers: Mapping[int, Peer],
        draw: Callable[[int], bytes],
        look: Look,
    ) -> None:
        self.own, self.own_port, self.peers = ground.own, ground.own_port, peers
        self.older: LinkKey | None = None
        self.node_port = ground.node_port
        self._draw, self._look, self._unix_ns = draw, look, ground.unix_ns
        self._patience_ps = ground.patience_ps
        self._free = list(range(ground.n_rows))
        self._ends: dict[tuple[int, int], _End] = {}
        self._newest_stamp = dict.fromkeys(peers, 0)
        self._secret, self._secret_ps = draw(SEED_BYTES), now_ps
        self._n_easy, self._easy_ps = 0, now_ps
        self.n_made = self.n_cookies = 0
        self._next_ps: int = now_ps
        for port, peer in peers.items():
            if peer.public and peer.begins:
                start = now_ps + (0 if peer.is_first else SECOND_START_PS)
                self._ends[port, self.node_port] = _End(start, is_asked=True)

    def deadline_ps(self) -> int:
        """When ``on_timer`` is to be called."""
        return self._next_ps

    def has_session(self, port: int) -> bool:
        """The neighbour's node and this process have a key."""
        end = self._ends.get((port, self.node_port))
        return end is not None and end.newest() is not None

    def age_ps(self, now_ps: int, port: int) -> int:
        """Age of the session with the neighbour's node; below 0: there is none."""
        end = self._ends.get((port, self.node_port))
        newest = end.newest() if end is not None else None
        return now_ps - newest.born_ps if newest is not None else -1

    def rekey(self, now_ps: int) -> None:
        """Ask all neighbours for new sessions now; those in use stay until then."""
        for end in self._ends.values():
            if end.is_asked:
                end.due_ps, end.n_tries = now_ps, 0
        self._next_ps = now_ps

    def set_own(self, own: LinkKey, older: LinkKey | None) -> None:
        """The node's key from now on, and the one before it, while some still speak to that."""
        self.own, self.older = own, older

    def set_peers(self, now_ps: int, peers: Mapping[int, Peer], out: list[KeyEffect]) -> None:
        """Keys of neighbours as they are now: sessions with keys that went are forgotten.

        Who has another key to be spoken to by is asked for a session at once.
        """
        for port, new in peers.items():
            old, keys = self.peers[port], new.known()
            if (old.public, old.known()) == (new.public, keys):
                continue
            for place in [place for place in self._ends if place[0] == port]:
                end = self._ends[place]
                for session in [s for s in end.sessions if s.peer not in keys]:
                    self._forget(end, session, out)
                self._drop_asked(end)
                if not keys:
                    del self._ends[place]
                elif end.is_asked and old.public != new.public:
                    end.due_ps, end.n_tries = now_ps, 0
            if keys and new.begins:
                self._ends.setdefault((port, self.node_port), _End(now_ps, is_asked=True))
        self.peers, self._next_ps = peers, now_ps

    def on_message(
        self, now_ps: int, port: int, message: Handshake, out: list[KeyEffect]
    ) -> bool:
        """Take a message that came in by a port; False: it is refused."""
        peer = self.peers.get(port)
        if peer is None or not peer.public:
            return False
        if message.step == hs.KNOWN:
            return True  # its trailer said all
        own = self._meant(message)
        if own is None:
            return False
        if message.step == hs.FIRST:
            return self._on_first(now_ps, port, own, message, out)
        return self._on_answer(now_ps, port, message, out)

    def _meant(self, message: Handshake) -> LinkKey | None:
        """Which of this node's keys a message is for."""
        for own in (self.own, self.older):
            if own is not None and is_same(message.proof, _proof(own.public, message)):
                return own
        return None

    def _on_answer(
        self, now_ps: int, port: int, message: Handshake, out: list[KeyEffect]
    ) -> bool:
        for place, end in self._ends.items():
            if place[0] == port and end.asked and end.asked[0].id == message.session:
                if message.step == hs.COOKIE:
                    end.cookie, end.cookie_ps = message.cookie, now_ps
                    end.due_ps = self._next_ps = now_ps
                    return True
                return self._on_second(now_ps, place, end, message, out)
        return False

    def on_timer(self, now_ps: int, out: list[KeyEffect]) -> None:
        """Ask for sessions that are due, forget those that are over."""
        if now_ps < self._next_ps:
            return
        for place, end in list(self._ends.items()):
            for session in list(end.sessions):
                self._observe(now_ps, end, session)
            for session in list(end.sessions):
                if self._is_over(now_ps, place, session):
                    self._forget(end, session, out)
            if end.due_ps <= now_ps:
                self._ask(now_ps, place, end, out)
            if not end.sessions and not end.is_asked:
                del self._ends[place]
        dues = [end.due_ps for end in self._ends.values()]
        self._next_ps = min([now_ps + LOOK_PS, *dues])

    def _observe(self, now_ps: int, end: _End, session: _Session) -> None:
        """What came with a session, what left, and whether the next one is due."""
        n_in, sent = self._look(session.row)
        if n_in != session.n_in:
            session.n_in, session.sent, session.waits_ps = n_in, sent, NEVER
            session.heard_ps = now_ps
            if not session.is_known:
                session.is_known = True
                self._replace(now_ps, end, session)
                end.due_ps = NEVER if end.asked is None else end.due_ps
        elif sent != session.sent and session.waits_ps == NEVER:
            session.waits_ps = now_ps
        if not end.is_asked or session is not end.newest():
            return
        age_ps = now_ps - session.born_ps
        is_old = age_ps > REKEY_PS + (0 if session.is_ours else RESERVE_PS)
        is_due = is_old or now_ps - session.waits_ps > self._patience_ps
        if is_due and end.due_ps == NEVER:  # else it asked already, and will again
            end.due_ps = now_ps

    def _replace(self, now_ps: int, end: _End, session: _Session) -> None:
        for other in end.sessions:
            if other is not session and other.is_known:
                other.replaced_ps = min(other.replaced_ps, now_ps)
        session.replaced_ps = NEVER

    def _is_over(self, now_ps: int, place: tuple[int, int], session: _Session) -> bool:
        quiet_ps = now_ps - session.heard_ps
        if not session.is_known or session.replaced_ps != NEVER:
            return quiet_ps > KEPT_PS
        return place[1] != self.node_port and quiet_ps > IDLE_PS

    def _forget(self, end: _End, session: _Session, out: list[KeyEffect]) -> None:
        end.sessions.remove(session)
        self._free.append(session.row)
        out.append(DropKeys(session.row))

    def _forget_unused(self, now_ps: int, end: _End, out: list[KeyEffect]) -> None:
        """Sessions that this node answered with, and nothing came by: its peer asks anew.

        Compiled code may have heard one since the last look: that is spoken by until the next.
        """
        for session in [s for s in end.sessions if not s.is_known]:
            self._observe(now_ps, end, session)
            if not session.is_known:
                self._forget(end, session, out)

    def _reserve(self, now_ps: int, out: list[KeyEffect]) -> _Session | None:
        """Place of a new session; one that was replaced, or a quiet push, makes room."""
        if not self._free:
            rest = [
                (session.is_in_use(), session.heard_ps, place, session)
                for place, end in self._ends.items()
                for session in end.sessions
                if place[1] != self.node_port or not session.is_in_use()
            ]
            if not rest:
                return None
            *_, place, session = min(rest, key=lambda each: each[:2])
            self._forget(self._ends[place], session, out)
        row = self._free.pop(0)
        drawn = int.from_bytes(self._draw(ID_BYTES), "big")
        return _Session(row, drawn >> ROW_BITS << ROW_BITS | row, now_ps)

    def _ask(
        self, now_ps: int, place: tuple[int, int], end: _End, out: list[KeyEffect]
    ) -> None:
        """Send the first message of a handshake; the one before it is given up."""
        port, dport = place
        peer = self.peers[port]
        end.due_ps = now_ps + min(RETRY_PS * (1 + end.n_tries), LONGEST_RETRY_PS)
        end.n_tries += 1
        self._drop_asked(end)
        session = self._reserve(now_ps, out)
        if session is None:
            return
        stamp = self._unix_ns + now_ps // 1000
        ephemeral = self._draw(SEED_BYTES)
        prologue = _prologue(self.own_port, session.id)
        machine = Initiator(prologue, self.own.private, ephemeral, peer.public)
        body = machine.first(stamp.to_bytes(STAMP_BYTES, "big"))
        if not body:
            self._free.append(session.row)
            return
        session.is_ours, session.peer = True, peer.public
        end.asked = session, machine
        message = Handshake(hs.FIRST, self.own_port, session.id, body=body)
        message = proven(peer.public, message)
        if end.cookie and now_ps - end.cookie_ps < COOKIE_PS:
            message = _replaced(message, cookie=mac_of(end.cookie, _said(message)))
        out.append(SendHandshake(port, dport, message))

    def _drop_asked(self, end: _End) -> None:
        if end.asked is not None:
            self._free.append(end.asked[0].row)
            end.asked = None

    def _on_first(
        self, now_ps: int, port: int, own: LinkKey, message: Handshake, out: list[KeyEffect]
    ) -> bool:
        peer = self.peers[port]
        if not self._is_easy(now_ps):
            cookie = self._cookie_of(now_ps, peer.addr, message.port)
            if not is_same(message.cookie, mac_of(cookie, _said(message))):
                self._say_cookie(port, peer, message, cookie, out)
                return True
        self._n_easy += 1
        prologue = _prologue(message.port, message.session)
        machine = Responder(prologue, own.private, self._draw(SEED_BYTES))
        payload = machine.read(message.body)
        if payload is None or machine.peer not in peer.known():
            return False
        stamp = int.from_bytes(payload, "big")
        if stamp <= self._newest_stamp[port]:
            return False  # it was recorded, and is played again
        self._newest_stamp[port] = stamp
        place = port, message.port
        end = self._ends.setdefault(place, _End(NEVER, is_asked=False))
        self._forget_unused(now_ps, end, out)
        session = self._reserve(now_ps, out)
        if session is None:
            return False
        if end.is_asked and end.asked is None:
            end.due_ps = now_ps + 2 * RETRY_PS  # one handshake is enough
        body, transport = machine.second(session.id.to_bytes(ID_BYTES, "big"))
        session.peer = machine.peer
        end.sessions.append(session)
        self.n_made += 1
        keys = session_keys(transport, is_initiator=False)
        ids = session.row, session.id, message.session
        out.append(TakeKeys(*ids, *place, keys, is_confirmed=False))
        answer = Handshake(hs.SECOND, self.own_port, message.session, body=body)
        out.append(SendHandshake(*place, proven(machine.peer, answer)))
        return True

    def _on_second(
        self,
        now_ps: int,
        place: tuple[int, int],
        end: _End,
        message: Handshake,
        out: list[KeyEffect],
    ) -> bool:
        assert end.asked is not None
        session, machine = end.asked
        found = machine.finish(message.body)
        if found is None:
            return False  # not of the neighbour: its own may still come
        end.asked = None
        payload, transport = found
        session.is_known, session.born_ps, session.heard_ps = True, now_ps, now_ps
        end.sessions.append(session)
        self._replace(now_ps, end, session)
        end.due_ps, end.n_tries = NEVER, 0
        self.n_made += 1
        peer_id = int.from_bytes(payload, "big")
        keys = session_keys(transport, is_initiator=True)
        ids = session.row, session.id, peer_id
        out.append(TakeKeys(*ids, *place, keys, is_confirmed=True))
        out.append(SendHandshake(*place, Handshake(hs.KNOWN, self.own_port, 0)))
        return True

    def _is_easy(self, now_ps: int) -> bool:
        """Handshakes are few: each is answered without more."""
        if now_ps - self._easy_ps >= EASY_PS:
            self._n_easy, self._easy_ps = 0, now_ps
        return self._n_easy < EASY_TRIES

    def _cookie_of(self, now_ps: int, addr: int, dport: int) -> bytes:
        """What only who hears there can know; another one after a while."""
        if now_ps - self._secret_ps > COOKIE_PS:
            self._secret, self._secret_ps = self._draw(SEED_BYTES), now_ps
        return mac_of(self._secret, addr.to_bytes(4, "big") + dport.to_bytes(2, "big"))

    def _say_cookie(
        self, port: int, peer: Peer, message: Handshake, cookie: bytes, out: list[KeyEffect]
    ) -> None:
        """Ask who begins to come again, with a cookie."""
        self.n_cookies += 1
        answer = Handshake(hs.COOKIE, self.own_port, message.session, cookie=cookie)
        out.append(SendHandshake(port, message.port, proven(peer.public, answer)))


def _prologue(port: int, number: int) -> bytes:
    """What both ends have alike: UDP port and number of who begins are part of it."""
    return LABEL + port.to_bytes(2, "big") + number.to_bytes(ID_BYTES, "big")


def _said(message: Handshake) -> bytes:
    """What a cookie's MAC is over: all before the cookie, and the body."""
    octets = encode(message)
    return octets[: hs.HEAD_BYTES + hs.MARK_BYTES] + octets[hs.FIXED_BYTES :]


def _proof(public: bytes, message: Handshake) -> bytes:
    """MAC that who knows a public key can make: noise of others costs no agreement."""
    octets = encode(message)
    key = hashlib.sha256(LABEL + b" proof" + public).digest()
    cookie = message.cookie if message.step == hs.COOKIE else b""
    return mac_of(key, octets[: hs.HEAD_BYTES] + octets[hs.FIXED_BYTES :] + cookie)


def proven(public: bytes, message: Handshake) -> Handshake:
    """A message with the proof that it is for who has this key."""
    return _replaced(message, proof=_proof(public, message))


def _replaced(message: Handshake, **values: bytes) -> Handshake:
    given = {name: getattr(message, name) for name in message.__struct_fields__}
    return Handshake(**given | values)
