"""Planes by weight in runs: fans by the live striped sender, messages by queue pairs."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.run import build_job, build_stage
from fanfold.scenario.scenario import read_scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import build_program
from fanfold.sim.fans import MAX_QUEUED
from fanfold.sim.simulate import FANS, Simulation
from fanfold.study.plane_use import planes_of_pairs, shared_ports
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_US

TOPOLOGY = "superpod:gpus=4,planes=3"
N_BYTES = 21 * 64 * 4096
"""21 blocks: weights of 1:1:1 and of 3:3:1 deal them out exactly."""
CUT_PS = 8 * PS_PER_US
SOON = {"weights_ps": 2 * PS_PER_US}
CUTS = [
    ("port h3-plane1", SOON),
    ("half-cable h3-plane1", {"weights_ps": 10**15}),
    ("half-cable h3-plane1", SOON),
    ("leaf plane1", SOON),
    ("leaf plane1", {"weights_ps": 10**15}),
    ("port h3-plane1", {"weights_ps": 10**15}),
]
"""With weights after 10**15 ps nobody tells: the sender finds out."""
QUEUED_PKTS = 2 * MAX_QUEUED * 64
"""Of a plane that were given to its two ports when it was left."""


def play(*failures, name="fanfold", kind="broadcast", n_bytes=N_BYTES, seed=1, **settings):
    timed = [one if isinstance(one, tuple) else (0, one) for one in failures]
    told = [{"at_ps": at, ("fail" if " " in words else "heal"): words} for at, words in timed]
    topology = settings.pop("topology", TOPOLOGY)
    scenario = read_scenario(
        {
            "topology": topology,
            "seed": seed,
            "schemes": [name],
            "fidelity": "packet",
            "workload": {"kind": kind, "n_bytes": n_bytes},
            "settings": {"failures": told, **settings},
        }
    )
    stage = build_stage(scenario)
    job = build_job(scenario, name, stage)
    sim = Simulation(
        stage.net, stage.routes, job.program, scenario.settings, seed=seed, whole=FANS
    )
    while sim.step():
        pass
    return sim


def by_plane(sim, src=None, dst=None, repairs=True):
    """Bytes of data on links that leave a host, or lead to one, by plane."""
    net = sim.net
    links = np.ones(net.n_links, bool) if src is None else net.src == src
    if dst is not None:
        links &= net.dst == dst
    n_bytes = sim.world.links["bytes"][:, : 2 if repairs else 1].sum(axis=1)
    return [int(n_bytes[links & (net.plane == p)].sum()) for p in range(net.plane.max() + 1)]


def legs(sim, host, plane):
    """Bytes of data into a host by each of its cables in a plane."""
    net = sim.net
    links = (net.dst == host) & (net.plane == plane)
    return sim.world.links["bytes"][links][:, 0].tolist()


def check(sim):
    out = sim.outcome()
    assert out.stuck == ()
    assert (out.got_bytes == out.due_bytes).all()
    return out


def test_a_fan_is_dealt_evenly_to_planes_and_to_the_legs_of_their_cables():
    sim = play(planes="auto")
    check(sim)
    whole = sum(by_plane(sim, src=0))
    assert by_plane(sim, src=0) == [whole // 3] * 3
    for host in (1, 2, 3):
        assert by_plane(sim, dst=host)[1] == whole // 3
        one, other = legs(sim, host, 1)
        assert abs(one - other) <= whole / 21  # a block
    assert sim.outcome().repairs == (0, 0)


def test_words_go_home_by_the_plane_of_their_block_and_fold_there():
    out = check(play(planes="auto"))
    assert out.n_folds == (21, 0, 0)
    assert out.feedback_at_source.tolist() == [21]


def test_three_planes_take_about_a_third_of_the_time_of_one():
    one, three = (check(play(planes=text)).host_ps.max() for text in ("1", "auto"))
    assert 0.3 < three / one < 0.4


def test_without_planes_a_fan_goes_by_one_link_as_before():
    sim = play()
    check(sim)
    assert by_plane(sim, src=0)[1:] == [0, 0]
    assert legs(sim, 3, 0)[1] == 0


@pytest.mark.parametrize(
    ("failure", "parts"),
    [
        ("half-cable h3-plane1", (0.4, 0.2, 0.4)),
        ("half-cable gpu0-plane1", (0.4, 0.2, 0.4)),
        ("port h3-plane1", (0.5, 0, 0.5)),
        ("leaf plane1", (0.5, 0, 0.5)),
    ],
)
def test_weights_of_what_failed_before_the_start_are_those_of_all_bytes(failure, parts):
    n_bytes = 40 * 64 * 4096
    sim = play(failure, planes="auto", n_bytes=n_bytes)
    assert check(sim).repairs == (0, 0)
    found = by_plane(sim, src=0)
    assert [n / sum(found) for n in found] == pytest.approx(parts, abs=1e-9)
    assert found == by_plane(sim, dst=3) == by_plane(sim, dst=2)


def test_half_a_cable_leaves_the_other_leg_and_whole_planes_alone():
    sim = play("half-cable h3-plane1", planes="auto")
    check(sim)
    one, other = legs(sim, 3, 1)
    assert one > 0 == other
    assert min(legs(sim, 2, 1)) > 0


@pytest.mark.parametrize(("failure", "weights"), CUTS if JIT else CUTS[1:2])
def test_a_plane_that_fails_in_mid_run_costs_what_was_on_it(failure, weights):
    n_bytes = (120 if JIT else 60) * 64 * 4096
    whole = check(play(planes="auto", n_bytes=n_bytes))
    sim = play((CUT_PS, failure), planes="auto", n_bytes=n_bytes, **weights)
    out = check(sim)
    lost = int(out.link_drops.sum())
    assert lost > 0
    assert out.repairs[0] <= lost + QUEUED_PKTS
    if weights is SOON:
        share = 5 / 6 if failure.startswith("half") else 2 / 3
        left = (whole.host_ps.max() - CUT_PS) / share
        assert out.host_ps.max() == pytest.approx(CUT_PS + left, rel=0.12)
    if failure == "leaf plane1":
        assert by_plane(sim, src=0)[1] < 0.2 * sum(by_plane(sim, src=0))


def test_half_a_cable_is_no_lost_neighbour():
    how = {"planes": "auto", "n_bytes": 60 * 64 * 4096, "hello_ps": PS_PER_US, **SOON}
    half = play((CUT_PS, "half-cable h3-plane1"), **how)
    port = play((CUT_PS, "port h3-plane1"), **how)
    assert half.failing.lost == []
    assert len(port.failing.lost) == 4  # both ends of both cables


@pytest.mark.skipif(not JIT, reason="three runs of many packets: for compiled code")
def test_a_plane_that_comes_back_carries_its_share_again():
    n_bytes = (240 if JIT else 120) * 64 * 4096
    cut = (CUT_PS, "port h3-plane1")
    gone = play(cut, planes="auto", n_bytes=n_bytes, **SOON)
    back = play(cut, (3 * CUT_PS, "h3-plane1"), planes="auto", n_bytes=n_bytes, **SOON)
    check(gone)
    check(back)
    assert by_plane(back, src=0)[1] > 3 * by_plane(gone, src=0)[1]
    assert back.outcome().host_ps.max() < gone.outcome().host_ps.max()


def test_the_same_run_gives_the_same_bytes():
    first, again = (
        play((CUT_PS, "leaf plane1"), planes="auto", **SOON).world.links for _ in range(2)
    )
    assert first.tobytes() == again.tobytes()


def test_fans_of_all_hosts_share_planes_too():
    sim = play("port h3-plane1", planes="auto", kind="all_gather", n_bytes=4 * N_BYTES)
    assert check(sim).repairs == (0, 0)
    assert by_plane(sim, dst=3)[1] == 0
    for host in range(4):
        zero, one, two = by_plane(sim, src=host)
        assert one == 0
        assert zero == pytest.approx(two, rel=0.1)


def test_where_bounded_queues_give_a_fan_its_share_nothing_is_dropped():
    sim = play(planes="auto", kind="all_gather", n_bytes=4 * N_BYTES, queue_bytes=256 * 4096)
    assert check(sim).repairs == (0, 0)


def test_planes_over_two_tiers_keep_to_themselves():
    topology = "multi-plane:planes=2,leaves=2,spines=2,hosts=4,rate=100Gbps"
    sim = play(planes="auto", topology=topology, n_bytes=20 * 64 * 4096)
    check(sim)
    one, other = by_plane(sim, src=0)
    assert one == other
    assert by_plane(sim, dst=3) == [one, other]


@pytest.mark.parametrize("routing", ["flows", "packets"])
@pytest.mark.parametrize(
    ("failure", "n_planes", "at_h3"),
    [
        (None, (3, 3), (1 / 3, 1 / 3, 1 / 3)),
        ("half-cable h3-plane1", (3, 3), (0.4, 0.2, 0.4)),
        ("port h3-plane1", (2, 3), (0.5, 0, 0.5)),
        ("leaf plane1", (2, 2), (0.5, 0, 0.5)),
    ],
)
def test_messages_are_dealt_by_weight(routing, failure, n_planes, at_h3):
    sim = play(
        *([failure] if failure else []),
        name="direct",
        kind="all_to_all",
        n_bytes=4 * 240 * 4096,
        routing=routing,
        transport="roce" if routing == "flows" else "plain",
    )
    out = check(sim)
    assert out.repairs == (0, 0)  # roce sends again from any gap: order is kept
    planes = planes_of_pairs(sim.net, sim.senders.streams)
    assert (planes.min(), planes.max()) == n_planes
    sent = by_plane(sim, src=3)
    assert [n / sum(sent) for n in sent] == pytest.approx(at_h3, abs=0.01)
    assert sum(by_plane(sim, src=0)) == sum(by_plane(sim, src=3))
    alone = by_plane(sim, src=0)
    assert alone[0] == pytest.approx(alone[2], rel=0.02)


def test_packets_come_out_of_order_and_flows_do_not():
    depths = [
        play(
            name="direct",
            kind="all_to_all",
            n_bytes=4 * 240 * 4096,
            routing=routing,
        ).senders.streams["depth"]
        for routing in ("flows", "packets")
    ]
    assert depths[0].max() == 0
    assert depths[1].max() > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_packets_of_a_message_take_all_links_of_each_tier_alike(seed):
    """Five stages, 8 ways up at leaves and 4 at spines, 4 down at cores: 64 packets a plane."""
    net = build_named_net(
        "multi-plane:planes=2,pods=2,leaves=4,spines=8,cores=8,hosts=8,rate=400Gbps"
    )
    messages = np.array([[0, 7, 128 * 4096, 0]])
    program = build_program(messages, np.zeros((0, 2), np.int64))
    sim = Simulation(
        net, build_routes(net), program, Settings(routing="packets", planes="auto"), seed=seed
    )
    while sim.step():
        pass
    check(sim)
    n_pkts = sim.world.links["pkts"][:, 0]
    met = dict[tuple[int, int], list[int]]()
    for link in np.flatnonzero(n_pkts).tolist():
        tiers = int(net.tier[net.src[link]]), int(net.tier[net.dst[link]])
        met.setdefault(tiers, []).append(int(n_pkts[link]))
    even = {(0, 1): 64, (1, 2): 8, (2, 3): 2, (3, 2): 2, (2, 1): 8, (1, 0): 64}
    assert met.keys() == even.keys()
    for tiers, n in even.items():
        assert sum(met[tiers]) == 128
        assert max(met[tiers]) <= max(n * 5 // 4, n + 2), tiers


def test_packets_of_messages_take_both_cables_into_a_host_alike():
    sim = play(
        name="direct",
        kind="all_to_all",
        n_bytes=4 * 240 * 4096,
        routing="packets",
    )
    for host in range(4):
        for plane in range(3):
            one, other = legs(sim, host, plane)
            assert one == pytest.approx(other, rel=0.1)


def test_a_cable_that_is_down_in_the_net_itself_is_left_alone():
    whole = build_named_net(TOPOLOGY)
    down = np.flatnonzero((whole.src == 3) & (whole.plane == 1))[0]
    is_up = whole.is_up.copy()
    is_up[[down, whole.reverse[down]]] = 0
    net = whole._replace(is_up=is_up)
    messages = np.array([[0, 3, 60 * 4096, 0], [3, 1, 60 * 4096, 0]])
    program = build_program(messages, np.zeros((0, 2), np.int64))
    for routing in ("flows", "packets"):
        settings = Settings(planes="auto", routing=routing)
        sim = Simulation(net, build_routes(net), program, settings, seed=1)
        while sim.step():
            pass
        assert check(sim).link_drops.sum() == 0
        assert legs(sim, 3, 1)[0] == 0 < legs(sim, 3, 1)[1]


def test_queue_pairs_with_addresses_of_sub_ports_share_none_and_hashes_do():
    how = {"name": "direct", "kind": "all_to_all", "n_bytes": 4 * 240 * 4096}
    bound = play(**how, routing="flows", bound_pairs=True)
    drawn = play(**how, routing="flows")
    many = play(**how, routing="flows", queue_pairs=16)
    assert shared_ports(bound.net, bound.senders.streams) == 0
    assert shared_ports(drawn.net, drawn.senders.streams) > 0
    assert shared_ports(many.net, many.senders.streams) == 0
    ends = [check(sim).host_ps.max() for sim in (bound, many, drawn)]
    assert ends == sorted(ends)


def test_both_ends_of_a_bound_pair_are_the_sub_ports_it_names():
    sim = play(
        "half-cable h3-plane1",
        name="direct",
        kind="all_to_all",
        n_bytes=4 * 240 * 4096,
        routing="flows",
        bound_pairs=True,
    )
    check(sim)
    one, other = legs(sim, 3, 1)
    assert one > 0 == other


def test_one_plane_that_is_named_carries_all_messages():
    how = {"name": "direct", "kind": "all_to_all", "n_bytes": 4 * 240 * 4096}
    for routing in ("spray", "ecmp", "flows", "flowlets", "packets"):
        found = by_plane(play(**how, routing=routing, planes="2"))
        assert found[:2] == [0, 0]
        assert found[2] > 0


SPINES = {
    "topology": "multi-plane:planes=2,leaves=2,spines=8,hosts=4",
    "name": "unicast",
    "n_bytes": 60 * 4096,
}
"""From h0 to three others, two of them by eight spines in each plane."""


def links_up(sim):
    """Links of h0's leaves to spines that carry data, and picoseconds of the last receiver."""
    net, sent = sim.net, sim.world.links["bytes"][:, 0]
    above = (net.tier[net.src] == 1) & (net.tier[net.dst] == 2) & (sent > 0)
    return int(above.sum()), int(check(sim).host_ps.max())


