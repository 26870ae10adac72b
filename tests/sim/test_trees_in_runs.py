"""Trees as schemes, packet by packet: copies, headers, set-up, feedback, repair, failures."""

from itertools import pairwise

import numpy as np
import pytest
from tree_world import (
    HEAD,
    NAMES,
    PKT,
    QUICK,
    WORD,
    check_whole,
    data_pkts,
    fabric,
    play,
    program_of,
    run,
    simulation,
)

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.results.outcome import DATA, FEEDBACK, REPAIR
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree_run import build_tree
from fanfold.work.collective import Collective

heavy = pytest.mark.skipif(not JIT, reason="many packets: for compiled code")
by_every_name = pytest.mark.parametrize("name", NAMES)
SPREAD = (0, 5, 10, 15)  # one host of each pod: most routers of a tree have one link down
PROTOCOL = {scheme.name: scheme.protocol for scheme in CATALOG}


@by_every_name
@pytest.mark.parametrize("hosts", [tuple(range(16)), SPREAD])
def test_each_link_of_the_tree_has_one_copy_with_the_headers_it_has_to_have(name, hosts):
    net, _ = fabric()
    program = program_of(name, n_bytes=20 * PKT + 1, hosts=hosts)
    outcome = run(program)
    check_whole(outcome)
    (phase,) = program.trees[0].phases
    pkts = np.zeros(net.n_links, np.int64)
    pkts[list(phase.links)] = 21
    assert data_pkts(outcome).tolist() == pkts.tolist()
    for link in phase.links:
        more = outcome.link_bytes[link, DATA] - (20 * PKT + 1) - 21 * HEAD
        is_last = min(net.src[link], net.dst[link]) < net.n_hosts
        outs = [k for k in phase.links if net.src[k] == net.dst[link]]
        is_passed = len(outs) == 1 and net.dst[outs[0]] >= net.n_hosts
        if is_last or not name.startswith(("mldp", "sr")):
            assert more == 0
        else:
            assert more == 21 * (8 if name == "sr-p2mp" and is_passed else 4)


def test_a_segment_passes_routers_without_state():
    program = program_of("sr-p2mp", hosts=SPREAD)
    assert set(program.trees[0].phases[0].labels) == {0, 4, 8}


@by_every_name
def test_set_up_is_what_the_protocol_takes(name):
    net, _ = fabric()
    setup = program_of(name).setup
    joins = [GroupEvent(0, "join", host) for host in range(1, 16)]
    bare = build_tree(PROTOCOL[name], net, 0, joins)
    took_ps = max(h.took_ps for h in bare.events)
    if name in ("pim-sm", "pim-dm"):  # the source's first packets make state
        assert setup.ps > took_ps
        packets = [GroupEvent(took_ps, "send", n=8, gap_ps=2_200_000_000)]
        full = build_tree(PROTOCOL[name], net, 0, [*joins, *packets], looks=[setup.ps - 1])
        assert full.trees[0].links != full.trees[1].links
    else:
        assert setup.ps == took_ps
        full = bare
    messages = [m for m in full.messages if m.kind not in ("offer", "winner")]
    assert setup.n_messages == sum(m.n for m in messages)
    assert setup.n_bytes == sum(m.n_bytes for m in messages)
    assert setup.n_entries == sum(s.n_entries for s in full.states)
    assert setup.most_entries == max(s.n_entries for s in full.states)


@by_every_name
def test_a_source_waits_for_its_tree_or_not(name):
    net, _ = fabric()
    end_ps = {}
    for start in ("wait", "standing", "lost"):
        program = program_of(name, site=Site(net, QUICK, start))
        outcome = run(program)
        check_whole(outcome)
        end_ps[start] = outcome.end_ps
        assert (outcome.repairs[0] > 0) == (start == "lost")
    assert end_ps["wait"] - program.setup.ps == end_ps["standing"]


def test_a_second_source_of_a_group_costs_no_second_report():
    one, all_of_them = program_of("pim-sm"), program_of("pim-sm", "all_gather", 16 * PKT)
    assert len(all_of_them.trees) == 16
    assert all_of_them.setup.n_messages < 16 * one.setup.n_messages
    shared = program_of("bidir-pim", "all_gather", 16 * PKT)
    assert len(shared.trees) == 16
    assert shared.setup.n_entries == program_of("bidir-pim").setup.n_entries


@pytest.mark.parametrize("name", ["pim-dm", "bidir-pim", "sr-p2mp", "bier"])
@pytest.mark.parametrize(("feedback", "n_words"), [("block", 2), ("packet", 80), ("nack", 1)])
def test_receivers_speak_as_asked(name, feedback, n_words):
    outcome = run(program_of(name, n_bytes=80 * PKT), Settings(feedback=feedback))
    check_whole(outcome)
    assert outcome.feedback_at_source.tolist() == [15 * n_words]
    if name != "bier":
        sides = outcome.link_pkts[:, FEEDBACK] * WORD
        assert sides.tolist() == outcome.link_bytes[:, FEEDBACK].tolist()


