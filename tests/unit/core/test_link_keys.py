"""Sessions of links: who asks whom, what is refused, what a flood costs, what is forgotten."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from fanfold.core import link_keys as lk
from fanfold.core.link_keys import (
    DropKeys,
    Ground,
    KeyEffect,
    LinkKeys,
    Peer,
    SendHandshake,
    TakeKeys,
    proven,
)
from fanfold.seals.link_keys import LinkKey
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire import handshake as hs
from fanfold.wire.handshake import Handshake

PORT = 8138
ADDR = {"a": 0x7F000001, "b": 0x7F000002}
KEYS = {name: LinkKey(bytes([i + 1]) * 32) for i, name in enumerate("abc")}
CLOCK = 1_700_000_000_000_000_000


class End:
    """A machine with what its driver would keep."""

    def __init__(
        self, name: str, peer: str, *, udp: int = PORT, n_rows: int = 8, clock: int = CLOCK
    ) -> None:
        self.rows: dict[int, TakeKeys] = {}
        self.counts: dict[int, list[int]] = {}
        self.random = Random(f"{name}{udp}{clock}")
        self.name, self.udp = name, udp
        ground = Ground(KEYS[name], udp, PORT, n_rows, clock, 3 * PS_PER_SECOND)
        one = Peer(KEYS[peer].public, ADDR[peer], name < peer)
        self.machine = LinkKeys(0, ground, {1: one}, self.random.randbytes, self.look)

    def look(self, row: int) -> tuple[int, int]:
        n_in, sent = self.counts.get(row, [0, 0])
        return n_in, sent

    def perform(self, out: Sequence[KeyEffect]) -> list[SendHandshake]:
        sent = []
        for effect in out:
            if isinstance(effect, TakeKeys):
                assert effect.row not in self.rows
                self.rows[effect.row], self.counts[effect.row] = effect, [0, 0]
            elif isinstance(effect, DropKeys):
                del self.rows[effect.row]
            else:
                sent.append(effect)
        return sent

    def timer(self, now: int) -> list[SendHandshake]:
        out: list[KeyEffect] = []
        self.machine.on_timer(now, out)
        return self.perform(out)

    def hear(self, now: int, message: Handshake) -> list[SendHandshake]:
        out: list[KeyEffect] = []
        self.taken = self.machine.on_message(now, 1, message, out)
        return self.perform(out)

    def refuses(self, now: int, message: Handshake) -> bool:
        sent = self.hear(now, message)
        return not self.taken and not sent


def pair(**more: int) -> tuple[End, End]:
    return End("a", "b", **more), End("b", "a", **more)


def agree(one: End, other: End, now: int = 0) -> tuple[TakeKeys, TakeKeys]:
    """One handshake begun by ``one``, and both ends' sessions."""
    before, there = set(one.rows), set(other.rows)
    (first,) = one.timer(now)
    (second,) = other.hear(now, first.message)
    (known,) = one.hear(now, second.message)
    assert known.message.step == hs.KNOWN
    assert other.hear(now, known.message) == []
    mine = next(one.rows[row] for row in one.rows.keys() - before)
    theirs = next(other.rows[row] for row in other.rows.keys() - there)
    return mine, theirs


def test_one_handshake_gives_both_ends_the_same_keys() -> None:
    a, b = pair()
    mine, theirs = agree(a, b)
    assert (mine.keys.out, mine.keys.came) == (theirs.keys.came, theirs.keys.out)
    assert mine.keys.out != mine.keys.came
    assert (mine.id, mine.peer_id) == (theirs.peer_id, theirs.id)
    assert (mine.is_confirmed, theirs.is_confirmed) == (True, False)
    assert mine.id & 0xFFF == mine.row
    assert a.machine.has_session(1)
    assert not b.machine.has_session(1), "nothing came by it yet"
    b.counts[theirs.row][0] = 1
    assert b.timer(PS_PER_SECOND) == []
    assert b.machine.has_session(1)


