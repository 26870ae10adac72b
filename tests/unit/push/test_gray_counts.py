"""Counters of two ends become losses of the link between them, and of nothing else."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fanfold.live.status import NodeStatus, read_status
from fanfold.push.gray import judge
from fanfold.push.gray_counts import RUN_PKTS, Window, directions, losses, told_apart
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.predict import receivers_behind

FABRIC = leaf_spine(2, 1, 4, name="x", prefix=0)
N = 10_000
WAY = ("leaf1", "spine1")
NAMES = tuple(FABRIC.by_name)
HOSTS = ("h1", "h2", "h3", "h4")
Given = Mapping[str, Any]


def status(name: str, given: Given, **more: Any) -> NodeStatus:
    answer = {"links": given, "drops": {}, "flows": [], "pid": 5, **more}
    found = read_status(FABRIC, name, answer)
    assert found is not None
    return found


def zero() -> dict[str, NodeStatus]:
    return {name: status(name, {}) for name in NAMES}


def link(tx: int = N, rx: int = N, **more: Any) -> Given:
    return {"tx": {"data": [tx, tx]}, "rx": {"data": [rx, rx]}, **more}


def after(lost: int = 0, src: Given = {}, dst: Given = {}) -> dict[str, NodeStatus]:  # noqa: B006
    """10,000 packets went from leaf1 to spine1, and that many less came."""
    far = link(0, N - lost, **dst.get("link", {}))
    return zero() | {
        "leaf1": status("leaf1", {"spine1": link(N, 0, **src.get("link", {}))}, **_of(src)),
        "spine1": status("spine1", {"leaf1": far}, **_of(dst)),
    }


def _of(given: Given) -> Given:
    return {key: value for key, value in given.items() if key != "link"}


def lost_on(end: dict[str, NodeStatus], before: dict[str, NodeStatus] | None = None) -> int:
    window = Window(FABRIC, zero() if before is None else before, end, end)
    (row,) = [r for r in losses(window, directions(FABRIC)) if (r.src, r.dst) == WAY]
    return row.lost


def test_what_went_and_did_not_come_was_lost_on_that_direction_only() -> None:
    end = after(lost=30)
    rows = losses(Window(FABRIC, zero(), end, end), directions(FABRIC))
    assert {(r.src, r.dst): r.lost for r in rows if r.lost} == {WAY: 30}
    assert len(rows) == 2 * len(FABRIC.links)
    (gray,) = judge(rows)
    assert (gray.src, gray.dst, gray.kind, gray.rate) == (*WAY, "drops", 0.003)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (after(30, dst={"drops": {"socket_full": 1}}), 0),
        (after(RUN_PKTS + 30, dst={"drops": {"socket_full": 1}}), 30),
        (after(RUN_PKTS + 30, dst={"backlog": 1}), 30),
        (after(30, dst={"link": {"drops": {"rate_full": 30}}}), 0),
        (after(30, dst={"link": {"drops": {"held_full": 10, "link_down": 20}}}), 0),
        (after(30, src={"link": {"lost": {"port_full": 25}}}), 5),
        (after(30, dst={"link": {"drops": {"impaired": 30}}}), 30),
        (after(30, dst={"drops": {"no_buffer": 30, "duplicate": 9}}), 30),
    ],
)
def test_what_a_queue_or_a_socket_dropped_is_no_loss_of_the_link(
    end: dict[str, NodeStatus], left: int
) -> None:
    assert lost_on(end) == left


def test_only_what_grew_counts() -> None:
    before = after(500, dst={"drops": {"socket_full": 40}})
    now = after(530, dst={"drops": {"socket_full": 40}})
    assert lost_on(now, before) == 30


def test_packets_on_their_way_came_when_it_is_looked_again() -> None:
    first, last = after(lost=30), after(lost=0)
    rows = losses(Window(FABRIC, zero(), first, last), [WAY])
    assert [r.lost for r in rows] == [0]


def test_nodes_that_began_anew_or_told_nothing_and_neighbours_that_fell_tell_nothing() -> None:
    end = after(lost=30)
    for name in WAY:
        anew = end | {name: msgspec.structs.replace(end[name], pid=6)}
        assert losses(Window(FABRIC, zero(), anew, anew), [WAY]) == []
        silent = {k: v for k, v in end.items() if k != name}
        assert losses(Window(FABRIC, zero(), silent, silent), [WAY]) == []
        assert losses(Window(FABRIC, {}, end, end), [WAY]) == []
    for state, falls in (("up", 1), ("down", 0)):
        row = {"leaf1": {"state": state, "falls": falls}}
        fell = after(30, dst={"neighbours": row})
        assert losses(Window(FABRIC, zero(), fell, fell), [WAY]) == []


def test_a_host_is_judged_by_data_only_as_others_of_its_address_take_the_rest() -> None:
    sent = {"tx": {"data": [N, N], "feedback": [900, 9], "fold": [77, 7]}, "rx": {}}
    came = {"tx": {}, "rx": {"data": [N, N]}}
    end = zero() | {"leaf1": status("leaf1", {"h1": sent}), "h1": status("h1", {"leaf1": came})}
    rows = losses(Window(FABRIC, zero(), end, end), [("leaf1", "h1")])
    assert [(r.sent, r.lost) for r in rows] == [(N, 0)]


def test_what_others_sent_between_two_answers_is_no_loss() -> None:
    """The far end answered first 10 ms later, while 100,000 packets a second crossed."""
    second = 1_000_000_000
    before, end = zero(), after(lost=1000)
    for name, at_ns in (("leaf1", second), ("spine1", second + second // 100)):
        before[name] = msgspec.structs.replace(before[name], at_ns=at_ns)
        end[name] = msgspec.structs.replace(end[name], at_ns=2 * second)
    assert lost_on(end, before) == 1000 - 400
    flow = {"bfir_id": 1, "flow": 8, "tx": {"spine1": {"data": [N, N]}}}
    read = read_status(FABRIC, "leaf1", {"links": {}, "drops": {}, "flows": [flow]})
    assert read is not None
    end["leaf1"] = msgspec.structs.replace(end["leaf1"], flows=read.flows)
    rows = losses(Window(FABRIC, before, end, end, 1, (8, 9)), [WAY])
    assert [r.lost for r in rows] == [1000]  # all of it was of the push, which began later


def damage(
    bad: Mapping[str, int], cache: Mapping[str, Given], ways: Mapping[str, Given] | None = None
) -> dict[tuple[str, str], int]:
    """Damaged DATA of each direction, by what receivers and caches count."""
    up = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}
    end = zero()
    for name, n in bad.items():
        row = link(0, N, drops={"bad_checksum": n})
        end[name] = status(name, {up[name]: row})
    for name, held in cache.items():
        end[name] = status(name, (ways or {}).get(name, {}), cache=held)
    window = Window(FABRIC, zero(), end, end)
    behind = receivers_behind(FABRIC, "h0", 0, set(HOSTS))
    rows = told_apart(window, "h0", behind, losses(window, directions(FABRIC)))
    return {(r.src, r.dst): r.damaged for r in rows if r.damaged}


def test_damage_of_one_host_s_link_is_that_link_s() -> None:
    assert damage({"h3": 40}, {"leaf2": {"hit": 40}}) == {("leaf2", "h3"): 40}
    assert damage({"h3": 40, "h4": 0}, {}) == {("leaf2", "h3"): 40}


def test_damage_that_all_behind_a_leaf_have_began_above_it() -> None:
    both = {"h3": 40, "h4": 40}
    known = {"leaf2": {"corrupt": 40}, "spine1": {"corrupt": 39, "hit": 1}}
    assert damage(both, known) == {WAY: 40}
    whole = {"leaf2": {"corrupt": 40}, "spine1": {"hit": 40}}
    assert damage(both, whole) == {("spine1", "leaf2"): 40}
    assert damage(dict.fromkeys(HOSTS, 40), {}) == {("h0", "leaf1"): 40}


def test_two_links_that_damage_alike_are_told_from_one_above_by_the_cache() -> None:
    both = {"h3": 40, "h4": 44}
    assert damage(both, {"leaf2": {"hit": 84}}) == {("leaf2", "h3"): 40, ("leaf2", "h4"): 44}


def test_links_that_nothing_tells_apart_are_named_together() -> None:
    end = zero()
    for name in ("h3", "h4"):
        end[name] = status(name, {"leaf2": link(0, N, drops={"bad_checksum": 50})})
    window = Window(FABRIC, zero(), end, end)
    behind = receivers_behind(FABRIC, "h0", 0, set(HOSTS))
    rows = told_apart(window, "h0", behind, losses(window, directions(FABRIC)))
    end["spine1"] = status("spine1", {"leaf1": link(0, N)})
    end["leaf1"] = status("leaf1", {"spine1": link(N, 0)})
    rows = told_apart(window, "h0", behind, losses(window, directions(FABRIC)))
    (gray,) = judge(rows)
    assert (gray.src, gray.dst, gray.alike) == (*WAY, ("spine1-leaf2",))


def test_words_that_a_router_finds_damaged_are_its_own_link_s() -> None:
    rx = {"tx": {}, "rx": {"feedback": [500, 9]}, "drops": {"bad_checksum": 20}}
    end = zero() | {"leaf2": status("leaf2", {"h3": rx})}
    rows = losses(Window(FABRIC, zero(), end, end), [("h3", "leaf2")])
    assert [(r.came, r.damaged) for r in rows] == [(500, 20)]
