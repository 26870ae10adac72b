"""What is on its way: a fan's geometry, one block in flight, one lane of receivers."""

from collections.abc import Mapping, Sequence

from fanfold.core.pace import Pace
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import Feedback

MAIN = 0
"""The lane of all who keep pace."""
NO_LANE = -1
KEPT = (
    *("first_ps", "queued_ps", "n_queued", "n_sent", "round", "tries", "clean", "is_told"),
    *("is_judged", "is_calm", "went_bps", "start_ps"),
)
"""What a part of a flight has in common with it."""
SLACK_PS = 10_000_000_000


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
        "first_ps",
        "first_round",
        "is_calm",
        "is_counted",
        "is_heavy",
        "is_judged",
        "is_nudged",
        "is_own",
        "is_repaired",
        "is_told",
        "lacked",
        "left_ps",
        "lost",
        "n_queued",
        "n_sent",
        "need",
        "origin",
        "owed",
        "owed_ps",
        "owed_round",
        "queued_ps",
        "repaired",
        "round",
        "sent_ps",
        "sent_to",
        "share_of",
        "spoke",
        "start_ps",
        "tries",
        "wait_ps",
        "went_bps",
    )

    def __init__(self, now_ps: int, need: int, wait_ps: int, first_round: int = 0) -> None:
        self.need = need
        self.first_ps: int = NEVER  # when all of it had left once
        self.start_ps = self.queued_ps = now_ps  # when its first, its latest job was queued
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
        self.is_told = False  # by a slot that waited, and not for all
        self.sent_to, self.spoke = need, 0  # of its first sending: to whom, who told of it
        self.lost: dict[int, int] = {}  # and how many of its packets those lack
        self.is_repaired = False
        self.is_judged = False  # its first sending, by what most have told
        self.is_counted = False  # by what all have told
        self.lacked: dict[int, int] = {}  # packets that few still lack
        self.is_calm = True  # no more of it was lost than always is
        self.owed: dict[int, int] = {}  # repairs that wait: psn -> to whom
        self.owed_ps = 0  # since when
        self.owed_round = first_round  # of the latest word of them
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
        self, now_ps: int, gaps: Mapping[int, int], heard: int, round_: int, *, is_heavy: bool
    ) -> None:
        """Those who were heard lack this in a round; repairs of it wait.

        A word may come in parts, of one round. What it says of another one stands for earlier.
        """
        self.is_heavy |= is_heavy
        if not self.owed:
            self.owed_ps = now_ps
        old = heard if round_ != self.owed_round else 0
        self.owed_round = round_
        left = {psn: bits & ~old for psn, bits in self.owed.items()}
        for psn, bits in gaps.items():
            left[psn] = left.get(psn, 0) | bits
        self.owed = {psn: bits for psn, bits in left.items() if bits}

    def note_repair(self, psn: int, to: int) -> None:
        """Remember who got a packet in this round; earlier rounds to them no longer count."""
        earlier = [(r, bits & ~to) for r, bits in self.repaired.get(psn, ()) if bits & ~to]
        self.repaired[psn] = [*earlier, (self.round, to)]

    def share(self, gaps: Mapping[int, int], heard: int) -> int:
        """What share of its latest sending those who were heard lost, per mille."""
        sent = sum(
            (bits & heard).bit_count()
            for rounds in self.repaired.values()
            for r, bits in rounds
            if r == self.round
        )
        return min(sum(b.bit_count() for b in gaps.values()) * 1000 // max(sent, 1), 1000)

    def part(self, mask: int, lane: int) -> "Flight":
        """The same block on its way to those of ``mask`` only, who leave this flight.

        lane: in which jobs of it may still be queued.
        """
        other = Flight(self.sent_ps, self.need & mask, self.wait_ps, self.first_round)
        for name in KEPT:
            setattr(other, name, getattr(self, name))
        other.left_ps, other.is_own = dict(self.left_ps), False
        other.is_repaired = True  # it is judged where it was sent
        other.origin = lane if self.n_queued else NO_LANE
        other.repaired = {
            psn: [(r, bits & mask) for r, bits in rounds if bits & mask]
            for psn, rounds in self.repaired.items()
        }
        return other

    def on_left(self, now_ps: int, round_: int, went_bps: int) -> None:
        """The last packet of a job of it left, all of it at this rate."""
        if went_bps:
            self.went_bps = went_bps
        self.left_ps[round_] = now_ps
        self.n_queued = max(self.n_queued - 1, 0)
        if self.n_queued == 0:
            self.origin = NO_LANE
        self.sent_ps = now_ps
        self.first_ps = min(self.first_ps, now_ps)

    def fresh_gaps(
        self, now_ps: int, feedback: Feedback, way_ps: int
    ) -> tuple[dict[int, int], int]:
        """Gaps not already repaired by packets that may still be on their way.

        way_ps: longest round trip lately. Packets of a path arrive in order: a repair is lost
        when one behind it arrived, or one of a later round. Without such a word it is taken
        for lost when the last one left about a round trip ago, and two where no packet of
        its round arrived.

        A receiver gets no more of a block while some of it is on its way to it.

        Returns:
            psn -> who lacks it; to whom some are on their way.
        """
        lacking = {row.psn: row.lacking for row in feedback.rows}
        # A queue that drops much is full: round trips are longer than those seen.
        soon_ps = way_ps + SLACK_PS if self.is_heavy else way_ps - way_ps // 8
        gaps: dict[int, int] = {}
        passed = on_way = 0  # who has a packet of this round behind this one
        for psn in sorted(lacking.keys() | self.repaired.keys(), reverse=True):
            lacks = bits = lacking.get(psn, 0) & self.need
            arrived = 0
            for sent_round, sent_to in self.repaired.get(psn, ()):
                since_ps = now_ps - self.left_ps.get(sent_round, now_ps)
                if sent_round > feedback.round and since_ps < 2 * way_ps + SLACK_PS:
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
        self._busy_ps = 0  # until when it was sending

    def begin(self, members: int, *, is_silent: bool) -> None:
        """An empty lane takes receivers, from the first block on."""
        self.members, self.cursor, self.missed = members, 0, NEVER
        self.is_silent = is_silent

    def went_bps(self, now_ps: int, queued_ps: int, n_bytes: int, rate_bps: int) -> int:
        """A job queued then has left: how fast it did, at the lane's rate at most."""
        took_ps = now_ps - max(self._busy_ps, queued_ps)
        self._busy_ps = now_ps
        return min(n_bytes * 8 * PS_PER_SECOND // max(took_ps, 1), rate_bps)

    def may_send(self) -> bool:
        """Whether a new block may go: to the silent nothing goes but questions and repairs."""
        return self.pace.can_send() and not self.is_silent

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
                self.pace.on_sent(shape.bytes(block))

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
