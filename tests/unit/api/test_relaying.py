"""Relays of a lab: sites, the lab as it stands, whose pushes are taken, what is refused."""

from pathlib import Path

import msgspec
import pytest

from fanfold.api import cost_maps, relaying
from fanfold.api.failing import Failures
from fanfold.api.one_push import Order, Terms
from fanfold.api.relay_task import Task, task_of
from fanfold.errors import ConfigError
from fanfold.live.lab import Lab
from fanfold.push.handed import Handed
from fanfold.push.manifest import encode
from fanfold.push.source import Wish, build_manifest
from fanfold.seals.keys import make_keys
from fanfold.seals.trust import TrustRow, save_trust
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.nets import build_named_net

FABRIC = lab_fabric(build_named_net("wan:sites=2,hosts=3,leaves=1,rate=100Mbps")).fabric
TARGETS = ["h1", "h2", "h3", "h4", "h5"]


@pytest.fixture
def failed(monkeypatch, tmp_path):
    """What has failed in a lab that nobody started."""
    known = Failures()
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cost_maps, "failures_of", lambda lab: known)
    monkeypatch.setattr(cost_maps, "plan_of", lambda lab: None)
    return known


def relays(relay="auto", fabric=FABRIC):
    order = Order(Path("m.bin"), relay=relay)
    found = relaying.choose_relays(Lab("lab"), fabric, order, "h0", TARGETS)
    return [(choice.site.name, choice.relay) for choice in found]


def test_what_has_failed_by_hand_moves_the_choice(failed, monkeypatch):
    assert relays() == [("rack1", "h3")]
    failed.slow["h3-leaf1"] = 50 * 10**6
    assert relays() == [("rack1", "h4")]
    failed.links.append("h4-leaf1")
    assert relays() == [("rack1", "h5")]
    monkeypatch.setattr(Lab, "nodes", lambda self: {"h5": {"alive": False}})
    assert relays() == [("rack1", "h3")]
    failed.links.append("border0-border1")
    assert relays() == []  # then the source sends to whom it reaches
    assert relays("h5") == [("rack1", "h5")]


def test_a_slow_link_shows_in_the_cost_map(failed, monkeypatch):
    monkeypatch.setattr(Lab, "fabric", lambda self: FABRIC)
    failed.slow["h3-leaf1"] = 50 * 10**6
    _, bandwidth = cost_maps.map_of_lab(Lab("lab"))["application/alto-costmap+json"]
    assert bandwidth["cost-map"]["rack0"] == {"rack0": 100 * 10**6, "rack1": 50 * 10**6}


def test_sites_of_the_file_count_before_racks(failed):
    site = {"h0": "paris", "h1": "paris", "h2": "rome", "h3": "rome", "h4": "oslo"}
    nodes = tuple(
        msgspec.structs.replace(node, site=site.get(node.name, "")) for node in FABRIC.nodes
    )
    fabric = msgspec.structs.replace(FABRIC, nodes=nodes)
    assert relays(fabric=fabric) == [("rome", "h2")]


def test_a_relay_is_one_whose_pushes_the_lab_takes(failed, tmp_path):
    keys = tmp_path / "labs" / "lab" / "keys"
    rows = [
        TrustRow(name, make_keys(keys / name).public.text, is_sender=name not in ("h3", "h5"))
        for name in ("h0", *TARGETS)
    ]
    save_trust(keys / "trusted.toml", rows)
    assert relays() == [("rack1", "h4")]
    with pytest.raises(ConfigError, match=r"--relay: got 'h3', allowed: hosts that the lab's"):
        relays("h3")
    rows = [msgspec.structs.replace(row, is_sender=row.node == "h0") for row in rows]
    save_trust(keys / "trusted.toml", rows)
    with pytest.raises(ConfigError, match=r"--relay: got 'auto at rack1', allowed: hosts that"):
        relays()


def test_a_task_is_the_push_that_it_was_made_of(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"1234")
    wish = Wish("as/this", follow=(Path("there"),), is_exact=True)
    order = Order(tmp_path / "m.bin", "h0", "all", Terms(cap_bps=7), wish=wish)
    task = task_of("lab", order, "h3", ["h4", "h5"])
    sent = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    expected = order._replace(source="h3", to="h4,h5")
    assert sent.order() == expected
    manifest, reader = build_manifest(tmp_path / "m.bin", 100, 8, wish=Wish())
    reader.close()
    (tmp_path / "manifest").write_bytes(encode(manifest))
    told = msgspec.structs.replace(sent, manifest=str(tmp_path / "manifest"), path="/there")
    assert told.order().path == Handed(manifest, Path("/there"))
