"""Failures in words: what is under way is lost, sessions notice, tables follow."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.codes import FOLD_COMPLETE, FOLD_UNFOLDED
from fanfold.kernels.collect import WHOLE
from fanfold.results.outcome import DATA, NOT_DONE
from fanfold.run import build_job, build_stage
from fanfold.scenario.scenario import read_scenario
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.receivers import on_report, tell_again
from fanfold.sim.simulate import FANS, Simulation
from fanfold.study.failure_table import ways_of
from fanfold.units import PS_PER_US

TOPOLOGY = "leaf-spine:leaves=3,spines=2,hosts=6,rate=100Gbps"
N_BYTES, N_PKTS = 256 * 4096, 256
HELLO_PS = 4 * PS_PER_US
CUT_PS = 40 * PS_PER_US
DETECT_PS = 3 * HELLO_PS
NEW_PATHS_PS = 200 * PS_PER_US
FRR = {"protection": "frr", "feedback": "nack", "reroute_ps": NEW_PATHS_PS}
LATE = FRR | {"protection": "reroute"}


def play(*failures, name="fanfold", topology=TOPOLOGY, seed=1, trees=None, **settings):
    """1 MiB from h0 to the others; failures: words, or (time, words)."""
    timed = [one if isinstance(one, tuple) else (CUT_PS, one) for one in failures]
    told = [
        {"at_ps": at, ("heal" if " " not in words else "fail"): words} for at, words in timed
    ]
    scenario = read_scenario(
        {
            "topology": topology,
            "seed": seed,
            "schemes": [name],
            "fidelity": "packet",
            "workload": {"kind": "broadcast", "n_bytes": N_BYTES},
            "trees": trees or {},
            "settings": {
                "failures": told,
                "hello_ps": HELLO_PS,
                "table_ps": 20 * PS_PER_US,
                "notice_ps": PS_PER_US,
                "tree_start": "standing",
                **settings,
            },
        }
    )
    stage = build_stage(scenario)
    job = build_job(scenario, name, stage)
    routes, settings = stage.routes, scenario.settings
    sim = Simulation(stage.net, routes, job.program, settings, seed=seed, whole=FANS)
    while sim.step():
        pass
    return sim


def behind(sim, name):
    """Receivers whose way leads over a node, by a run that nothing disturbs."""
    net = sim.net
    return {
        host
        for host, way in ways_of(sim).items()
        if any(net.node_name(int(net.dst[link])) == name for link in way)
    }


@pytest.fixture(scope="module")
def whole():
    return play()


@pytest.fixture(scope="module")
def spine(whole):
    """The spine that carries the data."""
    return next(name for name in ("spine0", "spine1") if behind(whole, name))


def link_to(sim, a, b):
    """The link from one node to another."""
    net = sim.net
    names = [net.node_name(n) for n in range(net.n_nodes)]
    (link,) = np.nonzero((net.src == names.index(a)) & (net.dst == names.index(b)))[0].tolist()
    return link


def gap_ps(sim, hosts):
    """Until the first of these has DATA again."""
    back = sim.world.nodes["back_ps"][sorted(hosts)]
    return int(back[back >= 0].min()) - CUT_PS


def check_whole(sim, but=()):
    """Everybody has all of it, once: nothing new comes twice."""
    out, net = sim.outcome(), sim.net
    for host in set(range(1, net.n_hosts)) - set(but):
        assert out.host_ps[host] != NOT_DONE
        assert out.got_bytes[host] == N_BYTES
        last = int(net.reverse[net.first_out[host]])
        assert sim.world.links["pkts"][last, DATA] <= N_PKTS
    return out


def test_nothing_changes_where_nothing_fails(whole):
    assert whole.failing is None
    other = play(hello_ps=2 * HELLO_PS, reroute_ps=1, protection="frr")
    assert (other.outcome().link_pkts == whole.outcome().link_pkts).all()
    assert other.outcome().end_ps == whole.outcome().end_ps


def test_a_spine_that_dies_is_noticed_led_round_and_only_its_receivers_miss_something(
    whole, spine
):
    sim = play(f"node {spine}")
    check_whole(sim)
    mine = behind(whole, spine)
    mended = set(np.nonzero(sim.world.nodes["mended"][: sim.net.n_hosts])[0].tolist())
    assert mended == mine
    assert {sim.net.node_name(node) for _, node, _ in sim.failing.lost} >= {"leaf0"}
    first_ps = min(at for at, _, _ in sim.failing.lost) - CUT_PS
    assert 2 * HELLO_PS < first_ps <= DETECT_PS
    assert DETECT_PS // 2 < gap_ps(sim, mine) < DETECT_PS + 8 * PS_PER_US


def test_words_on_half_a_block_fold_though_they_take_several_packets():
    """A dead core: twelve receivers lack 39 of 64 packets, their rows fill three packets."""
    many = {"topology": "fat-tree:k=4,rate=100Gbps", "bitstring_bits": 1024}
    sim = play((50 * PS_PER_US, "node core0"), **many)
    events = sim.fans.bier.events.sum(0)
    assert events[FOLD_COMPLETE] > 50
    assert events[FOLD_UNFOLDED] == 0
    assert sim.senders.fans[0]["n_feedback"] <= 4 + 3  # a block each, and the parts


def test_one_word_answers_all_packets_of_a_repair_that_was_not_needed():
    sim = play()
    q, fan = sim.q, sim.senders.fans[0]
    receivers = sim.fans.receivers
    b = int(fan["block_at"] + fan["n_blocks"])  # h1, block 0
    block, follow = receivers.collect.blocks[b], receivers.collect.follow[fan["recv_at"] + 1]
    assert block["state"] == WHOLE
    pkt = sim.world.pkts[0]
    pkt["poll"], pkt["again"] = 1, 1
    reorder_ps, before = int(receivers.collect.timing[0]), q[r.NOW]
    answers = []
    for _ in range(40):
        answers.append(tell_again(q, pkt, follow, block, b, reorder_ps))
        q[r.NOW] += reorder_ps // 80
        answers.append(b if on_report(q, sim.senders.fans, receivers, b) else r.NONE)
    assert set(answers) == {r.NONE}
    q[r.NOW] = before + reorder_ps
    assert on_report(q, sim.senders.fans, receivers, b)
    assert not on_report(q, sim.senders.fans, receivers, b)
    pkt["again"] = 0  # the first sending asks once
    assert tell_again(q, pkt, follow, block, b, reorder_ps) == b


def test_what_is_on_a_link_when_it_is_cut_is_lost(spine):
    """Before anybody can notice: what stood in ports and was on the way is gone."""
    sim = play(f"link leaf0-{spine}")
    cut = link_to(sim, "leaf0", spine)
    assert sim.world.links["lost"][cut] > 0
    assert sim.world.links["drops"][cut] > 0
    check_whole(sim)


def test_data_until_the_cut_count_as_life(spine):
    """Who heard data until then waits for all three intervals; who did not, for less."""
    sim = play(f"link leaf0-{spine}")
    at = {sim.net.node_name(node): at - CUT_PS for at, node, _ in sim.failing.lost}
    assert DETECT_PS - PS_PER_US < at[spine] <= DETECT_PS + PS_PER_US


def test_a_far_cut_is_led_round_beside_it_where_another_leaf_leads_on(whole, spine):
    sim = play(f"link leaf2-{spine}")
    check_whole(sim)
    assert gap_ps(sim, behind(whole, "leaf2")) < DETECT_PS + 8 * PS_PER_US


def test_where_no_leaf_does_who_hears_of_it_makes_a_table():
    """Beside the cut there is no way on but back; the source's leaf must hear."""
    two = {"topology": "leaf-spine:leaves=2,spines=2,hosts=4,rate=100Gbps"}
    whole = play(**two)
    spine = next(name for name in ("spine0", "spine1") if behind(whole, name))
    sim = play(f"link leaf1-{spine}", **two)
    check_whole(sim)
    nodes = [sim.net.node_name(node) for _, node in sim.failing.switches]
    assert {spine, "leaf0", "leaf1"} <= set(nodes)
    assert gap_ps(sim, behind(whole, "leaf1")) > DETECT_PS // 2 + 20 * PS_PER_US
    assert sim.world.nodes["n_dead"].sum() > 0  # nothing goes back to where it came from


