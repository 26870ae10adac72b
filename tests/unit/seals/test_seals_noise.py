"""Noise IK against the published vector, and what is no message of it."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fanfold.seals import noise
from fanfold.seals.noise import Initiator, Responder
from fanfold.seals.primitives import public_of_agreement
from fanfold.wire.handshake import BODY_BYTES, FIRST, SECOND

# Noise_IK_25519_AESGCM_SHA256 of the cacophony vectors, as other implementations test by.
PROLOGUE = bytes.fromhex("4a6f686e2047616c74")
STATIC_I = bytes.fromhex("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1")
EPHEMERAL_I = bytes.fromhex("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a")
STATIC_R = bytes.fromhex("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893")
PUBLIC_R = bytes.fromhex("31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62")
EPHEMERAL_R = bytes.fromhex("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b")
HASH = "669c8640d9e42a3cda2f232f78597ceefb01daa6e3df81181ccce6fc6b5026bf"
SAID = [
    b"Ludwig von Mises",
    b"Murray Rothbard",
    b"F. A. Hayek",
    b"Carl Menger",
]
SENT = [
    "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444e417bc55c7a8166c993356c1be4"
    "1ef67818a292426f301556c7f26b21d25ddb097153891a9a956cff47b83e63ad8d701c1342c209cff1ca5ecd4340"
    "2762ac249e3bd3a4c0a145fe07cb5dae28ea13a3",
    "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843af2ccf9972e22afc67aeafcd2516"
    "2f7f98c363b7762e3e4cb7d272e39f27a5",
    "66acfc92e3197de166809e6d4d5d003dcc819a84bc3522ca53c9d9",
    "71f89aa6533a6de70b0826864dd75f60806ee40170c16290189eb3",
]


def ends() -> tuple[Initiator, Responder]:
    return (
        Initiator(PROLOGUE, STATIC_I, EPHEMERAL_I, PUBLIC_R),
        Responder(PROLOGUE, STATIC_R, EPHEMERAL_R),
    )


def test_messages_and_keys_are_those_of_the_vector() -> None:
    one, other = ends()
    first = one.first(SAID[0])
    assert first.hex() == SENT[0]
    assert other.read(first) == SAID[0]
    assert other.peer == public_of_agreement(STATIC_I)
    second, keys = other.second(SAID[1])
    assert second.hex() == SENT[1]
    assert one.finish(second) == (SAID[1], keys)
    assert keys.handshake_hash.hex() == HASH
    for key, said, sent in zip(keys[:2], SAID[2:], SENT[2:], strict=True):
        assert AESGCM(key).encrypt(bytes(12), said, None).hex() == sent


def test_every_changed_bit_is_refused_and_the_true_answer_is_still_taken() -> None:
    one, other = ends()
    first = one.first(SAID[0])
    for at in range(len(first)):
        bad = first[:at] + bytes((first[at] ^ 1,)) + first[at + 1 :]
        assert ends()[1].read(bad) is None
    assert other.read(first[:-1]) is None
    _, other = ends()
    other.read(first)
    second, _ = other.second(SAID[1])
    for at in range(len(second)):
        bad = second[:at] + bytes((second[at] ^ 1,)) + second[at + 1 :]
        assert one.finish(bad) is None
    assert one.finish(b"") is None
    found = one.finish(second)
    assert found is not None
    assert found[0] == SAID[1]


@pytest.mark.parametrize("prologue", [b"", PROLOGUE + b"x"])
def test_another_prologue_is_another_handshake(prologue: bytes) -> None:
    one, _ = ends()
    assert Responder(prologue, STATIC_R, EPHEMERAL_R).read(one.first(b"")) is None


def test_a_key_of_small_order_makes_no_secret() -> None:
    assert Initiator(PROLOGUE, STATIC_I, EPHEMERAL_I, bytes(32)).first(b"") == b""
    one, other = ends()
    first = one.first(b"")
    assert other.read(bytes(32) + first[32:]) is None
    assert one.finish(bytes(32 + 16)) is None


def test_lengths_are_those_of_the_wire() -> None:
    assert BODY_BYTES[FIRST] == noise.FIRST_BYTES + 8
    assert BODY_BYTES[SECOND] == noise.SECOND_BYTES + 4
