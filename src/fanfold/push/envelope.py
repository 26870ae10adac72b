"""What the even flow of a push carries, and what its receivers' words are checked against.

    bytes     field
    0-31      BLAKE3 of all that follows
    32-35     nonce of the push, not 0
    36        form: 0 open, 1 signed, 2 signed and sealed, 3 open with an epoch; +4: takes over
    37-39     reserved, 0
    of an open one with an epoch
    40-47     epoch: when the push began, nanoseconds since 1970, or one above what it found
    of a signed one
    40-71     Ed25519 key of the sender
    72-103    X25519 key of the sender
    104-111   epoch: when it was signed, or one above what it found
    112-175   signature, see ``signed_part``
    of a sealed one
    176-179   how many wrapped keys follow
    180-      (BFR-id, 2 bytes; the content key wrapped for it, 80 bytes) each
    the rest  the manifest (push/manifest.py); of a sealed one, sealed

Whoever has an open manifest can say the nonce, whoever was asked as well; nobody else can.
docs/wire/envelope.md is the page.
"""

from collections.abc import Iterable
from struct import Struct

import msgspec
from blake3 import blake3

from fanfold.errors import WireError, WireReason
from fanfold.push.epochs import TOP
from fanfold.seals.keys import PublicKey
from fanfold.seals.primitives import SIGNATURE_BYTES, WRAP_BYTES, is_signed
from fanfold.wire.close import Close

HASH_BYTES = 32
NO_NONCE = 0
OPEN, SIGNED, SEALED = 0, 1, 2
OPEN_EPOCH = 3
"""On the wire only: an open one that tells its epoch."""
TAKES_OVER = 4
"""Added to the form of one that takes its name from a push that is alive."""
MANIFEST_LABEL, CLOSE_LABEL = b"fanfold manifest 1", b"fanfold close 1"

_HEAD = Struct("!IB3x")
_SIGNER = Struct("!32s32sQ")
_EPOCH = Struct("!Q")
_BOUND = Struct("!BIIHQ32s32s")
_CLOSE = Struct("!BIIH")
HEAD_END = HASH_BYTES + _HEAD.size
FORMS = (OPEN, *(f + t for t in (0, TAKES_OVER) for f in (SIGNED, SEALED, OPEN_EPOCH)))
EPOCH_END = HEAD_END + _EPOCH.size
SIGNER_END = HEAD_END + _SIGNER.size
SIGNATURE_END = SIGNER_END + SIGNATURE_BYTES


class Envelope(msgspec.Struct, frozen=True):
    """An envelope taken apart.

    body: manifest, as it travels. wraps: content keys by BFR-id, as they travel; signer,
    signature: of a signed one. epoch: 0 of senders that tell none. takes_over: it does not wait
    for a push of the same that is alive.
    """

    nonce: int
    form: int
    body: bytes
    signer: PublicKey | None = None
    epoch: int = 0
    signature: bytes = b""
    sealed: bytes = b""
    takes_over: bool = False

    @property
    def form_byte(self) -> int:
        """Its form, as the wire has it."""
        form = OPEN_EPOCH if self.form == OPEN and self.epoch else self.form
        return form + TAKES_OVER * self.takes_over

    def is_signed_for(self, flow: int, bfir_id: int) -> bool:
        """Whether the signature is that of its signer, for this push of this sender."""
        if self.signer is None:
            return False
        head = msgspec.structs.replace(self, body=b"", sealed=b"", signature=b"")
        message = signed_part(head, flow, bfir_id, self.sealed + self.body)
        return is_signed(self.signer.signing, self.signature, message)

    def wraps_for(self, bfr_id: int) -> list[bytes]:
        """Wrapped keys of one receiver: several while its keys change."""
        mark, size = bfr_id.to_bytes(2), 2 + WRAP_BYTES
        rows = (self.sealed[at : at + size] for at in range(4, len(self.sealed), size))
        return [row[2:] for row in rows if row[:2] == mark]


def wrap(nonce: int, encoded: bytes, epoch: int = 0, takes_over: bool = False) -> bytes:
    """Bytes of the even flow of an open push."""
    head = Envelope(nonce, OPEN, b"", epoch=epoch, takes_over=takes_over)
    told = _EPOCH.pack(epoch) if epoch else b""
    return _hashed(_HEAD.pack(nonce, head.form_byte) + told + encoded)


