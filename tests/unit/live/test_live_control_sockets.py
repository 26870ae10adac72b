"""Many control sockets at once: who answers, who is silent, who lies, and who may ask."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from fanfold.live import control, control_sockets, owner
from fanfold.live.control import Commands, open_local, open_tcp
from fanfold.live.control_sockets import Call, ask_all, begin_asking, call
from fanfold.live.owner import local_owner

ASK = {"do": "status"}
Serve = Callable[[bytes], tuple[str, int]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers that send some bytes to whoever comes, and keep the connection."""
    with ExitStack() as stack:

        def start(answer: bytes) -> tuple[str, int]:
            server = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))

            def run() -> None:
                try:
                    while True:
                        sock = stack.enter_context(closing(server.accept()[0]))
                        sock.recv(1000)
                        sock.sendall(answer)
                except OSError:
                    return

            threading.Thread(target=run, daemon=True).start()
            where: tuple[str, int] = server.getsockname()
            return where

        yield start


@pytest.fixture
def silent() -> Iterator[list[Path | tuple[str, int]]]:
    """They never answer: one accepts, one has no more room to, as when SYNs are lost."""
    with ExitStack() as stack:
        takes = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        full = stack.enter_context(closing(socket.socket()))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            filler = stack.enter_context(closing(socket.socket()))
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield [takes.getsockname(), full.getsockname()]


def node(answer: object) -> Commands:
    commands = Commands({"status": lambda request: {"got": answer}}, lambda: None)
    commands._wake = commands.run_waiting
    return commands


@pytest.mark.parametrize("is_look", [True, False])
def test_a_look_is_asked_again_where_packets_are_lost(is_look: bool) -> None:
    n_came = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server, ExitStack() as stack:

        def run() -> None:
            with suppress(OSError):
                while True:
                    sock = stack.enter_context(closing(server.accept()[0]))
                    n_came.append(sock)
                    if len(n_came) == 2:
                        sock.recv(1000)
                        sock.sendall(b'{"x": 1}\n')

        threading.Thread(target=run, daemon=True).start()
        began = time.monotonic()
        answers = ask_all({"a": Call(server.getsockname(), ASK, is_look=is_look)}, 0.5)
        took = time.monotonic() - began
    if is_look:
        assert answers == {"a": {"x": 1}}
        assert took < 0.4
        assert len(n_came) == 2
    else:
        assert "silent for 0.5 s" in answers["a"]["error"]
        assert len(n_came) == 1


