"""Sums that BFRs make of arrays on their way up: bytes, times, slots, loss, what is wrong."""

import numpy as np
import pytest
from sum_world import ASKED, BLOCK, HEAD, events, integers, played, simulation, star_ps, sums
from validation_world import BYTE_PS, fabric

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import ACK, DATA, NOT_DONE, REPAIR
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import Fan, build_program

heavy = pytest.mark.skipif(not JIT, reason="hundred thousands of packets: for compiled code")
STAR = "star:hosts=16"
CLOS = "leaf-spine:leaves=2,spines=1,hosts=8"


def whole(outcome):
    assert outcome.stuck == ()
    assert outcome.reason == "every item is done"
    assert outcome.got_bytes.tolist() == outcome.due_bytes.tolist()
    return outcome


@pytest.mark.parametrize("window", [4, 5, 7, 8, 16, 256])
@pytest.mark.parametrize("n_blocks", [1, 2, 9, 40])
def test_a_sum_over_a_star_takes_what_its_window_allows(window, n_blocks):
    program = sums(range(16), n_bytes=n_blocks * BLOCK, window=window)
    outcome = whole(played(simulation(STAR, program)))
    assert outcome.end_ps == star_ps(n_blocks, window)
    assert outcome.host_ps.tolist() == [outcome.end_ps] * 16


