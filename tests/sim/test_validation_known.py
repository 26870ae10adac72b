"""Against closed forms and against csg-htsim: anchors/README.md names runs and revision.

What does not depend on which path a hash picks is equal to the picosecond; the rest lies within
the stated range. docs/simulator.md section 10 tells the figures.
"""

import csv
from statistics import median

import numpy as np
import pytest
from validation_world import (
    ACK,
    ANCHORS,
    FULL,
    PKT,
    ROCE,
    US,
    alone,
    fabric,
    known,
    messages,
)

from fanfold.kernels.jit import JIT
from fanfold.topo.nets import build_named_net

for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
slow = pytest.mark.slow
MANY = [128, 256, 512]
SENT_TO = {2: 1, 4: 5, 6: 127}
ANCHORED = {
    (6, 1): 14_027_520,
    (6, 256): 98_891_520,
    (2, 256): 89_539_840,
    (2, 512): 174_736_640,
    (6, 512): 184_088_320,
}


@pytest.mark.parametrize("n", [1, *(pytest.param(n, marks=for_compiled) for n in MANY)])
@pytest.mark.parametrize("links", SENT_TO)
def test_one_message_alone(links, n):
    out = alone(build_named_net("fat-tree:k=8"), messages((0, SENT_TO[links], n * PKT)), ROCE)
    got = n * FULL + (links - 1) * FULL + links * US
    assert out.host_ps[SENT_TO[links]] == got
    assert out.end_ps == got + links * (US + ACK)
    assert out.end_ps == ANCHORED.get((links, n), out.end_ps)
    assert out.n_hops == 2 * n * links


@for_compiled
def test_127_copies_end_when_they_do_elsewhere():
    rows = csv.DictReader((ANCHORS / "copies_128.txt").read_text().splitlines())
    elsewhere = [(int(row["dst"]), int(row["finish_us"].replace(".", ""))) for row in rows]
    out = known("copies")
    assert list(enumerate(out.item_ps.tolist(), 1)) == elsewhere
    assert out.end_ps == 127 * 256 * FULL + 5 * FULL + 6 * US + 6 * (US + ACK)


@for_compiled
@pytest.mark.parametrize("mode", ["", " paused"])
@pytest.mark.parametrize(("n", "end_ps"), [(32, 2_734_661_120), (128, 10_913_553_920)])
def test_an_incast_keeps_its_sink_busy(n, end_ps, mode):
    out = known(f"incast {n}{mode}")
    assert out.end_ps == (FULL + US) + n * 256 * FULL + US + 6 * (US + ACK) == end_ps
    assert out.link_drops.sum() == 0


HOPS = {
    "one far": 3_072,
    "one near": 1_024,
    "copies": 371_712,
    "incast 32": 95_232,
    "incast 128": 384_000,
    "cycle 128": 753_664,
    "cycle 1024": 6_131_712,
    "ring": 21_848_064,
}
LONG = {"cycle 1024", "ring"}


@for_compiled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=slow if name in LONG else ()) for name in HOPS]
)
def test_as_many_hops_as_elsewhere(name):
    out = known(name)
    assert out.n_hops == HOPS[name] == out.link_pkts.sum()
    assert out.link_pkts[:, 0].sum() == out.link_pkts[:, 2].sum()


@for_compiled
@slow
def test_a_ring_of_128():
    out = known("ring")
    steps = out.item_ps.reshape(128, 254)
    assert steps[:, 0].min() == 47_555_840  # of two neighbours under one edge
    assert 12_520 * US <= out.end_ps <= 12_535 * US
    assert out.end_ps > 12_297_200_000  # as if ACKs took no room
    assert (np.diff(steps) > 0).all()


def within(got, wanted_us, part):
    return abs(got - wanted_us * US) <= part * wanted_us * US


@for_compiled
@pytest.mark.parametrize(
    ("name", "middle_us", "last_us"),
    [
        ("cycle 128 sprayed", 191.88608, 193.83680),
        pytest.param("cycle 1024 sprayed", 195.521, 198.884, marks=slow),
    ],
)
def test_a_sprayed_permutation(name, middle_us, last_us):
    out = known(name)
    assert within(np.median(out.item_ps), middle_us, 0.02)
    assert within(out.end_ps, last_us, 0.02)


@for_compiled
@slow
def test_one_path_a_message_is_far_worse():
    """Five or six messages meet on some link: 868 us or 1,037, hardly anything between."""
    ends = [known("cycle 1024", seed).end_ps for seed in range(1, 8)]
    assert within(median(ends), median([871, 1037, 868, 1041, 1039]), 0.01)
    assert 4 <= median(ends) / known("cycle 1024 sprayed").end_ps <= 6
    assert len(set(ends)) > 1


@for_compiled
@pytest.mark.parametrize(("n", "end_us"), [(32, 2755.04), (128, 11_038.0)])
def test_an_incast_of_cut_packets_pays_little(n, end_us):
    out = known(f"incast {n} cut")
    assert within(out.end_ps, end_us, 0.01)
    assert known(f"incast {n}").end_ps < out.end_ps
    assert out.link_trims.sum() == out.repairs[0] > 0
    assert out.link_drops.sum() == 0


@for_compiled
def test_a_seed_moves_only_what_paths_may_meet():
    assert known("incast 32", 2).end_ps == known("incast 32").end_ps
    assert known("cycle 128", 2).item_ps.tolist() != known("cycle 128").item_ps.tolist()
    assert known("cycle 128", 2).n_hops == known("cycle 128").n_hops


def test_hosts_stand_where_the_closed_forms_say():
    net, routes = fabric("fat-tree:k=8")
    edge = net.dst[net.first_out[0]] - net.n_hosts
    hops = routes.hops[edge, routes.group[list(SENT_TO.values())]] + 1
    assert hops.tolist() == list(SENT_TO)