def test_who_never_answers_is_asked_three_times_at_most(
    silent: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    begin = control_sockets._Line.__init__

    def count(self: object, name: str, what: Call) -> None:
        begun.append(name)
        begin(self, name, what)  # type: ignore[arg-type]

    monkeypatch.setattr(control_sockets._Line, "__init__", count)
    calls = {name: Call(silent[0], ASK, is_look=True) for name in ("a", "b")}
    calls["c"] = Call(("127.0.0.1", 1), ASK, is_look=True)
    answers = ask_all(calls, 0.4)
    assert all("error" in answer for answer in answers.values())
    assert sorted(begun) == ["a", "a", "a", "b", "b", "b", "c"]


def test_all_are_asked_at_once_and_the_silent_cost_one_patience(
    tmp_path: Path, serve: Serve, silent: list[tuple[str, int]]
) -> None:
    close = open_local(tmp_path / "d", node(7))
    calls = {f"s{i}": Call(silent[i % 2], ASK) for i in range(20)}
    calls |= {"unix": Call(tmp_path / "d", ASK), "tcp": Call(serve(b'{"x": 1}\n'), ASK)}
    calls["none"] = Call(tmp_path / "nobody", ASK)
    calls["closed"] = Call(("127.0.0.1", 1), ASK)
    began = time.monotonic()
    answers = ask_all(calls, 0.3)
    took = time.monotonic() - began
    close()
    assert 0.3 <= took < 0.6
    assert list(answers) == list(calls)
    assert (answers["unix"], answers["tcp"]) == ({"got": 7}, {"x": 1})
    wrong = {n: a["error"] for n, a in answers.items() if n not in ("unix", "tcp")}
    assert len(wrong) == 22
    assert all(word.startswith("no answer: ") for word in wrong.values())


def test_nobody_to_wait_for_costs_nothing(serve: Serve) -> None:
    where = serve(b"{}\n")
    began = time.monotonic()
    assert ask_all({}, 5.0) == {}
    assert ask_all({"a": Call(where, ASK)}, 5.0) == {"a": {}}
    assert time.monotonic() - began < 1.0


def test_answers_that_come_slowly_are_waited_for_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        callers: list[socket.socket] = []

        def run() -> None:
            while len(callers) < 8:
                callers.append(stack.enter_context(closing(server.accept()[0])))
            for sock in callers:
                time.sleep(0.2)
                sock.sendall(b"{}\n")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        calls = {f"n{i}": Call(server.getsockname(), ASK) for i in range(8)}
        began = time.monotonic()
        answers = ask_all(calls, 0.3)
        took = time.monotonic() - began
        thread.join()
    n_answered = sum("error" not in answer for answer in answers.values())
    assert 2 <= n_answered <= 4  # each within the patience after the one before
    assert took <= 0.3 * control_sockets.MOST + 0.2


@pytest.mark.parametrize(
    "lie",
    [
        b"\n",
        b"hello\n",
        b"[1]\n",
        b"7\n",
        b"\xff\xfe\n",
        b'{"a": ' * 100_000 + b"\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_answer_is_an_error(serve: Serve, lie: bytes) -> None:
    assert "error" in ask_all({"a": Call(serve(lie), ASK)}, 2.0)["a"]


def test_an_answer_without_end_is_left(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setattr(control_sockets, "MAX_ANSWER_BYTES", 10_000)
    began = time.monotonic()
    assert "error" in ask_all({"a": Call(serve(b"x" * 100_000), ASK)}, 5.0)["a"]
    assert time.monotonic() - began < 2


def test_asking_in_the_background_does_not_wait(silent: list[tuple[str, int]]) -> None:
    began = time.monotonic()
    result = begin_asking({"a": Call(silent[0], ASK)}, 0.3)
    assert time.monotonic() - began < 0.1
    assert "error" in result()["a"]
    assert 0.3 <= time.monotonic() - began < 0.6
    assert result() == result()


# Who may ask.


def ask_as(user: int, where: tuple[str, int], source: str) -> dict[str, object]:
    """One question by a process of another user."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(user)
        answer = ask_all({"a": Call(where, ASK, source)}, 5.0)["a"]
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as file:
        answer = json.loads(file.read())
    assert isinstance(answer, dict)
    return answer


def tcp_control_socket(known: frozenset[str]) -> tuple[tuple[str, int], Callable[[], None]]:
    with closing(socket.create_server(("127.77.0.1", 0))) as probe:
        where: tuple[str, int] = probe.getsockname()
    return where, open_tcp(*where, node("flows"), known)


def test_this_user_is_told_whatever_the_address() -> None:
    where, close = tcp_control_socket(frozenset())
    try:
        for source in ("", "127.0.0.1", "127.9.9.9"):
            assert ask_all({"a": Call(where, ASK, source)}, 5.0)["a"] == {"got": "flows"}
    finally:
        close()


@pytest.mark.parametrize("source", ["127.0.0.1", "127.77.0.9"])
def test_another_user_of_the_machine_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Also not by an address of the fabric, which on loopback anybody may take."""
    where, close = tcp_control_socket(frozenset({"127.77.0.9"}))
    try:
        if os.getuid() == 0:
            answer = ask_as(65534, where, source)
        else:
            monkeypatch.setattr(control.os, "getuid", lambda: os.geteuid() + 1)
            answer = ask_all({"a": Call(where, ASK, source)}, 5.0)["a"]
    finally:
        close()
    assert answer == control.STRANGER
    assert "flows" not in str(answer)


@pytest.mark.parametrize(("address", "is_told"), [("10.1.1.2", True), ("10.1.1.3", False)])
def test_another_machine_is_told_by_its_address(
    monkeypatch: pytest.MonkeyPatch, address: str, is_told: bool
) -> None:
    class Sock:
        def getsockname(self) -> tuple[str, int]:
            return ("10.1.1.1", 8138)

        def getpeername(self) -> tuple[str, int]:
            return (address, 4444)

    assert local_owner(Sock()) is None  # type: ignore[arg-type]
    known = frozenset({"10.1.1.2"})
    assert control.is_known(Sock(), None, known) == is_told  # type: ignore[arg-type]
    assert not control.is_known(Sock(), owner.HUNG_UP, known)  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", ["_ask_kernel", "_search_table"])
def test_the_kernel_names_the_owner_of_a_connection_until_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    if ask == "_search_table":
        monkeypatch.setattr(owner, "SOCK_DIAG", 99)  # a kernel without it
    else:
        monkeypatch.setattr(owner, "TABLE", Path("/nowhere"))
    with closing(socket.create_server(("127.77.0.1", 0))) as server:
        caller = socket.create_connection(server.getsockname(), 5.0)
        with closing(server.accept()[0]) as sock:
            assert local_owner(sock) == os.geteuid()
            caller.shutdown(socket.SHUT_RDWR)
            caller.close()
            assert sock.recv(1) == b""
            assert local_owner(sock) == owner.HUNG_UP


def test_a_caller_costs_the_kernel_no_look_at_all_its_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "TABLE", Path("/nowhere"))
    where, close = tcp_control_socket(frozenset())
    try:
        assert call(where, ASK) == {"got": "flows"}
    finally:
        close()


def test_trees_are_installed_by_the_nodes_own_user_only() -> None:
    commands = control.Commands(dict.fromkeys(("status", "vat", "impair"), dict), print)
    assert commands.allowed(is_local=False, is_own=False) == {"status"}
    assert commands.allowed(is_local=False, is_own=True) == {"status", "vat"}
    assert commands.allowed(is_local=True, is_own=True) == {"status", "vat", "impair"}


def test_only_status_by_tcp_and_one_question_by_call(tmp_path: Path) -> None:
    where, close = tcp_control_socket(frozenset())
    try:
        assert call(where, {"do": "impair"}) == {"error": "do: allowed: status"}
        assert call(where, ASK) == {"got": "flows"}
    finally:
        close()
