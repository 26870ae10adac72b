"""Ports, half cables and leaves by name, and the devices that go down with them."""

from types import SimpleNamespace

import pytest

from fanfold.api import failing, plane_faults
from fanfold.cli.lab import plane_lines
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live import plane_lab
from fanfold.live.lab import Lab
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_plan import plan_planes

PLAN = plan_planes(build_named_net("superpod:gpus=4,planes=2"), 0, 9000)
SINGLE = plan_planes(build_named_net("superpod:gpus=4,planes=2,legs=1"), 0, 9000)


@pytest.fixture
def lab(monkeypatch, tmp_path):
    """A lab whose plan is known and whose kernel is a list of lines by namespace."""
    made = Lab("lab")
    made.folder = tmp_path
    made.plan, made.lines = PLAN, []
    made.fabric = lambda: None
    monkeypatch.setattr(plane_faults, "plan_of", lambda lab: lab.plan)
    run = lambda space, lines: made.lines.extend(f"{space}: {line}" for line in lines)  # noqa: E731
    monkeypatch.setattr(plane_faults, "run_ip", run)
    monkeypatch.setattr(failing, "_is_paused", lambda lab, node: False)
    return made


def down(lab):
    found = {line.split(": link set ")[1] for line in lab.lines if line.endswith(" down")}
    lab.lines.clear()
    return {name.removesuffix(" down") for name in found}


@pytest.mark.parametrize(
    ("kind", "name", "usual"),
    [
        ("port", "h3-plane1", "h3-plane1"),
        ("port", "gpu3-plane1", "h3-plane1"),
        ("half-cable", "gpu0-plane0", "h0-plane0"),
        ("leaf", "plane1", "plane1"),
        ("leaf", "leaf1", "plane1"),
    ],
)
def test_things_have_one_usual_name(lab, kind, name, usual) -> None:
    assert plane_faults.usual_name(lab, kind, name) == usual


@pytest.mark.parametrize(
    ("kind", "name"),
    [("port", "h9-plane0"), ("port", "x"), ("leaf", "plane2"), ("leaf", "")],
)
def test_others_are_refused_with_what_there_is(lab, kind, name) -> None:
    with pytest.raises(ConfigError, match="plane1"):
        plane_faults.usual_name(lab, kind, name)


def test_a_port_of_one_leg_has_no_half(lab) -> None:
    lab.plan = SINGLE
    with pytest.raises(ConfigError, match="none: ports have one leg"):
        plane_faults.usual_name(lab, "half-cable", "h0-plane0")


def test_a_lab_without_planes_is_told(lab) -> None:
    lab.plan = None
    with pytest.raises(ConfigError, match="a lab with planes"):
        plane_faults.usual_name(lab, "port", "h0-plane0")


def test_legs_go_down_and_come_back_and_what_failed_is_kept(lab) -> None:
    lab.nodes = dict
    lab.fabric = lambda: SimpleNamespace(links=(), by_name={})
    assert failing.fail(lab, "half-cable", "gpu3-plane1") == "half-cable h3-plane1 is down"
    assert "ff.lab.leaf1: link set h3-1 down" in lab.lines
    assert down(lab) == {"h3-1"}
    failing.fail(lab, "leaf", "leaf0")
    assert down(lab) == {"h3-1", *(f"h{n}-{leg}" for n in range(4) for leg in range(2))}
    assert failing.words_at(lab) == ["half-cable h3-plane1", "leaf plane0"]
    assert failing.heal(lab, ["plane0"]) == ["plane0"]
    assert down(lab) == {"h3-1"}
    with pytest.raises(ConfigError, match="h3-plane1"):
        failing.heal(lab, ["plane0"])
    assert failing.heal(lab) == ["h3-plane1"]
    assert down(lab) == set()
    assert failing.words_at(lab) == []


def test_a_plan_needs_a_topology_namespaces_and_root(monkeypatch) -> None:
    fabric = SimpleNamespace(nodes=[SimpleNamespace(address="127.81.5.1")], mtu=1500)
    topology = "superpod:gpus=4,planes=2"
    for given, spaces in ((None, True), (topology, False)):
        with pytest.raises(ConfigError, match="--topology superpod"):
            plane_lab.plan_for(given, fabric, has_spaces=spaces)
    monkeypatch.setattr(plane_lab.os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLack, match=r"^--bgp: needs root") as caught:
        plane_lab.plan_for(topology, fabric, has_spaces=True)
    assert caught.value.exit_code == 3
    monkeypatch.setattr(plane_lab.os, "geteuid", lambda: 0)
    monkeypatch.setattr(plane_lab, "require_frr", lambda: None)
    plan = plane_lab.plan_for(topology, fabric, has_spaces=True)
    assert (plan.mtu, plan.hosts[0].address) == (1500, "10.81.5.1")


def test_a_lab_is_ready_when_all_sessions_and_routes_are_there(monkeypatch, lab) -> None:
    part = {"sessions": 4, "is_whole": False}
    rounds = ([], [part], [part] * 4, [part | {"is_whole": True}] * 4)
    answers = ({f"h{n}": host for n, host in enumerate(told)} for told in rounds)
    monkeypatch.setattr(plane_lab, "agent_status", lambda lab: next(answers))
    said = []
    assert plane_lab._wait(lab, PLAN, said.append) == 16
    assert said == [
        f"{n} of 16 BGP sessions are up, 0 of 4 hosts have routes" for n in (0, 4, 16)
    ]
    monkeypatch.setattr(plane_lab, "agent_status", lambda lab: {})
    monkeypatch.setattr(plane_lab, "READY_S", 0.0)
    with pytest.raises(EnvironmentLack, match="0 of 16 sessions and routes of 0 of 4 hosts"):
        plane_lab._wait(lab, PLAN, said.append)


def test_status_says_alike_weights_once() -> None:
    even, half = {"0": 2, "1": 2}, {"0": 2, "1": 1}
    told = {
        "sessions": {"up": 3, "of": 4},
        "hosts": {"h0": {"h1": even, "h2": half, "h3": even}, "h1": {}},
    }
    assert plane_lines(told) == [
        "BGP sessions: 3 of 4 up",
        "h0: planes by weight 2:2 to h1, h3; 2:1 to h2",
        "h1: planes by weight none",
    ]
    assert plane_lines(None) == []
