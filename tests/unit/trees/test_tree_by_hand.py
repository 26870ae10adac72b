"""Seven routers, five hosts, every protocol worked out by hand.

      S - R1 --- R2 --- R3 - h3        every link 10 us and 8 Gb/s: an octet takes 1 ns
          |      |      |              a processor takes 100 us for a message,
   h4 - - R4 --- R5 --- R6 - h6        a table 1 ms for a change
          |
          R7 - h7                      R4: rendezvous point, MP2MP root, controller

Of equal paths the first counts, cables in the order R1R2 R2R3 R1R4 R2R5 R3R6 R4R5 R5R6 R4R7:
toward R4: R1, R5, R7 direct; R2 by R1; R3 by R2; R6 by R5.
toward R1: R2, R4 direct; R3 by R2; R5 by R2; R6 by R3; R7 by R4.

Frames: report and query 64 octets (18 + 24 + 16, padded), join, prune, graft 72 (18 + 20 +
34), Register-Stop, assert, offer 64, label messages 105 (18 + 20 + 20 + 47), leaf report,
install and answer 102 (18 + 20 + 20 + 44), data 1500, register 1528. In us, a hop with its
processing:

    report 10.064 + 100 = 110.064    join 110.072    label 110.105    leaf report 110.102

What happens: h6 joins at 0 s, h4 (last-hop router = R4) at 1 s, a packet at 2 s and at 3 s,
h6 leaves at 4 s, h7 joins at 8 s, a packet at 10 s. A leave waits for two queries, 2 s in
all; then R6's table: 2 s + 110.064 + 1000 us, whatever the protocol. Data takes 11.5 us a
link.

PIM-SM.
h6: R6 at 110.064, R5 at 220.136, R4 at 330.208, its table 1000 later: 1330.208 us; report and
2 joins = 64 + 2 x 72 = 208 octets; 3 tables.
h4: R4 is its router: 1110.064 us.
2 s: R1's processor has it at 111.5, R4's has the register at 223.028 (11.528 + 100), sends it
on: h4 at 234.528, R5, R6, h6 at 257.528. 6 links, waited twice. Then R4 joins (S,G) at R1 (1
join), R6 at R3, R2, R1 (3): register 1528 + 4 x 72 = 1816. Tables: R1 new, R1 for R4, R1 for
R2, R2, R3, R4, R6 = 7.
3 s: from R1 to R2 R3 R6 h6 (4 links), R4 (1), R4 to h4, R5, R6, h6 (4), register (1), S to
R1: 11 links, h6 has two copies, both at 57.5. R4 answers the register by Register-Stop; R6
prunes (S,G,rpt) at R5, R5 at R4: 1528 + 64 + 2 x 72 = 1736. Tables: R1 without register, R6,
R5 and R4 get (S,G,rpt), R4's (S,G) loses R5 = 5. State at its peak: R1 R2 R3 (S,G), R4 and R6
three each, R5 two = 11.
leave: report, 2 queries, prunes R6 R3 R2 R1 (3) and R6 R5 R4 (2): 192 + 360 = 552. Tables: R6
three, R3, R2, R1, R5 two, R4 (*,G) and (S,G,rpt) = 10.
h7: report, one join: 136 octets, 110.064 + 110.072 + 1000 = 1220.136; R7, R4 (*,G) and (S,G).
10 s: S R1 R4 h4 and R4 R7 to h7: 5 links, 46 us; R7 joins (S,G) at R4: 72 octets, one table
(R4 sends to R7 already).
End: R1 one entry, R4 two, R7 two. R1 24 octets (16 + 8 an oif), R4 2 x 32, R7 2 x 24 = 136.
Kept by a Join/Prune of R4 and R7 a minute, 2 words on the register a minute, 2 of each member
in 125 s: 33,333,333 + 33,333,333 + 32,000,000 billionths a second.

PIM-DM. A join without state is heard at 110.064 and the next packet floods: no table.
2 s: S R1; R1 to R2, R4; R2 to R3, R5; R4 to h4, R5, R7; R3 to R6; R5 to R4, R6; R6 to h6, R5:
13 links; waits at R1 R2 R3 R4 R7 once, R5 three times, R6 and R4 a second time = 11.
h6: R1 has it at 111.5, R2 at 223, R3 at 334.5, R6 at 446, h6 at 457.5. Prunes: R7 to R4. R5
and R4 assert on their link, R5 is farther: it prunes R4. R6 and R5 likewise: R6 prunes R5;
nobody is left below R5: it prunes R2. 4 x 72 + 4 x 64 = 544. Tables: R1 1, R2 2, R3 1, R4 3,
R5 3, R6 2, R7 1 = 13.
3 s: S R1 R2 R3 R6 to h6, R1 R4 to h4: 7 links, 57.5 us.
leave: report, 2 queries, prunes R6 R3 R2 R1: 192 + 216 = 408, 4 tables.
h7: report, graft, graft-ack 64 + 144 = 208; 1220.136; R7, R4.
End: an entry in each of 7 routers; oifs R4; -; -; h4 R7; -; -; h7. 7 x 16 + 4 x 8 = 144 octets.
Ten router links away from the source hear state refresh:
166,666,666 + 32,000,000.

BIDIR-PIM. On each of 8 cables the winner offers three times and says so, the loser offers
once: 40 x 64 octets before all.
h6: as PIM-SM.
h4: 1110.064.
Data: S R1 R4, to h4, R5 R6, to h6: 6 links, 57.5 us, never a message.
leave: report, 2 queries, 2 prunes: 192 + 144 = 336, 3 tables.
h7: 136 octets, 1220.136, R7 and R4.
End: R4 (h4, R7), R7 (h7, R4): 2 x 32 octets; peak 3. Kept by one join of R7: 16,666,666 +
32,000,000.

mLDP P2MP.
h6: R6 at 110.064, R3, R2, R1 110.105 later each: 440.379 + 1000 = 1440.379 us; 64 + 3 x 105 =
379; 4 tables.
h4: 110.064 + 110.105 + 1000 = 1220.169; 169 octets; R4 and R1.
Data: 7 links as PIM-DM at 3 s.
leave: report, 2 queries, 3 withdraws, 3 releases: 192 + 630 = 822; 4 tables.
h7: label to R4 only: 1220.169, 169 octets, 2 tables.
End: R1 (R4), R4 (h4, R7), R7 (h7): 3 x 25 + 4 x 8 = 107 octets; peak R1 R2 R3 R4 R6 = 5.

mLDP MP2MP. Before all R1 maps to R4 and is answered: 210.
h6: R4 at 110.064 + 2 x 110.105 = 330.274, + 1000 = 1330.274; 2 mappings down, 2 up: 64 + 420
= 484; tables R6 2, R5 2, R4 1 = 5.
h4: 1110.064.
Data: 6 links.
leave: report, 2 queries, 2 withdraws, 2 releases: 192 + 420 = 612; 3 tables.
h7: 110.064 + 110.105 + 1000; 64 + 210 = 274; R7 2, R4 1.
End: R1 one entry (R4), R4 three (down, up for R1 and R7; h4 R1 R7), R7 one (h7 R4): 5 x 25 +
6 x 8 = 173; peak R1 1, R4 3, R5 2, R6 1 = 7.

SR-P2MP.
h6: R6 reports over 2 links: 110.064 + 20.204 + 100 = 230.268; 10 ms later R1 (1 link) and R6
(2) get theirs: R6 at 10230.268 + 20.204 + 100, + 1000 = 11350.472; 64 + 102 x (2 + 1 + 2 + 1
+ 2) = 880; 2 tables.
h4: R4 reports to itself 210.064, 10210.064; first R4, new to the tree: 10310.064, its answer
10410.064; then R1: 10520.166 + 1000 = 11520.166; 64 + 102 x 2 = 268.
Data: 7 links.
leave: R6 stops by itself; report 2 links; R1 and its answer; R6 and its answer: 192 + 102 x
(2 + 1 + 1 + 2 + 2) = 1008; tables R6 twice, R1.
h7: report 220.166, 10220.166; R7 10330.268, answer 10440.370; R4 itself 10540.370 + 1000 =
11540.370; 64 + 102 x 3 = 370.
End: R1 (to R4), R4 (to R7, h4), R7 (h7): 3 x 12 + 4 x 12 = 84 octets.
"""

