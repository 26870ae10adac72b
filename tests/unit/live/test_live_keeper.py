"""When neighbours are due is asked before each turn, and worked out once for each change."""

import socket
from collections.abc import Iterator

import pytest

from fanfold.core.session import Pace
from fanfold.live import sock as s
from fanfold.live.event_loop import EventLoop
from fanfold.live.keeper import Keeper
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.live.swap import Swap
from fanfold.topo.lab_fabric import leaf_spine


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    fabric = leaf_spine(1, 0, 2, name="x", prefix=81)
    state = build_node_state(fabric, "h1", Limits())
    sock = open_socket("127.0.0.1", 0, "h1")
    loop = EventLoop(sock, build_sock(sock, len(state.ports.addr)), state, None)
    tables = Swap(fabric, "h1", state.bifts)
    yield Keeper(fabric, "h1", loop, tables, lambda line: None, Pace())
    loop.close()


def test_a_deadline_is_worked_out_anew_when_something_was_heard_or_done(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    known = keeper.machine.deadline_ps

    def deadline_ps(now: int) -> int:
        asked.append(now)
        return known(now)

    monkeypatch.setattr(keeper.machine, "deadline_ps", deadline_ps)
    now = keeper._next_ps
    keeper.on_timer(now)  # the first HELLO leaves
    due = keeper.deadline_ps(now)
    assert due > now
    assert keeper.deadline_ps(now + 1) == due
    assert asked == [now]
    keeper.on_link(now + 2, b"?", 1)
    keeper.deadline_ps(now + 2)
    assert asked == [now, now + 2]
    keeper.greet(1)
    assert keeper.deadline_ps(now + 3) <= now + 3
    keeper.on_timer(now + 3)
    assert keeper.deadline_ps(now + 3) > now + 3
    late = due + 10**12
    assert keeper.deadline_ps(late) == known(late)
    keeper.on_timer(late)
    assert keeper.deadline_ps(late) > late
    assert len(asked) == 6
    keeper.event_loop.io.ints[s.STIRRED] = 1  # traffic came to a node at rest
    keeper.on_timer(late)
    keeper.deadline_ps(late)
    assert len(asked) == 7


def test_a_wake_is_heard_once(keeper: Keeper) -> None:
    loop = keeper.event_loop
    loop.step(0)
    loop.wake()
    loop.step()
    with pytest.raises(BlockingIOError):
        loop._woken.recv(1, socket.MSG_DONTWAIT)
