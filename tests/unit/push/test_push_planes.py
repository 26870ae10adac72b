"""Planes of a push: entropies, what is down at the start, what each carried."""

import msgspec
import pytest

from fanfold.live.status import NeighbourStatus, NodeStatus
from fanfold.push.plane_fans import ONE_PLANE
from fanfold.push.planes import ENTROPY_MASK, PlaneResult, PlaneWeights, PushPlanes
from fanfold.topo.bift import table_of
from fanfold.topo.lab_fabric import lab_fabric, leaf_spine
from fanfold.topo.nets import build_named_net
from fanfold.topo.predict import receivers_behind

POD = lab_fabric(build_named_net("superpod:gpus=4,planes=4")).fabric
OTHERS = ["h1", "h2", "h3"]


def of_neighbours(**states: str) -> NodeStatus:
    return NodeStatus(
        {}, {}, [], neighbours={k: NeighbourStatus(v, 0) for k, v in states.items()}
    )


def test_a_source_of_one_plane_has_the_entropy_of_the_push() -> None:
    planes = PushPlanes(leaf_spine(2, 2, 3), "h0", OTHERS, 77)
    assert planes.entropies == (77,)
    assert planes.begin([]) == ONE_PLANE
    assert planes.results([("leaf1", 1, 1, 0)]) == []


@pytest.mark.parametrize("base", [0, 5, 0xABCDE, ENTROPY_MASK])
def test_the_entropy_of_a_plane_leads_over_it_and_fits_its_field(base: int) -> None:
    planes = PushPlanes(POD, "h0", OTHERS, base)
    assert [way.plane for way in planes.ways] == [0, 1, 2, 3]
    for way, entropy in zip(planes.ways, planes.entropies, strict=True):
        assert 0 <= entropy <= ENTROPY_MASK
        assert table_of(entropy, POD.n_ecmp) in way.tables
        assert ("h0", f"leaf{way.plane}") in receivers_behind(POD, "h0", entropy)


def test_what_a_node_sees_down_is_down_at_the_start() -> None:
    planes = PushPlanes(POD, "h0", OTHERS, 3)
    told = [("leaf2", of_neighbours(h1="down", h2="up")), ("h0", of_neighbours(leaf0="unseen"))]
    begun = planes.begin(told)
    assert [way.plane for way in planes.ways] == [0, 1, 3, 2]
    assert (begun.weights, begun.down) == ((1, 1, 1, 1), frozenset({3}))
    rows = planes.results([("leaf0", 10, 11, 0), ("leaf2", 0, 1, 2), ("leaf0", 5, 5, 1)])
    assert rows[0] == PlaneResult(0, 1, 15, 16, 1)
    assert rows[2] == PlaneResult(2, 0, 0, 1, 2)
    assert msgspec.to_builtins(rows[3])["bytes"] == 0


def test_planes_that_are_named_are_the_only_ones() -> None:
    planes = PushPlanes(POD, "h0", OTHERS, 3, "1,2")
    assert [way.plane for way in planes.ways] == [1, 2]
    assert planes.begin([]).weights == (1, 1)
    assert len(PushPlanes(POD, "h0", OTHERS, 3, "2").entropies) == 1


def test_weights_that_bgp_tells_count_in_place_of_rates() -> None:
    planes = PushPlanes(POD, "h0", OTHERS, 3)
    begun = planes.begin([], {0: 1, 1: 2, 2: 0, 3: 1})
    assert [way.plane for way in planes.ways] == [1, 0, 3, 2]
    assert begun == ((2, 1, 1, 0), frozenset(), False)
    assert planes.follow(1.5, {0: 1, 1: 0, 2: 1, 3: 1}) == (0, 1, 1, 1)
    assert planes.weights == [
        PlaneWeights(0.0, {0: 1, 1: 2, 2: 0, 3: 1}, "bgp"),
        PlaneWeights(1.5, {0: 1, 1: 0, 2: 1, 3: 1}, "bgp"),
    ]


def test_without_bgp_lines_may_teach_weights() -> None:
    planes = PushPlanes(POD, "h0", OTHERS, 3)
    assert planes.begin([]).learns
    assert planes.weights == [PlaneWeights(0.0, dict.fromkeys(range(4), 1), "rates")]