def wrap_signed(head: Envelope, sealed: bytes, body: bytes, signature: bytes) -> bytes:
    """Bytes of the even flow of a signed one; ``head`` has nonce, form, signer and epoch."""
    assert head.signer is not None
    signer = _SIGNER.pack(*head.signer, head.epoch)
    return _hashed(_HEAD.pack(head.nonce, head.form_byte) + signer + signature + sealed + body)


def wrap_rows(rows: Iterable[tuple[int, bytes]]) -> bytes:
    """The part of a sealed one that holds content keys: (BFR-id, wrapped key)."""
    each = [bfr_id.to_bytes(2) + wrapped for bfr_id, wrapped in rows]
    return len(each).to_bytes(4) + b"".join(each)


def signed_part(head: Envelope, flow: int, bfir_id: int, rest: bytes) -> bytes:
    """What a signature covers: all that names the push, and BLAKE3 of what follows it."""
    assert head.signer is not None
    numbers = head.form_byte, flow, head.nonce, bfir_id, head.epoch
    return MANIFEST_LABEL + _BOUND.pack(*numbers, head.signer.agreement, blake3(rest).digest())


def signed_close(close: Close, bfir_id: int) -> bytes:
    """What the signature of a CLOSE covers."""
    return CLOSE_LABEL + _CLOSE.pack(close.reason, close.flow, close.nonce, bfir_id)


def is_sound(whole: bytes) -> bool:
    """Whether what came is as it was sent, by its own digest."""
    return blake3(whole[HASH_BYTES:]).digest() == whole[:HASH_BYTES]


def unwrap(whole: bytes) -> Envelope:
    """Take apart what came; no signature is looked at. Raises WireError, nothing else."""
    if not is_sound(whole):
        raise _bad("its own digest does not match")
    if len(whole) < HEAD_END:
        raise _bad(f"{len(whole)} bytes")
    nonce, form = _HEAD.unpack_from(whole, HASH_BYTES)
    if nonce == NO_NONCE:
        raise _bad(f"nonce {nonce}")
    if form not in FORMS or any(whole[HEAD_END - 3 : HEAD_END]):
        raise _bad(f"form {form}, reserved {whole[HEAD_END - 3 : HEAD_END].hex()}")
    takes_over, form = form >= TAKES_OVER, form % TAKES_OVER
    if form == OPEN:
        return Envelope(nonce, form, whole[HEAD_END:])
    if form == OPEN_EPOCH:
        return _open_with_epoch(nonce, whole, takes_over)
    if len(whole) < SIGNATURE_END:
        raise _bad(f"signed, {len(whole)} bytes")
    signing, agreement, epoch = _SIGNER.unpack_from(whole, HEAD_END)
    signature, rest = whole[SIGNER_END:SIGNATURE_END], whole[SIGNATURE_END:]
    at = _end_of_wraps(rest) if form == SEALED else 0
    signer = PublicKey(signing, agreement)
    return Envelope(nonce, form, rest[at:], signer, epoch, signature, rest[:at], takes_over)


def _open_with_epoch(nonce: int, whole: bytes, takes_over: bool) -> Envelope:
    if len(whole) < EPOCH_END:
        raise _bad(f"with an epoch, {len(whole)} bytes")
    (epoch,) = _EPOCH.unpack_from(whole, HEAD_END)
    if not 0 < epoch <= TOP:
        raise _bad(f"epoch {epoch}")
    return Envelope(nonce, OPEN, whole[EPOCH_END:], epoch=epoch, takes_over=takes_over)


def _end_of_wraps(rest: bytes) -> int:
    end = 4 + int.from_bytes(rest[:4]) * (2 + WRAP_BYTES)
    if len(rest) < end:
        raise _bad(f"{end} bytes of wrapped keys in {len(rest)}")
    return end


def _hashed(body: bytes) -> bytes:
    return blake3(body).digest() + body


def _bad(what: str) -> WireError:
    return WireError("manifest", WireReason.BAD_FIELD, what)