def test_backup_tunnels_need_no_notice(whole, spine):
    sim = play(f"link leaf2-{spine}", name="bier", **FRR)
    check_whole(sim)
    mine = behind(whole, "leaf2")
    assert gap_ps(sim, mine) < DETECT_PS + 8 * PS_PER_US
    cut = sim.world.links[link_to(sim, spine, "leaf2")]
    assert cut["drops"] + cut["lost"] < N_PKTS // 4  # none once the backup is in use
    mended = set(np.nonzero(sim.world.nodes["mended"][: sim.net.n_hosts])[0].tolist())
    assert mended == mine


def test_backup_tunnels_lead_round_a_dead_node(whole, spine):
    sim = play(f"node {spine}", name="bier", **FRR)
    check_whole(sim)
    assert gap_ps(sim, behind(whole, spine)) < DETECT_PS + 8 * PS_PER_US


def test_plain_bier_waits_for_new_paths(whole, spine):
    sim = play(f"node {spine}", name="bier", **LATE)
    check_whole(sim)
    assert gap_ps(sim, behind(whole, spine)) >= NEW_PATHS_PS + DETECT_PS // 2
    assert [node for _, node in sim.failing.switches] == [-1]


def test_frr_takes_one_failure_at_a_time(spine):
    with pytest.raises(ConfigError, match="frr and 2 failures that cut"):
        play(f"node {spine}", "link leaf2-spine0", name="bier", **FRR)


