"""Labels of nodes: who signs them, which rules they keep, and where a tenant's packets go."""

import msgspec
import numpy as np
import pytest
from seals_world import OTHER, RECEIVER, SENDER

from fanfold.api.keys import Place, gate_of
from fanfold.api.tenants import with_tenants
from fanfold.api.ways import require_way
from fanfold.errors import ConfigError
from fanfold.kernels.tables import NULL_NBR
from fanfold.push.source import Wish
from fanfold.seals.keys import PRIVATE_FILE
from fanfold.seals.trust import Seals, Trusted, TrustRow, save_trust
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.labels import (
    OPERATOR,
    check_labels,
    first_breach,
    parse_rule,
    proven_labels,
    sign_labels,
)
from fanfold.topo.predict import nodes_on_trees

PLAIN = leaf_spine(2, 2, 4)
EU = parse_rule("region=eu", "rule")
KEYS = SENDER.public, OTHER.public


def labelled(fabric=PLAIN, **regions):
    """All nodes in the EU, but for those named."""
    nodes = tuple(
        msgspec.structs.replace(
            node, labels=(("owner", "x"), ("region", regions.get(node.name, "eu")))
        )
        for node in fabric.nodes
    )
    return msgspec.structs.replace(fabric, nodes=nodes)


SIGNED = sign_labels(labelled(spine2="us"), SENDER)


def wish(rule="region=eu", operator=SENDER, **more):
    trust = {name: (Trusted(name, RECEIVER.public),) for name in ("h1", "h2", "h3", "h4")}
    if operator is not None:
        trust[OPERATOR] = (Trusted(OPERATOR, operator.public, is_sender=False),)
    return Wish(seals=Seals(RECEIVER, trust), only_through=rule)._replace(**more)


def test_labels_and_their_signatures_stand_in_the_file(tmp_path):
    path = tmp_path / "f.toml"
    save_fabric(SIGNED, path)
    assert load_fabric(path) == SIGNED
    assert '[node.labels]\nowner = "x"\nregion = "eu"\n' in path.read_text()
    assert check_labels(load_fabric(path), [SENDER.public]) == len(PLAIN.nodes)
    save_fabric(PLAIN, path)
    assert "label" not in path.read_text()


@pytest.mark.parametrize(
    "change",
    [
        {"labels": (("region", "eu"),)},
        {"labels": (("owner", "y"), ("region", "eu"))},
        {"labels": ()},
        {"address": "127.81.0.99"},
        {"label_seal": ""},
        {"label_seal": "AAAA"},
        {"label_seal": "not base64 !"},
    ],
)
def test_what_was_changed_after_it_was_signed_is_named(change):
    changed = msgspec.structs.replace(SIGNED.nodes[1], **change)
    fabric = msgspec.structs.replace(
        SIGNED, nodes=(SIGNED.nodes[0], changed, *SIGNED.nodes[2:])
    )
    with pytest.raises(ConfigError, match=r"node\[1\]\.label_seal"):
        check_labels(fabric, [SENDER.public])
    assert proven_labels(fabric, changed, [SENDER.public]) == ()


def test_a_signature_of_another_node_or_operator_proves_nothing():
    with pytest.raises(ConfigError, match=r"node\[0\]\.label_seal: got 'a signature"):
        check_labels(SIGNED, [OTHER.public])
    assert check_labels(SIGNED, KEYS) == len(PLAIN.nodes)
    h1, h2 = SIGNED.by_name["h1"], SIGNED.by_name["h2"]
    stolen = msgspec.structs.replace(h2, label_seal=h1.label_seal)
    assert proven_labels(SIGNED, stolen, KEYS) == ()


@pytest.mark.parametrize("text", ["region", "=eu", "region=", "a.b=c", "region=eu=us", "r=a b"])
def test_a_rule_is_one_pair(text):
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_rule(text, "--only-through")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"a.b": "c"}, "keys of letters"),
        ({"a": 'x"y'}, "labels.a"),
        ({"a": ""}, "labels.a"),
        ({f"k{i}": "v" for i in range(17)}, "at most 16"),
    ],
)
def test_labels_hold_what_a_rule_can_ask_for(labels, said):
    first = msgspec.structs.replace(PLAIN.nodes[0], labels=tuple(labels.items()))
    nodes = (first, *PLAIN.nodes[1:])
    with pytest.raises(ConfigError, match=r"node\[0\]") as error:
        check_fabric(msgspec.structs.replace(PLAIN, nodes=nodes), "f")
    assert said in str(error.value)


def test_the_first_node_that_breaks_a_rule_is_named_with_its_label():
    assert first_breach(SIGNED, ["h1", "spine1"], EU, KEYS) == ""
    assert first_breach(SIGNED, ["h1", "spine2", "h2"], EU, KEYS) == "spine2 has region=us"
    bare = first_breach(SIGNED, ["h1"], parse_rule("zone=a", "x"), KEYS)
    assert bare == "h1 has no zone"
    assert first_breach(labelled(), ["h1"], EU, KEYS) == "h1 has labels that nobody signed"


