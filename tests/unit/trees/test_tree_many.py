"""Trees of many sources: the rule gives what the messages lead to; counts of those measured."""

import pytest

from fanfold.errors import ConfigError
from fanfold.topo.nets import build_named_net
from fanfold.trees import many, standing
from fanfold.trees.catalog import CATALOG
from fanfold.trees.many import Rule, is_same, stand_all
from fanfold.trees.settings import TreeSettings
from fanfold.trees.standing import stand

by_every_protocol = pytest.mark.parametrize("protocol", [row.name for row in CATALOG])
SETTINGS = TreeSettings()


@by_every_protocol
@pytest.mark.parametrize(
    "topology",
    ["fat-tree:k=4", "torus:dims=3x3", "rail:servers=2,spines=2", "wan:sites=4,hosts=2"],
)
def test_the_rule_is_what_messages_lead_to(protocol, topology):
    net = build_named_net(topology)
    members = (*range(0, net.n_hosts, 2), 1)
    rule = Rule(protocol, net, members, SETTINGS)
    for source in members[::3]:
        tree = stand(protocol, net, source, members, SETTINGS).phases[-1][1]
        assert is_same(rule.tree(source), tree)
        assert len(tree.links) == len(set(tree.links))
        assert tree.hosts == {host: 1 for host in members if host != source}


@by_every_protocol
def test_of_many_sources_some_are_measured(protocol, monkeypatch):
    net = build_named_net("fat-tree:k=4")
    members = tuple(range(16))
    measured = []

    def count(*args, **more):
        measured.append(args[2])
        return stand(*args, **more)

    monkeypatch.setattr(many, "stand", count)
    exact = stand_all(protocol, net, members, members, SETTINGS)
    assert measured == list(members)
    monkeypatch.setattr(many, "MEASURED", 2)
    measured.clear()
    some = stand_all(protocol, net, members, members, SETTINGS)
    assert measured == [0, 8]
    for a, b in zip(exact, some, strict=True):
        assert is_same(a.phases[-1][1], b.phases[-1][1])


def test_where_the_rule_is_wrong_all_are_measured(monkeypatch):
    net = build_named_net("fat-tree:k=4")
    members = tuple(range(16))
    right = stand_all("mldp-p2mp", net, members, members, SETTINGS)
    monkeypatch.setattr(many, "MEASURED", 2)
    monkeypatch.setattr(
        Rule, "tree", lambda self, source: right[(source + 1) % 16].phases[0][1]
    )
    assert stand_all("mldp-p2mp", net, members, members, SETTINGS) == right


def test_a_tree_that_never_settles_is_refused(monkeypatch):
    monkeypatch.setattr(standing, "PROBES", (1,))
    net = build_named_net("fat-tree:k=4")
    with pytest.raises(ConfigError, match="changes on and on"):
        stand("pim-dm", net, 0, range(1, 16), SETTINGS)