def test_more_slots_up_to_a_round_trip_make_a_sum_faster():
    n = 64
    ends = {}
    for slots in (8, 10, 12, 16, 24, 512):
        program = sums(range(16), n_bytes=n * BLOCK, window=slots // 2)
        ends[slots] = played(simulation(STAR, program)).end_ps
    assert list(ends.values()) == [star_ps(n, slots // 2) for slots in ends]
    assert ends[8] > ends[10] > ends[12] > ends[16]
    assert ends[8] > 1.6 * ends[16]
    assert ends[16] < ends[24] < ends[512]  # with more, ranks agree on more exponents first


@pytest.mark.parametrize("n_values", [1, 816, 1024, 1025, 300 * 816 + 5])
def test_exponents_go_a_window_ahead_of_their_words(n_values):
    settings = Settings()  # 816 values and as many exponents in 4,096 bytes
    outcome = played(simulation(STAR, sums(range(16), n_bytes=4 * n_values), settings))
    n_blocks = -(-n_values // 816)
    first = max(min(n_values, 256 * 816) - 1024, 0)
    n_first = -(-first // BLOCK)
    ahead = max(n_values - 256 * 816, 0)
    agreed = HEAD + ASKED + 4 * 256 + first + n_first * HEAD
    n_bytes = agreed + 4 * n_values + ahead + n_blocks * HEAD
    for at in range(16):
        pair = outcome.link_pkts[at, DATA], outcome.link_bytes[at, DATA]
        assert pair == (1 + n_first + n_blocks, n_bytes)
    assert outcome.got_bytes[:16].tolist() == [4 * n_values] * 16


@pytest.mark.parametrize("n_values", [1, 408, 409, pytest.param(300 * 408 + 5, marks=heavy)])
def test_more_than_64_ranks_send_words_of_eight_bytes_and_exponents_of_two(n_values):
    sim = simulation("star:hosts=65", sums(range(65), n_bytes=4 * n_values), Settings())
    outcome = whole(played(sim))
    n_blocks = -(-n_values // 408)  # 408 values have 4,080 bytes
    first = 2 * min(n_values, 256 * 408)  # none beside what is asked: a maximum of 16 bits
    n_first = -(-first // BLOCK)
    head = HEAD + 8  # 128 BFR-ids
    agreed = head + ASKED + 4 * 256 + first + n_first * head
    n_bytes = agreed + 8 * n_values + 2 * max(n_values - 256 * 408, 0) + n_blocks * head
    for at in range(65):
        pair = outcome.link_pkts[at, DATA], outcome.link_bytes[at, DATA]
        assert pair == (1 + n_first + n_blocks, n_bytes)
    assert outcome.got_bytes[:65].tolist() == [4 * n_values] * 65


@heavy
def test_an_exponent_a_block_costs_no_bytes_up_to_64_ranks():
    ends = {}
    for numbers in ("value", "block", "integer"):
        runs = []
        for n_ranks in (64, 65):
            program = sums(range(n_ranks), n_bytes=40 * BLOCK)
            outcome = played(
                simulation("star:hosts=65", program, Settings(sum_numbers=numbers))
            )
            runs.append(int(outcome.link_bytes[0, DATA]))
        ends[numbers] = runs
    assert ends["block"][0] == ends["integer"][0] == ends["integer"][1]
    assert ends["block"][1] == ends["value"][1] > 2.4 * ends["integer"][1]
    assert 1.2 < ends["value"][0] / ends["block"][0] < 1.3


@pytest.mark.parametrize("n_bytes", [1, BLOCK, 5 * BLOCK + 4])
@pytest.mark.parametrize("to_all", [True, False])
def test_every_link_of_the_tree_carries_the_array_once_each_way(n_bytes, to_all):
    net, _ = fabric("fat-tree:k=4")
    sim = simulation("fat-tree:k=4", sums(range(16), n_bytes=n_bytes, to_all=to_all))
    outcome = whole(played(sim))
    n_blocks = -(-n_bytes // BLOCK)
    agreed = HEAD + ASKED + 4 * 256
    up = [1 + n_blocks, agreed + n_bytes + n_blocks * HEAD]
    header_only = [1 + n_blocks, agreed + n_blocks * HEAD]
    seen = 0
    for at in range(net.n_links):
        n_pkts = int(outcome.link_pkts[at, DATA])
        if not n_pkts:
            continue
        seen += 1
        got = [n_pkts, int(outcome.link_bytes[at, DATA])]
        to_rank = net.dst[at] < 16
        if to_rank:
            keeps = to_all or net.dst[at] == 0
            assert got == (up if keeps else header_only)
        elif net.src[at] < 16:
            assert got == up
    assert seen == 2 * (16 + 8 + 4)  # hosts, edges, a switch of each pod to the root
    assert not outcome.link_pkts[:, REPAIR].any()
    n_joined = (16 + 8 + 4) * (1 + n_blocks)
    assert outcome.arrays == (n_joined, 0, 0)
    assert events(sim)["complete"] == (8 + 4 + 1) * (1 + n_blocks)


def test_arm_and_close_go_once_over_the_tree():
    net, _ = fabric(STAR)
    outcome = played(simulation(STAR, sums(range(16), n_bytes=BLOCK)))
    for at in range(net.n_links):
        n = {0: 3}.get(int(net.src[at]), 0) if net.src[at] < 16 else 2
        assert outcome.link_pkts[at, ACK] == n  # the second CLOSE finds nobody
        assert outcome.link_bytes[at, ACK] == n * HEAD


@pytest.mark.parametrize("loss_ppb", [1_000_000, 10_000_000, 50_000_000])
def test_what_is_lost_is_repaired_and_nothing_counts_twice(loss_ppb):
    n = 400 if JIT else 40
    settings = integers(loss_ppb=loss_ppb)
    runs = []
    for _ in range(2):
        sim = simulation("fat-tree:k=4", sums(range(16), n_bytes=n * BLOCK), settings, seed=7)
        outcome = whole(played(sim))
        said = events(sim)
        runs.append((outcome, said))
    (outcome, said), (other, said_again) = runs
    assert said == said_again
    assert outcome.link_bytes.tobytes() == other.link_bytes.tobytes()
    assert outcome.host_ps.tobytes() == other.host_ps.tobytes()
    n_lost = int(outcome.link_drops.sum())
    assert n_lost > 0
    again = outcome.repairs[0] + said.get("resent", 0)
    if n_lost > 20:
        assert said["request"] > 0
        assert again <= 3 * n_lost


def test_a_block_that_comes_twice_counts_once():
    sim = simulation(STAR, sums(range(16), n_bytes=30 * BLOCK))
    rank = sim.fans.ranks.rows[3]
    while rank["next"] < 5:
        assert sim.step(1)
    rank["next"] -= 1  # it sends its block 4 again, as if for the first time
    whole(played(sim))
    assert events(sim)["duplicate"] == 1


def test_a_wrong_contribution_is_named():
    sim = simulation(STAR, sums(range(16), n_bytes=3 * BLOCK))
    sim.fans.ranks.own[5, 2] += 1
    while sim.step():
        pass
    outcome = sim.outcome()
    assert outcome.reason == "every item is done, sums are wrong"
    assert outcome.stuck == ("sum 0: block 0 wrong at rank 0 (h0)",)
    assert outcome.got_bytes.sum() == 0
    assert (outcome.host_ps == NOT_DONE).all()


def test_two_jobs_share_the_slots_of_a_switch():
    halves = (range(8), range(8, 16))
    program = sums(*halves, n_bytes=40 * BLOCK)
    alone = played(simulation(STAR, sums(range(8), n_bytes=40 * BLOCK))).end_ps
    roomy = whole(played(simulation(STAR, program)))
    assert roomy.end_ps == alone
    sim = simulation(STAR, program, integers(array_slots=512 + 8))
    outcome = whole(played(sim))
    first, second = outcome.item_ps.tolist()
    assert first == alone
    assert second > 2 * alone  # 8 slots
    rows = sim.fans.ranks.rows
    assert rows["window"].tolist() == [256] * 8 + [4] * 8
    assert events(sim)["full"] == 6  # asked for 512, 256, ... 16
    sim = simulation(STAR, program, integers(group_slots=128))
    outcome = whole(played(sim))
    assert set(sim.fans.ranks.rows["window"].tolist()) == {64}
    assert events(sim)["quota"] == 2 * 2


def test_a_switch_without_slots_passes_arrays_on():
    program = sums((0, 1), n_bytes=150 * BLOCK, root_level=0)
    one = sums((2, 3, 6), n_bytes=40 * BLOCK).sums[0]._replace(start_ps=20_000_000)
    program = program._replace(sums=(*program.sums, one))
    program = build_program(
        np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64), sums=program.sums, folds=True
    )
    net, _ = fabric(CLOS)
    runs = {}
    for slots in (512, 1024):
        sim = simulation(CLOS, program, integers(array_slots=slots))
        runs[slots] = whole(played(sim)), events(sim)
    crowded, said = runs[512]
    roomy, _ = runs[1024]
    assert roomy.arrays[1] == 0
    assert crowded.arrays[1] == 2 * 41  # of ranks 2 and 3, each block
    assert said["full"] == 1
    assert crowded.item_ps[0] == roomy.item_ps[0]
    slower = crowded.item_ps[1] - roomy.item_ps[1]
    assert 40 < slower / ((HEAD + BLOCK) * BYTE_PS) < 41  # two arrays a block over one link
    (up,) = np.nonzero((net.src == 8) & (net.dst == 10))[0]  # leaf0 to spine0
    assert crowded.link_pkts[up, DATA] == 2 * 41
    assert roomy.link_pkts[up, DATA] == 41


def test_no_slots_anywhere_is_said():
    outcome = played(
        simulation(STAR, sums(range(16), n_bytes=BLOCK), integers(array_slots=4, n_slots=1))
    )
    assert outcome.stuck == ("sum 0: no BFR has slots for it",)
    assert outcome.item_ps.tolist() == [NOT_DONE]


@heavy
def test_a_dead_link_ends_the_run_with_who_waits():
    program = sums(range(8), n_bytes=100 * BLOCK)
    settings = integers(failures=(Failure(20_000_000, "h3", "leaf0"),))
    outcome = played(simulation(CLOS, program, settings))
    (line,) = outcome.stuck
    assert "8 ranks wait" in line
    assert "of 101 blocks at rank 0" in line
    assert outcome.arrays[2] > 0  # what there was went up as it was


def test_sums_fans_and_messages_share_a_net():
    table = np.array([(i, (i + 5) % 8, 100_000, 0) for i in range(8)], np.int64)
    fan = Fan(3, (0, 1, 2, 4, 5, 6, 7), 100_000)
    both = sums(range(8), (4, 0, 2), n_bytes=100_000).sums
    edges = np.array([(8, 9), (9, 10)])  # the fan, then one sum, then the other
    program = build_program(table, edges, fans=(fan,), sums=both, folds=True)
    outcome = whole(played(simulation(CLOS, program)))
    assert outcome.item_ps[8] < outcome.item_ps[9] < outcome.item_ps[10]


@heavy
@pytest.mark.parametrize("n_ranks", [128, 1024])
def test_a_rank_sends_and_gets_the_array_once_on_a_large_fabric(n_ranks):
    net, _ = fabric("fat-tree:k=16")
    n_bytes = 2**20
    outcome = whole(played(simulation("fat-tree:k=16", sums(range(n_ranks), n_bytes=n_bytes))))
    head = HEAD + 120  # 1,024 BFR-ids
    due = n_bytes + 256 * head + head + ASKED + 4 * 256
    assert set(outcome.link_bytes[:n_ranks, DATA].tolist()) == {due}
    down = net.reverse[:n_ranks]
    assert set(outcome.link_bytes[down, DATA].tolist()) == {due}