from typing import NamedTuple

import numpy as np
import pytest

from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree_run import TreeRun, build_tree

NAMES = ("S", "h3", "h4", "h6", "h7", "R1", "R2", "R3", "R4", "R5", "R6", "R7")
CABLES = "S-R1 h3-R3 h4-R4 h6-R6 h7-R7 R1-R2 R2-R3 R1-R4 R2-R5 R3-R6 R4-R5 R5-R6 R4-R7"
S, H4, H6, H7 = 0, 2, 3, 4
SECOND = 10**12
US = 10**6
SETTINGS = TreeSettings(rp="R4", controller="R4")
EVENTS = (
    GroupEvent(0, "join", H6),
    GroupEvent(SECOND, "join", H4),
    GroupEvent(2 * SECOND, "send"),
    GroupEvent(3 * SECOND, "send"),
    GroupEvent(4 * SECOND, "leave", H6),
    GroupEvent(8 * SECOND, "join", H7),
    GroupEvent(10 * SECOND, "send"),
)
LEFT_NS = 2_001_110_064


class Hand(NamedTuple):
    """What was worked out: a row is took (ns), messages, octets, tables; a packet is hosts'
    copies, links, waits, time to the last host (ns)."""

    join_6: tuple[int, int, int, int]
    join_4: tuple[int, int, int, int]
    send_2: tuple[int, int, int]
    send_3: tuple[int, int, int]
    leave: tuple[int, int, int, int]
    join_7: tuple[int, int, int, int]
    send_10: tuple[int, int, int]
    packets: tuple[tuple[int, int, int, int], ...]
    setup: tuple[int, int]
    entries: dict[str, tuple[int, int]]
    peak: int
    refresh_ppb: int


