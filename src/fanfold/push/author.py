"""A sender with keys: it signs what it sends, and believes what its receivers alone can say.

    signed   the envelope names and binds flow, nonce, BFIR-id, epoch, manifest
    sealed   a content key for this push, wrapped for each receiver; manifest and blocks sealed

With either a word of a receiver counts only with the MAC of the pair (seals/pairs.py).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fanfold.errors import ConfigError
from fanfold.live.chance import draw_content_key
from fanfold.live.clock import unix_ns
from fanfold.push.envelope import (
    SEALED,
    SIGNED,
    Envelope,
    signed_close,
    signed_part,
    wrap_rows,
    wrap_signed,
)
from fanfold.seals.keys import PublicKey
from fanfold.seals.pairs import PairContext, PairKeys
from fanfold.seals.primitives import TAG_BYTES, BlockCipher, sign, wrap_key
from fanfold.seals.trust import Seals, Trust
from fanfold.wire import report as reports
from fanfold.wire.close import Close
from fanfold.wire.report import NO_MAC, Report

WRAP_LABEL = b"fanfold wrap 1"


class Author:
    """One push of a sender with keys.

    Args:
        ids: BFR-ids of the receivers, by name. flow, nonce: of the push. bfir_id: who sends.

    Raises:
        ConfigError: receivers whose key is not known, by name.
    """

    def __init__(
        self, seals: Seals, ids: Mapping[str, int], flow: int, nonce: int, bfir_id: int
    ) -> None:
        self._seals, self._ids, self._keys = seals, ids, seals.keys
        self.keys, self.trust = seals.keys, seals.trust
        self.flow, self.nonce, self.bfir_id = flow, nonce, bfir_id
        require_known(seals.trust, ids)
        self._receivers: dict[int, list[PublicKey]] = {
            bfr_id: [one.key for one in seals.trust[name]] for name, bfr_id in ids.items()
        }
        self._pairs = PairKeys(seals.keys, is_sender=True)
        self.content_key = draw_content_key() if seals.is_sealed else b""
        self.cipher = BlockCipher(self.content_key) if seals.is_sealed else None

    def envelope(self, encoded: bytes, epoch: int = 0, takes_over: bool = False) -> bytes:
        """Bytes of the even flow for an encoded manifest; epoch 0: by the clock."""
        form = SEALED if self.cipher is not None else SIGNED
        at = epoch or unix_ns()
        head = Envelope(self.nonce, form, b"", self._keys.public, at, takes_over=takes_over)
        sealed, body = b"", encoded
        if self.cipher is not None:
            sealed = wrap_rows(self._wraps())
            room = bytearray(len(encoded) + TAG_BYTES)
            self.cipher.seal(self.flow, 0, encoded, memoryview(room))
            body = bytes(room)
        message = signed_part(head, self.flow, self.bfir_id, sealed + body)
        return wrap_signed(head, sealed, body, sign(self._keys.signing, message))

    def again(self, flow: int, nonce: int) -> "Author":
        """The same sender and receivers, for another flow."""
        return Author(self._seals, self._ids, flow, nonce, self.bfir_id)

    def is_from(self, report: Report) -> bool:
        """Whether a REPORT is of the receiver that it names."""
        context = PairContext(self.flow, self.nonce, self.bfir_id, report.bfr_id)
        message = plain_of(report)
        known = self._receivers.get(report.bfr_id, ())
        return any(self._pairs.is_from(k, context, message, report.mac) for k in known)

    def signed(self, close: Close) -> Close:
        """A CLOSE that nobody else can have made."""
        named = msgspec.structs.replace(close, nonce=self.nonce)
        message = signed_close(named, self.bfir_id)
        return msgspec.structs.replace(named, signature=sign(self._keys.signing, message))

    def sealing(
        self, read: Callable[[int, memoryview], int]
    ) -> Callable[[int, memoryview], int]:
        """The same read of the data, each block sealed where it lies."""
        cipher = self.cipher
        if cipher is None:
            return read

        def read_sealed(block: int, room: memoryview) -> int:
            n_bytes = read(block, room[:-TAG_BYTES])
            return cipher.seal(self.flow | 1, block, room[:n_bytes], room)

        return read_sealed

    def _wraps(self) -> Iterable[tuple[int, bytes]]:
        for bfr_id, known in self._receivers.items():
            context = PairContext(self.flow, self.nonce, self.bfir_id, bfr_id)
            for key in known:
                info = wrap_info(context)
                yield bfr_id, wrap_key(key.agreement, self.content_key, info)


def wrap_info(context: PairContext) -> bytes:
    """What HPKE binds a wrapped key to."""
    return WRAP_LABEL + context.encode()


def plain_of(report: Report) -> bytes:
    """What a MAC covers: the whole REPORT, its own MAC as zeros."""
    return reports.encode(msgspec.structs.replace(report, mac=NO_MAC))


def require_known(trust: Trust, names: Iterable[str]) -> None:
    """Raise ConfigError that names the receivers whose key is not known."""
    unknown = [name for name in names if not trust.get(name)]
    if unknown:
        allowed = "receivers whose keys are known, by `fanfold keys trust KEY --node NAME`"
        raise ConfigError("--to", f"no key of {', '.join(unknown)}", allowed)