def test_trains_of_packets_are_answered_packet_by_packet():
    program = program_of("mldp", n_bytes=80 * PKT)
    settings = Settings(feedback="packet")
    one, train = run(program, settings), run(program, settings, segment_pkts=16)
    assert train.feedback_at_source.tolist() == one.feedback_at_source.tolist()
    assert train.link_bytes.tolist() == one.link_bytes.tolist()


def test_fanfold_folds_whatever_others_do():
    outcome = run(program_of("fanfold", n_bytes=80 * PKT), Settings(feedback="packet"))
    assert outcome.feedback_at_source.tolist() == [2]


def lossy_link(name, repair, feedback="block"):
    """Half of what goes to host 9 is lost; repairs on each link, and who is behind it."""
    program = program_of(name, n_bytes=100 * PKT)
    sim = simulation(program, Settings(tree_repair=repair, feedback=feedback))
    net, _ = fabric()
    bad = int(net.reverse[net.first_out[9]])
    sim.world.links["loss_ppb"][bad] = 500_000_000
    outcome = play(sim)
    check_whole(outcome)
    assert outcome.link_drops[bad] > 0
    return outcome.link_pkts[:, REPAIR], bad


@pytest.mark.parametrize(
    ("name", "feedback"),
    [
        *(("mldp", "block"), ("bier", "nack")),
        *(pytest.param("bier", word, marks=heavy) for word in ("block", "packet")),
        *(pytest.param("pim-sm", word, marks=heavy) for word in ("packet", "nack")),
    ],
)
def test_repairs_go_to_all_on_a_tree_and_to_one_branch_by_bier(name, feedback):
    net, _ = fabric()
    repairs, bad = lossy_link(name, "tree", feedback)
    downs = [int(net.reverse[net.first_out[host]]) for host in range(1, 16)]
    healthy = [repairs[link] for link in downs if link != bad]
    assert repairs[bad] > 0
    assert min(healthy) == max(healthy)
    assert (healthy[0] > 0) == (name != "bier")
    alone, _ = lossy_link(name, "unicast", feedback)
    assert alone[bad] > 0
    assert [int(alone[link]) for link in downs if link != bad] == [0] * 14


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("pim-sm", 1),
        *(pytest.param("mldp-mp2mp", seed, marks=heavy) for seed in range(4)),
        *(pytest.param("bier", seed, marks=heavy) for seed in range(4)),
    ],
)
def test_silence_hides_no_loss(name, seed):
    settings = Settings(feedback="nack", loss_ppb=30_000_000)
    outcome = run(program_of(name, n_bytes=200 * PKT), settings, seed=seed)
    check_whole(outcome)
    assert outcome.link_drops.sum() > 0
    assert 15 <= outcome.feedback_at_source[0] < 15 * 200


@pytest.mark.parametrize(
    "name", ["mldp", *(pytest.param(name, marks=heavy) for name in NAMES if name != "mldp")]
)
def test_a_broken_tree_is_mended_when_the_protocol_has_mended_it(name):
    net, _ = fabric()
    before = program_of(name, n_bytes=256 * PKT, site=Site(net, QUICK, "standing"))
    links = before.trees[0].phases[0].links
    cable = next(k for k in links if min(net.src[k], net.dst[k]) >= net.n_hosts)
    ends = (int(net.src[cable]), int(net.dst[cable]))
    site = Site(net, QUICK, "standing", ((10**7, ends),))
    program = program_of(name, n_bytes=256 * PKT, site=site)
    phases = program.trees[0].phases
    assert all(a.from_ps < b.from_ps for a, b in pairwise(phases))
    assert phases[1].from_ps == 10**7
    assert cable not in phases[1].links
    assert cable not in phases[-1].links
    names = net.node_name(ends[0]), net.node_name(ends[1])
    outcome = run(program, Settings(failures=(Failure(10**7, *names),)))
    check_whole(outcome)
    assert outcome.repairs[0] > 0
    mended_ps = next(p.from_ps for p in phases[1:] if reaches_all(p))
    assert outcome.host_ps.max() > mended_ps
    assert run(before).host_ps.max() < mended_ps


def reaches_all(phase):
    net, _ = fabric()
    return sum(int(net.dst[k]) < net.n_hosts for k in phase.links) == 15


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="site: got 'none'"):
        scheme_of("mldp").build(Collective("broadcast", PKT, (0, 1)))
    bare = scheme_of("mldp").explained(Collective("broadcast", PKT, (0, 1))).program
    with pytest.raises(ConfigError, match="trees laid on a net"):
        simulation(bare._replace(protocol="mldp-p2mp"))
    net, _ = fabric()
    never = TreeSettings(rp="nobody")
    with pytest.raises(ConfigError, match=r"settings.rp: got 'nobody'"):
        program_of("pim-sm", site=Site(net, never))