def test_a_leaf_that_dies_costs_its_own_hosts_only(whole):
    sim = play("node leaf2")
    gone = behind(whole, "leaf2")
    out = check_whole(sim, but=gone)
    assert all(out.host_ps[host] == NOT_DONE for host in gone)
    assert len(sim.fans.lost) == len(gone)
    assert all("given up" in line for line in out.stuck)


def test_a_link_that_comes_back_is_used_again(spine):
    sim = play(f"node {spine}", (CUT_PS + 40 * PS_PER_US, spine))
    check_whole(sim)
    (at,) = (n for n in range(sim.net.n_nodes) if sim.net.node_name(n) == spine)
    assert all(sim.world.links["up"] == 1)
    assert at in sim.failing.sessions.machines


def test_a_receiver_that_stood_still_is_mended_alone_and_no_table_changes():
    sim = play("pause h3 30us")
    check_whole(sim)
    mended = np.nonzero(sim.world.nodes["mended"][: sim.net.n_hosts])[0].tolist()
    assert mended == [3]
    assert sim.failing.switches == []


def test_a_gray_link_loses_its_share_and_keeps_its_session():
    sims = [play("gray h0-leaf0 10%", seed=seed) for seed in (1, 1, 2)]
    for sim in sims:
        check_whole(sim)
        assert sim.failing.lost == []
        assert sim.world.links["lost"].sum() > 5
    one, again, other = (sim.world.links["lost"].tolist() for sim in sims)
    assert one == again
    assert one != other


def test_the_same_seed_gives_the_same_bytes(spine):
    one, again = (play(f"node {spine}") for _ in range(2))
    assert one.world.links.tobytes() == again.world.links.tobytes()
    assert one.failing.switches == again.failing.switches


@pytest.mark.parametrize("name", ["mldp", "pim-sm", "sr-p2mp"])
def test_trees_have_the_same_timers(name, spine):
    """Their own are overruled: 150 ms would be told here."""
    other = {"spine0": "spine1", "spine1": "spine0"}[spine]
    quick = {"reroute_ps": NEW_PATHS_PS, "install_ps": HELLO_PS, "process_ps": PS_PER_US}
    away = {"trees": quick | {"controller": other, "rp": other, "compute_ps": HELLO_PS}}
    sim = play(f"node {spine}", name=name, feedback="nack", tree_repair="tree", **away)
    first_ps = min(at for at, _, _ in sim.failing.lost) - CUT_PS
    assert first_ps <= DETECT_PS
    (tree,) = sim.program.trees
    assert len(tree.phases) > 1
    assert tree.phases[-1].from_ps < 1000 * PS_PER_US
    check_whole(sim)
