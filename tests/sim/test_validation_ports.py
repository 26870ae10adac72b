"""Ports against slow twins: rates, cut-through, limits, marks, trims, PFC, failures."""

from fractions import Fraction
from itertools import pairwise
from math import floor

import numpy as np
import pytest
from validation_world import (
    ACK,
    BYTE_PS,
    FULL,
    PKT,
    US,
    alone,
    chain,
    down_link,
    fan,
    link_of,
    messages,
    simulation,
)

from fanfold.cli.main import run
from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Failure, Settings
from fanfold.sim.loop import rows as r
from fanfold.topo.nets import build_named_net

for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
FAST, MIDDLE, SLOW = 400 * 10**9, 100 * 10**9, 25 * 10**9
ODD, NVLINK, THIRD = 900 * 10**9, 3600 * 10**9, 7 * 10**9
PATHS = {
    "even": [(MIDDLE, US)] * 4,
    "faster": [(SLOW, 7), (MIDDLE, US), (FAST, 3 * US)],
    "slower": [(FAST, US), (MIDDLE, 2 * US), (SLOW, US)],
    "up and down": [(MIDDLE, US), (FAST, 500), (SLOW, 2 * US), (FAST, US), (MIDDLE, US)],
    "900 Gb/s": [(ODD, US)] * 3,
    "3600 Gb/s, then less": [(NVLINK, 7), (ODD, US), (THIRD, 3)],
    "7 Gb/s, then more": [(THIRD, US), (NVLINK, 7), (ODD, US)],
}


def pipe(lines, n, *, cuts):
    """When the last bit of the last of n packets arrives: packet by packet, link by link.

    A router starts a packet when it has it whole, or with ``cuts`` its header where the next
    link is not faster.
    """
    free = [0] * len(lines)
    exact = [Fraction(0)] * len(lines)  # the same, with the parts of a ps
    arrived = 0
    for _ in range(n):
        ready = 0
        for i, (bps, prop_ps) in enumerate(lines):
            byte_ps = Fraction(8 * 10**12, bps)
            start = max(ready, free[i])
            began = exact[i] if start == free[i] else Fraction(start)
            exact[i] = began + 4160 * byte_ps
            free[i] = floor(exact[i])
            arrived = free[i] + prop_ps
            follows = i + 1 < len(lines) and lines[i + 1][0] <= bps
            ready = floor(began + 64 * byte_ps) + prop_ps if cuts and follows else arrived
    return arrived


