"""A lab that is watched while it works: /metrics of its nodes, and fanfold top."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from live_site import LiveLab, Site, all_verified, finish, random_bytes, wait_for
from prometheus_client.parser import text_string_to_metric_families

from fanfold.kernels.jit import JIT
from fanfold.live.metrics import exposed_names
from fanfold.topo.fabric_file import load_fabric

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
PORT = 19464
SIZE = 8_000_000
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    shape = ("--leaves", 2, "--spines", 1, "--hosts", 4, "--metrics", PORT)
    made = LiveLab(site, "live-seen", *shape)
    yield made
    made.down()


def scrape(lab: LiveLab, node: str) -> Samples:
    """What a node serves, by the official parser."""
    address = load_fabric(lab.folder / "fabric.toml").by_name[node].address
    line = HTTPConnection(address, PORT, timeout=10)
    try:
        line.request("GET", "/metrics")
        answer = line.getresponse()
        assert answer.status == 200
        text = answer.read().decode()
    finally:
        line.close()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    wanted = labels.items()
    return sum(n for (own, has), n in samples.items() if own == name and wanted <= set(has))


def push(lab: LiveLab, folder: Path, *flags: object) -> None:
    path = folder / "a.bin"
    path.write_bytes(random_bytes(SIZE, time.monotonic_ns()))
    assert all_verified(lab, lab.push(path, *flags))


def test_metrics_say_what_a_node_counts(lab: LiveLab, tmp_path: Path) -> None:
    before = scrape(lab, "leaf2")
    push(lab, tmp_path)
    after, status = scrape(lab, "leaf2"), lab.status("leaf2")
    way = {"way": "tx", "to": "h3", "class": "data"}
    name = "fanfold_link_packets_total"
    assert value(after, name, **way) == status["links"]["h3"]["tx"]["data"][0]
    assert value(after, name, **way) - value(before, name, **way) > SIZE // 9000
    assert value(after, "fanfold_neighbour_up", node="leaf2") == 3
    assert value(after, "fanfold_fold_ratio") > 1
    assert {own for own, _ in after} <= set(exposed_names())


def test_a_gray_link_is_a_metric_of_the_nodes_at_its_ends(lab: LiveLab, tmp_path: Path) -> None:
    """The longer it is looked at, the less counts that both ends answered not quite at once."""
    for node in ("leaf1", "leaf2"):
        scrape(lab, node)
    lab.site.read("lab", "fail", "gray", "leaf1-spine1", "10%", "--name", lab.name)
    way = {"src": "leaf1", "dst": "spine1", "kind": "drops"}
    rate = 0.0
    for _ in range(5):
        push(lab, tmp_path)
        found = [scrape(lab, "leaf1") for _ in range(3)][-1]
        rate = value(found, "fanfold_link_suspected", **way)
        if rate:
            break
    lab.site.read("lab", "heal", "--name", lab.name)
    assert 0 < rate < 0.15
    assert value(found, "fanfold_cache_bytes") > SIZE / 2  # where something is lost
    elsewhere = [scrape(lab, "leaf2") for _ in range(3)][-1]
    assert value(elsewhere, "fanfold_link_suspected") == 0


def test_top_shows_a_push_and_what_fails_as_it_happens(lab: LiveLab, tmp_path: Path) -> None:
    path = tmp_path / "b.bin"
    path.write_bytes(random_bytes(SIZE, time.monotonic_ns()))
    before = lab.sent("leaf2", "h3")
    running = lab.start_push(path, "--rate", "24Mbps")
    wait_for(lambda: lab.sent("leaf2", "h3") > before + 20, "data under way")
    words = ("top", "--lab", lab.name, "--interval", "500ms")
    view = lab.site.read(*words, "--once")
    said = lab.site.run(*words, "--once")
    assert finish(running)[0] == 0
    links = {(row["from"], row["to"]): row for row in view["links"]}
    assert 10e6 < links["leaf2", "h3"]["bps"] < 60e6
    assert links["h3", "leaf2"]["packets"] > 0
    nodes = {row["name"]: row for row in view["nodes"]}
    assert len(nodes) == 8
    assert nodes["leaf1"]["copies"] == pytest.approx(3, abs=0.5)  # h1, h2 and the spine
    assert nodes["leaf2"]["folds"] > 0
    assert {row["state"] for row in view["nodes"]} == {"up"}
    assert view["events"] == []
    assert said.returncode == 0
    assert "\x1b" not in said.stdout
    assert "leaf2 > h3" in said.stdout
    assert "nothing failed" in said.stdout


def test_top_goes_on_in_a_pipe_and_tells_of_a_node_that_dies(lab: LiveLab) -> None:
    watch = lab.site.start("top", "--lab", lab.name, "--interval", "100ms", "--json")
    try:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["events"] == []
        lab.kill("h4")
        events: list[str] = []
        until = time.monotonic() + 20
        while "h4 answers nothing" not in events and time.monotonic() < until:
            events = json.loads(watch.stdout.readline())["events"]
        assert "h4 answers nothing" in events
    finally:
        watch.kill()
        watch.communicate(timeout=10)
    lab.restart("h4")


def test_metrics_are_refused_where_their_port_is_in_use(lab: LiveLab, tmp_path: Path) -> None:
    fabric = lab.folder / "fabric.toml"
    address = load_fabric(fabric).by_name["leaf1"].address
    lab.kill("leaf2")
    done = lab.site.run(
        *("bfr", "--config", fabric, "--node", "leaf2", "--metrics", f"{address}:{PORT}")
    )
    assert done.returncode == 3
    assert done.stderr.strip().endswith("Address already in use")
    assert len(done.stderr.strip().splitlines()) == 1
    lab.restart("leaf2")
    wrong = lab.site.run("bfr", "--config", fabric, "--node", "leaf2", "--metrics", "x")
    assert wrong.returncode == 2
