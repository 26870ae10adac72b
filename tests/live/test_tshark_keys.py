"""The dissector with a key log: trailers checked, payloads opened; without one neither."""

from pathlib import Path

import pytest
from test_tshark import BFIR, RECEIVERS, build_link, one, read, tshark, write_capture
from umac_twin import sealed

from fanfold.live.key_log import KeyLog
from fanfold.seals.link_keys import SessionKeys
from fanfold.seals.primitives import TAG_BYTES, BlockCipher
from fanfold.seals.umac import umac_keys
from fanfold.wire.fan import Data
from fanfold.wire.fold import Fold
from fanfold.wire.hello import Hello
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import build
from fanfold.wire.pcapng import LINKTYPE_ETHERNET, LINKTYPE_IPV4

__all__ = ["tshark"]
KEYS = {0x5EED0001: b"abcdefghijklmnop", 0x5EED0002: bytes(range(16))}
CONTENT_KEY = bytes(range(32))
FLOW, BLOCK, STRIDE = 0x2A00, 7, 1000
PLAIN = b"the secret words of a model " * 100
HEADERS = 12 + 32 + 28 + 16
NAMES = ("link_session", "link_counter", "link_check")
FIELDS = [f"fanfold_bier.{name}" for name in NAMES] + ["fanfold.opened", "fanfold.trailing"]


def content() -> list[bytes]:
    """Packets of a block of a sealed push."""
    room = bytearray(len(PLAIN) + TAG_BYTES)
    BlockCipher(CONTENT_KEY).seal(FLOW | 1, BLOCK, PLAIN, memoryview(room))
    parts = [bytes(room[at : at + STRIDE]) for at in range(0, len(room), STRIDE)]
    return [
        build(
            RECEIVERS,
            BFIR,
            GROUP_ADDRESS,
            40_000,
            Data(FLOW | 1, BLOCK, len(parts), psn, STRIDE, 64, 0),
            part,
        )
        for psn, part in enumerate(parts)
    ]


def packets() -> list[bytes]:
    first, second = KEYS
    hello = build_link(Hello(3, 3, 0xABCD0123, 5, 6, 50_000, 1_000_000, digest=1))
    fold = Fold(kind=Kind.SPREAD, what=0, group=1, n_merged=2)
    large = build(RECEIVERS, BFIR, GROUP_ADDRESS, 40_000, fold, bytes(8000))
    small = build(RECEIVERS, BFIR, GROUP_ADDRESS, 40_000, fold, bytes(200))
    body = [
        sealed(KEYS[first], first, 9 + i, packet, HEADERS) for i, packet in enumerate(content())
    ]
    return [
        sealed(KEYS[second], second, 1, hello, len(hello)),
        sealed(KEYS[second], second, (1 << 40) + 2, small, len(small)),
        sealed(KEYS[second], second, 3, large, len(large)),
        sealed(KEYS[first], second, 4, small, len(small)),
        *body,
    ]


def key_log(path: Path) -> Path:
    log = KeyLog(path)
    (first, one_key), (second, other) = KEYS.items()
    log.note_link(first, second, SessionKeys(umac_keys(other), umac_keys(one_key)))
    log.note_push(FLOW, CONTENT_KEY)
    log.close()
    return path


@pytest.mark.parametrize("linktype", [LINKTYPE_IPV4, LINKTYPE_ETHERNET])
def test_with_a_key_log_tags_are_checked_and_payloads_opened(
    tshark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linktype: int
) -> None:
    path = tmp_path / "keys.pcapng"
    write_capture(path, packets(), linktype)
    monkeypatch.setenv("FANFOLD_KEYLOG", str(key_log(tmp_path / "keys.log")))
    seen = read(tshark, path, FIELDS)
    said = [cells["fanfold_bier.link_check"] for cells in seen]
    n = len(content())
    long = "not checked: it covers more than 1,024 octets"
    assert said == [["good"], ["good"], [long], ["bad"], *[["good"]] * n]
    assert [one(cells["fanfold_bier.link_counter"]) for cells in seen[:3]] == [
        1,
        (1 << 40) + 2,
        3,
    ]
    opened = b"".join(bytes.fromhex(cells["fanfold.opened"][0]) for cells in seen[4:])
    assert opened == PLAIN
    assert all(cells["fanfold.trailing"] == [] for cells in seen)


def test_without_one_nothing_is_opened_and_no_tag_is_called_good(
    tshark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.pcapng"
    write_capture(path, packets(), LINKTYPE_IPV4)
    monkeypatch.delenv("FANFOLD_KEYLOG", raising=False)
    for cells in read(tshark, path, FIELDS):
        assert cells["fanfold_bier.link_check"] == ["not known: no key"]
        assert cells["fanfold.opened"] == []
        assert one(cells["fanfold_bier.link_session"]) in KEYS
    assert b"secret words" not in path.read_bytes()
