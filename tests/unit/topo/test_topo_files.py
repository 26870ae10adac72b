"""Topology files of other programs become nets; a fault of one is named by its place."""

import re
from math import pi

import numpy as np
import pytest
from reach import no_path
from topo_samples import FAULTS, NS3, SAMPLES

from fanfold.errors import ConfigError
from fanfold.topo.graph_net import EARTH_M, fibre_ps
from fanfold.topo.net_catalog import FILE_CATALOG
from fanfold.topo.nets import build_named_net, notes_of
from fanfold.topo.routes import build_routes
from fanfold.topo.slurm_topo import expand


def net_of(tmp_path, name, text=None, more=""):
    path = tmp_path / name
    path.write_text(SAMPLES[name] if text is None else text)
    return build_named_net(f"import:{path}{more}")


def cables(net):
    """Ends by name, rate and delay of each cable, sorted."""
    once = np.nonzero(net.reverse > np.arange(net.n_links))[0]
    rows = [
        (
            *sorted((net.node_name(int(net.src[i])), net.node_name(int(net.dst[i])))),
            int(net.bps[i]),
            int(net.prop_ps[i]),
        )
        for i in once
    ]
    return sorted(rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_a_net_whose_hosts_reach_each_other(tmp_path, name):
    net = net_of(tmp_path, name)
    assert no_path(net, build_routes(net)) is None
    names = [net.node_name(i) for i in range(net.n_nodes)]
    assert len(set(names)) == len(names)


def test_every_ending_has_a_sample():
    told = {name[name.index(".") :] for name in SAMPLES}
    assert {row.suffix for row in FILE_CATALOG} - told == {".json", ".topo", ".toml"}


def test_gml_has_its_names_distances_and_rates(tmp_path):
    net = net_of(tmp_path, "zoo.gml", more=",rate=1Gbps,delay=2us")
    far = fibre_ps((-26.2, 28.04), (-33.92, 18.41))
    assert [net.node_name(i) for i in range(4, 8)] == [
        *("Johannesburg", "Cape Town", "None (2)", "None (3)"),
    ]
    assert cables(net)[:3] == [
        ("Cape Town", "Cape Town.h", 10**9, 2 * 10**6),
        ("Cape Town", "Johannesburg", 10**10, far),
        ("Cape Town", "None (2)", 10**9, 3 * 10**9),
    ]
    assert 6.2 * 10**9 < far < 6.5 * 10**9  # 1,265 km
    loop, placed = net.notes
    assert re.fullmatch(r"left out, from a node to itself: .*zoo\.gml: line 14 edge", loop)
    assert placed == "delays by distance: 1 of 3 cables, great circle at 5 us a km of fibre"


def test_graphml_has_its_names_and_half_the_equator_is_half_a_circle(tmp_path):
    net = net_of(tmp_path, "places.graphml")
    ((_, _, _, delay),) = [row for row in cables(net) if row[:2] == ("Nairobi", "Quito")]
    assert delay == round(pi * EARTH_M) * 5000
    assert [note.partition(":")[0] for note in net.notes] == [
        *("left out, from a node to itself", "delays by distance"),
    ]
    assert notes_of(f"import:{tmp_path}/places.graphml") == net.notes
    assert notes_of("star:hosts=2") == ()


def test_astra_dimensions_have_their_links(tmp_path):
    net = net_of(tmp_path, "network.yml")
    ring, full, switch = (1600 * 10**9, 50_000), (800 * 10**9, 500_000), (10**11, 936_250)
    assert net.n_hosts == 24
    assert np.bincount(net.tier).tolist() == [24, 24, 8]
    found = cables(net)
    inner = [row[2:] for row in found if not row[0].startswith("h")]
    assert {line: inner.count(line) for line in set(inner)} == {ring: 24, full: 12, switch: 24}
    hosts = [row[2:] for row in found if row[0].startswith("h")]
    assert set(hosts) == {(2 * ring[0] + full[0] + switch[0], 0)}
    assert ("r0", "r3", *ring) in found  # the ring closes
    assert ("r3", "r4", *ring) not in found
    assert ("r0", "r4", *full) in found
    assert {("r1", "s2.1", *switch), ("r17", "s2.1", *switch)} <= set(found)


def test_one_astra_switch_has_its_npus_on_it(tmp_path):
    text = (
        "topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0 ]\nlatency: [ 936.25 ]\n"
    )
    net = net_of(tmp_path, "network.yml", text)
    assert (net.n_hosts, net.n_nodes) == (8, 9)
    assert {row[2:] for row in cables(net)} == {(3200 * 10**9, 936_250)}


def test_ns3_text_has_its_links_and_says_what_it_does_not_use(tmp_path):
    net = net_of(tmp_path, "topology.txt")
    assert [net.node_name(i) for i in range(7)] == [f"n{i}" for i in range(7)]
    assert net.n_hosts == 5
    assert cables(net)[0] == ("n0", "n5", 25 * 10**9, 10**6)
    assert cables(net)[-1] == ("n5", "n6", 10**11, 5 * 10**6)
    assert net.notes == ("error rates of 1 links are not used: loss is a setting of a run",)
    simai = net_of(tmp_path, "simai.txt")
    assert (simai.n_hosts, simai.n_nodes, simai.notes) == (4, 7, ())
    assert cables(simai)[0] == ("n0", "n4", 900 * 10**9, 25_000)
    one_line = net_of(
        tmp_path,
        "topology.txt",
        NS3.split("\n", maxsplit=1)[0] + "\n" + " ".join(NS3.split()[3:]),
    )
    assert cables(one_line) == cables(net)


def test_slurm_nodes_hang_on_their_switches(tmp_path):
    net = net_of(tmp_path, "topology.conf", more=",rate=200Gbps,delay=1us")
    hosts = [net.node_name(i) for i in range(net.n_hosts)]
    assert hosts == ["tux0", "tux1", "tux07", "gpu-a", "gpu-b"]
    assert [row[:2] for row in cables(net)] == [
        *(("gpu-a", "leaf1"), ("gpu-b", "leaf1")),
        *(("leaf0", "spine"), ("leaf0", "tux0"), ("leaf0", "tux07"), ("leaf0", "tux1")),
        ("leaf1", "spine"),
    ]
    assert net.notes == ("topology.conf has no rates: 200 Gbit/s, 1 us",)


def test_host_lists_are_those_of_slurm():
    assert expand("a,tux[0-2,07]b", "") == ["a", "tux0b", "tux1b", "tux2b", "tux07b"]
    assert expand("r[1-2]n[08-10]", "") == [
        f"r{r}n{n}" for r in (1, 2) for n in ("08", "09", "10")
    ]


def test_ibnetdiscover_has_its_names_speeds_and_cables_once(tmp_path):
    net = net_of(tmp_path, "fabric.txt", more=",rate=50Gbps")
    assert cables(net) == [
        ("leaf 1", "node01", 100 * 10**9, 10**6),
        ("leaf 1", "node02 mlx5_0", 200 * 10**9, 10**6),
        ("leaf 1", "spine 1", 50 * 10**9, 10**6),
        ("node02 mlx5_1", "spine 1", 54_545_454_544, 10**6),
    ]
    assert net.notes == (
        "left out: 1 aggregation nodes of switches",
        "2 of 10 ports have no speed that is known",
    )


@pytest.mark.parametrize(("name", "old", "new", "what"), FAULTS)
def test_faults_are_named_by_their_place(tmp_path, name, old, new, what):
    assert old in SAMPLES[name]
    with pytest.raises(ConfigError) as caught:
        net_of(tmp_path, name, SAMPLES[name].replace(old, new, 1))
    assert what in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
