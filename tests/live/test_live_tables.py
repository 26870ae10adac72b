"""Tables of nodes are replaced while a push runs: no block is lost, none comes twice."""

import json

import pytest
from live_site import LiveLab, finish, links, off_prediction, random_bytes, states, wait_for
from tries import Tries

from fanfold.api.reroute import install, rerouted
from fanfold.kernels.jit import JIT
from fanfold.live.lab import Lab

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
SIZE = 4_000_000
TRIES = 4
PUSHES = Tries("pushes over tables that change, a node was late")


@pytest.fixture
def lab(site, monkeypatch):
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(site.state))
    made = LiveLab(site, "live-tables", "--leaves", 2, "--spines", 2, "--hosts", 4)
    yield made
    made.down()


def versions(lab):
    return {lab.status(node)["table"]["version"] for node in lab.nodes()}


def swap(lab, cut, join=()):
    """New tables at all nodes: some links are cut, some joined."""
    real = Lab(lab.name)
    assert install(real, rerouted(real.fabric(), cut, join, ())) == {}


def sent_by(lab, spine):
    return lab.sent(f"spine{spine}", "leaf2") + lab.sent(f"spine{spine}", "leaf2", "repair")


def came_in(lab):
    """Packets of data from the source, repairs too."""
    counts = lab.status("leaf1")["links"]["h0"]["rx"]
    return counts["data"][0] + counts.get("repair", [0])[0] if counts else 0


def repaired(result):
    return any(row["repair_packets"] for row in result["links"])


def push_over_three_tables(lab, path):
    """A push whose data changes its spine twice; its result, and packets of it."""
    began, before = came_in(lab), {spine: sent_by(lab, spine) for spine in (1, 2)}
    push = lab.start_push(path, "--rate", "16Mbps")

    def crossed(spine):
        return sent_by(lab, spine) - before[spine]

    wait_for(lambda: crossed(1) + crossed(2) > 10, "data under way", 120)
    first, second = (1, 2) if crossed(1) else (2, 1)
    swap(lab, [f"leaf1-spine{first}"])
    wait_for(lambda: crossed(second) > 10, "data over the other spine", 60)
    swap(lab, [f"spine{second}-leaf1"], [f"leaf1-spine{first}"])
    code, out, err = finish(push)
    assert code == 0, err
    swap(lab, [], [f"leaf1-spine{second}"])
    n = came_in(lab) - began
    assert min(crossed(1), crossed(2)) > 0
    result = json.loads(out)
    if not repaired(result):  # a repair for a host of leaf1 crosses no spine
        assert crossed(1) + crossed(2) == n
    return result, n


def test_a_running_push_goes_on_over_new_tables(lab, tmp_path):
    path = tmp_path / "model.bin"
    for seed in range(TRIES):
        path.write_bytes(random_bytes(SIZE, seed))
        result, n_all = push_over_three_tables(lab, path)
        assert set(states(result).values()) == {"verified"}
        if PUSHES.count(not repaired(result)):
            break
    version = 1 + 3 * (seed + 1)
    assert versions(lab) == {version}
    rows = links(result)
    n = rows["h0", "leaf1"]["packets"]
    assert n == rows["h0", "leaf1"]["predicted_packets"]
    assert n_all == n + 1  # one packet of the manifest
    assert {rows[f"leaf{1 + i // 3}", f"h{i}"]["packets"] for i in (1, 2, 3, 4)} == {n}
    said = (
        f"leaf1: its table is of version {version - 1}, the prediction of version {version - 3}"
    )
    assert said in result["notes"]


def test_a_push_is_predicted_by_the_tables_that_nodes_have(lab, tmp_path):
    path = tmp_path / "model.bin"
    swap(lab, ["leaf1-spine1"])
    lab.kill("leaf2")
    lab.restart("leaf2")
    assert versions(lab) == {2}
    path.write_bytes(random_bytes(300_000, 6))
    result = lab.push(path)
    assert off_prediction(result) == result["notes"] == []
    assert ("spine2", "leaf2") in links(result)
    assert ("spine1", "leaf2") not in links(result)


def test_a_table_that_does_not_fit_is_refused_in_one_line(lab):
    node = lab.ask("leaf1", do="table", version=9, rows=[{"bfr_id": 1, "nbrs": ["h7"]}])
    assert node["error"].startswith("ConfigError: table.rows[0].nbrs[0]: got 'h7', allowed: ")
    assert versions(lab) == {1}
    for flags, said in (
        ((), "--cut: got 'nothing', allowed: a link for --cut, --join or --weight"),
        (("--cut", "leaf1-h9"), "--cut: got 'leaf1-h9', allowed: a link of the lab"),
        (("--weight", "leaf1-spine1"), "--weight: got 'leaf1-spine1', allowed: LINK=COST"),
        (("--weight", "h0-leaf1=2"), "allowed: 1: a path costs nothing where it ends"),
        (("--weight", "leaf1-spine1=256"), "link[5].weight: got 256, allowed: 1..255"),
    ):
        done = lab.site.run("lab", "reroute", "--name", lab.name, *flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert versions(lab) == {1}
    done = lab.site.run("lab", "reroute", "--name", lab.name, "--weight", "leaf1-spine1=2")
    assert done.stdout == "lab live-tables: tables of version 2 at 9 nodes\n"
    assert versions(lab) == {2}