@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("lines", PATHS.values(), ids=PATHS)
def test_links_of_any_rate_in_a_row(lines, cuts):
    for n in (1, 2, 9):
        out = alone(chain(*lines), messages((0, 1, n * PKT)), Settings(cut_through=cuts))
        assert out.host_ps[1] == pipe(lines, n, cuts=cuts)
        back = sum(64 * 8 * 10**12 // bps + prop for bps, prop in lines)
        assert out.end_ps == out.host_ps[1] + back


@pytest.mark.parametrize(("dst", "links"), [(1, 2), (3, 4), (15, 6)])
def test_cut_through_in_a_fat_tree(dst, links):
    for n in (1, 2, 20):
        settings = Settings(cut_through=True)
        out = alone(build_named_net("fat-tree:k=4"), messages((0, dst, n * PKT)), settings)
        got = n * FULL + (links - 1) * 64 * BYTE_PS + links * US
        assert out.host_ps[dst] == got
        assert out.end_ps == got + links * (US + ACK)


def test_a_delay_of_switches_counts_at_the_end_of_each_link():
    settings = Settings(switch_ps=700)
    out = alone(chain(*PATHS["even"]), messages((0, 1, PKT)), settings)
    assert out.host_ps[1] == 4 * (FULL + US + 700)


# Two hosts send n packets each to a third: a pair reaches the router every FULL.


def crowd(n):
    return messages((1, 0, n * PKT), (2, 0, n * PKT))


def backlogs(n, limit):
    """Backlog in packets that each of 2 n arrivals finds, and whether it fits below a limit."""
    found, waiting = [], 0
    for _ in range(n):
        waiting = max(waiting - 1, 0)
        for _ in range(2):
            fits = waiting + 1 <= limit
            found.append((waiting, fits))
            waiting += fits
    return found


def seen_while(sim, look):
    """What ``look`` returned after each event, without repetition."""
    found = set()
    while sim.step(1):
        found.update(look(sim))
    return found


def marked(sim):
    pkts = sim.world.pkts
    rows = pkts[(pkts["marked"] != 0) & (pkts["bytes"] > 0)]
    return {(int(k), int(s), int(p)) for k, s, p in rows[["kind", "stream", "psn"]].tolist()}


def test_packets_that_find_a_long_queue_are_marked_and_acknowledged_so():
    n, bound = 10, 3
    settings = Settings(ecn_bytes=bound * 4160)
    sim = simulation(build_named_net("star:hosts=3"), crowd(n), settings)
    found = seen_while(sim, marked)
    expected = sum(waiting > bound for waiting, _ in backlogs(n, 2 * n))
    assert sum(kind == r.PK_DATA for kind, _, _ in found) == expected == 13
    assert sum(kind == r.PK_ACK for kind, _, _ in found) == expected
    assert {(s, p) for kind, s, p in found if kind == r.PK_ACK} == {
        (s, p) for kind, s, p in found if kind == r.PK_DATA
    }


def test_marks_at_ports_that_can_be_paused():
    settings = Settings(ecn_bytes=3 * 4160, pfc_pkts=(100, 90))
    sim = simulation(build_named_net("star:hosts=3"), crowd(10), settings)
    found = seen_while(sim, marked)
    # One more is being sent, and its end comes after the arrivals of the same instant.
    assert sum(kind == r.PK_DATA for kind, _, _ in found) == 13


def run_past(sim, stop_ps):
    """Work through all events up to a time, and the next one."""
    while sim.progress().now_ps <= stop_ps and sim.step(1):
        pass


def test_a_full_queue_drops_what_comes_and_all_of_it_is_sent_again():
    n, limit = 20, 5
    net = build_named_net("star:hosts=3")
    settings = Settings(queue_bytes=limit * 4160)
    down = down_link(net)
    until = US + n * FULL  # the last pair comes
    first = simulation(net, crowd(n), settings)
    run_past(first, until)
    expected = sum(not fits for _, fits in backlogs(n, limit))
    assert first.outcome().link_drops[down] == first.outcome().link_drops.sum() == expected > 0
    assert first.outcome().link_peak_bytes[down] == limit * 4160
    out = alone(net, crowd(n), settings)
    assert out.got_bytes.tolist() == out.due_bytes.tolist()
    assert out.stuck == ()
    assert out.repairs[0] >= out.link_drops.sum() >= expected
    assert out.repairs[1] == out.repairs[0] * 4160


def test_a_full_queue_cuts_packets_to_headers():
    """The first window only: from the fourth pair on, four wait and one of two is cut."""
    settings = Settings(transport="ndp", window_pkts=8, queue_bytes=4 * 4160)
    net = build_named_net("star:hosts=3")
    out = alone(net, crowd(8), settings)
    assert out.link_trims[down_link(net)] == out.link_trims.sum() == 5
    assert out.repairs == (5, 5 * 4160)
    assert out.link_drops.sum() == 0
    assert out.got_bytes.tolist() == out.due_bytes.tolist()
    assert out.link_bytes[down_link(net), 0] == 11 * 4160 + 5 * 64


def test_a_sender_waits_for_pulls_after_its_first_window():
    net = build_named_net("star:hosts=3")
    sim = simulation(net, crowd(16), Settings(transport="ndp", window_pkts=8))
    run_past(sim, 4 * US)  # the first pull comes after 2 packets and 4 flights
    assert sim.outcome().link_pkts[net.first_out[1:3], 0].tolist() == [8, 8]
    while sim.step():
        pass
    out = sim.outcome()
    assert out.got_bytes[0] == 32 * PKT
    # The 17th packet from the 1st on is pulled, one every 336.161 ns.
    assert out.end_ps > 4 * US + 16 * FULL * 100 // 99


def test_a_gap_makes_the_sender_go_back():
    net = build_named_net("star:hosts=3")
    settings = Settings(transport="roce", queue_bytes=5 * 4160)
    out = alone(net, messages((1, 0, 20 * PKT), (2, 0, 40 * PKT)), settings)
    assert out.stuck == ()
    assert out.got_bytes.tolist() == [60 * PKT, 0, 0]
    assert out.repairs[0] > out.link_drops.sum() > 0
    assert out.link_pkts[net.first_out[1:3]].sum() == 60 + out.repairs[0]
    assert out.end_ps < 100 * US  # no timer had to run out


def paused(sim):
    return {int(at) for at in np.nonzero(sim.world.links["paused"])[0]}


def test_pause_frames_keep_a_small_queue_from_dropping():
    n_senders, n = 3, 40
    net = build_named_net("star:hosts=4")
    program = messages(*((i, 0, n * PKT) for i in range(1, n_senders + 1)))
    small = {"transport": "roce", "routing": "ecmp", "queue_bytes": 60 * 4160}
    assert alone(net, program, Settings(**small)).link_drops.sum() > 0
    sim = simulation(net, program, Settings(**small, pfc_pkts=(10, 7)))
    stopped = seen_while(sim, paused)
    out = sim.outcome()
    assert stopped == {int(net.first_out[i]) for i in range(1, n_senders + 1)}
    assert out.link_drops.sum() == 0
    assert out.stuck == ()
    # Above 10 x 4096 at the 10th packet; what a sender sends in 1 us, and what 1 us carries.
    assert out.link_peak_bytes[down_link(net)] <= n_senders * (10 + 4 + 4) * 4160
    assert out.end_ps == FULL + US + n_senders * n * FULL + US + 2 * (US + ACK)
    assert sim.world.links["ingress"].sum() == 0
    assert sim.world.links["queued"].sum() == 0


LEAF = "leaf-spine:leaves=2,spines=2,hosts=4"
DOWN, UP = 10 * US, 5_000 * US


@pytest.mark.parametrize("transport", ["plain", "roce", "ndp"])
def test_a_cable_that_comes_back(transport):
    """64 packets: what is under way when it goes down arrives, the rest when it is up again."""
    failures = (Failure(DOWN, "h0", "leaf0"), Failure(UP, "leaf0", "h0", up=True))
    settings = Settings(transport=transport, window_pkts=16, failures=failures)
    net = build_named_net(LEAF)
    out = alone(net, messages((0, 3, 64 * PKT)), settings)
    assert out.stuck == ()
    assert out.got_bytes[3] == 64 * PKT
    assert out.link_drops[net.first_out[0]] > 0
    assert out.end_ps > UP
    assert out.repairs[0] >= out.link_pkts[net.first_out[0], 1] > 0
    without = alone(net, messages((0, 3, 64 * PKT)), settings_without(settings))
    assert without.end_ps < 100 * US
    assert without.link_drops.sum() == 0


def settings_without(settings):
    return Settings(transport=settings.transport, window_pkts=settings.window_pkts)


@pytest.mark.parametrize("transport", ["plain", "roce"])
def test_progress_ends_the_backoff_and_the_count_of_tries(transport):
    """A cable that is down for 60 and up for 20 ms, 8 times: some 8 tries each, 64 in all."""
    failures = []
    for n in range(8):
        failures.append(Failure((20_000 + 80_000 * n) * US, "h0", "leaf0"))
        failures.append(Failure((80_000 + 80_000 * n) * US, "h0", "leaf0", up=True))
    settings = Settings(transport=transport, window_pkts=1, failures=tuple(failures))
    net = build_named_net(f"{LEAF},rate=1Gbps")
    out = alone(net, messages((0, 3, 1200 * PKT)), settings)
    assert out.stuck == ()
    assert out.repairs[0] > 32
    assert out.end_ps > 600_000 * US


@pytest.mark.parametrize("transport", ["plain", "roce", "ndp"])
def test_a_cable_that_stays_down_is_an_end_with_a_name(transport):
    failures = (Failure(DOWN, "h0", "leaf0"),)
    settings = Settings(transport=transport, window_pkts=16, failures=failures)
    out = alone(build_named_net(LEAF), messages((0, 3, 64 * PKT), (1, 2, PKT)), settings)
    assert out.reason == "no event left, 1 items not done"
    (line,) = out.stuck
    assert line.startswith("message 0 h0 to h3: ")
    assert line.endswith(" of 64 records acknowledged")
    assert out.item_ps.tolist()[0] == -1 < out.item_ps[1]
    assert out.host_ps[3] == -1


def test_nothing_is_led_around_a_failure():
    """One path a message: of two spines one is cut off, and those who hashed to it wait."""
    program = messages(*((0, 2 + i % 2, PKT * (1 + i)) for i in range(2)))
    net = build_named_net(LEAF)
    whole = alone(net, program, Settings(routing="ecmp"))
    names = [net.node_name(n) for n in range(net.n_nodes)]
    spine = next(
        name
        for name in names
        if name.startswith("spine") and whole.link_pkts[link_of(net, "leaf0", name), 0] > 0
    )
    cut = Settings(routing="ecmp", failures=(Failure(0, "leaf0", spine),))
    out = alone(net, program, cut)
    n_lost = whole.link_pkts[link_of(net, "leaf0", spine), 0]
    assert out.got_bytes.sum() == out.due_bytes.sum() - n_lost * PKT
    assert len(out.stuck) >= 1
    sprayed = Settings(routing="spray", failures=cut.failures)
    assert alone(net, program, sprayed).stuck == ()  # sent again, they take the other one


def test_a_fan_that_is_cut_off_names_its_receivers():
    settings = Settings(failures=(Failure(DOWN, "h3", "leaf1"),))
    out = alone(build_named_net(LEAF), fan(3, 64 * PKT), settings)
    assert out.stuck == ("fan from h0: h3 given up, silent",)
    assert out.reason == "every item is done, receivers given up"
    assert out.got_bytes[1:3].tolist() == out.due_bytes[1:3].tolist()
    assert out.got_bytes[3] < out.due_bytes[3]


def test_the_command_line_names_what_is_stuck_and_exits_four(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    scenario = tmp_path / "cut.toml"
    scenario.write_text(
        'topology = "star:hosts=3"\nschemes = ["unicast"]\n'
        '[workload]\nkind = "broadcast"\nn_bytes = 20_000\n'
        '[[settings.failures]]\nat_ps = 0\na = "h2"\nb = "hub0"\n'
    )
    assert run(["compare", str(scenario)]) == 4
    said = capsys.readouterr()
    assert "message 1 h0 to h2" in said.out + said.err


def test_many_arrivals_of_one_bucket_are_served_by_time():
    """More than are sorted by insertion, all for one host: first come, first served."""
    n = 60
    sizes = [1 + (i * 37 % n) * 50 for i in range(n)]
    net = build_named_net(f"star:hosts={n + 1}")
    out = alone(net, messages(*((i + 1, 0, size) for i, size in enumerate(sizes))), Settings())
    free = 0
    for size in sorted(sizes):
        send = (size + 64) * BYTE_PS
        free = max(free, send + US) + send
        assert out.item_ps[sizes.index(size)] == free + US + 2 * (US + ACK)
    assert out.host_ps[0] == free + US


def test_equal_times_keep_the_order_of_items():
    """Copies to many hosts take turns at one port, from the first item to the last."""
    n, pkts = 12, 3
    net = build_named_net(f"star:hosts={n + 1}")
    out = alone(net, messages(*((0, i + 1, pkts * PKT) for i in range(n))), Settings())
    last = [((pkts - 1) * n + i + 1) * FULL + FULL + 2 * US for i in range(n)]
    assert out.host_ps[1:].tolist() == last


def test_more_and_more_routers_in_a_row():
    """Each adds its packet and a flight, both ways, and nothing else."""
    ends = [
        int(alone(chain(*[(MIDDLE, US)] * h), messages((0, 1, 5 * PKT)), Settings()).end_ps)
        for h in range(2, 7)
    ]
    assert {b - a for a, b in pairwise(ends)} == {FULL + US + US + ACK}
