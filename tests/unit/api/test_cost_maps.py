"""Maps of a lab that runs: BGP's paths, scaled back to what links carry."""

from fractions import Fraction

import pytest

from fanfold.api import cost_maps
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_plan import plan_planes

PLAN = plan_planes(build_named_net("superpod:gpus=3,planes=2"), 0, 9000)
WHOLE = {0: Fraction(10**9), 1: Fraction(10**9)}


@pytest.fixture
def told(monkeypatch):
    """Paths of each host; None: nobody answers."""
    paths = {
        host: {to: WHOLE for to in ("h0", "h1", "h2") if to != host}
        for host in ("h0", "h1", "h2")
    }
    monkeypatch.setattr(Lab, "fabric", lambda self: None)
    monkeypatch.setattr(cost_maps, "plan_of", lambda lab: PLAN)
    monkeypatch.setattr(cost_maps, "ask_paths", lambda lab, host: paths.get(host))
    return paths


def test_what_bgp_carries_scaled_is_told_in_bits_per_second(told) -> None:
    told["h0"]["h1"] = {0: Fraction(5 * 10**8), 1: None}
    told["h2"] = {"h0": WHOLE}
    maps = cost_maps.map_of_lab(Lab("lab"))
    network = maps["application/alto-networkmap+json"]["network-map"]
    assert network["h2"] == {"ipv4": ["10.81.0.3/32"]}
    cost, bandwidth = maps["application/alto-costmap+json"]
    # 10**9 bytes per second carried are 2 legs of 400 Gbit/s, by 100
    assert bandwidth["cost-map"]["h1"] == {"h0": 1_600 * 10**9, "h2": 1_600 * 10**9}
    assert bandwidth["cost-map"]["h0"]["h1"] == 400 * 10**9
    assert bandwidth["cost-map"]["h2"] == {"h0": 1_600 * 10**9}
    assert cost["cost-map"]["h2"] == {"h0": 2}
    assert cost["meta"]["cost-type"]["cost-context"] == {"cost-source": "estimation"}


def test_where_nobody_tells_paths_there_is_no_map(told) -> None:
    told["h1"] = None
    with pytest.raises(EnvironmentLack, match="nobody tells its paths"):
        cost_maps.map_of_lab(Lab("lab"))


def test_a_topology_has_the_addresses_of_its_first_lab() -> None:
    maps = cost_maps.map_of_net(build_named_net("leaf-spine:leaves=2,spines=2,hosts=2"))
    network = maps["application/alto-networkmap+json"]["network-map"]
    assert network["rack0"] == {"ipv4": ["127.81.0.1/32"]}
    assert network["rack1"] == {"ipv4": ["127.81.0.2/32"]}


def test_more_hosts_than_addresses_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 43750"):
        cost_maps.map_of_net(build_named_net("fat-tree:k=64"))
