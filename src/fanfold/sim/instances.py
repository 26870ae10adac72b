"""Sessions served by instances of a service over a net: one policy, turn by turn.

A turn's request travels to an instance; where the session's context is not there, it is fetched
from where it was last, or from its home store, by a transfer that shares links with all others
(sim/transfers.py). Then it waits for one of the instance's slots, first come first served: the
prompt is worked off, the first token leaves, the answer takes the slot until it ends. The next
turn comes after a pause. An instance that is lost takes with it what it was at and the contexts
that it had; their turns choose anew, contexts come from home.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from itertools import count

import msgspec
import numpy as np

from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.service_sites import ServiceSites
from fanfold.sim.steering import Candidate, Load, Policy
from fanfold.sim.transfers import Transfers
from fanfold.topo.routes import Routes
from fanfold.units import PS_PER_SECOND
from fanfold.work.sessions import Session

# Events.
ARRIVE, REACH, FETCHED, FIRST, END, UPDATE, LOSE = range(7)
AT_HOME = -1
NONE = -1


class Service(msgspec.Struct, frozen=True):
    """An instance. prefill, decode: tokens per second of one slot. slots: turns at once.

    context_bytes: of a session. update_ps: between two words of its load; 0: always known.
    """

    prefill: int = 8_000
    decode: int = 400
    slots: int = 4
    context_bytes: int = 500_000_000
    update_ps: int = PS_PER_SECOND // 10

    def prompt_ps(self, tokens: int) -> int:
        """Until the first token."""
        return tokens * PS_PER_SECOND // self.prefill

    def whole_ps(self, prompt: int, answer: int) -> int:
        """All of a turn."""
        return self.prompt_ps(prompt) + answer * PS_PER_SECOND // self.decode


class Turn:
    """One turn of a session, from its request on."""

    def __init__(self, session: int, number: int, now_ps: int) -> None:
        self.session, self.number, self.start_ps = session, number, now_ps
        self.at = NONE
        """Instance that has it."""
        self.version = 0
        """Rises when it chooses anew: what was to come for it does not count any more."""
        self.transfer = NONE
        self.is_moved = False
        self.first_ps = 0
        """First token at the user, of the answer that was whole."""
        self.work_ps = 0
        self.end_ps = 0


class Instance:
    """One instance while a run lasts."""

    def __init__(self, host: int, slots: int) -> None:
        self.host, self.slots = host, slots
        self.is_alive = True
        self.queue: deque[Turn] = deque()
        self.busy: set[Turn] = set()
        self.coming: set[Turn] = set()
        """Their requests or contexts are on the way."""
        self.busy_ps = 0
        self.n_fetches = 0
        self.most_fetches = 0
        self.n_held = 0
        self.most_held = 0
        """Contexts of sessions that go on, at once: the memory that they take."""
        self.told = Load()

    def load(self, now_ps: int) -> Load:
        """What it would tell now."""
        waiting = sum(turn.work_ps for turn in (*self.queue, *self.coming))
        left = sum(max(turn.end_ps - now_ps, 0) for turn in self.busy)
        n = len(self.queue) + len(self.coming) + len(self.busy)
        wait_ps = (waiting + left) // self.slots if n >= self.slots else 0
        return Load(wait_ps, n, self.n_fetches)


class ServiceRun:
    """One policy over all sessions.

    Args:
        lost: instance and time at which it is lost, or None. window_ps: over which busy slots
            are counted. seed: of paths.

    Attributes:
        turns: all that ended, in that order. moves, moved_bytes, between_bytes: contexts that
        were fetched to the end, their bytes, and the same on each link that joins sites.
    """

    def __init__(
        self,
        sites: ServiceSites,
        routes: Routes,
        service: Service,
        sessions: Sequence[Session],
        policy: Policy,
        *,
        seed: int,
        window_ps: int,
        lost: tuple[int, int] | None = None,
    ) -> None:
        self._sites, self.service, self._sessions = sites, service, sessions
        self._policy, self._window_ps = policy, window_ps
        self._transfers = Transfers(sites.net, routes, seed)
        self.instances = [Instance(host, service.slots) for host in sites.instances]
        self.turns: list[Turn] = []
        self.moves = self.moved_bytes = self.between_bytes = 0
        self._place = [AT_HOME] * len(sessions)
        self._last = [NONE] * len(sessions)
        self._fetching: dict[int, Turn] = {}
        self._events: list[tuple[int, int, int, Turn | None, int]] = []
        self._order = count()
        self._delays: dict[tuple[int, int], int] = {}
        self._n_left = sum(len(one.prompts) for one in sessions)
        for number, session in enumerate(sessions):
            self._put(session.start_ps, ARRIVE, Turn(number, 0, session.start_ps))
        self._lost = lost
        if lost is not None:
            self._put(lost[1], LOSE)
        if service.update_ps:
            self._put(service.update_ps, UPDATE)

    def run(self) -> None:
        """Until the last turn has ended."""
        while self._n_left:
            sent_ps = self._transfers.next_ps()
            if sent_ps != NEVER_PS and (not self._events or sent_ps <= self._events[0][0]):
                self._on_sent(sent_ps, self._fetching.pop(self._transfers.end()))
                continue
            now_ps, _, kind, turn, version = heapq.heappop(self._events)
            if turn is None:
                self._on_clock(now_ps, kind)
            elif version == turn.version:
                self._on_turn(now_ps, kind, turn)

    def delay_ps(self, source: int, goal: int) -> int:
        """Of light from one host to another."""
        if (source, goal) not in self._delays:
            path = self._transfers.path(source, goal)
            self._delays[source, goal] = int(self._sites.net.prop_ps[path].sum())
        return self._delays[source, goal]

    def _put(self, when_ps: int, kind: int, turn: Turn | None = None) -> None:
        version = turn.version if turn is not None else 0
        heapq.heappush(self._events, (when_ps, next(self._order), kind, turn, version))

    def _on_turn(self, now_ps: int, kind: int, turn: Turn) -> None:
        match kind:
            case _ if kind == ARRIVE:
                self._choose(now_ps, turn)
            case _ if kind == REACH:
                self._on_reach(now_ps, turn)
            case _ if kind == FETCHED:
                self._on_fetched(now_ps, turn)
            case _:
                self._on_end(now_ps, turn)

    def _on_clock(self, now_ps: int, kind: int) -> None:
        if kind == UPDATE:
            for one in self.instances:
                one.told = one.load(now_ps)
            self._put(now_ps + self.service.update_ps, UPDATE)
        elif self._lost is not None:
            self._lose(now_ps, self._lost[0])

    # A turn.

    def _choose(self, now_ps: int, turn: Turn) -> None:
        """Give a turn to an instance; its request leaves."""
        session = self._sessions[turn.session]
        prompt, answer = session.prompts[turn.number], session.answers[turn.number]
        turn.work_ps = self.service.whole_ps(prompt, answer)
        last = self._last[turn.session]
        if self._policy.is_sticky and last != NONE and self.instances[last].is_alive:
            turn.at = last
        else:
            turn.at = self._policy.choose(self._candidates(now_ps, turn)).number
        self._last[turn.session] = turn.at
        one = self.instances[turn.at]
        one.coming.add(turn)
        user = self._sites.users[session.site]
        self._put(now_ps + self.delay_ps(user, one.host), REACH, turn)

    def _candidates(self, now_ps: int, turn: Turn) -> list[Candidate]:
        session, is_told = self._sessions[turn.session], bool(self.service.update_ps)
        user, place = self._sites.users[session.site], self._place[turn.session]
        holder = user if place == AT_HOME else self.instances[place].host
        n_bytes = self.service.context_bytes
        found = []
        for number, one in enumerate(self.instances):
            if not one.is_alive:
                continue
            is_here = place == number or not n_bytes
            bps = 0 if is_here else self._sites.bps(holder, one.host)
            load = one.told if is_told else one.load(now_ps)
            cost, delay = self._sites.cost(user, one.host), self.delay_ps(user, one.host)
            found.append(Candidate(number, cost, delay, load, bps, n_bytes))
        return found

    def _on_reach(self, now_ps: int, turn: Turn) -> None:
        """The request is there: the context is, or is sent for."""
        place, one = self._place[turn.session], self.instances[turn.at]
        if place == turn.at or not self.service.context_bytes:
            self._keep(turn.session, turn.at)
            self._wait(now_ps, turn)
            return
        one.n_fetches += 1
        one.most_fetches = max(one.most_fetches, one.n_fetches)
        source, n_bytes = self._holder(turn), self.service.context_bytes
        turn.transfer = self._transfers.start(now_ps, source, one.host, n_bytes)
        self._fetching[turn.transfer] = turn

    def _holder(self, turn: Turn) -> int:
        """Host that has a session's context."""
        place = self._place[turn.session]
        home = self._sites.users[self._sessions[turn.session].site]
        return home if place == AT_HOME else self.instances[place].host

    def _on_sent(self, now_ps: int, turn: Turn) -> None:
        """The last byte of a context left: it comes after the time of light."""
        turn.transfer = NONE
        source, host = self._holder(turn), self.instances[turn.at].host
        path = self._transfers.path(source, host)
        self.moves += 1
        self.moved_bytes += self.service.context_bytes
        between = int(self._sites.is_between[path].sum())
        self.between_bytes += self.service.context_bytes * between
        self._put(now_ps + self.delay_ps(source, host), FETCHED, turn)

    def _on_fetched(self, now_ps: int, turn: Turn) -> None:
        self.instances[turn.at].n_fetches -= 1
        turn.is_moved = True
        self._keep(turn.session, turn.at)
        self._wait(now_ps, turn)

    def _keep(self, session: int, place: int) -> None:
        """A context is at an instance, or at home, and nowhere else."""
        before, self._place[session] = self._place[session], place
        if before != AT_HOME:
            self.instances[before].n_held -= 1
        if place != AT_HOME:
            one = self.instances[place]
            one.n_held += 1
            one.most_held = max(one.most_held, one.n_held)

    def _wait(self, now_ps: int, turn: Turn) -> None:
        one = self.instances[turn.at]
        one.coming.remove(turn)
        one.queue.append(turn)
        self._serve(now_ps, one)

    def _serve(self, now_ps: int, one: Instance) -> None:
        while one.queue and len(one.busy) < one.slots:
            turn = one.queue.popleft()
            session = self._sessions[turn.session]
            user = self._sites.users[session.site]
            back_ps = self.delay_ps(user, one.host)
            prompt_ps = self.service.prompt_ps(session.prompts[turn.number])
            turn.first_ps = now_ps + prompt_ps + back_ps
            turn.end_ps = now_ps + turn.work_ps
            one.busy.add(turn)
            self._put(turn.end_ps, END, turn)

    def _on_end(self, now_ps: int, turn: Turn) -> None:
        """The answer is out; the user reads, and asks again."""
        one, session = self.instances[turn.at], self._sessions[turn.session]
        one.busy.remove(turn)
        one.busy_ps += self._counted(now_ps - turn.work_ps, now_ps)
        self.turns.append(turn)
        self._n_left -= 1
        if turn.number + 1 < len(session.prompts):
            user = self._sites.users[session.site]
            when = now_ps + self.delay_ps(user, one.host) + session.thinks_ps[turn.number + 1]
            self._put(when, ARRIVE, Turn(turn.session, turn.number + 1, when))
        else:
            self._keep(turn.session, AT_HOME)
        self._serve(now_ps, one)

    def _counted(self, start_ps: int, end_ps: int) -> int:
        """Part of a span that lies in the window."""
        return max(min(end_ps, self._window_ps) - start_ps, 0)

    # An instance is lost.

    def _lose(self, now_ps: int, number: int) -> None:
        one = self.instances[number]
        one.is_alive = False
        held = [s for s, place in enumerate(self._place) if place == number]
        for session in held:
            self._keep(session, AT_HOME)
        elsewhere = [t for t in self._fetching.values() if t.session in set(held)]
        for turn in elsewhere:  # fetched from it by another one: from home, once more
            self._stop(now_ps, turn)
            self.instances[turn.at].n_fetches -= 1
            self._on_reach(now_ps, turn)
        at_it = sorted(
            (*one.queue, *one.busy, *one.coming), key=lambda t: (t.start_ps, t.session)
        )
        for turn in one.busy:
            one.busy_ps += self._counted(turn.end_ps - turn.work_ps, now_ps)
        for turn in at_it:
            if turn.transfer != NONE:
                self._stop(now_ps, turn)
            turn.version += 1
            self._choose(now_ps, turn)
        one.queue.clear()
        one.busy.clear()
        one.coming.clear()

    def _stop(self, now_ps: int, turn: Turn) -> None:
        self._transfers.stop(now_ps, turn.transfer)
        del self._fetching[turn.transfer]
        turn.transfer = NONE


def latencies_of(turns: Sequence[Turn]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Times from the request to the first token at the user, ps, rising."""
    return np.sort(np.array([t.first_ps - t.start_ps for t in turns], np.int64))


def quantile(rising: "np.ndarray[tuple[int], np.dtype[np.int64]]", ppm: int) -> int:
    """Least of them that so many of a million do not exceed (nearest rank); 0 of none."""
    if not rising.size:
        return 0
    return int(rising[max(-(-rising.size * ppm // 1_000_000), 1) - 1])