QUIET = (0, 0, 0)
LAST = (2, 5, 0, 46_000)
MEMBERS_PPB = 32_000_000
BY_HAND = {
    "pim-sm": Hand(
        (1_330_208, 3, 208, 3),
        (1_110_064, 1, 64, 1),
        (5, 1816, 7),
        (4, 1736, 5),
        (LEFT_NS, 8, 552, 10),
        (1_220_136, 2, 136, 3),
        (1, 72, 1),
        ((2, 6, 2, 257_528), (3, 11, 1, 57_500), LAST),
        (0, 0),
        {"R1": (1, 24), "R4": (2, 64), "R7": (2, 48)},
        11,
        98_666_666,
    ),
    "pim-dm": Hand(
        (110_064, 1, 64, 0),
        (110_064, 1, 64, 0),
        (8, 544, 13),
        QUIET,
        (LEFT_NS, 6, 408, 4),
        (1_220_136, 3, 208, 2),
        QUIET,
        ((2, 13, 11, 457_500), (2, 7, 0, 57_500), LAST),
        (0, 0),
        {
            "R1": (1, 24),
            "R2": (1, 16),
            "R3": (1, 16),
            "R4": (1, 32),
            "R5": (1, 16),
            "R6": (1, 16),
            "R7": (1, 24),
        },
        7,
        166_666_666 + MEMBERS_PPB,
    ),
    "bidir-pim": Hand(
        (1_330_208, 3, 208, 3),
        (1_110_064, 1, 64, 1),
        QUIET,
        QUIET,
        (LEFT_NS, 5, 336, 3),
        (1_220_136, 2, 136, 2),
        QUIET,
        ((2, 6, 0, 57_500), (2, 6, 0, 57_500), LAST),
        (40, 2560),
        {"R4": (1, 32), "R7": (1, 32)},
        3,
        16_666_666 + MEMBERS_PPB,
    ),
    "mldp-p2mp": Hand(
        (1_440_379, 4, 379, 4),
        (1_220_169, 2, 169, 2),
        QUIET,
        QUIET,
        (LEFT_NS, 9, 822, 4),
        (1_220_169, 2, 169, 2),
        QUIET,
        ((2, 7, 0, 57_500), (2, 7, 0, 57_500), LAST),
        (0, 0),
        {"R1": (1, 33), "R4": (1, 41), "R7": (1, 33)},
        5,
        MEMBERS_PPB,
    ),
    "mldp-mp2mp": Hand(
        (1_330_274, 5, 484, 5),
        (1_110_064, 1, 64, 1),
        QUIET,
        QUIET,
        (LEFT_NS, 7, 612, 3),
        (1_220_169, 3, 274, 3),
        QUIET,
        ((2, 6, 0, 57_500), (2, 6, 0, 57_500), LAST),
        (2, 210),
        {"R1": (1, 33), "R4": (3, 99), "R7": (1, 41)},
        7,
        MEMBERS_PPB,
    ),
    "sr-p2mp": Hand(
        (11_350_472, 6, 880, 2),
        (11_520_166, 6, 268, 2),
        QUIET,
        QUIET,
        (LEFT_NS, 8, 1008, 3),
        (11_540_370, 6, 370, 2),
        QUIET,
        ((2, 7, 0, 57_500), (2, 7, 0, 57_500), LAST),
        (0, 0),
        {"R1": (1, 24), "R4": (1, 36), "R7": (1, 24)},
        3,
        MEMBERS_PPB,
    ),
}


