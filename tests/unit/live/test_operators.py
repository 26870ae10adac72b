"""Who may do what at a node's control socket: neighbours read, the operator changes."""

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from seals_world import OTHER, SENDER
from test_live_control_sockets import ask_as

from fanfold.api import keys as api_keys
from fanfold.api.keys import Place, operators_at
from fanfold.live import control
from fanfold.live.control import Commands, open_local, open_tcp
from fanfold.live.control_sockets import Call, ask_all, call
from fanfold.live.operators import ASK, MAY, NOBODY, REFUSED, Operators, signer
from fanfold.seals.keys import KeyPair, PublicKey
from fanfold.seals.trust import TrustRow, save_trust

VERBS = ("status", "rekey", "table", "vat", "fail", "impair", "capture")
OPERATOR = SENDER
"""Keys that somebody has."""


class Node:
    """Control of one node over TCP, and what was done there."""

    def __init__(self, name: str = "leaf1", fabric: str = "rack") -> None:
        self.done: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.who: tuple[PublicKey, ...] = (OPERATOR.public,)
        self.name, self.fabric = name, fabric
        commands = Commands(dict.fromkeys(VERBS, self.do), lambda: None)
        commands._wake = commands.run_waiting
        with closing(socket.create_server(("127.77.0.1", 0))) as probe:
            self.where: tuple[str, int] = probe.getsockname()
        operators = Operators(fabric, name, lambda: self.who, self.said.append)
        known = frozenset({"127.77.0.9"})
        self.close = open_tcp(*self.where, commands, known, operators=operators)

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        self.done.append(request)
        return {"ok": request["do"]}

    def order(self, keys: KeyPair, request: dict[str, Any], **of: str) -> dict[str, Any]:
        name, fabric = of.get("name", self.name), of.get("fabric", self.fabric)
        sign = signer(keys, fabric, name, request)
        return ask_all({"a": Call(self.where, ASK, sign=sign)}, 5.0)["a"]

    def line(self, stack: ExitStack) -> tuple[socket.socket, dict[str, Any]]:
        """A connection, and the challenge that it was given."""
        sock = stack.enter_context(closing(socket.create_connection(self.where, 5.0)))
        sock.sendall(json.dumps(ASK).encode() + b"\n")
        return sock, json.loads(sock.recv(4096))


@pytest.fixture(scope="module")
def made() -> Iterator[Node]:
    node = Node()
    yield node
    node.close()


@pytest.fixture
def node(made: Node) -> Node:
    made.done.clear()
    made.said.clear()
    made.who = (OPERATOR.public,)
    return made


def test_an_operator_changes_a_node_and_its_log_says_so(node: Node) -> None:
    request = {"do": "rekey", "revoked": ["h3"]}
    assert node.order(OPERATOR, request) == {"ok": "rekey"}
    assert node.done == [request]
    assert node.said == [f"operator {OPERATOR.public.short}: rekey"]
    for verb in VERBS:
        told = node.order(OPERATOR, {"do": verb})
        assert ("ok" in told) == (verb in MAY), verb
    assert "capture" not in MAY, "it writes files"


@pytest.mark.parametrize("what", ["key", "name", "fabric"])
def test_an_order_counts_at_one_node_of_one_fabric_by_the_operators_key(
    node: Node, what: str
) -> None:
    keys = OTHER if what == "key" else OPERATOR
    of = {"name": "spine1"} if what == "name" else {"fabric": "lab"} if what == "fabric" else {}
    assert node.order(keys, {"do": "rekey"}, **of) == REFUSED
    assert (node.done, node.said) == ([], [])


def test_an_order_that_was_heard_counts_on_no_other_connection_and_not_changed(
    node: Node,
) -> None:
    sign = signer(OPERATOR, node.fabric, node.name, {"do": "rekey"})
    with ExitStack() as stack:
        (first, one), (second, two) = node.line(stack), node.line(stack)
        assert one["challenge"] != two["challenge"]
        heard = sign(one["challenge"])
        changed = sign(two["challenge"]) | {"order": '{"do": "fail", "links": {}}'}
        third, _ = node.line(stack)
        for sock, line, answer in (
            (first, heard, {"ok": "rekey"}),
            (second, changed, REFUSED),
            (third, heard, REFUSED),
        ):
            sock.sendall(json.dumps(line).encode() + b"\n")
            assert json.loads(sock.recv(4096)) == answer
    assert len(node.done) == 1


