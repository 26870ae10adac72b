"""Sessions served by instances: queues as theory has them, contexts to the byte, losses."""

import itertools

import msgspec
import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.sim.instance_table import Asked, build_instance_table, policies_of
from fanfold.sim.instances import Service, ServiceRun, latencies_of, quantile
from fanfold.sim.service_sites import place_service
from fanfold.sim.steering import POLICIES, Candidate, Load, by_cats, least_loaded, nearest
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_SECOND
from fanfold.work.sessions import Demand, Session, draw_sessions

ONE_SITE = "star:hosts=2,rate=8Gbps"
MS = PS_PER_SECOND // 1000
NEAREST = policies_of("nearest")[0]


def served(topology, service, sessions, policy=NEAREST, n_each=1, **more):
    net = build_named_net(topology)
    routes = build_routes(net)
    sites = place_service(net, routes, n_each)
    more = {"seed": 1, "window_ps": PS_PER_SECOND, **more}
    run = ServiceRun(sites, routes, service, sessions, policy, **more)
    run.run()
    return run


def mean_wait(load, *, is_fixed, slots=1, n=25_000):
    """Mean wait by mean service, of turns that come by themselves: prompts of 10**6 tokens."""
    rate_mhz = int(load * slots * 1000)
    window_ps = n * 1000 * PS_PER_SECOND // rate_mhz
    words = {"turns": 1, "prompt": 10**6, "answer": 0, "is_fixed": is_fixed}
    demand = Demand(rate_mhz, 100, window_ps=window_ps, **words)
    sessions = draw_sessions(demand, 1, 1)
    run = served(ONE_SITE, Service(10**6, 1, slots, 0, 0), sessions)
    delay = 2 * run.delay_ps(0, 1)
    waits = [t.first_ps - t.start_ps - t.work_ps - delay for t in run.turns]
    assert min(waits) == 0
    return float(np.mean(waits)) / PS_PER_SECOND


def test_one_instance_waits_as_m_m_1_and_m_d_1_have_it():
    load = 0.5  # 25,000 turns: the standard error of M/M/1 is 3 %
    assert mean_wait(load, is_fixed=False) == pytest.approx(load / (1 - load), rel=0.05)
    assert mean_wait(load, is_fixed=True) == pytest.approx(load / (1 - load) / 2, rel=0.05)


def test_two_slots_wait_as_m_m_2_has_it():
    load = 0.5  # Erlang C of two servers: 2 load^2 / (1 + load), by 2 (1 - load)
    expected = 2 * load**2 / (1 + load) / (2 * (1 - load))
    assert mean_wait(load, is_fixed=False, slots=2) == pytest.approx(expected, rel=0.05)


def test_contexts_move_to_the_byte_and_the_last_place_counts():
    """Two instances by turns: each turn fetches, first from home, then from the other one."""
    turns = itertools.cycle([0, 1])
    policy = POLICIES[1]._replace(choose=lambda them: them[next(turns)])
    topology = "star:hosts=3,rate=8Gbps"
    service = Service(10**6, 10**6, 1, 4_000_000, 0)
    sessions = [Session(0, 0, (1000,) * 5, (0,) * 5, (0, *[MS] * 4))]
    run = served(topology, service, sessions, policy, 2)
    assert run.moves == sum(t.is_moved for t in run.turns) == 5
    assert run.moved_bytes == 5 * 4_000_000
    assert run.between_bytes == 0
    assert [one.most_held for one in run.instances] == [1, 1]
    way = 3 * run.delay_ps(0, 1)  # request there, context, first token back
    # 4 ms of the context at 8 Gbit/s, 1 ms of the prompt
    assert latencies_of(run.turns).tolist() == [5 * MS + way] * 5
    same = served(topology, service, sessions, POLICIES[1]._replace(choose=nearest), 2)
    assert (same.moves, same.moved_bytes) == (1, 4_000_000)


