"""Addresses, devices and rates of a net of planes as BGP has them."""

import pytest

from fanfold.errors import ConfigError
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_plan import MAX_HOSTS, plan_planes


def plan_of(topology: str):
    return plan_planes(build_named_net(topology), 7, 9000)


def test_a_superpod_has_a_leg_for_each_half_of_a_cable() -> None:
    plan = plan_of("superpod:gpus=8,planes=4")
    assert [(h.name, h.address, h.asn) for h in plan.hosts[:2]] == [
        ("h0", "10.81.7.1", 64600),
        ("h1", "10.81.7.2", 64601),
    ]
    assert [(x.name, x.address, x.asn) for x in plan.leaves][3] == (
        "leaf3",
        "10.81.7.12",
        64515,
    )
    assert len(plan.legs) == 8 * 4 * 2
    leg = next(x for x in plan.legs if x.port == "h3-plane2" and x.number == 1)
    assert (leg.host_device, leg.leaf_device, leg.leaf) == ("plane2-1", "h3-1", "leaf2")
    assert (leg.host_address, leg.leaf_address) == ("172.18.3.2", "172.18.3.3")
    addresses = [a for x in plan.legs for a in (x.host_address, x.leaf_address)]
    assert len(set(addresses)) == 2 * len(plan.legs)
    assert [x.plane for x in plan.at_host("h5")] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {x.host for x in plan.at_leaf("leaf1")} == {h.name for h in plan.hosts}


@pytest.mark.parametrize(
    ("rate", "scale", "mbps"),
    [("400Gbps", 100, 4000), ("1Gbps", 1, 1000), ("12.8Gbps", 1, 12800), ("13Gbps", 10, 1300)],
)
def test_rates_are_carried_in_what_32_bits_hold(rate: str, scale: int, mbps: int) -> None:
    plan = plan_of(f"superpod:gpus=2,planes=2,rate={rate}")
    assert (plan.scale, {leg.mbps for leg in plan.legs}) == (scale, {mbps})
    assert 2 * mbps * 125_000 < 2**32


@pytest.mark.parametrize(
    ("topology", "field"),
    [
        ("fat-tree:k=4", "--bgp"),
        ("dragonfly:a=2,p=1,h=1", "--bgp"),
        (f"superpod:gpus={MAX_HOSTS + 1},planes=2,legs=1", "hosts"),
        ("superpod:gpus=2,planes=17", "planes"),
        ("superpod:gpus=2,planes=2,rate=1.5Mbps", "rate"),
    ],
)
def test_other_nets_are_refused(topology: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(topology)
    assert caught.value.field == field
