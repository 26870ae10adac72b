"""Tenants of a fabric file: what is read and refused, and whose tables each node has."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from fanfold.api.one_push import tenant_ends
from fanfold.api.tenants import with_tenants
from fanfold.errors import ConfigError
from fanfold.live.host import Host
from fanfold.live.keeper import fabric_digest
from fanfold.live.ports import Limits, build_node_state
from fanfold.live.rank_build import bits_of
from fanfold.live.shares import seen_by
from fanfold.live.swap import Swap
from fanfold.topo.bift import build_bifts, table_rows
from fanfold.topo.fabric import Tenant
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.predict import predict_links

PLAIN = leaf_spine(2, 1, 6)
SHARED = with_tenants(PLAIN, ["red:h0,h4-5:rate=10Mbps,slots=64,receivers=1", "blue:h1,h6"])


def replaced(**fields):
    red = msgspec.structs.replace(SHARED.tenants[0], **fields)
    return msgspec.structs.replace(SHARED, tenants=(red, SHARED.tenants[1]))


def test_a_file_with_tenants_is_read_back_as_it_was_written(tmp_path):
    path = tmp_path / "f.toml"
    full = replaced(cache="1MiB", array_slots=64, name="red.one")
    save_fabric(full, path)
    assert load_fabric(path) == full
    text = path.read_text()
    assert '[tenants."red.one"]\nsub_domain = 1\nhosts = ["h0", "h4", "h5"]\n' in text
    assert '[tenants.blue]\nsub_domain = 2\nhosts = ["h1", "h6"]\n' in text
    save_fabric(PLAIN, path)
    assert "tenants" not in path.read_text()


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"sub_domain": 256}, "red.sub_domain: got 256, allowed: 0..255"),
        (
            {"sub_domain": 0},
            "red.sub_domain: got 0, allowed: a number that nobody has; this is",
        ),
        ({"sub_domain": 2}, "blue.sub_domain: got 2"),
        ({"hosts": ()}, "red.hosts: got 'none', allowed: at least one host"),
        ({"hosts": ("h9",)}, "red.hosts[0]: got 'h9'"),
        ({"hosts": ("h0", "leaf1")}, "red.hosts[1]: got 'leaf1'"),
        ({"hosts": ("h0", "h0")}, "red.hosts[1]: got 'h0', allowed: a host that no tenant has"),
        ({"hosts": ("h0", "h6")}, "blue.hosts[1]: got 'h6'"),
        ({"slots": 48}, "red.slots: got 48, allowed: a power of two"),
        ({"slots": 8}, "red.slots: got 8, allowed: 16..65536"),
        ({"cache": "1KiB"}, "red.cache: got '1KiB'"),
        ({"rate": "fast"}, "red.rate: got 'fast'"),
        ({"rate": "10kbps"}, "red.rate: got '10kbps', allowed: 1Mbps and above"),
        ({"receivers": -1}, "red.receivers: got -1, allowed: 0..65535"),
        ({"array_slots": -1}, "red.array_slots: got -1"),
        ({"name": "a b"}, "tenants: got 'a b'"),
        ({"name": "blue"}, "tenants: got 'blue', allowed: one tenant of a name"),
    ],
)
def test_the_first_fault_is_named_by_its_key(fields, key):
    with pytest.raises(ConfigError) as error:
        check_fabric(replaced(**fields), "f.toml")
    assert f"f.toml: tenants.{key}" in str(error.value) or f"f.toml: {key}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("red", "--tenant: got 'red', allowed: NAME:HOSTS"),
        (":h1", "--tenant: got ':h1'"),
        ("red:h9", "--tenant: got 'h9'"),
        ("red:h1:speed=3", "--tenant: got 'speed'"),
        ("red:h1:slots=many", "--tenant: got 'slots=many', allowed: slots with a whole number"),
        ("red:h1:slots=17", "--tenant: tenants.red.slots: got 17"),
        ("red:h1:name=x", "--tenant: got 'name'"),
    ],
)
def test_a_flag_of_another_form_is_refused(text, said):
    with pytest.raises(ConfigError) as error:
        with_tenants(PLAIN, [text])
    assert said in str(error.value)


def test_a_host_has_tables_of_its_own_tenant_and_a_bfr_those_of_all():
    routes = FabricRoutes(SHARED)
    of = {name: build_bifts(routes, name) for name in ("h0", "h2", "leaf1")}
    sub_domains = {name: (bifts.ids >> 8 & 0xFF).tolist() for name, bifts in of.items()}
    assert sub_domains == {"h0": [1], "h2": [0], "leaf1": [0, 1, 2]}
    ids = {node.name: node.bfr_id for node in SHARED.nodes}
    named = [np.flatnonzero(of["leaf1"].nbr_of[t] >= 0) + 1 for t in (0, 1, 2)]
    assert [sorted(row.tolist()) for row in named] == [
        sorted(ids[name] for name in names)
        for names in (("h2", "h3"), ("h0", "h4", "h5"), ("h1", "h6"))
    ]


def test_only_a_hosts_own_sub_domain_may_come_in_by_its_port():
    bifts = build_bifts(FabricRoutes(SHARED), "leaf1")
    may = {
        end.name: bifts.may[:, port].tolist()
        for port, end in enumerate(SHARED.port_nodes("leaf1"))
    }
    assert may["h0"] == [0, 1, 0]
    assert may["h1"] == [0, 0, 1]
    assert may["h2"] == [1, 0, 0]
    assert may["spine1"] == may["leaf1"] == [1, 1, 1]
    assert build_bifts(FabricRoutes(PLAIN), "leaf1").may.size == 0


def test_a_table_that_is_given_leaves_out_bfers_of_other_tenants():
    routes = FabricRoutes(SHARED)
    for name in ("h0", "leaf1"):
        bifts = build_bifts(routes, name)
        before = bifts._replace(**{k: getattr(bifts, k).copy() for k in ("nbr_of", "f_bm")})
        Swap(SHARED, name, bifts).take({"version": 2, "rows": table_rows(routes, name)})
        assert np.array_equal(bifts.nbr_of, before.nbr_of)
        assert np.array_equal(bifts.f_bm, before.f_bm)


def test_neighbours_with_other_tenants_are_of_another_fabric():
    assert len({fabric_digest(f) for f in (PLAIN, SHARED, replaced(sub_domain=9))}) == 3
    assert fabric_digest(SHARED) == fabric_digest(replaced(rate="20Mbps"))


def test_what_a_push_of_a_tenant_will_send_is_predicted():
    links = predict_links(SHARED, "h1", [(frozenset({"h6"}), 3, 300, 0)])
    assert links["spine1", "leaf2"] == (3, 300)
    assert ("leaf2", "h6") in links


def test_all_is_all_of_the_tenant():
    assert tenant_ends(SHARED, "h1", "all") == ("h1", ["h6"])
    assert tenant_ends(SHARED, "h2", "all") == ("h2", ["h3"])
    assert tenant_ends(PLAIN, "h1", "all")[1] == ["h2", "h3", "h4", "h5", "h6", "h0"]
    with pytest.raises(ConfigError, match="'h1 of tenant blue', allowed: hosts of tenant red"):
        tenant_ends(SHARED, "h0", "h1")
    with pytest.raises(ConfigError, match="'2 receivers', allowed: at most 1, of tenant red"):
        tenant_ends(SHARED, "h0", "all")


def test_a_group_of_ranks_is_of_one_tenant():
    assert bits_of(SHARED, ["h1", "h6"])[1] == 0
    with pytest.raises(ConfigError, match=r"members: got 'h4 of tenant red'.*tenant blue: h1"):
        bits_of(SHARED, ["h1", "h4"])


def test_a_bfr_deals_its_memory_side_by_side():
    state = build_node_state(SHARED, "leaf1", Limits())
    shares = state.fold.store.shares[:3]
    assert shares["first_slot"].tolist() == [0, 1024, 1088]
    assert shares["n_slots"].tolist() == [1024, 64, 1024]
    assert len(state.fold.rows) == 2112
    assert shares["first_seg"].tolist() == [0, 16, 32]
    assert state.fold.store.segs["most"].sum() == 3 * (16 << 20)
    assert shares["byte_ps"].tolist() == [0, 800_000, 0]
    assert build_node_state(SHARED, "h0", Limits()).fold.store.shares.size == 0


def test_a_host_is_told_of_its_own_tenant_only():
    status = {
        "flows": [{"bfir_id": SHARED.by_name[name].bfr_id} for name in ("h0", "h1", "h2")],
        "links": {"h0": 1, "h1": 2, "h2": 3, "spine1": 4},
        "tenants": {"-": 0, "red": 1, "blue": 2},
        "name": "leaf1",
    }
    seen = seen_by(SHARED, SHARED.by_name["h1"].address, status)
    assert [row["bfir_id"] for row in seen["flows"]] == [SHARED.by_name["h1"].bfr_id]
    assert seen["links"] == {"h1": 2, "spine1": 4}
    assert seen["tenants"] == {"blue": 2}
    assert seen["name"] == "leaf1"
    assert seen_by(SHARED, SHARED.by_name["spine1"].address, status) == status
    assert seen_by(PLAIN, PLAIN.by_name["h1"].address, status) == status
    none = seen_by(SHARED, SHARED.by_name["h3"].address, status)
    assert none["tenants"] == {"-": 0}
    error = {"error": "x"}
    assert seen_by(SHARED, SHARED.by_name["h1"].address, error) == error


def test_tenant_words():
    assert SHARED.tenant_name("h0") == "red"
    assert SHARED.tenant_name("leaf1") == ""
    assert SHARED.sub_domain_of("h6") == 2
    assert SHARED.tenants[0] == Tenant(
        "red", 1, ("h0", "h4", "h5"), 64, rate="10Mbps", receivers=1
    )


def test_a_tree_that_is_laid_is_of_one_tenant():
    """A BFR is told whose ranks it has by their BFR-ids, one that passes on by name."""
    node = SimpleNamespace(fabric=SHARED)
    ids = {one.name: one.bfr_id for one in SHARED.nodes}

    def asked(**request):
        return Host._sub_domain(node, request)

    assert asked(a_bm=[ids["h0"], ids["h4"]]) == 1
    assert asked(a_bm=[ids["h6"]]) == asked(a_bm=[], tenant="blue") == 2
    assert asked(a_bm=[ids["h2"]]) == asked(a_bm=[]) == asked() == 0
    with pytest.raises(ConfigError, match="tenant"):
        asked(a_bm=[ids["h0"], ids["h6"]])
    with pytest.raises(ConfigError, match="tenant: got 'green', allowed: ranks of one, of red"):
        asked(a_bm=[], tenant="green")
