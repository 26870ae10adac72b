"""Keys of a receiver that runs: files that change, keys that end."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernel_nodes import BFIR
from seals_world import NAMES, OTHER, RECEIVER, SENDER, Signed, gate_of
from test_push_seals import World, refused

from fanfold.push import trust_watch
from fanfold.push.envelope import unwrap, wrap
from fanfold.push.gate import Gate, RefusedError
from fanfold.push.receiver_role import ReceiverRole
from fanfold.push.trust_watch import LOOK_PS, TrustWatch
from fanfold.seals.keys import KEY_FILE, TRUST_FILE, KeyPair, load_keys, write_whole
from fanfold.seals.trust import TrustRow, load_trust, save_trust, trust_at
from fanfold.wire.report import ReportState

FLOW, NONCE = 8, 77
DAY_S = 86_400
LAST = "2030-03-01"
OVER_S = 1_898_640_000
"""Its end: 2030-03-02 00:00 UTC is 21,975 days after 1970."""


class Place:
    """A folder of keys, a gate made from it, and a watch."""

    def __init__(self, folder: Path, now_s: int = 0) -> None:
        self.folder, self.trusted = folder, folder / TRUST_FILE
        self.write_key(RECEIVER)
        self.write(TrustRow("h0", SENDER.public.text))
        self.said: list[str] = []
        self.n_changed = 0
        self.now_ps = 0
        trust = trust_at(load_trust(self.trusted), now_s)
        self.gate = Gate(1, load_keys(folder), trust, NAMES.__getitem__)
        self.watch = TrustWatch(self.gate, folder, self.trusted, self.changed, self.said.append)

    def changed(self) -> None:
        self.n_changed += 1

    def write_key(self, keys: KeyPair) -> None:
        write_whole(self.folder / KEY_FILE, keys.secret_text)

    def write(self, *rows: TrustRow) -> None:
        save_trust(self.trusted, rows)

    def look(self) -> None:
        self.now_ps += LOOK_PS
        self.watch.look(self.now_ps)

    def why_not(self, signed: Signed) -> str:
        """Why a push is not let in; empty: it is."""
        try:
            self.gate.admit(unwrap(signed.envelope), FLOW, BFIR)
        except RefusedError as error:
            return str(error)
        return ""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the wall clock that keys end by."""
    return lambda now_s: monkeypatch.setattr(trust_watch, "unix_s", lambda: now_s)


def test_who_is_trusted_or_no_more_counts_within_a_second(place: Place, tmp_path: Path) -> None:
    mine = Signed(tmp_path, FLOW, NONCE)
    theirs = Signed(tmp_path, FLOW, NONCE, keys=OTHER)
    grant = place.gate.admit(unwrap(mine.envelope), FLOW, BFIR)
    assert "unknown key" in place.why_not(theirs)
    place.write(TrustRow("h0", OTHER.public.text))
    assert place.why_not(mine) == ""
    place.look()
    assert "unknown key" in place.why_not(mine)
    assert place.why_not(theirs) == ""
    lost = place.gate.loss(grant, BFIR)
    assert lost is not None
    assert "unknown key" in str(lost)
    assert place.n_changed == 1
    place.look()
    assert place.n_changed == 1, "nothing is new"


def test_a_push_that_is_let_in_still_is_lost_by_no_other_change(
    place: Place, tmp_path: Path
) -> None:
    grant = place.gate.admit(unwrap(Signed(tmp_path, FLOW, NONCE).envelope), FLOW, BFIR)
    place.write(TrustRow("h0", SENDER.public.text), TrustRow("h0", OTHER.public.text))
    place.look()
    assert place.n_changed == 1
    assert place.gate.loss(grant, BFIR) is None
    assert place.gate.loss(None, BFIR) is None


def test_a_sealed_push_opens_by_the_key_that_the_folder_has_now(
    place: Place, tmp_path: Path
) -> None:
    sealed = Signed(tmp_path, FLOW, NONCE, receiver=OTHER, is_sealed=True)
    assert "not for this key" in place.why_not(sealed)
    place.write_key(OTHER)
    place.look()
    assert place.why_not(sealed) == ""
    assert place.gate.keys is not None
    assert place.gate.keys.public == OTHER.public


def test_what_is_faulty_or_gone_changes_nothing_and_is_told(
    place: Place, tmp_path: Path
) -> None:
    mine = Signed(tmp_path, FLOW, NONCE)
    place.trusted.write_text("[[trust]\n")
    place.look()
    place.look()
    assert len(place.said) == 1
    assert place.said[0].startswith("keys stay as they are: ")
    place.trusted.unlink()
    place.look()
    assert not place.gate.is_open
    assert place.why_not(mine) == ""
    assert len(place.said) == 2


def test_an_open_receiver_closes_when_it_gets_a_trust_file(tmp_path: Path) -> None:
    gate = Gate(1)
    watch = TrustWatch(gate, tmp_path, tmp_path / TRUST_FILE, lambda: None, [].append)
    watch.look(0)
    assert gate.is_open
    grant = gate.admit(unwrap(wrap(NONCE, b"manifest")), FLOW, BFIR)
    save_trust(tmp_path / TRUST_FILE, [TrustRow("h0", SENDER.public.text)])
    watch.look(LOOK_PS)
    assert not gate.is_open
    assert "not signed" in str(gate.loss(grant, BFIR))


def test_a_key_ends_with_its_last_day_and_is_warned_of_once_a_day(
    place: Place, tmp_path: Path, at: Callable[[int], None]
) -> None:
    mine = Signed(tmp_path, FLOW, NONCE)
    place.write(TrustRow("h0", SENDER.public.text, until=LAST))
    at(OVER_S - 15 * DAY_S)
    place.look()
    assert place.said == []
    at(OVER_S - 9 * DAY_S)
    place.look()
    place.look()
    assert place.said == [f"the key {SENDER.public.short} of h0 ends in 9 days ({LAST})"]
    grant = place.gate.admit(unwrap(mine.envelope), FLOW, BFIR)
    at(OVER_S - 1)
    place.look()
    assert place.why_not(mine) == ""
    assert place.gate.loss(grant, BFIR) is None
    at(OVER_S)
    place.look()
    assert place.why_not(mine) == f"the key of h0 ended ({LAST})"
    assert place.gate.loss(grant, BFIR) is not None
    at(OVER_S + DAY_S)
    place.look()
    assert place.said[-1] == f"the key {SENDER.public.short} of h0 ended ({LAST})"


def test_pushes_under_way_end_with_the_trust_in_their_sender_and_it_is_told(
    tmp_path: Path,
) -> None:
    gate = gate_of()
    world = World(tmp_path, gate)
    push = Signed(tmp_path, FLOW, NONCE)
    session = world.begin(push.envelope, FLOW)
    assert session.state == ReportState.READY
    told: list[object] = []
    role = SimpleNamespace(
        machine=world.receiver.machine, _tell_sender=lambda now, one: told.append(one)
    )
    ReceiverRole.on_keys(role, 5)  # type: ignore[arg-type]
    assert (session.state, told) == (ReportState.READY, [])
    gate.use(gate.keys, {})
    ReceiverRole.on_keys(role, 5)  # type: ignore[arg-type]
    assert refused(session, f"signature of an unknown key {SENDER.public.short}")
    assert told == [session]
    assert world.drops() == {"not_trusted": 1}
    ReceiverRole.on_keys(role, 6)  # type: ignore[arg-type]
    assert told == [session], "it is told once"
