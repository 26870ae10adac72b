"""Which host of a site passes a push on: weights change, and so does the choice."""

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.cost_map import tables_between
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.nets import build_named_net
from fanfold.topo.relays import Site, choose, named, sites_of
from fanfold.topo.routes import build_routes

FABRIC = lab_fabric(build_named_net("wan:sites=2,hosts=3,leaves=1,rate=100Mbps")).fabric
FAR = Site("far", ("h3", "h4", "h5"))
COSTS = {"h0": {"h3": 5, "h4": 5, "h5": 5}}
ALIKE = {"h0": {"h3": 100, "h4": 100, "h5": 100}, "h3": {"h4": 9, "h5": 9}}
ALIKE |= {"h4": {"h3": 9, "h5": 9}, "h5": {"h3": 9, "h4": 9}}


def choice_at(rates, may=FAR.hosts):
    """The choice in a lab of two sites whose links to some hosts have other rates."""
    links = tuple(msgspec.structs.replace(x, rate=rates.get(x.a, x.rate)) for x in FABRIC.links)
    net = fabric_net(msgspec.structs.replace(FABRIC, links=links))
    tables = tables_between(net, build_routes(net), [0, 3, 4, 5], [3, 4, 5])
    return choose(FAR, "h0", *tables, may)


def test_half_a_rate_moves_the_choice():
    assert choice_at({}).relay == "h3"
    slowed = choice_at({"h3": "50Mbps"})
    assert slowed.relay == "h4"
    assert slowed.ranked == ("h4", "h5", "h3")
    assert slowed.reason.startswith("100 Mbit/s from h0 at cost 5, 50 Mbit/s to the others")
    assert choice_at({"h3": "50Mbps", "h4": "40Mbps"}).relay == "h5"
    # what the source's own link carries bounds them all: then the first one is as good
    assert choice_at({"h0": "30Mbps", "h3": "50Mbps"}).relay == "h3"


def test_cost_and_then_the_way_to_the_others_decide_between_equals():
    nearer = {"h0": {"h3": 5, "h4": 4, "h5": 5}}
    assert choose(FAR, "h0", nearer, ALIKE, FAR.hosts).relay == "h4"
    slower = {"h0": {"h3": 100, "h4": 90, "h5": 100}} | {k: ALIKE[k] for k in FAR.hosts}
    assert choose(FAR, "h0", nearer, slower, FAR.hosts).relay == "h3"  # bandwidth comes first
    inside = ALIKE | {"h5": {"h3": 10, "h4": 12}}
    assert choose(FAR, "h0", COSTS, inside, FAR.hosts).relay == "h5"
    assert (
        choose(FAR, "h0", COSTS, inside | {"h4": {"h3": 11, "h5": 1}}, FAR.hosts).relay == "h5"
    )


def test_who_may_not_or_cannot_be_reached_is_none():
    assert choose(FAR, "h0", COSTS, ALIKE, ["h4"]).ranked == ("h4",)
    cut = ALIKE | {"h0": {"h4": 100}}
    assert choose(FAR, "h0", COSTS, cut, FAR.hosts).ranked == ("h4",)
    assert choose(FAR, "h0", COSTS, ALIKE | {"h0": {}}, FAR.hosts) is None
    assert choose(Site("far", ("h3",)), "h0", COSTS, ALIKE, FAR.hosts) is None


def test_receivers_of_the_source_s_site_and_of_none_have_no_relay():
    groups = {"h0": "a", "h1": "a", "h2": "b", "h3": "", "h4": "b"}
    found = sites_of(groups, ["h1", "h2", "h3", "h4"], "h0")
    assert found == [Site("b", ("h2", "h4"))]
    assert sites_of({"h1": "b", "h2": "b"}, ["h1", "h2"], "h0") == [Site("b", ("h1", "h2"))]


def test_a_host_is_named_for_its_site():
    sites = [FAR, Site("near", ("h6",)), Site("west", ("h7", "h8"))]
    assert named("h4,h8", sites) == {"far": "h4", "west": "h8"}
    for text, said in (
        ("h6", "got 'h6', allowed: none, auto, or of h3, h4, h5, h7, h8"),
        ("h3,h9", "got 'h9'"),
        ("h3,h4", "got 'h3,h4', allowed: one host of far"),
    ):
        with pytest.raises(ConfigError, match="--relay") as raised:
            named(text, sites)
        assert said in str(raised.value)
    with pytest.raises(ConfigError, match="no other site has two receivers"):
        named("h6", sites[1:2])
