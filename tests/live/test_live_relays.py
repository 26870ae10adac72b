"""Pushes by way of relays, in a lab of two sites: who is chosen, and who dies on the way."""

import json

import pytest
from live_site import LiveLab, finish, states, wait_for, write

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
NAME, LINE = "live-relays", ("border0", "border1")
TOPOLOGY = "wan:sites=2,hosts=3,leaves=1,rate=100Mbps"


@pytest.fixture(scope="module")
def module_lab(site):
    made = LiveLab(site, NAME, "--topology", TOPOLOGY)
    yield made
    made.down()


def copies(result, names=LINE):
    """Packets of data on a link, by what the file has."""
    (row,) = (x for x in result["links"] if (x["from"], x["to"]) == names)
    return row["packets"] / row["predicted_packets"]


def test_a_slow_link_of_the_relay_moves_the_choice_and_one_copy_crosses_the_line(lab, tmp_path):
    path = write(tmp_path, "model.bin", 300_007, 1)
    first = lab.push(path, "--relay", "auto")
    (relay,) = first["relays"]
    assert (relay["site"], relay["relay"]) == ("rack1", "h3")
    assert relay["reason"].startswith("100 Mbit/s from h0 at cost 5")
    (one,) = relay["passes"]
    assert (one["from"], one["verified"], one["error"]) == ("h3", ["h4", "h5"], "")
    assert states(first) == dict.fromkeys(lab.receivers, "verified")
    assert copies(first) == 1
    lab.site.run("lab", "fail", "slow", "h3-leaf1", "50Mbps", "--name", NAME)
    try:
        second = lab.push(path, "--relay", "auto", "--as", "again/model.bin")
    finally:
        lab.site.run("lab", "heal", "--name", NAME)
    assert [relay["relay"] for relay in second["relays"]] == ["h4"]
    assert states(second) == dict.fromkeys(lab.receivers, "verified")
    assert lab.who_has("again/model.bin", path.read_bytes()) == lab.receivers


def test_where_the_relay_dies_all_others_are_verified(lab, tmp_path):
    path = write(tmp_path, "dies.bin", 200_009, 2)
    command = lab.start_push(path, "--relay", "h3", "--impair", "rate=3Mbps")
    wait_for(lambda: lab.received("h3", "dies.bin").exists(), "the relay has it")
    assert not lab.received("h5", "dies.bin").exists()
    lab.kill("h3")
    code, out, err = finish(command)
    result = json.loads(out)
    assert states(result) == dict.fromkeys(lab.receivers, "verified")  # h3 had said so before
    assert code == 0
    assert lab.who_has("dies.bin", path.read_bytes()) == lab.receivers
    first, second = result["relays"][0]["passes"]
    assert (first["from"], first["verified"]) == ("h3", [])
    assert (second["from"], second["verified"]) == ("h0", ["h4", "h5"])
    assert "rack1: the node of h3 is gone" in err
    assert "rack1: h4, h5 get it from h0, not from h3" in err