def test_two_that_begin_at_once_have_two_sessions_and_keep_what_is_used() -> None:
    a, b = pair()
    (from_a,), (from_b,) = a.timer(0), b.timer(lk.SECOND_START_PS)
    (to_a,), (to_b,) = b.hear(1, from_a.message), a.hear(1, from_b.message)
    assert len(a.hear(2, to_a.message)) == len(b.hear(2, to_b.message)) == 1
    assert len(a.rows) == len(b.rows) == 2
    now = 0
    for second in range(40):  # each hears by the session that the other speaks by
        now = second * PS_PER_SECOND + 3
        for end in (a, b):
            for row, keys in end.rows.items():
                end.counts[row][0] += int(keys.is_confirmed)
        assert a.timer(now) == b.timer(now) == []
    assert any(keys.is_confirmed for keys in a.rows.values())
    assert any(keys.is_confirmed for keys in b.rows.values())
    assert now > lk.KEPT_PS
    assert len(a.rows) == len(b.rows) == 1


def test_a_lost_message_is_sent_again_and_again_no_more_than_once_a_second() -> None:
    a, _ = pair()
    sent = []
    for tick in range(1000):
        sent += [tick] * len(a.timer(tick * 10 * PS_PER_MS))
    gaps = [y - x for x, y in pairwise(sent)]
    assert gaps[0] == 20
    assert max(gaps) == 100
    assert len(sent) < 16
    assert len(a.machine._free) == 7, "the one asked for is all that is kept"


def test_a_recorded_handshake_is_refused_by_its_clock() -> None:
    a, b = pair()
    (first,) = a.timer(0)
    b.hear(0, first.message)
    n = len(b.rows)
    assert b.refuses(1, first.message)
    (later,) = a.timer(PS_PER_SECOND)
    assert b.hear(PS_PER_SECOND, later.message)
    assert b.refuses(PS_PER_SECOND, first.message)
    assert len(b.rows) == n


def test_a_node_that_starts_again_is_heard_by_its_wall_clock() -> None:
    a, b = pair()
    agree(a, b, PS_PER_SECOND)
    again = End("a", "b", clock=CLOCK + 2 * 10**9)
    agree(again, b, 0)
    assert len(b.rows) == 1, "of two that nothing came by the newer one"


def test_who_has_another_key_gets_no_session() -> None:
    a, b = pair()
    stranger = End("c", "b")
    (first,) = stranger.timer(lk.SECOND_START_PS)
    assert b.refuses(0, first.message)
    (first,) = a.timer(0)
    (second,) = b.hear(0, first.message)
    assert stranger.refuses(0, second.message)
    for at in range(0, hs.BODY_BYTES[hs.SECOND], 7):
        body = bytearray(second.message.body)
        body[at] ^= 1
        message = Handshake(hs.SECOND, PORT, second.message.session, body=bytes(body))
        assert a.refuses(0, proven(KEYS["a"].public, message))
    assert len(a.hear(0, second.message)) == 1, "the true answer is still taken"


@pytest.mark.parametrize("field", ["port", "session", "proof", "body"])
def test_every_field_of_a_first_message_is_bound(field: str) -> None:
    a, b = pair()
    (first,) = a.timer(0)
    given = {name: getattr(first.message, name) for name in first.message.__struct_fields__}
    value = given[field]
    given[field] = value ^ 1 if isinstance(value, int) else bytes((value[0] ^ 1,)) + value[1:]
    message = Handshake(**given)
    assert b.refuses(0, message)
    if field != "proof":
        assert b.refuses(0, proven(KEYS["b"].public, message))
    assert b.rows == {}


def test_a_link_without_keys_takes_no_handshake() -> None:
    a, b = pair()
    (first,) = a.timer(0)
    b.machine.set_peers(0, {1: Peer(b"", ADDR["a"], False)}, [])
    assert b.refuses(0, first.message)
    assert not b.machine.on_message(0, 9, first.message, [])


