"""The MAC of a pair: what a receiver tells a sender, and nobody else can have told it.

Both derive the same key from their own secret and the other's public key, for one push: HKDF of
X25519 with everything that names the push and the two ends. docs/wire/envelope.md section 3.
"""

from typing import NamedTuple

from fanfold.seals.keys import KeyPair, PublicKey
from fanfold.seals.primitives import agree, derive, is_same, mac_of

REPORT_LABEL = b"fanfold report 1"
MAX_KEPT = 1 << 16


class PairContext(NamedTuple):
    """Which push between which ends: numbers as the wire has them."""

    flow: int
    nonce: int
    bfir_id: int
    bfr_id: int

    def encode(self) -> bytes:
        """12 bytes."""
        ids = self.bfir_id.to_bytes(2) + self.bfr_id.to_bytes(2)
        return self.flow.to_bytes(4) + self.nonce.to_bytes(4) + ids


class PairKeys:
    """Keys of one node with others, each agreed on once and derived once for each push.

    is_sender: this node is the BFIR of the pushes.
    """

    def __init__(self, own: KeyPair, *, is_sender: bool) -> None:
        self._own, self._is_sender = own, is_sender
        self._shared: dict[bytes, bytes] = {}
        self._keys: dict[tuple[bytes, PairContext], bytes] = {}

    def key(self, other: PublicKey, context: PairContext) -> bytes:
        """Key of a pair for a push; empty where the other's key can make none."""
        found = self._keys.get((other.agreement, context))
        if found is not None:
            return found
        secret = self._secret(other.agreement)
        ends = self._own.public.agreement, other.agreement
        sender, receiver = ends if self._is_sender else ends[::-1]
        info = REPORT_LABEL + context.encode() + sender + receiver
        if len(self._keys) >= MAX_KEPT:
            self._keys.clear()
        key = derive(secret, info) if secret else b""
        self._keys[other.agreement, context] = key
        return key

    def mac(self, other: PublicKey, context: PairContext, message: bytes) -> bytes:
        """MAC of a message; of zeros where there is no key."""
        key = self.key(other, context)
        return mac_of(key, message) if key else bytes(16)

    def is_from(
        self, other: PublicKey, context: PairContext, message: bytes, mac: bytes
    ) -> bool:
        """Whether a message is of the other end of a pair."""
        key = self.key(other, context)
        return bool(key) and is_same(mac_of(key, message), mac)

    def _secret(self, agreement: bytes) -> bytes:
        if agreement not in self._shared:
            if len(self._shared) >= MAX_KEPT:
                self._shared.clear()
            self._shared[agreement] = agree(self._own.agreement, agreement)
        return self._shared[agreement]
