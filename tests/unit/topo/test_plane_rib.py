"""Routes of peers become weights of links: half cables at one end and at both."""

from fractions import Fraction

from fanfold.topo.path_weights import Missing
from fanfold.topo.plane_rib import PlaneRib, RibLink, has_grown
from fanfold.wire.bgp_update import Update
from fanfold.wire.link_bandwidth import LinkBandwidth, to_binary32

TO = "10.81.0.4/32"
LEG = Fraction(500)
LINKS = {f"p{plane}l{leg}": RibLink(plane, LEG) for plane in range(4) for leg in range(2)}


def update(*bandwidths: int, to: str = TO) -> Update:
    said = tuple(LinkBandwidth(0, 1, to_binary32(n)) for n in bandwidths)
    return Update(announced=(to,), next_hop="192.0.2.1", as_path=(1,), bandwidths=said)


def whole(**policy) -> PlaneRib:
    rib = PlaneRib(LINKS, **policy)
    for peer in LINKS:
        rib.on_peer_up(peer)
        assert rib.on_update(peer, update(1000))
    return rib


def by_plane(rib: PlaneRib) -> tuple[str, ...]:
    return tuple(str(share) for share in rib.planes_to(TO).values())


def test_planes_alike_have_links_alike() -> None:
    rib = whole()
    assert rib.weights_to(TO) == dict.fromkeys(LINKS, 1)
    assert (rib.prefixes(), rib.peers) == ({TO}, tuple(LINKS))


def test_half_a_cable_there_halves_its_plane() -> None:
    rib = whole()
    for leg in range(2):
        rib.on_update(f"p2l{leg}", update(500))
    assert by_plane(rib) == ("2/7", "2/7", "1/7", "2/7")
    weights = rib.weights_to(TO)
    assert {peer: weights[peer] for peer in ("p1l0", "p2l0", "p2l1")} == {
        "p1l0": 2,
        "p2l0": 1,
        "p2l1": 1,
    }


def test_half_a_cable_at_both_ends_counts_once() -> None:
    """A weight a session would have it 1 : 2 : 2 ..., and the plane a thirteenth."""
    rib = whole()
    rib.on_peer_down("p2l0")
    rib.on_update("p2l1", update(500))
    assert by_plane(rib) == ("2/7", "2/7", "1/7", "2/7")
    assert rib.weights_to(TO) == dict.fromkeys((p for p in LINKS if p != "p2l0"), 1)


def test_a_neighbour_that_says_two_things_is_believed_the_less() -> None:
    rib = whole()
    rib.on_update("p2l0", update(500))
    assert rib.paths_to(TO)[2] == 500
    rib.on_update("p2l0", update(700, 600))
    assert rib.paths_to(TO)[2] == 600


def test_a_plane_without_bandwidth_is_as_the_policy_says() -> None:
    for policy, want in (
        ({}, ("1/4",) * 4),
        ({"missing": Missing.SKIP}, ("0", "1/3", "1/3", "1/3")),
        ({"missing": Missing.DEFAULT, "default": Fraction(500)}, ("1/7", *["2/7"] * 3)),
    ):
        rib = whole(**policy)
        rib.on_update("p0l0", update())
        assert by_plane(rib) == want
    rib = whole(missing=Missing.SKIP)
    rib.on_update("p0l0", update())
    assert not {"p0l0", "p0l1"} & rib.weights_to(TO).keys()


def test_what_is_withdrawn_or_gone_carries_nothing() -> None:
    rib = whole()
    rib.on_update("p0l0", Update(withdrawn=(TO, "10.0.0.0/8")))
    rib.on_peer_down("p0l1")
    assert by_plane(rib) == ("1/3", "1/3", "1/3")
    rib.on_peer_up("p0l1")  # up, and no route yet
    assert by_plane(rib) == ("1/3", "1/3", "1/3")
    rib.on_silence()
    assert (rib.weights_to(TO), rib.planes_to(TO), rib.peers) == ({}, {}, ())


def test_who_is_no_peer_changes_nothing() -> None:
    rib = whole()
    assert not rib.on_update("stranger", update(1))
    rib.on_peer_up("stranger")
    rib.on_peer_down("stranger")
    assert rib.weights_to(TO) == dict.fromkeys(LINKS, 1)


def test_growth_is_of_a_plane_by_itself() -> None:
    one, two = Fraction(1), Fraction(2)
    assert not has_grown({0: two, 1: two}, {0: two, 1: one})
    assert not has_grown({0: two, 1: two}, {0: two})
    assert has_grown({0: two}, {0: two, 1: one})
    assert has_grown({0: two, 1: one}, {0: one, 1: two})
    assert not has_grown({0: None}, {0: None})
