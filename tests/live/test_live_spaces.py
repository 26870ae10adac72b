"""A lab of any shape over network namespaces: packets cross veth links; as root."""

import json
import os
import shutil
import subprocess

import pytest
from live_site import LiveLab, off_prediction, random_bytes, states

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip"),
]
SIZE = 300_007
NAME = "live-spaces"


def spaces():
    told = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    return [word for word in told.split() if word.startswith(f"ff.{NAME}.")]


def received_bytes(node, device):
    words = ["ip", "-n", f"ff.{NAME}.{node}", "-s", "-j", "link", "show", device]
    told = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return int(told[0]["stats64"]["rx"]["bytes"])


def test_links_of_a_dragonfly_are_devices_and_carry_what_is_predicted(site, tmp_path):
    lab = LiveLab(site, NAME, "--topology", "dragonfly:a=2,p=1,h=1", "--namespaces")
    try:
        assert len(spaces()) == lab.told["nodes"] == 12
        path = tmp_path / "model.bin"
        path.write_bytes(random_bytes(SIZE, 1))
        result = lab.push(path)
        assert list(states(result).values()) == ["verified"] * 5
        repaired = any(row["repair_packets"] for row in result["links"])
        assert repaired or off_prediction(result) == []
        assert received_bytes("h3", "p1") > SIZE
        inside = ["lab", "exec", "--name", NAME, "h3", "ip", "-br", "link", "show", "dev", "p1"]
        done = site.run(*inside)
        assert (done.returncode, done.stdout.split()[0].split("@")[0]) == (0, "p1")
        assert site.run(*inside[:-1], "p77").returncode == 1
        lab.kill("h3")
        lab.restart("h3")
        path.write_bytes(random_bytes(SIZE, 2))
        assert list(states(lab.push(path)).values()) == ["verified"] * 5
        assert received_bytes("h3", "p1") > 2 * SIZE
    finally:
        lab.down()
    assert spaces() == []