def test_contexts_into_one_host_share_its_link():
    service = Service(10**6, 10**6, 8, 4_000_000, 0)
    sessions = [Session(0, 0, (1000,), (0,), (0,)) for _ in range(4)]
    run = served(ONE_SITE, service, sessions)
    one = run.instances[0]
    assert (one.most_fetches, one.most_held, one.n_held) == (4, 4, 0)
    way = 3 * run.delay_ps(0, 1)
    assert latencies_of(run.turns).tolist() == [17 * MS + way] * 4  # not 5


def test_a_lost_instance_s_turns_choose_anew_and_contexts_come_from_home():
    """Fetching there for 4 ms, lost after 2: the rest of the turn is another one's."""
    topology = "star:hosts=3,rate=8Gbps"
    service = Service(10**6, 10**6, 1, 4_000_000, 0)
    sessions = [Session(0, 0, (1000, 1000), (0, 0), (0, 5 * MS))]
    run = served(topology, service, sessions, n_each=2, lost=(0, 2 * MS))
    way = 3 * run.delay_ps(0, 1)
    first, second = run.turns
    assert (first.at, second.at) == (1, 1)
    assert first.first_ps - first.start_ps == 2 * MS + 5 * MS + way
    assert second.first_ps - second.start_ps == MS + 2 * run.delay_ps(0, 1)
    assert (run.moves, run.moved_bytes) == (1, 4_000_000)  # what was half there is not counted
    # lost in the pause: the context was there alone, and home has it still
    late = served(topology, service, sessions, n_each=2, lost=(0, 8 * MS))
    assert [t.at for t in late.turns] == [0, 1]
    assert late.turns[1].first_ps - late.turns[1].start_ps == 5 * MS + way
    # lost in mid-prompt of the second turn
    busy = served(topology, service, sessions, n_each=2, lost=(0, first.start_ps + 11 * MS))
    assert busy.turns[1].is_moved


def test_a_context_on_its_way_from_a_lost_instance_is_sent_from_home_again():
    turns = iter([0, 1])
    policy = POLICIES[1]._replace(choose=lambda them: them[next(turns)])
    topology = "star:hosts=3,rate=8Gbps"
    service = Service(10**6, 10**6, 1, 4_000_000, 0)
    sessions = [Session(0, 0, (1000, 1000), (0, 0), (0, MS))]
    plain = served(topology, service, sessions, policy, 2)
    begin = plain.turns[1].start_ps
    turns = iter([0, 1])
    run = served(topology, service, sessions, policy, 2, lost=(0, begin + 2 * MS))
    last = run.turns[1]
    delay = run.delay_ps(0, 1)
    assert last.first_ps - last.start_ps == 2 * MS + 5 * MS + 2 * delay
    assert run.moves == 2


def test_what_an_instance_had_is_lost_with_it():
    """Home is at the second site: what was at the first one does not come from there."""
    for lost, lines in ((None, 2), ((0, 10 * PS_PER_SECOND), 1)):
        turns = iter([0, 1])
        policy = POLICIES[1]._replace(choose=lambda them, n=turns: them[next(n) - len(them)])
        service = Service(10**6, 10**6, 1, 4_000_000, 0)
        sessions = [Session(1, 0, (1000, 1000), (0, 0), (0, 20 * PS_PER_SECOND))]
        run = served("wan:sites=2,hosts=2", service, sessions, policy, lost=lost)
        assert [t.at for t in run.turns] == [0, 1]
        assert (run.moved_bytes, run.between_bytes) == (8_000_000, lines * 4_000_000)


def candidate(number, cost=4, delay=10, wait=0, bps=0, fetches=0):
    return Candidate(number, cost, delay, Load(wait, 1, fetches), bps, 1000)


def test_policies_choose_by_their_metrics():
    near, idle = candidate(0, cost=2, wait=500), candidate(1, delay=90)
    assert nearest([idle, near]) == near
    assert least_loaded([near, idle]) == idle
    assert by_cats([near, idle]) == idle  # 180 below 20 + 500
    far = candidate(1, delay=90, bps=8 * 10**12)  # and 1000 for the context
    assert by_cats([near, far]) == near
    assert by_cats([candidate(0, wait=1500), far]) == far
    crowded = candidate(1, delay=90, bps=8 * 10**12, fetches=1)
    assert by_cats([candidate(0, wait=1500), crowded]).number == 0