def test_a_flood_is_asked_for_cookies_and_costs_few_agreements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = pair()
    tried = 0

    class Counting(lk.Responder):
        def read(self, message: bytes) -> bytes | None:
            nonlocal tried
            tried += 1
            return super().read(message)

    monkeypatch.setattr(lk, "Responder", Counting)
    random = Random(1)
    for i in range(500):
        body = random.randbytes(hs.BODY_BYTES[hs.FIRST])
        message = proven(KEYS["b"].public, Handshake(hs.FIRST, 1000 + i, i, body=body))
        answer = b.hear(0, message)
        assert [x.message.step for x in answer] in ([], [hs.COOKIE])
        assert len(hs.encode(message)) > sum(len(hs.encode(x.message)) for x in answer)
    assert tried == lk.EASY_TRIES
    (first,) = a.timer(0)
    (cookie,) = b.hear(1, first.message)
    assert cookie.message.step == hs.COOKIE
    assert (cookie.port, cookie.dport) == (1, PORT)
    assert a.hear(1, cookie.message) == []
    (again,) = a.timer(1)
    (second,) = b.hear(1, again.message)
    assert second.message.step == hs.SECOND
    moved = Handshake(hs.FIRST, 999, 5, cookie=again.message.cookie, body=again.message.body)
    (asked,) = b.hear(1, proven(KEYS["b"].public, moved))
    assert asked.message.step == hs.COOKIE, "another UDP port has another cookie"
    for k in range(1, len(first.message.cookie)):
        made = Handshake(hs.COOKIE, PORT, 1 << 31 | k, cookie=bytes(16))
        assert a.refuses(2, proven(KEYS["a"].public, made)), "of no handshake of this one"


def test_an_old_session_is_replaced_by_who_began_it_and_both_are_good_meanwhile() -> None:
    a, b = pair()
    mine, theirs = agree(a, b)
    now = 0
    for second in range(1, 122):
        now = second * PS_PER_SECOND
        a.counts[mine.row][0] += 1
        b.counts[theirs.row][0] += 1
        sent = a.timer(now)
        assert b.timer(now) == []
        if sent:
            break
    assert lk.REKEY_PS < now <= lk.REKEY_PS + PS_PER_SECOND
    (second_message,) = b.hear(now, sent[0].message)
    assert mine.row in a.rows
    a.hear(now, second_message.message)
    assert (len(a.rows), len(b.rows)) == (2, 2)
    new = next(row for row in b.rows if row != theirs.row)
    b.counts[new][0] = 1
    for end in (a, b):
        end.timer(now + PS_PER_SECOND)
    assert (len(a.rows), len(b.rows)) == (2, 2), "what is under way still comes by the old one"
    for end in (a, b):
        end.timer(now + lk.KEPT_PS + 2 * PS_PER_SECOND)
    assert (len(a.rows), len(b.rows)) == (1, 1)


def test_who_hears_nothing_after_it_spoke_asks_anew() -> None:
    a, b = pair()
    mine, _ = agree(a, b)
    a.counts[mine.row] = [1, 1]
    assert a.timer(PS_PER_SECOND) == []
    assert a.timer(60 * PS_PER_SECOND) == [], "it said nothing, so no answer is due"
    a.counts[mine.row] = [1, 2]
    assert a.timer(61 * PS_PER_SECOND) == []
    assert a.timer(63 * PS_PER_SECOND) == []
    (first,) = a.timer(65 * PS_PER_SECOND)
    assert first.message.step == hs.FIRST


def test_who_asks_anew_before_a_look_keeps_what_it_speaks_by_until_then() -> None:
    a, b = pair()
    _, theirs = agree(a, b)
    b.counts[theirs.row][0] = 1  # compiled code heard it, no look was since
    a.machine.rekey(PS_PER_MS)
    (first,) = a.timer(PS_PER_MS)
    assert len(b.hear(PS_PER_MS, first.message)) == 1
    assert theirs.row in b.rows, "what is on its way comes by it"
    assert len(b.rows) == 2


def test_rekey_asks_at_once() -> None:
    a, b = pair()
    agree(a, b)
    a.machine.rekey(PS_PER_SECOND)
    mine, theirs = agree(a, b, PS_PER_SECOND)
    assert mine.keys.out == theirs.keys.came
    assert len(a.rows) == 2


def test_who_is_revoked_has_no_session_and_gets_none() -> None:
    a, b = pair()
    agree(a, b)
    a.machine.rekey(1)
    (first,) = a.timer(1)
    out: list[KeyEffect] = []
    b.machine.set_peers(0, {1: Peer(b"", ADDR["a"], False)}, out)
    b.perform(out)
    assert b.rows == {}
    assert b.refuses(1, first.message)
    assert b.timer(10 * PS_PER_SECOND) == []
    assert len(b.machine._free) == 8


