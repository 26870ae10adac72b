"""Control sockets that are silent or lie, and links that are dead where no data goes."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from live_site import LiveLab, Site, random_bytes, wait_for

from fanfold.api.one_push import Order, Terms
from fanfold.api.pushing import run_push
from fanfold.api.site import Site as PushSite
from fanfold.live.control_sockets import MOST_LINES, Call
from fanfold.live.lab import Lab
from fanfold.push import service
from fanfold.push.result import PushResult
from fanfold.topo.predict import receivers_behind
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.live

MB = 1_000_000
TERMS = Terms(patience_ps=3 * PS_PER_SECOND)
BFRS = ("leaf1", "leaf2", "spine1", "spine2")
FAR = {"h5", "h6", "h7", "h8"}
"""Behind the leaf that the source is not at."""


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-ways", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


@pytest.fixture
def lab(module_lab: LiveLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveLab]:
    """All nodes live and links good; pushes in this process find the lab."""
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(module_lab.site.state))
    module_lab.revive()
    wait_for(lambda: is_well(module_lab), "links as in the file")
    yield module_lab
    for node in module_lab.nodes():
        module_lab.ask(node, do="impair", links={}, seed=0)


def is_well(lab: LiveLab) -> bool:
    return all(lab.status(node)["links_down"] == [] for node in BFRS)


def send(
    lab: LiveLab, folder: Path, entropy: int, to: str = "all", n_bytes: int = MB
) -> PushResult:
    """A push whose packets have this entropy; no two are of the same bytes."""
    path = folder / "a.bin"
    path.write_bytes(random_bytes(n_bytes, time.monotonic_ns()))
    with pytest.MonkeyPatch.context() as patch:
        flow = (int.from_bytes(os.urandom(2)) << 16 | entropy << 1) & 0xFFFFFFFE
        patch.setattr(service, "draw_flow", lambda: flow)
        site = PushSite(Lab(lab.name), None)
        return run_push(site, Order(path, to=to, terms=TERMS))


def states(result: PushResult) -> dict[str, str]:
    return {r.id: r.state for r in result.receivers}


def spine_of(lab: LiveLab, entropy: int) -> str:
    """The spine that the data of a push passes."""
    fabric = PushSite(Lab(lab.name), None).fabric
    return next(b for _, b in receivers_behind(fabric, "h0", entropy) if b.startswith("spine"))


def cut(lab: LiveLab, node: str, neighbour: str) -> None:
    """Nothing that comes from a neighbour arrives at a node."""
    answer = lab.ask(node, do="impair", links={neighbour: {"drop_ppb": 10**9}}, seed=1)
    assert answer == {"ok": True}


@pytest.mark.parametrize("entropy", [0, 1])
@pytest.mark.parametrize("leaf", ["leaf1", "leaf2"])
def test_words_go_back_where_the_data_came_from(
    lab: LiveLab, tmp_path: Path, entropy: int, leaf: str
) -> None:
    """One uplink is dead, and the data goes over the other one."""
    spine = spine_of(lab, 1 - entropy)
    cut(lab, leaf, spine)
    cut(lab, spine, leaf)
    result = send(lab, tmp_path, entropy)
    assert states(result) == dict.fromkeys(lab.receivers, "verified")
    assert (result.suspects, result.unheard) == ([], [])
    assert result.seconds < 1.5


def test_a_word_that_does_not_come_is_asked_for_by_another_way(
    lab: LiveLab, tmp_path: Path
) -> None:
    """The data comes down over a spine from which nothing comes up."""
    cut(lab, "leaf1", spine_of(lab, 0))
    result = send(lab, tmp_path, 0)
    assert states(result) == dict.fromkeys(lab.receivers, "verified")


def test_a_link_that_is_dead_is_named_and_gone_around_and_a_leaf_is_named(
    lab: LiveLab, tmp_path: Path
) -> None:
    """Receivers behind it answer by the other spine, and get nothing till it is noticed."""
    spine = spine_of(lab, 0)
    cut(lab, spine, "leaf1")
    result = send(lab, tmp_path, 0, "h2,h6,h7")
    assert states(result) == dict.fromkeys(("h2", "h6", "h7"), "verified")
    assert result.suspects == []
    (note,) = result.notes
    assert note.endswith(f"routed around where possible: leaf1-{spine}")
    lab.ask(spine, do="impair", links={}, seed=0)
    wait_for(lambda: is_well(lab), "all well")
    os.kill(lab.pid("leaf2"), signal.SIGSTOP)
    try:
        result = send(lab, tmp_path, 0, "h2,h6,h7")
    finally:
        os.kill(lab.pid("leaf2"), signal.SIGCONT)
    assert states(result)["h2"] == "verified"
    assert result.suspects == ["leaf2"]
    assert result.unheard == ["leaf2"]


def test_nodes_that_are_not_on_the_trees_are_not_asked(lab: LiveLab, tmp_path: Path) -> None:
    other = spine_of(lab, 1)
    stopped = [lab.pid(other), lab.pid("h8"), lab.pid("h3")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        result = send(lab, tmp_path, 0, "h1,h2,h6")
        took = time.monotonic() - began
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert set(states(result).values()) == {"verified"}
    assert result.unheard == []
    assert took < result.seconds + 1.5  # compiled code is loaded once in a process


class ControlSockets:
    """Control sockets of some nodes that answer as told, or not at all."""

    def __init__(self, answers: dict[str, bytes | None]) -> None:
        self.servers = {name: socket.create_server(("127.0.0.1", 0)) for name in answers}
        self.answers = answers
        self.asked: list[float] = []
        for name in answers:
            threading.Thread(target=self._serve, args=(name,), daemon=True).start()

    def _serve(self, name: str) -> None:
        held = []
        try:
            while True:
                sock, _ = self.servers[name].accept()
                self.asked.append(time.monotonic())
                answer = self.answers[name]
                if answer is not None:
                    sock.recv(1000)
                    sock.sendall(answer)
                held.append(sock)
        except OSError:
            for sock in held:
                sock.close()

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


def send_past(
    lab: LiveLab, folder: Path, answers: dict[str, bytes | None]
) -> tuple[PushResult, float]:
    """A push that meets such control sockets, and the wall time of it."""
    given = PushSite.call
    with (
        closing(ControlSockets(answers)) as control_sockets,
        pytest.MonkeyPatch.context() as patch,
    ):

        def call(site: PushSite, node: str, *words: Any) -> Call:
            if node in answers:
                return Call(control_sockets.servers[node].getsockname(), words[0])
            return given(site, node, *words)

        patch.setattr(PushSite, "call", call)
        began = time.monotonic()
        result = send(lab, folder, 0)
        took = time.monotonic() - began
        tries = [MOST_LINES if answers[name] is None else 1 for name in answers]
        assert len(control_sockets.asked) == 2 * sum(tries)  # of who says nothing once more
    return result, took


def test_control_sockets_that_are_filtered_hold_no_push_up(
    lab: LiveLab, tmp_path: Path
) -> None:
    """Twice 0.3 s at most: before, while the file is read, and after."""
    send(lab, tmp_path, 0)
    silent = ["leaf1", "leaf2", "spine1", "spine2", *lab.receivers]
    on_tree = [n for n in silent if n != spine_of(lab, 1)]
    result, took = send_past(lab, tmp_path, dict.fromkeys(on_tree))
    assert states(result) == dict.fromkeys(lab.receivers, "verified")
    assert sorted(result.unheard) == sorted(on_tree)
    assert took < result.seconds + 0.3 + 0.6
    counted = {(row.src, row.counted) for row in result.links}
    assert counted == {("h0", True)} | {(n, False) for n in on_tree if n[0] in "ls"}


FOREIGN = {"bfir_id": 9, "flow": 1, "tx": {"x": {"data": [1]}}}
LIES: list[object] = [
    {},
    [],
    {"links": 7, "drops": {}, "flows": []},
    {"links": {}, "drops": {"\x1b[31mred": 5}, "flows": []},
    {"links": {}, "drops": {"no_buffer": -1}, "flows": []},
    {"links": {}, "drops": {"no_buffer": 10**30}, "flows": []},
    {
        "links": {},
        "drops": {},
        "flows": [FOREIGN],
    },
    {"links": {"spine1": {"tx": {"data": [1, "2"]}, "rx": {}}}, "drops": {}, "flows": []},
    {"links": {}, "drops": {}, "flows": [None]},
    "[" * 50_000,
]


def test_answers_that_lie_or_make_no_sense_end_no_push(lab: LiveLab, tmp_path: Path) -> None:
    nodes = ["leaf1", "leaf2", spine_of(lab, 0), *lab.receivers][: len(LIES)]
    lines = [x if isinstance(x, str) else json.dumps(x) for x in LIES]
    answers: dict[str, bytes | None] = {
        node: line.encode() + b"\n" for node, line in zip(nodes, lines, strict=True)
    }
    result, _ = send_past(lab, tmp_path, answers)
    assert states(result) == dict.fromkeys(lab.receivers, "verified")
    known = [n for n, lie in zip(nodes, LIES, strict=True) if isinstance(lie, dict)]
    heard = set(nodes) - set(result.unheard)
    assert heard == {known[2]}  # of which only a word that is nobody's is left out
    assert heard.isdisjoint(result.drops)
