"""The handshake IK of the Noise Protocol Framework, revision 34: X25519, AES-256-GCM, SHA-256.

    <- s
    ...
    -> e, es, s, ss     the initiator knows the responder, and says who it is under its key
    <- e, ee, se        both have two keys that no later loss of a static key gives away

The primitives are those of ``cryptography``; here is the order in which they are mixed (section
5 there), for this one pattern. Nothing is drawn: ephemeral keys are passed in.
"""

import hashlib
import hmac
from copy import copy
from typing import NamedTuple

from fanfold.seals.primitives import KEY_BYTES, TAG_BYTES, agree, public_of_agreement

NAME = b"Noise_IK_25519_AESGCM_SHA256"
FIRST_BYTES = KEY_BYTES + KEY_BYTES + 2 * TAG_BYTES
SECOND_BYTES = KEY_BYTES + TAG_BYTES
"""Of a message, before its payload."""


class Transport(NamedTuple):
    """Keys of a session, 32 octets each way, and the hash of all that was said (11.2)."""

    from_initiator: bytes
    from_responder: bytes
    handshake_hash: bytes


class _Symmetric:
    """SymmetricState and CipherState of section 5."""

    def __init__(self, prologue: bytes) -> None:
        self.hash = NAME.ljust(KEY_BYTES, b"\0")
        self.chain, self.key, self.n = self.hash, b"", 0
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, secret: bytes) -> None:
        self.chain, self.key = _hkdf(self.chain, secret)
        self.n = 0

    def seal(self, plain: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - see above
            AESGCM,
        )

        sealed = AESGCM(self.key).encrypt(self._nonce(), plain, self.hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        try:
            plain = AESGCM(self.key).decrypt(self._nonce(), sealed, self.hash)
        except InvalidTag:
            return None
        self.mix_hash(sealed)
        return plain

    def _nonce(self) -> bytes:
        self.n += 1
        return bytes(4) + (self.n - 1).to_bytes(8, "big")

    def split(self) -> Transport:
        return Transport(*_hkdf(self.chain, b""), self.hash)


class Initiator:
    """Who begins. static, ephemeral: private keys. peer: the responder's public one."""

    def __init__(self, prologue: bytes, static: bytes, ephemeral: bytes, peer: bytes) -> None:
        self._static, self._ephemeral, self._peer = static, ephemeral, peer
        self._state = _Symmetric(prologue)
        self._state.mix_hash(peer)

    def first(self, payload: bytes) -> bytes:
        """The first message; empty where the peer's key can make no secret."""
        state, ephemeral = self._state, public_of_agreement(self._ephemeral)
        state.mix_hash(ephemeral)
        both = agree(self._ephemeral, self._peer), agree(self._static, self._peer)
        if not all(both):
            return b""
        state.mix_key(both[0])
        static = state.seal(public_of_agreement(self._static))
        state.mix_key(both[1])
        return ephemeral + static + state.seal(payload)

    def finish(self, message: bytes) -> tuple[bytes, Transport] | None:
        """Payload of the second message, and keys; None where it is not of the responder.

        That one's may still come.
        """
        if len(message) < SECOND_BYTES:
            return None
        state, ephemeral = copy(self._state), message[:KEY_BYTES]
        state.mix_hash(ephemeral)
        both = agree(self._ephemeral, ephemeral), agree(self._static, ephemeral)
        if not all(both):
            return None
        state.mix_key(both[0])
        state.mix_key(both[1])
        payload = state.open(message[KEY_BYTES:])
        return None if payload is None else (payload, state.split())


class Responder:
    """Who answers. static, ephemeral: private keys."""

    def __init__(self, prologue: bytes, static: bytes, ephemeral: bytes) -> None:
        self._static, self._ephemeral = static, ephemeral
        self._state = _Symmetric(prologue)
        self._state.mix_hash(public_of_agreement(static))
        self._their_ephemeral = self.peer = b""
        """``peer``: public key of who began, once ``read`` has it."""

    def read(self, message: bytes) -> bytes | None:
        """Payload of the first message; None where it is none for this key."""
        if len(message) < FIRST_BYTES:
            return None
        state, ephemeral = self._state, message[:KEY_BYTES]
        state.mix_hash(ephemeral)
        secret = agree(self._static, ephemeral)
        if not secret:
            return None
        state.mix_key(secret)
        end = 2 * KEY_BYTES + TAG_BYTES
        peer = state.open(message[KEY_BYTES:end])
        secret = agree(self._static, peer) if peer is not None else b""
        if peer is None or not secret:
            return None
        state.mix_key(secret)
        self._their_ephemeral, self.peer = ephemeral, peer
        return state.open(message[end:])

    def second(self, payload: bytes) -> tuple[bytes, Transport]:
        """The second message, and keys; only after ``read`` gave a payload."""
        state, ephemeral = self._state, public_of_agreement(self._ephemeral)
        state.mix_hash(ephemeral)
        state.mix_key(agree(self._ephemeral, self._their_ephemeral))
        state.mix_key(agree(self._ephemeral, self.peer))
        sealed = state.seal(payload)
        return ephemeral + sealed, state.split()


def _hkdf(chain: bytes, secret: bytes) -> tuple[bytes, bytes]:
    """HKDF of section 4.3, two outputs."""
    key = hmac.digest(chain, secret, "sha256")
    first = hmac.digest(key, b"\x01", "sha256")
    return first, hmac.digest(key, first + b"\x02", "sha256")
