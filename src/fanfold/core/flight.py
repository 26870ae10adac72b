"""What is on its way: a fan's geometry, one block in flight, one lane of receivers."""

from collections.abc import Mapping, Sequence
from itertools import islice

from fanfold.core.pace import Pace
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import Feedback, FeedbackFlag

MAIN = 0
"""The lane of all who keep pace."""
NO_LANE = -1
KEPT = (
    *("first_ps", "queued_ps", "n_queued", "n_sent", "round", "tries", "clean", "is_told"),
    *("is_judged", "is_calm", "went_bps", "start_ps"),
)
"""What a part of a flight has in common with it."""
SLACK_PS = 10_000_000_000
MAX_QUESTIONS = 4
"""Packets of one question that bring what somebody lacks."""
RARE_PS = 120_000_000_000
"""Between two questions to the silent, before they are given up."""
MAX_OPEN = 48
"""Blocks of a lane under way at once, however little is left of each."""
MAX_LIGHT = 1024
"""The same with those that only the mute still lack: these take nothing of the window."""
AHEAD = 24
"""So many of them the mute are sent before they are set aside: their sockets hold no more."""
MUTE_ASKS = 2
"""Of these so many are asked about, oldest first: one answer tells that they speak again."""


class Shape:
    """Geometry of a fan: blocks 0..n_blocks-1 of n_psn packets, the last may be shorter."""

    def __init__(self, n_bytes: int, stride: int, n_psn: int) -> None:
        self.n_bytes, self.stride, self.n_psn = n_bytes, stride, n_psn
        self.block_bytes = stride * n_psn
        self.n_blocks = -(-n_bytes // self.block_bytes)
        last_bytes = n_bytes - (self.n_blocks - 1) * self.block_bytes
        self.last_n_psn = -(-last_bytes // stride)
        self.last_bytes = last_bytes

    def psns(self, block: int) -> int:
        """Packets of a block."""
        return self.last_n_psn if block == self.n_blocks - 1 else self.n_psn

    def bytes(self, block: int) -> int:
        """Payload bytes of a block."""
        return self.last_bytes if block == self.n_blocks - 1 else self.block_bytes


class Flight:
    """One block on its way to those in ``need``."""

    __slots__ = (
        "clean",
        "coming",
        "first_ps",
        "first_round",
        "gaps",
        "is_calm",
        "is_counted",
        "is_heavy",
        "is_judged",
        "is_light",
        "is_mourned",
        "is_nudged",
        "is_own",
        "is_repaired",
        "is_told",
        "lacked",
        "lacks",
        "left_ps",
        "lost",
        "n_queued",
        "n_sent",
        "need",
        "origin",
        "owed",
        "owed_ps",
        "queued_ps",
        "repaired",
        "round",
        "sent_ps",
        "sent_to",
        "share_of",
        "spoke",
        "start_ps",
        "timed_round",
        "told",
        "tries",
        "wait_ps",
        "weight",
        "went_bps",
    )

    def __init__(self, now_ps: int, need: int, wait_ps: int, first_round: int = 0) -> None:
        self.need = need
        self.first_ps: int = NEVER  # when all of it had left once
        self.start_ps = self.queued_ps = now_ps  # when its first, its latest job began
        self.sent_ps = now_ps  # when its last packet left
        self.wait_ps = wait_ps
        self.n_queued = 0  # jobs that have not left
        self.origin = NO_LANE  # the lane in which they were queued, if it is another one now
        self.n_sent = 0  # packets of its latest job
        self.first_round = self.round = first_round
        self.left_ps: dict[int, int] = {}  # when the last packet of each round left
        self.tries = 0
        self.clean = True
        self.is_nudged = False  # since its last question
        self.is_own = True  # sent by its lane; else it tells of the way before the split
        self.is_light = False  # only the mute lack some, and told nothing of it since
        self.is_told = False  # by a slot that waited, and not for all
        self.is_mourned = False  # nobody told of it for a whole timeout
        self.weight = 0  # bytes that it takes of its lane's window
        self.told = 0  # who told of it, whatever of
        self.coming = 0  # of whom further parts of a word follow
        self.lacks: dict[int, int] = {}  # what they said that they lack: psn -> who
        self.timed_round = -1  # the latest whose round trip is known
        self.sent_to, self.spoke = need, 0  # of its first sending: to whom, who told of it
        self.lost: dict[int, int] = {}  # and how many of its packets those lack
        self.gaps: dict[int, int] = {}  # psn -> who lacks it
        self.is_repaired = False
        self.is_judged = False  # its first sending, by what most have told
        self.is_counted = False  # by what all have told
        self.lacked: dict[int, int] = {}  # packets that few still lack
        self.is_calm = True  # no more of it was lost than always is
        self.owed: dict[int, int] = {}  # repairs that wait: psn -> to whom
        self.owed_ps = 0  # since when
        self.is_heavy = False  # much of it was lost
        self.went_bps = 0  # how fast its latest job of many packets left
        self.share_of = first_round  # the latest round of which a share is known
        self.repaired: dict[int, list[tuple[int, int]]] = {}
        """Latest round that each packet went to each receiver: psn -> (round, to whom)."""

    def is_due(self, now_ps: int) -> bool:
        """All of it left, and the wait for word of it is over."""
        return self.n_queued == 0 and now_ps - self.sent_ps >= self.wait_ps

    def hurry(self, now_ps: int, soon_ps: int) -> None:
        """A slot waited for words that did not come: who owes them is asked soon.

        Slots on other branches end about now; their words get so long.
        """
        waited_ps = 0 if self.n_queued else now_ps - self.sent_ps
        if waited_ps + soon_ps < self.wait_ps:
            self.is_told, self.wait_ps = True, waited_ps + soon_ps

    def owe(
        self, now_ps: int, gaps: Mapping[int, int], feedback: Feedback, *, is_heavy: bool
    ) -> None:
        """Those who were heard lack this; repairs of it wait.

        It stands for what they said before, but in the further parts of a word.
        """
        self.is_heavy |= is_heavy
        if not self.owed:
            self.owed_ps = now_ps
        old = feedback.heard if feedback.n_merged else 0
        left = {psn: bits & ~old for psn, bits in self.owed.items()}
        for psn, bits in gaps.items():
            left[psn] = left.get(psn, 0) | bits
        self.owed = {psn: bits for psn, bits in left.items() if bits}

    def hear(self, feedback: Feedback) -> None:
        """What those who were heard say that they lack stands for what they said before.

        A word may come in parts: those behind the first one merge nobody, and join.
        """
        self.told |= feedback.heard
        self.coming &= ~feedback.heard
        if feedback.flags & FeedbackFlag.MORE:
            self.coming |= feedback.heard
        old = feedback.heard if feedback.n_merged else feedback.done
        left = {psn: bits & ~old for psn, bits in self.lacks.items()}
        for row in feedback.rows:
            left[row.psn] = left.get(row.psn, 0) | row.lacking
        self.lacks = {psn: bits for psn, bits in left.items() if bits & self.need}

    def left_bytes(self, stride: int, n_bytes: int, mute: int = 0) -> int:
        """What is still to arrive of a block of ``n_bytes``, as far as it was told.

        mute: what they lack is not on its way, or lost.
        """
        need = self.need & ~mute
        if need & ~self.told:
            return n_bytes
        return min(stride * sum(1 for bits in self.lacks.values() if bits & need), n_bytes)

    def lacked_by(self, k: int, n_psn: int) -> int:
        """Packets of ``n_psn`` that a receiver lacks or said nothing of."""
        if not self.need >> k & 1:
            return 0
        return sum(b >> k & 1 for b in self.lacks.values()) if self.told >> k & 1 else n_psn

    def questions(self, last: int) -> dict[int, int]:
        """Packets that ask those who owe a word: psn -> to whom.

        Few that most of them said they lack, so that an answer may be the last one; the last
        packet of the block for whoever is left.
        """
        left, found = self.need, dict[int, int]()
        for psn, bits in sorted(self.lacks.items(), key=lambda at: -at[1].bit_count()):
            if (to := bits & left) and len(found) < MAX_QUESTIONS:
                found[psn] = to
                left &= ~to
        if left:
            found[last] = found.get(last, 0) | left
        return found

    def note_repair(self, psn: int, to: int) -> None:
        """Remember who got a packet in this round; earlier rounds to them no longer count."""
        earlier = [(r, bits & ~to) for r, bits in self.repaired.get(psn, ()) if bits & ~to]
        self.repaired[psn] = [*earlier, (self.round, to)]

    def share(self, gaps: Mapping[int, int], heard: int) -> int:
        """What share of its latest sending those who were heard lost, per mille."""
        sent = lost = 0
        for psn, rounds in self.repaired.items():
            for round_, bits in rounds:
                if round_ == self.round:
                    sent += (bits & heard).bit_count()
                    lost += (bits & heard & gaps.get(psn, 0)).bit_count()
        return lost * 1000 // max(sent, 1)

    def part(self, mask: int, lane: int) -> "Flight":
        """The same block on its way to those of ``mask`` only, who leave this flight.

        lane: in which jobs of it may still be queued.
        """
        other = Flight(self.sent_ps, self.need & mask, self.wait_ps, self.first_round)
        for name in KEPT:
            setattr(other, name, getattr(self, name))
        other.left_ps, other.is_own = dict(self.left_ps), False
        other.told, other.coming = self.told, self.coming & mask
        other.lacks = {psn: at for psn, bits in self.lacks.items() if (at := bits & mask)}
        other.is_repaired = True  # it is judged where it was sent
        other.origin = lane if self.n_queued else NO_LANE
        other.repaired = {
            psn: [(r, bits & mask) for r, bits in rounds if bits & mask]
            for psn, rounds in self.repaired.items()
        }
        return other

    def on_left(self, now_ps: int, round_: int, began_ps: int, went_bps: int) -> None:
        """The last packet of a job of it left, all of it at this rate; 0: too few to tell."""
        if went_bps:
            self.went_bps = went_bps
            self.queued_ps = max(self.queued_ps, began_ps)
        if round_ == self.first_round:
            self.start_ps = max(self.start_ps, began_ps)
        self.left_ps[round_] = now_ps
        self.n_queued = max(self.n_queued - 1, 0)
        if self.n_queued == 0:
            self.origin = NO_LANE
        self.sent_ps = now_ps
        self.first_ps = min(self.first_ps, now_ps)

    def fresh_gaps(
        self, now_ps: int, feedback: Feedback, way_ps: int, usual_ps: int
    ) -> tuple[dict[int, int], int]:
        """Gaps not already repaired by packets that may still be on their way.

        way_ps: longest round trip lately. usual_ps: the usual one. Packets of a path arrive in
        order: a repair is lost when one behind it arrived, or one of a later round. Without a
        word of that it is taken for lost when the last one left the longest round trip ago;
        a usual one where no packet of its round arrived, and two where a slot held that word.

        A receiver gets no more of a block while some of it is on its way to it.

        Returns:
            psn -> who lacks it; to whom some are on their way.
        """
        lacking = {row.psn: row.lacking for row in feedback.rows}
        # A queue that drops much is full: round trips are longer than those seen.
        soon_ps = way_ps + SLACK_PS if self.is_heavy else way_ps - way_ps // 8
        late_ps = usual_ps * (2 if feedback.flags & FeedbackFlag.PARTIAL else 1) + SLACK_PS
        gaps: dict[int, int] = {}
        passed = on_way = 0  # who has a packet of this round behind this one
        for psn in sorted(lacking.keys() | self.repaired.keys(), reverse=True):
            lacks = bits = lacking.get(psn, 0) & self.need
            arrived = 0
            for sent_round, sent_to in self.repaired.get(psn, ()):
                if not sent_to & feedback.heard:
                    continue  # says nothing of those
                since_ps = now_ps - self.left_ps.get(sent_round, now_ps)
                if sent_round > feedback.round and since_ps < late_ps:
                    bits &= ~sent_to
                elif sent_round == feedback.round:
                    arrived = sent_to & feedback.heard & ~lacking.get(psn, 0)
                    bits &= ~(sent_to & ~passed) if since_ps < soon_ps else -1
            passed |= arrived
            on_way |= lacks & ~bits
            if bits:
                gaps[psn] = bits
        return {psn: left for psn, bits in gaps.items() if (left := bits & ~on_way)}, on_way


class Lane:
    """Receivers that go at one pace; blocks from ``cursor`` to ``end`` are still to be sent.

    What some missed of them is sent in one more pass when this one is over, from block
    ``missed`` on.
    """

    def __init__(self, members: int, pace: Pace, end: int) -> None:
        self.members = members
        self.pace = pace
        self.cursor = 0
        self.end = end
        self.flights: dict[int, Flight] = {}
        self.missed: int = NEVER
        self.is_silent = False  # they were split off for their silence
        self.mute = 0
        """Members of whom nothing comes, as BFRs say: their blocks hold nobody else back."""
        self._busy_ps = 0  # until when it was sending
        self._asked_ps = 0  # when its silent members were

    def begin(self, members: int, *, is_silent: bool) -> None:
        """An empty lane takes receivers, from the first block on."""
        self.members, self.cursor, self.missed, self.mute = members, 0, NEVER, 0
        self.is_silent = is_silent

    def went_bps(
        self, now_ps: int, queued_ps: int, n_bytes: int, rate_bps: int
    ) -> tuple[int, int]:
        """A job queued then has left: when its first packet did, and how fast all of it.

        At the lane's rate at most.
        """
        began_ps, self._busy_ps = max(self._busy_ps, queued_ps), now_ps
        went_bps = n_bytes * 8 * PS_PER_SECOND // max(now_ps - began_ps, 1)
        return began_ps, min(went_bps, rate_bps)

    def is_alike(self, limit_bps: int, *, is_silent: bool) -> bool:
        """Whether its members take about that rate, or are silent as well."""
        if not self.members or is_silent or self.is_silent:
            return bool(self.members) and is_silent and self.is_silent
        own_bps = self.pace.limit.bps
        return 2 * limit_bps <= 3 * own_bps and 2 * own_bps <= 3 * limit_bps

    def is_behind(self, k: int, shape: Shape, until_ps: int) -> bool:
        """Whether a receiver lacks half of what left until then and some still lack.

        Who loses packets lacks a part of them; who takes less than is sent lacks nearly all.
        """
        n_left = n_lacked = 0
        for block, flight in self.flights.items():
            if flight.first_ps <= until_ps:
                n_left += shape.psns(block)
                n_lacked += flight.lacked_by(k, shape.psns(block))
        return 2 * n_lacked >= n_left > 0

    def may_send(self) -> bool:
        """Whether a new block may go."""
        return self.pace.can_send() and self.is_open()

    def is_open(self) -> bool:
        """Not too many blocks are out; to the silent nothing goes but questions and repairs."""
        n_open = len(self.flights)
        if MAX_OPEN <= n_open < MAX_LIGHT:
            n_open -= sum(1 for flight in self.flights.values() if flight.is_light)
        return n_open < MAX_OPEN and not self.is_silent

    def next_block(self, need: Sequence[int]) -> int | None:
        """The next block that a member needs and that is not on its way to it."""
        while self.cursor < self.end or self.pass_again():
            block = self.cursor
            self.cursor += 1
            wanted = need[block] & self.members
            if block in self.flights:
                wanted &= ~self.flights[block].need
            if wanted:
                return block
        return None

    def to_ask(self, now_ps: int) -> list[int]:
        """Blocks of which it is time to ask, oldest first.

        Of the silent each is asked about one block, and not often.
        """
        if not self.is_silent:
            due = [block for block, flight in self.flights.items() if flight.is_due(now_ps)]
            return self._without_mute(due) if self.mute else due
        if now_ps - self._asked_ps < RARE_PS:
            return []
        self._asked_ps, left, found = now_ps, self.members, list[int]()
        for block, flight in self.flights.items():
            if flight.n_queued == 0 and flight.need & left:
                found.append(block)
                left &= ~flight.need
        return found

    def _without_mute(self, due: list[int]) -> list[int]:
        """Of blocks that only the mute lack, the oldest are asked about, after all others."""
        owed = [b for b in due if self.flights[b].need & ~self.mute]
        light = (b for b, flight in self.flights.items() if not flight.need & ~self.mute)
        oldest = set(islice(light, MUTE_ASKS))
        return owed + [b for b in due if b in oldest]

    def is_far_ahead(self) -> bool:
        """As much waits for the mute as their sockets hold: what else they are sent is lost."""
        is_many = self.mute and len(self.flights) >= AHEAD
        return bool(is_many and sum(f.is_light for f in self.flights.values()) >= AHEAD)

    def fall_mute(self, mask: int, shape: Shape) -> None:
        """Nothing comes from these members: what only they lack takes no room any more."""
        self.mute |= mask
        for block, flight in self.flights.items():
            if flight.need & mask:
                self.weigh(block, shape)

    def parts(self, mask: int, index: int) -> dict[int, Flight]:
        """What is on its way to some of the members; index: which lane this is."""
        return {b: f.part(mask, index) for b, f in self.flights.items() if f.need & mask}

    def adopt(self, parts: Mapping[int, Flight], shape: Shape) -> None:
        """Blocks on their way to new members go on in this lane: they are not sent anew."""
        for block, part in parts.items():
            if block in self.flights:
                self.flights[block].need |= part.need
            else:
                self.flights[block] = part
            self.weigh(block, shape)

    def weigh(self, block: int, shape: Shape) -> None:
        """What is left of a block is what it takes of the window (RFC 6675: the pipe)."""
        flight = self.flights[block]
        n_bytes = flight.left_bytes(shape.stride, shape.bytes(block), self.mute)
        self.pace.on_sent(n_bytes - flight.weight)
        flight.weight, flight.is_light = n_bytes, not flight.need & ~self.mute

    def land(self, block: int) -> Flight:
        """Nobody of this lane is waited for any more with this block."""
        flight = self.flights.pop(block)
        self.pace.on_gone(flight.weight)
        return flight

    def miss(self, block: int) -> None:
        """A block that went by is wanted by somebody who got nothing of it."""
        self.missed = min(self.missed, block)

    def pass_again(self) -> bool:
        """Begin another pass when one is wanted."""
        if self.missed >= self.end:
            return False
        self.cursor, self.missed = self.missed, NEVER
        return True

    def left_ps(self) -> int:
        """When the last packet of what is in flight left; NEVER while some are queued."""
        left = (NEVER if f.n_queued else f.sent_ps for f in self.flights.values())
        return max(left, default=0)


def rate_of(lanes: Sequence[Lane], index: int, cap_bps: int) -> int:
    """Pacing rate of a lane: under a cap the main one has what the others leave.

    cap_bps: of all lanes together, 0 = none.
    """
    rate = lanes[index].pace.rate_bps()
    if not cap_bps:
        return rate
    busy = [each for each in lanes if any(f.n_queued for f in each.flights.values())]
    share = cap_bps // max(len(busy), 1)
    if index != MAIN:
        return min(rate, share)
    others = sum(min(each.pace.rate_bps(), share) for each in busy if each is not lanes[MAIN])
    return min(rate, max(cap_bps - others, share))


def owing(now_ps: int, lanes: Sequence[Lane], n_asked: int, stall_ps: int) -> dict[int, int]:
    """Since when each receiver owes a word that it was asked for ``n_asked`` times.

    stall_ps: a block that left so long ago counts, however often it was asked about.
    """
    since: dict[int, int] = {}
    for lane in lanes:
        for flight in lane.flights.values():
            is_old = flight.tries >= n_asked or now_ps - flight.first_ps >= stall_ps
            for k in members_of(flight.need if is_old else 0):
                since[k] = min(since.get(k, NEVER), flight.first_ps)
    return since


def members_of(bits: int) -> list[int]:
    """Bit indices set in a BitString, rising."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
