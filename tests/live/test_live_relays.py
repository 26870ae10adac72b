"""A push by way of a relay that dies on the way, in a lab of two sites."""

import json

import pytest
from live_site import LiveLab, finish, states, wait_for, write

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
NAME = "live-relays"
TOPOLOGY = "wan:sites=2,hosts=3,leaves=1,rate=100Mbps"


@pytest.fixture(scope="module")
def module_lab(site):
    made = LiveLab(site, NAME, "--topology", TOPOLOGY)
    yield made
    made.down()


def test_where_the_relay_dies_all_others_are_verified(lab, tmp_path):
    path = write(tmp_path, "dies.bin", 200_009, 2)
    command = lab.start_push(path, "--relay", "auto", "--impair", "rate=3Mbps")
    begins = "h5: push 'dies.bin' from h3: begins"
    wait_for(lambda: begins in (lab.folder / "lab.log").read_text(), "the relay sends")
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