def test_a_flowlet_without_end_is_a_flow_and_pauses_spread_over_more_spines():
    flows, endless, short = (
        links_up(play(**SPINES, **how))
        for how in (
            {"routing": "flows"},
            {"routing": "flowlets", "flowlet_ps": 10**12},
            {"routing": "flowlets", "flowlet_ps": 1000},
        )
    )
    assert endless == flows
    assert flows[0] == 2 * 2  # a queue pair for each plane and receiver
    assert short[0] > 2 * flows[0]


def test_switches_of_a_plane_go_per_flow_or_per_packet_whatever_hosts_do():
    for routing, in_plane, n in (
        *(("packets", "flows", 4), ("flows", "flows", 4)),
        *(("packets", "packets", 16), ("flows", "packets", 16)),
    ):
        found, _ = links_up(play(**SPINES, routing=routing, in_plane=in_plane))
        assert (found <= 4) if n == 4 else (found == 16), (routing, in_plane)


def test_what_cannot_be_said_of_planes_is_told():
    with pytest.raises(ConfigError, match=r"settings.planes: got '3'.*0, 1, 2"):
        play(planes="3")
    with pytest.raises(ConfigError, match=r"no plane from h0 to h3"):
        play("port h3-plane1", name="unicast", planes="1", routing="packets")
    with pytest.raises(ConfigError, match=r"settings.feedback: got 'nack'"):
        play(planes="auto", name="bier", feedback="nack")
    for words in ("leaf plane7", "port h9-plane1", "half-cable h3-plane9", "port h3"):
        with pytest.raises(ConfigError, match=r"settings.failures"):
            play(words, planes="auto")
    with pytest.raises(ConfigError, match=r"of two cables"):
        play("half-cable h3-plane1", topology="superpod:gpus=4,planes=2,legs=1")


@pytest.mark.parametrize("text", ["x", "0,", ",1", "0 1", "-1", "auto,1", "1" * 9])
def test_planes_are_auto_or_numbers(text):
    with pytest.raises(ConfigError, match=r"settings.planes.*auto, or numbers"):
        play(planes=text)


def test_flow_knows_no_weights_and_says_so():
    table = {
        "topology": TOPOLOGY,
        "schemes": ["fanfold"],
        "fidelity": "flow",
        "workload": {"kind": "broadcast", "n_bytes": N_BYTES},
    }
    for settings in ({"planes": "auto"}, {"routing": "flows"}):
        scenario = read_scenario(table | {"settings": settings})
        with pytest.raises(ConfigError, match=r"packet or train where planes are asked for"):
            build_job(scenario, "fanfold", build_stage(scenario))
