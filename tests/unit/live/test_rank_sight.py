"""What a rank learns of its way to the root while nothing moves."""

from collections.abc import Iterator

import numpy as np
import pytest
from own_port import own_port

from fanfold.group.layout import Segment, build_blocks
from fanfold.kernels.absorb import TTL, TTL_AT, fold_at
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.octets import write_bits, write_u32
from fanfold.kernels.rank_timers import RTO_MOST_PS
from fanfold.kernels.reduce import KIND_I32, OP_SUM
from fanfold.live import rank_loop as loop
from fanfold.live import rank_sight as sight
from fanfold.live import rank_words as words
from fanfold.live.rank import Batch, RankEnd
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND

BLOCK = 8
N = 64
ROOT = 2
"""BFRs between this rank's own and the root."""
NOW = 100 * PS_PER_SECOND


@pytest.fixture
def end() -> Iterator[RankEnd]:
    """Rank 1 of three has sent all blocks, and nothing came of them since NOW."""
    fabric = leaf_spine(1, 0, 3, name="sight", prefix=212)
    made = RankEnd(fabric, ["h1", "h2", "h3"], 1, group=7, port=own_port(31_212))
    src = np.zeros(N * BLOCK, np.uint8)
    blocks = build_blocks([Segment(0, 0, src.size)], BLOCK)
    made.codes_of(Batch(KIND_I32, OP_SUM, blocks, src, src.copy(), np.zeros(0, np.int64)))
    row, job = made.state.row[0], made.state.job[0]
    row["armed"], row["root_hops"] = 1, ROOT
    job["next"], job["floor_ps"] = N, NOW
    yield made
    made.close()


def hear(
    end: RankEnd, when: int, *, hops: int, bits: int = 0, block: int = 0, mark: int = 0
) -> None:
    """Take in a HEARD that began so many hops behind this rank's own BFR."""
    row = end.state.row[0]
    fan = fold_at(row["n_words"])
    packet = np.zeros(1024, np.uint8)
    packet[TTL_AT], packet[fan + 19] = TTL - hops, mark
    write_u32(packet, fan + 8, block)
    write_bits(packet, fan + FOLD_BYTES, row["n_words"], np.array([bits, 0, 0, 0], np.uint64))
    loop.take_heard(end.io, end.state, packet, 0, when)


def see(end: RankEnd, now: int) -> sight.Sight:
    return sight.sight_of(end.state, "leaf1", now)


def test_a_rank_probes_when_nothing_has_moved_and_then_again(end: RankEnd) -> None:
    due = NOW + words.STALL_PS
    assert words.probe_due(end.io, end.state, due - 1) == due
    assert end.counters()["probes"] == 0
    assert words.probe_due(end.io, end.state, due) == due + words.PROBE_PS
    assert words.probe_due(end.io, end.state, due + 1) == due + words.PROBE_PS
    assert end.counters()["probes"] == see(end, due).n_probes == 1
    words.probe_due(end.io, end.state, due + words.PROBE_PS)
    assert end.counters()["probes"] == 2
    end.state.job[0]["floor_ps"] = due + words.PROBE_PS  # a result came
    assert words.probe_due(end.io, end.state, due + 2 * words.PROBE_PS) > NOW + words.STALL_PS
    assert end.counters()["probes"] == 2


def test_only_the_root_says_who_is_missing(end: RankEnd) -> None:
    hear(end, NOW, hops=0, bits=0b0010)
    hear(end, NOW, hops=ROOT + 1, bits=0b0010)
    assert not sight.is_told(end.state, NOW)
    hear(end, NOW, hops=ROOT, bits=0b1010)
    hear(end, NOW, hops=0, bits=0b0010)
    assert sight.is_told(end.state, NOW)
    assert int(end.state.at_root[0]) == 0b1010


def test_what_the_root_said_is_told_while_it_is_new_and_the_block_awaited(end: RankEnd) -> None:
    hear(end, NOW, hops=ROOT, bits=0b1010, block=5)
    late = NOW + sight.LATELY_PS
    hear(end, late, hops=0, mark=1)  # the uplink gives pings back
    assert sight.is_told(end.state, late - 1)
    assert not sight.is_told(end.state, late)
    end.state.have[5] = 1
    assert not sight.is_told(end.state, NOW)


def test_what_the_root_said_is_out_of_date_sooner_behind_a_silent_uplink(end: RankEnd) -> None:
    """Nobody there knows whom the root has heard since."""
    hear(end, NOW, hops=ROOT, bits=0b1010, block=5)
    assert sight.is_told(end.state, NOW + sight.SILENT_PS - 1)
    assert not sight.is_told(end.state, NOW + sight.SILENT_PS)


def test_the_first_awaited_block_says_who_is_missing(end: RankEnd) -> None:
    """Of later ones the root lacks also ranks whose congestion windows are small."""
    hear(end, NOW, hops=ROOT, bits=0b0010, block=40)
    hear(end, NOW, hops=ROOT, bits=0b1010, block=5)
    hear(end, NOW + 1, hops=ROOT, bits=0b0010, block=41)
    assert int(end.state.at_root[0]) == 0b1010
    assert not sight.is_told(end.state, NOW + sight.LATELY_PS)
    late = NOW + 2 * RTO_MOST_PS + 1  # nothing of the first one for so long
    hear(end, late, hops=ROOT, bits=0b0110, block=41)
    assert int(end.state.at_root[0]) == 0b0110
    end.state.have[41] = 1
    hear(end, late, hops=ROOT, bits=0b0010, block=50)
    assert int(end.state.at_root[0]) == 0b0010


def test_the_farthest_that_answered_lately_is_known_by_its_hops(end: RankEnd) -> None:
    assert (see(end, NOW).answers, see(end, NOW).has_known_next) == (-1, False)
    hear(end, NOW, hops=1, block=N + words.PROBE_AHEAD)
    hear(end, NOW + 1, hops=0, block=N + words.PROBE_AHEAD)
    assert (see(end, NOW + 1).answers, see(end, NOW + 1).has_known_next) == (1, False)
    later = NOW + sight.SILENT_PS
    assert (see(end, later - 1).answers, see(end, later).answers) == (1, 0)
    assert see(end, later).has_known_next
    assert not see(end, later).is_passing
    hear(end, later, hops=ROOT + 20)  # farther than is told apart


def test_a_ping_that_comes_back_is_no_answer(end: RankEnd) -> None:
    hear(end, NOW, hops=1, mark=1)
    seen = see(end, NOW)
    assert (seen.is_passing, seen.answers) == (True, -1)
    assert not see(end, NOW + sight.SILENT_PS).is_passing


def test_results_that_still_come_are_seen(end: RankEnd) -> None:
    assert not see(end, NOW).is_moving  # not one yet
    end.state.job[0]["floor"] = 1
    assert see(end, NOW + words.STALL_PS - 1).is_moving
    assert not see(end, NOW + words.STALL_PS).is_moving
