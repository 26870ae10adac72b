"""Where most receivers fall silent together a way is broken: probes, no blame for a rate."""

import pytest

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import MAIN, Flight, Lane, Shape
from fanfold.core.leaving import TICK_PS
from fanfold.core.losses import Losses
from fanfold.core.nack_sender import NackSender
from fanfold.core.outage import MAX_AHEAD, MAX_PROBES
from fanfold.core.pace import MANY, Pace
from fanfold.core.plane_sender import PlaneSender
from fanfold.core.sender import MAX_ASKS, FanSender
from fanfold.core.tree_sender import TreeSender
from fanfold.core.waiting import SLOTS_PS, SOON_PS
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import Feedback, FeedbackRow

MS = 1_000_000_000
N_PSN, STRIDE = 64, 1000
BLOCK = N_PSN * STRIDE
SHAPE = Shape(4000 * BLOCK, STRIDE, N_PSN)
EIGHT, SEVEN = 0xFF, 0xFE
BLOCK_PS = 10 * MS
"""Between two blocks that come through."""
LONG_PS = 2 * SOON_PS


def word(
    block: int, heard: int = EIGHT, lost: tuple[int, ...] = (), *, round_: int = 0
) -> Feedback:
    rows = tuple(FeedbackRow(psn, heard) for psn in lost)
    done = 0 if lost else heard
    return Feedback(0x10000, 7, block, N_PSN, heard, done, rows, round=round_, n_merged=1)


class Fan:
    """A fan to eight; blocks 0 to 19 came through, one each BLOCK_PS, four more have left."""

    def __init__(self) -> None:
        self.sender = FanSender(7, SHAPE, [EIGHT], 0)
        self.lane = self.sender.lanes[MAIN]
        self.now = 0
        self.jobs: list[SendBlock] = []
        self.lane.pace.is_starting = False
        for block in range(20):
            self.lane.pace.window_bytes = BLOCK
            self.go_on(BLOCK_PS)
            self.hear(word(block))
        self.lane.pace.window_bytes = 4 * BLOCK
        self.go_on(TICK_PS)
        self.oldest = min(self.lane.flights)
        self.sender.slots_ps = 0  # for the length of a silence; questions wait as they did

    def go_on(self, for_ps: int) -> None:
        """Time passes; what is to be sent leaves at once."""
        ends = self.now + for_ps
        while self.now < ends:
            self.now += min(TICK_PS, ends - self.now)
            out: list[Effect] = []
            self.sender.on_timer(self.now, out)
            self.sender.fill(self.now, out)
            self._leave(out)

    def hear(self, feedback: Feedback) -> None:
        out: list[Effect] = []
        self.sender.on_feedback(self.now, feedback, out)
        self.sender.fill(self.now, out)
        self._leave(out)

    def repairs(self) -> list[int]:
        return [job.block for job in self.jobs if job.is_repair]

    def firsts(self) -> int:
        return sum(1 for job in self.jobs if not job.is_repair)

    def _leave(self, out: list[Effect]) -> None:
        while out:
            for job in out:
                if isinstance(job, SendBlock):
                    self.jobs.append(job)
                    self.sender.on_sent(self.now, job)
            out = []
            self.sender.fill(self.now, out)


def test_the_oldest_block_is_probed_again_and_again_so_often_at_most() -> None:
    fan = Fan()
    fan.jobs = []
    fan.go_on(LONG_PS - 2 * TICK_PS)
    assert fan.oldest not in fan.repairs()
    fan.go_on(3 * TICK_PS)
    assert fan.repairs().count(fan.oldest) == 1
    fan.go_on(3 * SOON_PS)
    assert 3 <= fan.repairs().count(fan.oldest) <= 4
    assert set(fan.repairs()) & set(range(fan.oldest + 1, fan.oldest + 4)) == set()
    assert all(job.psns == 1 << N_PSN - 1 for job in fan.jobs if job.is_repair)


def test_slots_have_to_tell_first_whom_they_heard() -> None:
    """Else a few who have died would let all be asked."""
    fan = Fan()
    fan.sender.slots_ps = SLOTS_PS
    for flight in fan.lane.flights.values():
        flight.wait_ps = PS_PER_SECOND  # no question before
    fan.go_on(SLOTS_PS - 2 * TICK_PS)
    assert fan.repairs() == []
    fan.go_on(4 * TICK_PS)
    assert len(fan.repairs()) == 1


def test_questions_come_when_they_did_whatever_was_probed() -> None:
    fan = Fan()
    flight = fan.lane.flights[min(fan.lane.flights)]
    left_ps, flight.wait_ps = flight.first_ps, SLOTS_PS
    while flight.tries == 0:
        fan.go_on(TICK_PS)
    assert SLOTS_PS <= fan.now - left_ps <= SLOTS_PS + 2 * SOON_PS


