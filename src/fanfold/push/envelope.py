"""What a REPORT is checked against, and the manifest as the even flow of a push carries it.

    bytes    field
    0-31     BLAKE3 of all that follows
    32-35    nonce of the push, not 0
    36-      the manifest (push/manifest.py)

Whoever has the manifest can say the nonce, whoever was asked as well; nobody else can.
"""

import msgspec
from blake3 import blake3

from fanfold.errors import WireError, WireReason

HASH_BYTES = 32
NONCE_BYTES = 4
HEAD_BYTES = HASH_BYTES + NONCE_BYTES
NO_NONCE = 0


class Proof(msgspec.Struct, frozen=True):
    """What the words of a push's receivers must carry to count.

    nonce: in every word. digest: in DONE, ``manifest.whole_digest``. n_files: for how long a
    disk may be looked at.
    """

    nonce: int
    digest: bytes
    n_files: int = 1


def wrap(nonce: int, encoded: bytes) -> bytes:
    """Bytes of the even flow."""
    body = nonce.to_bytes(NONCE_BYTES) + encoded
    return blake3(body).digest() + body


def unwrap(whole: bytes) -> tuple[int, bytes]:
    """Nonce and encoded manifest of what came. Raises WireError, nothing else."""
    if blake3(whole[HASH_BYTES:]).digest() != whole[:HASH_BYTES]:
        raise WireError("manifest", WireReason.BAD_FIELD, "its own digest does not match")
    nonce = int.from_bytes(whole[HASH_BYTES:HEAD_BYTES])
    if len(whole) < HEAD_BYTES or nonce == NO_NONCE:
        raise WireError("manifest", WireReason.BAD_FIELD, f"nonce {nonce}")
    return nonce, whole[HEAD_BYTES:]