def test_loads_are_as_old_as_the_last_update():
    """All come before a word of the first one's work: they meet at one instance."""
    topology = "star:hosts=3,rate=8Gbps"
    sessions = [Session(0, n * 10**6, (10_000,), (0,), (0,)) for n in range(4)]
    policy = policies_of("least-loaded")[0]
    told = Service(10**6, 1, 1, 0, PS_PER_SECOND)
    at = [t.at for t in served(topology, told, sessions, policy, 2).turns]
    assert at == [0, 0, 0, 0]
    known = msgspec.structs.replace(told, update_ps=0)
    assert sorted(t.at for t in served(topology, known, sessions, policy, 2).turns) == [
        0,
        0,
        1,
        1,
    ]


def test_quantiles_are_by_nearest_rank():
    rising = np.arange(1, 1001)
    assert [quantile(rising, ppm) for ppm in (500_000, 990_000, 999_000, 10**6)] == [
        *(500, 990, 999, 1000)
    ]
    assert quantile(rising[:0], 500_000) == 0
    assert quantile(rising[:1], 1) == 1


def test_routers_are_of_the_site_below_them():
    net = build_named_net("wan:sites=3,hosts=4,leaves=2")
    sites = place_service(net, build_routes(net), 1)
    assert [net.node_name(host) for host in sites.users] == ["h0", "h4", "h8"]
    assert [net.node_name(host) for host in sites.instances] == ["h3", "h7", "h11"]
    between = np.flatnonzero(sites.is_between)
    names = {net.node_name(int(n))[:6] for n in (*net.src[between], *net.dst[between])}
    assert names == {"border"}
    assert between.size == 6


SMALL = Asked(
    "wan:sites=3,hosts=3,rate=25Gbps", demand=Demand(window_ps=20 * PS_PER_SECOND), seed=3
)


def test_the_same_seed_gives_the_same_rows_and_policies_serve_the_same_sessions():
    table = build_instance_table(SMALL)
    assert msgspec.json.encode(table) == msgspec.json.encode(build_instance_table(SMALL))
    assert len({row.turns for row in table.rows}) == 1
    by_name = {row.policy: row for row in table.rows}
    for row in table.rows:
        assert row.moved_bytes == row.moved * 500_000_000
        assert row.p50_ps <= row.p99_ps <= row.p999_ps
        assert (row.before_p99_ps, row.after_p99_ps) == (0, 0)
    for name in ("nearest", "least-loaded-sticky", "cats-sticky"):
        assert by_name[name].moved == table.sessions
    assert by_name["nearest"].between_bytes == 0
    assert by_name["least-loaded"].moved > by_name["cats"].moved > table.sessions
    other = build_instance_table(msgspec.structs.replace(SMALL, seed=4, policies="cats"))
    assert other.rows[0] != by_name["cats"]


def test_a_loss_breaks_stickiness_and_shows_before_and_after():
    lost = msgspec.structs.replace(SMALL, policies="cats-sticky", fail="h2@10s")
    (row,) = build_instance_table(lost).rows
    (plain,) = build_instance_table(msgspec.structs.replace(lost, fail="")).rows
    assert row.turns == plain.turns
    assert row.moved > plain.moved
    assert row.before_p99_ps > 0
    assert row.after_p99_ps > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": "fastest"}, "policies: got 'fastest', allowed: all, nearest, least-"),
        ({"instances": 3}, "instances: got 3, allowed: 1 to 2: a site has 3 hosts"),
        ({"fail": "h1@3s"}, "fail: got 'h1'"),
        ({"fail": "h2"}, "fail: got 'h2', allowed: an instance and a time, such as"),
        ({"fail": "h2@20s"}, "fail: got 'h2@20s', allowed: a time within that of sessions"),
        ({"topology": ONE_SITE, "fail": "h1@3s"}, "allowed: another instance that is left"),
        ({"topology": "star:hosts=1"}, "allowed: hosts beside users'"),
        ({"demand": Demand(10**9, window_ps=10**15)}, "turns: got 'about"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, said):
    with pytest.raises(ConfigError) as raised:
        build_instance_table(msgspec.structs.replace(SMALL, **changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