def test_who_is_the_operator_no_more_has_no_further_order(node: Node) -> None:
    with ExitStack() as stack:
        sock, told = node.line(stack)
        node.who = ()
        line = signer(OPERATOR, node.fabric, node.name, {"do": "rekey"})(told["challenge"])
        sock.sendall(json.dumps(line).encode() + b"\n")
        assert json.loads(sock.recv(4096)) == REFUSED
    assert node.order(OPERATOR, {"do": "rekey"}) == NOBODY
    node.who = (OTHER.public, OPERATOR.public)
    assert node.order(OPERATOR, {"do": "rekey"}) == {"ok": "rekey"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1]",
        b"\xff",
        b"[" * 60_000,
        b'{"order": 5, "signature": "00"}',
        b'{"order": "{}", "signature": "x"}',
        b'{"order": "{}", "signature": "00", "more": 1}',
        b'{"order": "\\ud800", "signature": "00"}',
    ],
)
def test_what_is_no_order_is_refused(node: Node, line: bytes) -> None:
    with ExitStack() as stack:
        sock, _ = node.line(stack)
        sock.sendall(line + b"\n")
        assert json.loads(sock.recv(4096)) == REFUSED
    assert node.order(OPERATOR, {"do": "status"}) == {"ok": "status"}


def test_few_give_orders_at_once(node: Node) -> None:
    with ExitStack() as stack:
        for _ in range(control.MAX_OPERATORS):
            assert "challenge" in node.line(stack)[1]
        assert "operators are here" in node.line(stack)[1]["error"]
        assert call(node.where, {"do": "status"}) == {"ok": "status"}


def test_a_node_that_knows_no_operator_takes_no_order() -> None:
    commands = Commands({"rekey": dict}, lambda: None)
    with closing(socket.create_server(("127.77.0.1", 0))) as probe:
        where = probe.getsockname()
    close = open_tcp(*where, commands, frozenset())
    try:
        assert call(where, ASK) == NOBODY
    finally:
        close()


def test_neighbours_read_and_change_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "local_owner", lambda sock: None)  # of another machine
    near = {verb: Call(node.where, {"do": verb}, "127.77.0.9") for verb in VERBS}
    answers = ask_all(near, 5.0)
    assert [verb for verb, told in answers.items() if "ok" in told] == ["status"]
    assert call(node.where, {"do": "status"}) == control.STRANGER, "no address of the fabric"
    assert node.done == [{"do": "status"}]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_changes_nothing_by_a_socket_that_lies_open() -> None:
    commands = Commands({"rekey": lambda request: {"ok": True}}, lambda: None)
    commands._wake = commands.run_waiting
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.sock"
        close = open_local(path, commands)
        try:
            assert path.stat().st_mode & 0o777 == 0o600
            for place, mode in ((Path(folder), 0o755), (path, 0o666)):
                place.chmod(mode)
            assert ask_as(65534, path, "") == control.STRANGER
            assert call(path, {"do": "rekey"}) == {"ok": True}
        finally:
            close()


def test_who_gives_orders_is_what_the_trust_file_says_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trusted.toml"
    who: Callable[[], tuple[PublicKey, ...]] = operators_at("leaf1", Place(tmp_path))
    assert who() == ()
    rows = [TrustRow("h0", OTHER.public.text), TrustRow("operator", OPERATOR.public.text)]
    save_trust(file, rows)
    assert who() == (OPERATOR.public,)
    save_trust(file, [rows[0], TrustRow("operator", OPERATOR.public.text, until="2030-03-01")])
    assert who() == (OPERATOR.public,)
    monkeypatch.setattr(api_keys, "unix_s", lambda: 1_898_640_000)
    assert who() == (), "it ended, and the file is the same"
    save_trust(file, [rows[0]])
    assert who() == ()
    save_trust(file, rows)
    assert who() == (OPERATOR.public,)
    file.write_text("[[trust]\n")
    assert who() == ()