def test_probes_end_where_they_help_nobody() -> None:
    fan = Fan()
    fan.lane.flights[fan.oldest].wait_ps = PS_PER_SECOND // 2  # no question before
    fan.go_on(PS_PER_SECOND // 2 - 5 * TICK_PS)
    assert fan.repairs().count(fan.oldest) == MAX_PROBES


def test_when_most_speak_again_all_that_was_out_is_asked_about_at_once() -> None:
    fan = Fan()
    fan.go_on(5 * SOON_PS)
    blocks = sorted(fan.lane.flights)
    fan.jobs = []
    lost = tuple(range(N_PSN - 1))
    fan.hear(word(blocks[0], lost=lost, round_=fan.lane.flights[blocks[0]].round))
    fan.go_on(2 * TICK_PS)
    assert set(blocks[1 : 1 + MAX_ASKS]) <= set(fan.repairs())


def test_who_spoke_alone_ends_no_silence() -> None:
    fan = Fan()
    fan.go_on(5 * SOON_PS)
    fan.jobs = []
    fan.hear(word(min(fan.lane.flights), heard=1))
    fan.go_on(SOON_PS + TICK_PS)
    assert len(fan.repairs()) >= 1  # a probe


@pytest.mark.parametrize("is_outage", [True, False])
def test_what_was_lost_in_an_outage_is_no_sign_of_a_queue(is_outage: bool) -> None:
    fan = Fan()
    fan.go_on(5 * SOON_PS if is_outage else TICK_PS)
    before = fan.lane.pace.limit.bps
    for block in sorted(fan.lane.flights)[:3]:
        fan.hear(word(block, lost=tuple(range(30, N_PSN))))
    assert (fan.lane.pace.limit.bps == before) == is_outage


def test_new_blocks_go_beyond_the_window_as_fast_as_they_came_and_so_many_at_most() -> None:
    fan = Fan()
    fan.jobs = []
    n_before = len(fan.lane.flights)
    fan.go_on(SOON_PS - 2 * BLOCK_PS)
    assert fan.firsts() == 0
    fan.go_on(3 * BLOCK_PS)
    assert 1 <= fan.firsts() <= 3
    fan.go_on(10 * MAX_AHEAD * BLOCK_PS)
    assert fan.firsts() == MAX_AHEAD
    assert len(fan.lane.flights) == n_before + MAX_AHEAD


def test_nothing_goes_beyond_the_window_while_words_come() -> None:
    fan = Fan()
    fan.jobs = []
    for _ in range(20):
        fan.go_on(SOON_PS // 2)
        fan.hear(word(0))
    assert fan.firsts() == 0


def test_those_who_have_all_need_not_speak() -> None:
    """Two of eight still lack what is out, and both speak."""
    fan = Fan()
    for flight in fan.lane.flights.values():
        flight.need = 0b11
    fan.jobs = []
    for _ in range(20):
        fan.go_on(SOON_PS // 2)
        fan.hear(word(0, heard=0b11))
    assert fan.firsts() == 0


def test_the_mute_need_not_speak_either() -> None:
    fan = Fan()
    fan.lane.mute = 0xF0
    fan.jobs = []
    for _ in range(8):
        fan.go_on(SOON_PS // 2)
        fan.hear(word(0, heard=0b111))
    assert fan.firsts() == 0


@pytest.mark.parametrize("kind", [TreeSender, NackSender])
def test_down_a_tree_silence_means_nothing(kind: type[TreeSender]) -> None:
    sender = kind(7, SHAPE, [EIGHT], 0, repair="tree")
    sender.lanes[MAIN].pace.on_rtt(MS)
    assert sender._long_ps(sender.lanes[MAIN]) == NEVER


def test_one_plane_of_several_sends_nothing_beyond_its_window() -> None:
    sender = PlaneSender(7, SHAPE, 0)
    for block in range(10):
        sender.take(0, block, EIGHT)
    pace = sender.lanes[MAIN].pace
    for _ in range(MANY):
        pace.on_rtt(MS)
    for k in range(1, 20):
        pace.limit.on_done(k * BLOCK_PS, BLOCK, 0, 0)
    pace.window_bytes = BLOCK
    out: list[Effect] = []
    for now in (0, PS_PER_SECOND):
        sender.fill(now, out)
        for job in out:
            assert isinstance(job, SendBlock)
            sender.on_sent(now, job)
    assert len(out) == 1


# A way that breaks is no rate.


def counted(blocks: list[dict[int, tuple[int, ...]]]) -> int:
    """Who is lossy after blocks of which receivers lost these packets."""
    losses, lane = Losses(2 * N_PSN), Lane(EIGHT, Pace(BLOCK, 0), 1000)
    for lost in blocks:
        flight = Flight(0, EIGHT, MS)
        flight.spoke, flight.need = EIGHT, 0
        for k, psns in lost.items():
            flight.lost[k] = len(psns)
            for psn in psns:
                flight.gaps[psn] = flight.gaps.get(psn, 0) | 1 << k
        losses.count(MS, lane, flight, N_PSN)
    return losses.lossy(EIGHT)


WHOLE, NONE, TAIL = tuple(range(N_PSN)), (), tuple(range(20, N_PSN))
THIRDS = tuple(psn for psn in range(N_PSN) if psn % 3)


@pytest.mark.parametrize(
    ("blocks", "lossy"),
    [
        ([WHOLE, NONE] * 6, 0),  # a link that is plugged and unplugged
        ([TAIL, NONE, WHOLE] * 4, 0),
        ([THIRDS] * 12, 1),  # a queue that lets a third through
        ([TAIL] * 12, 1),  # it lets less than a third through, always
        ([WHOLE] * 12, 1),
        ([THIRDS, WHOLE] * 6, 1),  # a queue that drops, and a way that breaks
    ],
    ids=["flaps", "parts", "queue", "slow", "nothing", "both"],
)
def test_who_lost_whole_runs_and_little_else_is_not_lossy(
    blocks: list[tuple[int, ...]], lossy: int
) -> None:
    assert counted([{0: lost} for lost in blocks]) == lossy