def test_a_push_is_refused_whose_ways_may_lead_outside():
    """Its own tree takes one spine: a repair, or a question, may take the other table."""
    for spine in ("spine1", "spine2"):
        fabric = sign_labels(labelled(**{spine: "us"}), SENDER)
        with pytest.raises(ConfigError) as error:
            require_way(fabric, "h0", ["h4"], wish())
        told = f"--only-through: got '{spine} has region=us', allowed: region=eu at all nodes"
        assert str(error.value).startswith(told)
    require_way(SIGNED, "h0", ["h1"], wish())  # below one leaf
    require_way(sign_labels(labelled(), SENDER), "h0", ["h4"], wish())
    require_way(SIGNED, "h0", ["h4"], wish(rule=""))


def test_a_rule_needs_keys_that_prove_it():
    with pytest.raises(ConfigError, match="none without --sign or --seal"):
        require_way(SIGNED, "h0", ["h1"], wish(seals=None))
    with pytest.raises(ConfigError, match="no key of who signs labels"):
        require_way(SIGNED, "h0", ["h1"], wish(operator=None))
    with pytest.raises(ConfigError, match="labels that nobody signed"):
        require_way(SIGNED, "h0", ["h1"], wish(operator=OTHER))


def confined():
    return with_tenants(labelled(spine2="us"), ["red:h0,h1,h4:only_through=region=eu"])


def test_the_tables_of_a_tenant_with_a_rule_lead_nowhere_else():
    """BFRs enforce it: spine2 has no table of red, and no leaf a port to it."""
    fabric = confined()
    check_fabric(fabric, "f")
    routes = FabricRoutes(fabric)
    sub_domains = (build_bifts(routes, "spine2").ids >> 8 & 0xFF).tolist()
    assert sub_domains == [0]
    leaf = build_bifts(routes, "leaf1")
    t = (leaf.ids >> 8 & 0xFF).tolist().index(1)
    outside = fabric.port_to("leaf1", "spine2")
    assert leaf.may[t, outside] == 0
    assert leaf.may[t, fabric.port_to("leaf1", "spine1")] == 1
    rows = leaf.nbr_of[leaf.first[t] : leaf.first[t] + leaf.n_ecmp[t]]
    assert outside not in set(rows[rows != NULL_NBR].tolist())
    others = leaf.nbr_of[leaf.first[1 - t] : leaf.first[1 - t] + leaf.n_ecmp[1 - t]]
    assert outside in set(np.unique(others).tolist())
    for entropy in range(fabric.n_ecmp):
        assert "spine2" not in nodes_on_trees(fabric, "h0", entropy, frozenset({"h4"}))
    signed = sign_labels(fabric, SENDER)
    require_way(signed, "h0", ["h4"], wish())


def test_without_a_way_inside_there_is_none():
    fabric = with_tenants(
        labelled(spine1="us", spine2="us"), ["red:h0,h1,h4:only_through=region=eu"]
    )
    leaf = build_bifts(FabricRoutes(fabric), "leaf1")
    t = (leaf.ids >> 8 & 0xFF).tolist().index(1)
    h4 = fabric.by_name["h4"].bfr_id - 1
    assert set(leaf.nbr_of[leaf.first[t] : leaf.first[t] + leaf.n_ecmp[t], h4]) == {NULL_NBR}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("region", "red.only_through: got 'region', allowed: KEY=VALUE"),
        ("region=us", "red.hosts[0]: got 'h0 with region=eu', allowed: hosts of region=us"),
        ("zone=a", "red.hosts[0]: got 'h0 with no zone'"),
    ],
)
def test_hosts_of_a_tenant_keep_its_rule(rule, said):
    with pytest.raises(ConfigError) as error:
        with_tenants(labelled(), [f"red:h0,h1:only_through={rule}"])
    assert said in str(error.value)


def test_a_receiver_believes_labels_that_the_operator_signed(tmp_path):
    (tmp_path / "key").write_text(RECEIVER.secret_text)
    (tmp_path / "key").chmod(PRIVATE_FILE)
    rows = [TrustRow("h0", SENDER.public.text)]
    save_trust(tmp_path / "trusted.toml", rows)
    assert gate_of(SIGNED, "h1", Place(tmp_path)).labels == ()
    rows.append(TrustRow(OPERATOR, OTHER.public.text, is_sender=False))
    save_trust(tmp_path / "trusted.toml", rows)
    assert gate_of(SIGNED, "h1", Place(tmp_path)).labels == ()
    assert gate_of(sign_labels(SIGNED, OTHER), "h1", Place(tmp_path)).labels == (
        ("owner", "x"),
        ("region", "eu"),
    )
