"""Two rounds of answers become rates, folds and events."""

from typing import Any

import pytest

from fanfold.api.fabric_view import Observer, View
from fanfold.api.node_metrics import Place, parse_place
from fanfold.errors import ConfigError
from fanfold.topo.lab_fabric import leaf_spine

FABRIC = leaf_spine(1, 1, 2, name="x", prefix=0)
SECOND = 1_000_000_000


def answer(n: int = 0, **more: Any) -> dict[str, Any]:
    """A leaf that has taken n packets in from h0 and copied each to h1 and h2."""
    rows = {
        "h0": {"tx": {"feedback": [n // 10, n]}, "rx": {"data": [n, 1000 * n]}},
        "h1": {"tx": {"data": [n, 1000 * n]}, "rx": {"feedback": [n // 10, n]}},
        "h2": {"tx": {"data": [n, 1000 * n], "repair": [n // 5, n]}, "rx": {}},
    }
    near = {to: {"state": "up", "falls": 0} for to in (*rows, "spine1")}
    return {
        "links": {to: {**row, "lost": {}, "drops": {}} for to, row in rows.items()},
        "drops": {},
        "flows": [],
        "pid": 9,
        "neighbours": near,
        "links_down": [],
        "folds": {"merged": n, "complete": n // 2},
        "cache": {"hit": n // 4},
        "slots": {"words": [n // 100, 4096]},
    } | more


def views(*rounds: dict[str, Any]) -> list[View | None]:
    observer = Observer(FABRIC)
    return [observer.take(each, (i + 1) * 2 * SECOND) for i, each in enumerate(rounds)]


def test_rates_are_what_grew_by_the_second() -> None:
    first, view = views({"leaf1": answer()}, {"leaf1": answer(1000)})
    assert first is None
    assert view is not None
    assert view.seconds == 2
    links = {(row.src, row.dst): row for row in view.links}
    row = links["leaf1", "h2"]
    assert (row.packets, row.repairs, row.words) == (600.0, 100.0, 0.0)
    assert row.bps == 8 * (1_000_000 + 1000) / 2
    assert links["leaf1", "h0"].words == 50.0
    assert links["h0", "leaf1"].packets == 500.0  # of a push's own process, which nobody asks
    (node,) = [row for row in view.nodes if row.state == "up"]
    assert (node.name, node.fans, node.copies) == ("leaf1", 1100.0, 2.2)
    assert (node.folds, node.fold_ratio, node.slots, node.hits) == (500.0, 2.0, 10, 125.0)
    assert (node.up, node.down) == (4, ())


def test_drops_of_both_ends_stand_at_the_direction_they_befell() -> None:
    full = answer(1000)
    full["links"]["h1"] |= {"lost": {"port_full": 8}, "drops": {"impaired": 4}}
    far = answer(0)
    far["links"] = {"leaf1": {"tx": {}, "rx": {}, "lost": {}, "drops": {"bad_checksum": 6}}}
    clean = {**far, "links": {"leaf1": {"tx": {}, "rx": {}, "lost": {}, "drops": {}}}}
    _, view = views({"leaf1": answer(), "h1": clean}, {"leaf1": full, "h1": far})
    assert view is not None
    links = {(row.src, row.dst): row.drops for row in view.links}
    assert links["leaf1", "h1"] == {"port_full": 4.0, "bad_checksum": 3.0}
    assert links["h1", "leaf1"] == {"impaired": 2.0}


def test_what_fails_and_comes_back_is_an_event_once() -> None:
    down = {"spine1": {"state": "down", "falls": 1}}
    rounds = [
        {"leaf1": answer(), "h1": answer()},
        {"leaf1": answer(neighbours=down, links_down=["leaf1-spine1"]), "h1": answer()},
        {"leaf1": answer(neighbours=down, links_down=["leaf1-spine1"])},
        {"leaf1": answer(pid=10), "h1": answer()},
    ]
    told = [view.events for view in views(*rounds) if view]
    assert told[0] == ["leaf1: spine1 is down", "leaf1: tables without leaf1-spine1"]
    assert told[1][2:] == ["h1 answers nothing"]
    assert told[2][3:] == ["h1 answers again", "leaf1 was started anew"]


def test_a_node_that_began_anew_has_no_rates_of_before() -> None:
    _, view = views({"leaf1": answer(5000)}, {"leaf1": answer(100, pid=10)})
    assert view is not None
    assert view.links == []
    assert next(node for node in view.nodes if node.name == "leaf1").fans == 110.0


def crossed(n: int, lost: int) -> dict[str, Any]:
    far = answer(receive_buffer_bytes=100_000)
    far["links"] = {"leaf1": {"tx": {}, "rx": {"data": [n - lost, n]}, "lost": {}}}
    return {"leaf1": answer(n), "h1": far}


def test_a_gray_link_is_told_once_and_marked_while_it_is_seen() -> None:
    """Traffic goes on: what is under way is not lost, and no more is than queues hold."""
    rounds = [crossed(n, n // 100) for n in (0, 100_000, 200_000, 300_000, 300_000)]
    found = views(*rounds)
    named = [{(g.src, g.dst): g.hit for g in view.gray} for view in found if view]
    room = 2 * (100_000 + (256 << 10)) // 1000 + 64
    way = ("leaf1", "h1")
    assert named == [{way: 1000 - room}, {way: 2000 - room}, {way: 3000 - room}, {way: 3000}]
    last = found[-1]
    assert last is not None
    assert sum(event.startswith("gray link: leaf1 > h1") for event in last.events) == 1
    assert {(row.src, row.dst): row.gray for row in last.links if row.gray} == {way: 0.01}


def test_a_queue_that_fills_is_no_gray_link() -> None:
    rounds = [crossed(n, min(n, 100)) for n in (0, 1000, 2000, 3000)]
    assert [view.gray for view in views(*rounds) if view] == [[], [], []]


def test_where_metrics_are_served_is_an_address_and_a_port() -> None:
    assert parse_place("10.0.0.1:9464") == Place("10.0.0.1", 9464)
    assert parse_place("9464") == parse_place(":9464") == Place("", 9464)
    for text in ("", "x", "1.2.3.4", "a:0", "65536", "h:65536", "9:-1", "9:٣"):
        with pytest.raises(ConfigError, match="--metrics"):
            parse_place(text)