def test_a_push_has_a_session_of_its_own_that_ends_when_it_is_quiet() -> None:
    node, push = End("b", "a"), End("a", "b", udp=40_000)
    (first,) = push.timer(0)
    assert (first.port, first.dport, first.message.port) == (1, PORT, 40_000)
    (second,) = node.hear(0, first.message)
    assert (second.port, second.dport) == (1, 40_000)
    push.hear(0, second.message)
    (theirs,) = node.rows.values()
    assert theirs.dport == 40_000
    node.counts[theirs.row][0] = 1
    node.timer(PS_PER_SECOND)
    assert not node.machine.has_session(1), "it is not the neighbour's node"
    node.timer(lk.IDLE_PS)
    assert theirs.row in node.rows
    node.timer(lk.IDLE_PS + 2 * PS_PER_SECOND)
    assert theirs.row not in node.rows


def test_pushes_without_end_make_room_for_each_other_and_nodes_keep_theirs() -> None:
    node, neighbour = End("b", "a", n_rows=4), End("a", "b", n_rows=4)
    _, theirs = agree(neighbour, node)
    node.counts[theirs.row][0] = 1
    node.timer(1)
    for i in range(20):
        push = End("a", "b", udp=40_000 + i, clock=CLOCK + (i + 1) * 10**9)
        (first,) = push.timer(0)
        now = (i + 1) * PS_PER_SECOND
        (second,) = node.hear(now, first.message)
        assert push.hear(now, second.message)
        assert len(node.rows) <= 4
        assert theirs.row in node.rows


def test_any_message_leaves_a_machine_that_works() -> None:
    a, b = pair()
    random = Random(7)
    for i in range(300):
        step = random.choice(sorted(hs.BODY_BYTES))
        body = random.randbytes(hs.BODY_BYTES[step])
        port = random.randrange(1, 1 << 16)
        number = random.randrange(1 << 32)
        message = Handshake(
            step, port, number, random.randbytes(16), random.randbytes(16), body
        )
        if random.random() < 0.5:
            message = proven(KEYS["b"].public, message)
        b.hear(i, message)
    assert b.rows == {}
    agree(a, b, 2 * PS_PER_SECOND)


def test_a_key_that_is_no_longer_named_ends_its_sessions() -> None:
    a, b = pair()
    _, theirs = agree(a, b)
    b.counts[theirs.row][0] = 1
    assert b.timer(lk.LOOK_PS) == []
    new, addr = LinkKey(bytes([9]) * 32), ADDR["a"]
    both = Peer(KEYS["a"].public, addr, False, also=new.public)
    b.machine.set_peers(1, {1: both}, [])
    assert len(b.rows) == 1
    a.machine.set_own(new, KEYS["a"])
    a.machine.rekey(PS_PER_SECOND)
    agree(a, b, PS_PER_SECOND)
    assert len(b.rows) == 2, "both count"
    out: list[KeyEffect] = []
    b.machine.set_peers(2, {1: Peer(new.public, addr, False)}, out)
    b.perform(out)
    assert len(b.rows) == 1
    old = End("a", "b", clock=2 * CLOCK)
    (first,) = old.timer(0)
    assert b.refuses(3 * PS_PER_SECOND, first.message), "the old key asks for nothing more"


def test_who_asks_by_either_key_of_a_node_is_answered_while_both_count() -> None:
    a, b = pair()
    new = LinkKey(bytes([9]) * 32)
    b.machine.set_own(new, KEYS["b"])
    agree(a, b)
    a.machine.set_peers(1, {1: Peer(new.public, ADDR["b"], True, also=KEYS["b"].public)}, [])
    mine, theirs = agree(a, b, PS_PER_SECOND)
    assert mine.keys.out == theirs.keys.came
    b.machine.set_own(new, None)
    a.machine.set_peers(2, {1: Peer(KEYS["b"].public, ADDR["b"], True)}, out := [])
    a.perform(out)
    (first,) = a.timer(3 * PS_PER_SECOND)
    assert b.refuses(3 * PS_PER_SECOND, first.message)