def seven_routers() -> Net:
    ends = [[NAMES.index(name) for name in pair.split("-")] for pair in CABLES.split()]
    a, b = np.array(ends).T
    n = np.ones(a.size, np.int64)
    stands = Stands(np.array([0] * 5 + [1] * 7), np.zeros(5, np.int64), np.zeros(5, np.int64))
    cables = Cables(a, b, 8 * 10**9 * n, 10 * US * n, 0 * n)
    return build_net("seven", 5, cables, stands, NAMES.__getitem__)


def worked_out(protocol: str) -> TreeRun:
    return build_tree(protocol, seven_routers(), S, EVENTS, SETTINGS)


@pytest.mark.parametrize("protocol", BY_HAND)
def test_every_happening_costs_what_was_worked_out(protocol):
    hand, rows = BY_HAND[protocol], worked_out(protocol).events
    wanted = (hand.join_6, hand.join_4, hand.leave, hand.join_7)
    for number, want in zip((0, 1, 4, 5), wanted, strict=True):
        row = rows[number]
        assert row.took_ps % 1000 == 0
        assert (row.took_ps // 1000, row.n_messages, row.n_bytes, row.n_writes) == want
    for number, sent in zip((2, 3, 6), (hand.send_2, hand.send_3, hand.send_10), strict=True):
        row = rows[number]
        assert (row.n_messages, row.n_bytes, row.n_writes) == sent


@pytest.mark.parametrize("protocol", BY_HAND)
def test_every_packet_goes_as_was_worked_out(protocol):
    rows = worked_out(protocol).packets
    assert [(p.n_expected, p.n_delivered) for p in rows] == [(2, 2)] * 3
    got = tuple((p.n_copies, p.n_hops, p.n_waited, p.late_ps // 1000) for p in rows)
    assert got == BY_HAND[protocol].packets


@pytest.mark.parametrize("protocol", BY_HAND)
def test_state_set_up_and_refresh_are_as_worked_out(protocol):
    hand, run = BY_HAND[protocol], worked_out(protocol)
    assert {NAMES[s.node]: (s.n_entries, s.n_bytes) for s in run.states} == hand.entries
    assert run.peak_entries == hand.peak
    assert (run.setup.n, run.setup.n_bytes) == hand.setup
    assert run.refresh_ppb == hand.refresh_ppb


def test_each_message_of_a_join_is_where_and_when_it_was_worked_out():
    sent = [row for row in worked_out("pim-sm").sent if row.cause == 0]
    assert [
        (NAMES[row.src], NAMES[row.dst], row.kind, row.sent_ps // 1000, row.done_ps // 1000)
        for row in sent
    ] == [
        ("h6", "R6", "membership report", 0, 110_064),
        ("R6", "R5", "join (*,G)", 110_064, 220_136),
        ("R5", "R4", "join (*,G)", 220_136, 330_208),
    ]


def test_prunes_of_the_shared_tree_wait_for_a_busy_processor():
    """At 3 s R4's processor has: SPTbit 23 to 123, its own member's switch-over to 223, the
    register to 323, then R5's prune, which came at 266.144, to 423."""
    sent = [row for row in worked_out("pim-sm").sent if row.kind == "prune (S,G,rpt)"]
    since = [(row.sent_ps - 3 * SECOND, row.done_ps - 3 * SECOND) for row in sent]
    assert [(a // 1000, b // 1000) for a, b in since] == [
        (146_000, 256_072),
        (256_072, 423_000),
    ]


def test_an_election_is_won_by_the_end_that_is_nearer():
    """R5 is one link from R4, R6 two: R5 offers three times 100 ms apart, and wins."""
    sent = [row for row in worked_out("bidir-pim").sent if row.cause < 0]
    ours = [row for row in sent if {NAMES[row.src], NAMES[row.dst]} == {"R5", "R6"}]
    start = ours[0].sent_ps
    assert sorted((NAMES[r.src], r.kind, (r.sent_ps - start) // 10**9) for r in ours) == [
        *(("R5", "offer", at) for at in (0, 100, 200)),
        ("R5", "winner", 300),
        ("R6", "offer", 0),
    ]


def test_who_has_both_trees_over_one_link_prunes_neither():
    """R7's way to R4 is its way to R1 too: it joins both and keeps the shared tree."""
    packets = GroupEvent(SECOND, "send", n=5, gap_ps=SECOND // 10)
    run = build_tree(
        "pim-sm", seven_routers(), S, [GroupEvent(0, "join", H7), packets], SETTINGS
    )
    assert {m.kind: m.n for m in run.messages} == {
        "membership report": 1,
        "join (*,G)": 1,
        "join (S,G)": 2,
        "register": 2,
        "register-stop": 1,
    }
    assert [packet.n_copies for packet in run.packets] == [1] * 5
