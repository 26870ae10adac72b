"""A receipt: what a receiver signs for a push that it has, to be shown to others afterwards.

It says what, when, from whom and where, and stands by itself: whoever has the receiver's public
key can check it without a network. docs/wire/envelope.md section 7 has the bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fanfold.errors import FanfoldError
from fanfold.seals.keys import KeyPair, PublicKey, read_public
from fanfold.seals.primitives import SIGNATURE_BYTES, is_signed, sign
from fanfold.seals.trust import Trust

LABEL = b"fanfold receipt 1"
SEAL_LABEL = b"fanfold receipt seal 1"
DIGEST_BYTES = 32
MOST_LABELS, MOST_TEXT, MOST_QUOTE = 16, 200, 2048
Labels = tuple[tuple[str, str], ...]


class ReceiptError(FanfoldError):
    """A receipt that proves nothing: forged, changed, or of another push; says which."""


class Given(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What of a receipt only its receiver knows; the rest both ends of the push do.

    at_ns: when, since 1970 by its clock. labels: its own, sorted. software: BLAKE3 of what it
    runs, or nothing. quote: what vouches for that, or nothing.
    """

    at_ns: int
    labels: Labels
    software: bytes
    quote: bytes
    signature: bytes


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it, as a file has it; keys as text, digests and signature in hex."""

    receiver: str
    bfr_id: int
    key: str
    sender: str
    bfir_id: int
    sender_key: str
    name: str
    n_bytes: int
    digest: str
    flow: int
    nonce: int
    at_ns: int
    labels: Labels
    software: str
    quote: str
    signature: str

    def message(self) -> bytes:
        """What the signature covers: every field but itself, in this order."""
        rest = msgspec.structs.astuple(self)[:-1]
        return LABEL + msgspec.msgpack.encode(rest)


class Facts(NamedTuple):
    """What both ends know of a push when it has ended.

    digest: BLAKE3 of the whole.
    """

    sender: str
    bfir_id: int
    sender_key: PublicKey
    name: str
    n_bytes: int
    digest: bytes
    flow: int
    nonce: int


def receipt_of(
    facts: Facts, receiver: str, bfr_id: int, key: PublicKey, given: Given
) -> Receipt:
    """A receipt put together; nothing is checked."""
    return Receipt(
        receiver=receiver,
        bfr_id=bfr_id,
        key=key.text,
        sender=facts.sender,
        bfir_id=facts.bfir_id,
        sender_key=facts.sender_key.text,
        name=facts.name,
        n_bytes=facts.n_bytes,
        digest=facts.digest.hex(),
        flow=facts.flow,
        nonce=facts.nonce,
        at_ns=given.at_ns,
        labels=given.labels,
        software=given.software.hex(),
        quote=given.quote.hex(),
        signature=given.signature.hex(),
    )


def give(keys: KeyPair, facts: Facts, receiver: str, bfr_id: int, given: Given) -> bytes:
    """Bytes of ``given`` with its signature, as a REPORT carries them, sealed for the pair."""
    bare = receipt_of(facts, receiver, bfr_id, keys.public, given)
    signed = msgspec.structs.replace(given, signature=sign(keys.signing, bare.message()))
    return msgspec.msgpack.encode(signed)


def read_given(octets: bytes) -> Given:
    """What a receiver told.

    Raises:
        ReceiptError: it is no such thing.
    """
    try:
        given = msgspec.msgpack.decode(octets, type=Given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReceiptError("malformed") from error
    texts = [text for pair in given.labels for text in pair]
    sizes = [len(given.labels) <= MOST_LABELS, all(len(t) <= MOST_TEXT for t in texts)]
    sizes += [len(given.signature) == SIGNATURE_BYTES, len(given.quote) <= MOST_QUOTE]
    sizes += [len(given.software) in (0, DIGEST_BYTES), 0 <= given.at_ns < 1 << 63]
    if not all(sizes) or tuple(sorted(given.labels)) != given.labels:
        raise ReceiptError("malformed")
    return given


def verify(receipt: Receipt, trust: Trust) -> None:
    """See that a receipt is of the receiver that it names, as it signed it.

    Raises:
        ReceiptError: by whom it is else, or that it was changed.
    """
    try:
        key = read_public(receipt.key, "key")
        signature = bytes.fromhex(receipt.signature)
    except (FanfoldError, ValueError) as error:
        raise ReceiptError("malformed") from error
    owners = [row.node for rows in trust.values() for row in rows if row.key == key]
    if not owners:
        raise ReceiptError(f"forged: signature of an unknown key {key.short}")
    if receipt.receiver not in owners:
        raise ReceiptError(f"forged: the key of {owners[0]} signs for {receipt.receiver}")
    if not is_signed(key.signing, signature, receipt.message()):
        raise ReceiptError("changed after it was signed, or never was")


def require_of(receipt: Receipt, flow: int, digests: dict[str, str]) -> None:
    """See that a receipt is of one push. digests: by receiver, as the push's result has them.

    Raises:
        ReceiptError: it is of another one.
    """
    if receipt.flow != flow:
        raise ReceiptError(f"replayed: it is of flow {receipt.flow}, the push was {flow}")
    if receipt.receiver not in digests:
        raise ReceiptError(f"replayed: the push was not to {receipt.receiver}")
    if receipt.digest != digests[receipt.receiver]:
        raise ReceiptError("replayed: the push was of other bytes")


def require_once(receipts: Sequence[Receipt]) -> None:
    """See that no receiver's receipt of one push is there twice.

    Raises:
        ReceiptError: it is.
    """
    seen: set[tuple[str, int, int]] = set()
    for one in receipts:
        key = one.receiver, one.flow, one.nonce
        if key in seen:
            raise ReceiptError(f"replayed: {one.receiver} stands for itself already")
        seen.add(key)


def encode(receipt: Receipt) -> bytes:
    """A file's text."""
    return msgspec.json.format(msgspec.json.encode(receipt), indent=1) + b"\n"


def decode(text: bytes) -> Receipt:
    """A receipt of a file's text.

    Raises:
        ReceiptError: it is none.
    """
    try:
        return msgspec.json.decode(text, type=Receipt)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReceiptError("malformed") from error
