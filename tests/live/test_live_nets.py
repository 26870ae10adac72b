"""Topologies of the catalog, and one of a file, as labs: links carry what is predicted."""

import os

import pytest
from live_site import LiveLab, off_prediction, random_bytes, states
from tries import Tries

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
SIZE = int(os.environ.get("FANFOLD_NETS_BYTES", "1000003"))
TRIES = 4
PUSHES = Tries("pushes over labs of other shapes, a node was late")
FILE = """{"nodes": [{"id": "gpu 1", "role": "gpu"}, {"id": "gpu 2", "role": "gpu"},
{"id": "gpu 3", "role": "gpu"}, {"id": "a"}, {"id": "b"}, {"id": "c"}], "links": [
{"source": "gpu 1", "target": "a"}, {"source": "gpu 2", "target": "b"},
{"source": "gpu 3", "target": "c"}, {"source": "a", "target": "b"},
{"source": "b", "target": "c"}, {"source": "c", "target": "a"}]}"""
NETS = {
    "fat-tree": ("fat-tree:k=4", 36, 15),
    "dragonfly": ("dragonfly:a=2,p=1,h=1", 12, 5),
    "planes": ("multi-plane:planes=2,leaves=2,spines=2,hosts=4", 12, 3),
    "rail": ("rail:servers=2,gpus=2,spines=1,unit=1", 11, 3),
    "file": ("import:net.json", 6, 2),
}


@pytest.mark.parametrize("shape", NETS)
def test_each_link_of_a_lab_of_any_shape_carries_what_is_predicted(site, tmp_path, shape):
    topology, n_nodes, n_receivers = NETS[shape]
    (tmp_path / "net.json").write_text(FILE)
    topology = topology.replace("import:", f"import:{tmp_path}/")
    lab = LiveLab(site, f"live-{shape}", "--topology", topology)
    try:
        assert lab.told["nodes"] == n_nodes
        source = "gpu-1" if shape == "file" else "h0"
        path = tmp_path / "model.bin"
        for seed in range(TRIES):
            path.write_bytes(random_bytes(SIZE, SIZE + seed))
            result = lab.push(path, "--from", source)
            assert list(states(result).values()) == ["verified"] * n_receivers
            if PUSHES.count(not any(row["repair_packets"] for row in result["links"])):
                break
        assert off_prediction(result) == []
        assert result["notes"] == []
        assert lab.deaths() == {}
    finally:
        lab.down()


def test_what_is_left_out_of_a_net_is_said_and_what_is_too_large_refused(site):
    planes = "multi-plane:planes=2,leaves=1,spines=1,hosts=1"
    legs = "superpod:gpus=2,planes=2"
    done = site.run("lab", "up", "--name", "live-two", "--topology", legs)
    try:
        assert done.returncode == 0, done.stderr
        assert "4 cables beside one between the same nodes are left out" in done.stderr
    finally:
        site.run("lab", "down", "--name", "live-two", "--purge")
    for flags, said in (
        (("--topology", "fat-tree:k=32"), "topology: got '9472 nodes', allowed: at most "),
        (("--topology", "fat-tre:k=4"), "topology: got 'fat-tre'"),
        (("--topology", planes, "--hosts", 3), "--hosts: got 3, allowed: none beside --topo"),
        (("--topology", planes, "--config", "x.toml"), "--topology: got 'multi-plane:"),
    ):
        done = site.run("lab", "up", "--name", "live-two", *flags)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
