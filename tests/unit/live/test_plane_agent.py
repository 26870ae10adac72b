"""From what a speaker says to lines for the kernel; the kernel is a list here."""

import json
import subprocess

import pytest
from bgp_captures import FRR_BMP, FRR_ROUTE

from fanfold.errors import EnvironmentLack
from fanfold.live import frr, plane_routes, plane_sight
from fanfold.live.lab import PLANES, Lab
from fanfold.live.plane_agent import HostAgent
from fanfold.live.plane_build import _lines, _veth
from fanfold.live.plane_routes import BUCKETS, FIRST_ID, PlaneRoutes, group_of
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_plan import plan_planes
from fanfold.topo.plane_rib import RibLink
from fanfold.wire.bgp_update import Update
from fanfold.wire.link_bandwidth import LinkBandwidth, to_binary32

PLAN = plan_planes(build_named_net("superpod:gpus=2,planes=2,rate=1Gbps"), 0, 9000)
TO = "10.81.0.2/32"
GROUP = group_of(TO)
LEGS = [leg.leaf_address for leg in PLAN.at_host("h0")]
EVEN = dict.fromkeys(LEGS, 1)
CALM = ["idle_timer 1 unbalanced_timer 0", "idle_timer 86400 unbalanced_timer 0"]


class Kernel:
    """Lines that were run, and how many are to be refused."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.refuses = ""

    def run(self, space: str, lines: list[str]) -> None:
        assert space == "ff.lab.h0"
        if self.refuses and any(self.refuses in line for line in lines):
            raise EnvironmentLack("ip: no")
        self.lines += lines

    def take(self) -> list[str]:
        taken, self.lines = self.lines, []
        return taken


@pytest.fixture
def kernel(monkeypatch):
    made = Kernel()
    monkeypatch.setattr(plane_routes, "run_ip", made.run)
    monkeypatch.setattr(plane_routes, "show_nexthops", lambda space: [])
    return made


@pytest.fixture
def routes(kernel):
    made = PlaneRoutes("lab", "h0", "10.81.0.1", PLAN.at_host("h0"))
    made.begin()
    kernel.take()
    return made


def members(*weights: int) -> str:
    each = (f"{FIRST_ID + n},{weight}" for n, weight in enumerate(weights) if weight)
    return f"nexthop replace id {GROUP} group {'/'.join(each)}"


def test_a_destination_gets_hops_a_group_and_a_route(kernel, routes) -> None:
    assert routes.is_resilient
    assert routes.put({TO: EVEN}) == 1
    lines = kernel.take()
    assert lines[0] == f"nexthop replace id {FIRST_ID} via 172.16.0.1 dev plane0-0"
    timers = f"type resilient buckets {BUCKETS} idle_timer 1 unbalanced_timer 1"
    assert lines[4:] == [
        f"{members(1, 1, 1, 1)} {timers}",
        f"route replace {TO} table 179 nhid {GROUP} src 10.81.0.1",
    ]
    assert routes.put({TO: EVEN}) == 0
    assert kernel.take() == []


def test_less_moves_what_is_used_and_more_does_not(kernel, routes) -> None:
    routes.put({TO: EVEN})
    kernel.take()
    less = dict(zip(LEGS, (2, 2, 1, 1), strict=True))
    routes.put({TO: less})
    assert [line.partition("buckets")[0] for line in kernel.take()] == [
        f"{members(2, 2, 1, 1)} type resilient "
    ]
    routes.put({TO: EVEN}, grown={TO})
    assert [line.split(f"{BUCKETS} ")[1] for line in kernel.take()] == CALM


def test_a_leg_that_comes_back_is_made_anew(kernel, routes) -> None:
    """The kernel forgets next hops whose device loses its carrier."""
    routes.put({TO: EVEN})
    routes.put({TO: dict.fromkeys(LEGS[1:], 1)})
    kernel.take()
    routes.put({TO: EVEN}, grown={TO})
    assert kernel.take()[0] == f"nexthop replace id {FIRST_ID} via 172.16.0.1 dev plane0-0"


def test_a_destination_without_a_path_has_no_route(kernel, routes) -> None:
    routes.put({TO: EVEN})
    kernel.take()
    routes.put({TO: {}})
    assert kernel.take() == [f"route del {TO} table 179"]
    routes.put({TO: EVEN})
    kernel.take()
    routes.put({})
    assert kernel.take() == [f"route del {TO} table 179"]
    assert routes.weights == {}


def test_what_is_gone_already_hinders_nothing(kernel, routes) -> None:
    routes.put({TO: EVEN})
    kernel.refuses = "route del"
    routes.put({})
    assert routes.weights == {}
    kernel.refuses = "group"
    with pytest.raises(EnvironmentLack):
        routes.put({TO: EVEN})
    kernel.refuses = ""
    kernel.take()
    routes.put({TO: EVEN})
    kernel.refuses = "group"
    with pytest.raises(EnvironmentLack):
        routes.put({TO: dict.fromkeys(LEGS[1:], 1)})
    kernel.refuses = ""
    kernel.take()
    routes.put({})  # what was there before the refusal is not forgotten
    assert kernel.take() == [f"route del {TO} table 179"]


def test_after_a_refusal_all_is_put_again_and_calmly(kernel, routes) -> None:
    routes.put({TO: EVEN})
    kernel.take()
    kernel.refuses = "group"
    with pytest.raises(EnvironmentLack):
        routes.put({TO: dict.fromkeys(LEGS[1:], 1)})
    kernel.refuses = ""
    routes.put({TO: EVEN})
    lines = kernel.take()
    assert len(lines) == 4 + 2 + 1
    assert [line.split(f"{BUCKETS} ")[1] for line in lines[4:6]] == CALM


def test_a_kernel_without_resilient_groups_gets_plain_ones(kernel) -> None:
    kernel.refuses = "resilient"
    routes = PlaneRoutes("lab", "h0", "10.81.0.1", PLAN.at_host("h0"))
    routes.begin()
    assert not routes.is_resilient
    routes.put({TO: EVEN}, grown={TO})
    assert kernel.take()[-2] == members(1, 1, 1, 1)


def agent_of(kernel) -> HostAgent:
    agent = HostAgent("lab", PLAN, PLAN.hosts[0])
    agent.routes.begin()
    kernel.take()
    return agent


def tell(agent: HostAgent, mbps: int, legs=LEGS) -> None:
    said = (LinkBandwidth(0, 1, to_binary32(mbps * 125_000)),)
    for leg in legs:
        update = Update(announced=(TO, agent.own), next_hop=leg, as_path=(1,), bandwidths=said)
        assert agent.rib.on_update(leg, update)


def test_what_is_more_waits_for_flows_to_be_seen_and_what_is_less_does_not(kernel) -> None:
    agent = agent_of(kernel)
    tell(agent, 2000)
    assert agent.install(0.0) is None
    assert agent.routes.weights == {TO: EVEN}  # to itself there is no route
    kernel.take()
    tell(agent, 1000, LEGS[2:])
    assert agent.install(1.0) is None
    assert len(kernel.take()) == 1
    tell(agent, 2000, LEGS[2:])
    assert agent.install(2.0) == pytest.approx(0.3)
    assert kernel.take() == ["route flush cache"]
    assert agent.install(2.1) == pytest.approx(0.3)
    assert kernel.take() == []
    assert agent.install(2.4) == pytest.approx(1.2)
    assert [line.split(f"{BUCKETS} ")[1] for line in kernel.take()] == CALM
    assert agent.status()["to"] == {"h1": {"0": "1/2", "1": "1/2"}}
    assert set(agent.paths()) == {"h1"}
    assert agent.paths()["h1"][0] == agent.paths()["h1"][1]


def test_a_host_is_whole_when_its_kernel_has_what_all_legs_carry(kernel) -> None:
    agent = agent_of(kernel)
    tell(agent, 2000, LEGS[:3])
    agent.install(0.0)
    assert not agent.is_whole()
    tell(agent, 1000, LEGS[3:])  # the leaf has one leg of the destination so far
    agent.install(1.0)
    agent.install(1.5)
    assert not agent.is_whole()
    tell(agent, 2000)
    assert not agent.is_whole()  # known, not installed
    agent.install(2.0)
    assert agent.install(2.5) is not None
    assert agent.is_whole()
    agent.rib.on_peer_down(LEGS[0])
    assert not agent.is_whole()


def test_a_leg_that_dies_while_another_grows_is_left_at_once(kernel) -> None:
    agent = agent_of(kernel)
    tell(agent, 2000, LEGS[:2])
    agent.install(0.0)
    tell(agent, 2000, LEGS[2:])
    agent.rib.on_peer_down(LEGS[0])
    agent.install(1.0)
    assert agent.routes.weights == {TO: {LEGS[1]: 1}}


def test_buckets_in_use_are_tried_again_until_all_are_even(kernel, monkeypatch) -> None:
    agent = agent_of(kernel)
    tell(agent, 2000, LEGS[:2])
    agent.install(0.0)
    tell(agent, 2000)
    agent.install(1.0)
    assert agent.install(1.5) == pytest.approx(1.2)
    row = {"id": GROUP, "resilient_args": {"unbalanced_time": 2.5}}
    monkeypatch.setattr(plane_routes, "show_nexthops", lambda space: [row])
    kernel.take()
    assert agent.install(3.0) == pytest.approx(0.3)
    assert agent.install(3.5) == pytest.approx(2.4)
    assert [line.split(f"{BUCKETS} ")[1] for line in kernel.take()[1:]] == CALM
    monkeypatch.setattr(plane_routes, "show_nexthops", lambda space: [])
    assert agent.install(6.0) is None


def test_words_of_a_speaker_are_taken_and_malformed_ones_counted(kernel) -> None:
    agent = agent_of(kernel)
    agent.rib.links = {"172.16.0.1": RibLink(0, agent.rib.links[LEGS[0]].bandwidth)}
    agent.hear(FRR_BMP[:50])
    agent.hear(FRR_BMP[50:])
    assert agent.status()["sessions"] == 1
    bad = bytearray(FRR_ROUTE)
    bad[48] = 0  # of the marker of the first message
    agent.hear(bytes(bad))
    assert agent.refused == {"bad_field": 1}
    assert agent.rib.prefixes() == {TO}
    with pytest.raises(ConnectionError):
        agent.hear(b"\1" * 6)
    assert agent.refused == {"bad_field": 1, "bad_version": 1}
    agent.fall_silent()
    assert agent.status()["sessions"] == 0


def test_speakers_announce_what_a_leg_carries_and_leaves_pass_it_on() -> None:
    configs = dict(frr._configs(PLAN))
    assert list(configs) == ["h0", "h1", "leaf0", "leaf1"]
    host, leaf = configs["h1"]["bgpd.conf"], configs["leaf1"]["bgpd.conf"]
    for line in (
        "router bgp 64601",
        " neighbor 172.17.1.3 remote-as 64513",
        "  neighbor 172.17.1.3 route-map OUT1000 out",
        " set extcommunity bandwidth 1000",
        "ip prefix-list OWN permit 10.81.0.2/32",
        "  bmp connect 127.0.0.1 port 1790 min-retry 100 max-retry 500",
    ):
        assert line in host.splitlines()
    assert " neighbor 172.17.1.2 remote-as 64601" in leaf.splitlines()
    assert "route-map" not in leaf
    assert " set src 10.81.0.2" in configs["h1"]["zebra.conf"].splitlines()


def test_a_machine_without_frr_is_told_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(frr, "DAEMONS", tmp_path)
    with pytest.raises(EnvironmentLack, match=r"^--bgp: no \S+/zebra here; install Debian's"):
        frr.require_frr()
    for name in ("zebra", "bgpd"):
        (tmp_path / name).touch()
    monkeypatch.setattr(frr.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentLack, match="no vtysh here"):
        frr.require_frr()
    monkeypatch.setattr(frr.shutil, "which", lambda name: name)
    monkeypatch.setattr(frr, "MODULES", "*/no/such/module")
    with pytest.raises(EnvironmentLack, match=r"no bgpd_bmp\.so here"):
        frr.require_frr()


def test_legs_are_devices_of_both_ends() -> None:
    assert _veth("lab", PLAN, 0) == (
        "link add plane0-0 mtu 9000 netns ff.lab.h0 "
        "type veth peer name h0-0 mtu 9000 netns ff.lab.leaf0"
    )
    lines = _lines(PLAN, PLAN.leaves[1])
    assert lines[:2] == ["link set lo up", "addr add 10.81.0.4/32 dev lo"]
    assert "addr add 172.17.1.3/31 dev h1-1" in lines
    assert "link set h1-1 up" in lines


def test_weights_are_read_from_the_kernel_by_plane(monkeypatch) -> None:
    hops = [
        {"gateway": leg.leaf_address, "dev": leg.host_device, "weight": 2, "flags": []}
        for leg in PLAN.at_host("h0")
    ]
    hops[3]["flags"] = ["linkdown"]
    del hops[0]["weight"]
    told = [{"dst": "10.81.0.2", "nexthops": hops}, {"dst": "10.9.9.9", "dev": "plane0-0"}]

    def run(words, **_):
        assert words[2] == "ff.lab.h0"
        return subprocess.CompletedProcess(words, 0, json.dumps(told), "")

    monkeypatch.setattr(plane_routes.subprocess, "run", run)
    found = plane_sight.kernel_weights(Lab("lab"), PLAN, "h0")
    assert found == {"h1": {"0": 3, "1": 2}}


def test_a_lab_without_planes_has_none_to_look_at(tmp_path) -> None:
    lab = Lab("lab")
    lab.folder = tmp_path
    assert plane_sight.plan_of(lab) is None
    assert plane_sight.look_at_planes(lab) == {}
    (tmp_path / PLANES).write_text("{")
    assert plane_sight.plan_of(lab) is None
