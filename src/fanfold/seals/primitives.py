"""The primitives of seals, each in the one form that fanfold uses.

    signature   Ed25519, RFC 8032 section 5.1
    agreement   X25519, RFC 7748 section 5; a result of all zeros is refused (section 6.1)
    derivation  HKDF with SHA-256, RFC 5869, no salt
    mac         HMAC with SHA-256, RFC 2104, its first 16 bytes (section 5 there)
    wrap        HPKE, RFC 9180: base mode, X25519, HKDF-SHA256, AES-256-GCM
    block       AES-256-GCM, NIST SP 800-38D; nonce: flow, block, PSN of its first packet

``cryptography`` is loaded where a key is used first: a node without keys never loads it.
"""

import hmac
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

KEY_BYTES = 32
SIGNATURE_BYTES = 64
MAC_BYTES = 16
TAG_BYTES = 16
"""What a sealed block is longer than an open one."""
NONCE_BYTES = 12
WRAP_BYTES = KEY_BYTES + KEY_BYTES + TAG_BYTES
"""A wrapped content key: HPKE's enc, then the key and its tag."""


def public_of_signing(seed: bytes) -> bytes:
    """Ed25519 public key of a seed."""
    return _signing(seed).public_key().public_bytes_raw()


def public_of_agreement(private: bytes) -> bytes:
    """X25519 public key of a private one."""
    return _agreement(private).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    """Sign with an Ed25519 seed."""
    return _signing(seed).sign(message)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether an Ed25519 signature is right; a key that is no point makes none right."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only with keys
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(public)
        key.verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def agree(private: bytes, public: bytes) -> bytes:
    """Agree by X25519; empty where the other's key is one of small order."""
    from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: PLC0415 - see above

    try:
        other = x25519.X25519PublicKey.from_public_bytes(public)
        return _agreement(private).exchange(other)
    except ValueError:
        return b""


def derive(secret: bytes, info: bytes) -> bytes:
    """32 bytes of HKDF-SHA256 without salt."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)


def mac_of(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256, cut to 16 bytes."""
    return hmac.digest(key, message, "sha256")[:MAC_BYTES]


def is_same(a: bytes, b: bytes) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    return hmac.compare_digest(a, b)


def wrap_key(public: bytes, content_key: bytes, info: bytes) -> bytes:
    """A content key for whoever has the private key of an X25519 public one; WRAP_BYTES."""
    from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: PLC0415 - see above

    other = x25519.X25519PublicKey.from_public_bytes(public)
    return _suite().encrypt(content_key, other, info)


def unwrap_key(private: bytes, wrapped: bytes, info: bytes) -> bytes:
    """The content key; empty where it was not wrapped for this key, or for another use."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

    try:
        return _suite().decrypt(wrapped, _agreement(private), info)
    except (InvalidTag, ValueError):
        return b""


class BlockCipher:
    """Seals and opens blocks of one push by its content key, each in one call."""

    def __init__(self, content_key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - see above
            AESGCM,
        )

        self._aead = AESGCM(content_key)
        self._digest_key = derive(content_key, b"fanfold digest 1")

    def seal(self, flow: int, block: int, plain: memoryview | bytes, room: memoryview) -> int:
        """Seal a block into the start of ``room``; its bytes, TAG_BYTES more than ``plain``.

        The same block of the same push must always hold the same bytes; they may lie in
        ``room`` already.
        """
        size = len(plain) + TAG_BYTES
        self._aead.encrypt_into(nonce_of(flow, block), plain, None, room[:size])
        return size

    def open(self, flow: int, block: int, sealed: memoryview, room: memoryview) -> int:
        """Open a block into the start of ``room``; its bytes, -1 where it is not as sealed.

        ``room`` may be where it lies sealed; what it holds is lost then, whatever comes out.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

        size = len(sealed) - TAG_BYTES
        if size < 0 or size > len(room):
            return -1
        try:
            self._aead.decrypt_into(nonce_of(flow, block), sealed, None, room[:size])
        except InvalidTag:
            return -1
        return size

    def hide(self, digest: bytes) -> bytes:
        """A digest as a REPORT carries it: who has not the key learns not what was sent."""
        return hmac.digest(self._digest_key, digest, "sha256")


def seal_once(key: bytes, nonce: bytes, plain: bytes) -> bytes:
    """AES-256-GCM of a short message; a nonce of NONCE_BYTES is drawn for each."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return AESGCM(key).encrypt(nonce, plain, None)


def open_once(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    """What was sealed; empty where it is not as it was."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    if len(nonce) != NONCE_BYTES:
        return b""
    try:
        return AESGCM(key).decrypt(nonce, sealed, None)
    except InvalidTag:
        return b""


def nonce_of(flow: int, block: int) -> bytes:
    """12 bytes: flow, block, and 0, the PSN of the block's first packet."""
    return flow.to_bytes(4) + block.to_bytes(4) + bytes(4)


def _signing(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see above

    return ed25519.Ed25519PrivateKey.from_private_bytes(seed)


def _agreement(private: bytes) -> "X25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: PLC0415 - see above

    return x25519.X25519PrivateKey.from_private_bytes(private)


@cache
def _suite() -> "Suite":
    from cryptography.hazmat.primitives import hpke  # noqa: PLC0415 - see above

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
