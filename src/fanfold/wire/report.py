"""REPORT: one receiver's state, never folded; docs/wire/fan.md section 4.

    bits       field       meaning
    0-3        version     always 1
    4-7        kind        always 4
    8-15       state       0 UNKNOWN flow, 1 CHECKING, 2 READY, 3 DONE, 4 FAILED, 5 FINISHING
    16-31      bfr_id      who reports, 1..65535
    32-63      flow        flow of the push
    64-95      cursor      READY: slice of the have-map; CHECKING, FINISHING: progress
    96-127     nonce       from the ASK or the manifest, else 0
    128-159    n_have      verified chunks
    160-175    error       code, 0 if none, see below
    176-191    body_len    bytes of body, exactly
    192-255    elapsed_us  microseconds since the flow was first heard
    256-511    digest      BLAKE3 of the whole, zero if none
    512-639    mac         of the pair over all else here, zero if none
    640-       body        body_len bytes, see below

error: 0 none, 1 disk_full, 2 collision, 3 permission, 4 bad_path, 5 bad_manifest, 6 io,
7 closed, 8 too_large, 9 refused. body: in READY the slice of the have-map, most significant bit
first; in FAILED and CHECKING UTF-8 text of at most 512 bytes; in DONE a receipt where it was
asked for, at most 4,096 bytes; else empty. cursor: in CHECKING
and FINISHING steps of work on the disk, more each time as long as it goes on. mac: envelope.md
section 3. digest in FAILED: who has the name of the push now, envelope.md section 6.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import pack

HEADER = "report"
FIXED_BYTES = 80
DIGEST_BYTES = 32
MAX_TEXT_BYTES = 512
MAX_RECEIPT_BYTES = 4096
NO_DIGEST = bytes(DIGEST_BYTES)
MAC_BYTES = 16
NO_MAC = bytes(MAC_BYTES)

_LAYOUT = Struct("!BBHIIIIHHQ32s16s")


class ReportState(IntEnum):
    """Where a receiver stands."""

    UNKNOWN = 0
    CHECKING = 1
    READY = 2
    DONE = 3
    FAILED = 4
    FINISHING = 5


_MOST_BODY: dict[int, int] = {
    ReportState.READY: 1 << 16,
    ReportState.DONE: MAX_RECEIPT_BYTES,
}
"""Bytes, of those that are no text; what is not here has none."""


class ReportError(IntEnum):
    """Why a receiver failed."""

    NONE = 0
    DISK_FULL = 1
    COLLISION = 2
    PERMISSION = 3
    BAD_PATH = 4
    BAD_MANIFEST = 5
    IO = 6
    CLOSED = 7
    TOO_LARGE = 8
    REFUSED = 9


class Report(msgspec.Struct, frozen=True, gc=False):
    """One answer."""

    state: int
    bfr_id: int
    flow: int
    cursor: int = 0
    nonce: int = 0
    n_have: int = 0
    error: int = ReportError.NONE
    elapsed_us: int = 0
    digest: bytes = NO_DIGEST
    mac: bytes = NO_MAC
    body: bytes = b""

    @property
    def body_len(self) -> int:
        """Bytes of body."""
        return len(self.body)

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES + len(self.body)


def decode(buf: bytes) -> Report:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else
            escapes.
    """
    require(HEADER, buf, Kind.REPORT, FIXED_BYTES)
    fields = _LAYOUT.unpack_from(buf)
    _, state, bfr_id, flow, cursor, nonce, n_have, error, body_len, elapsed_us = fields[:-2]
    require_end(HEADER, buf, FIXED_BYTES + body_len)
    body = buf[FIXED_BYTES:]
    flaw = _flaw(state, bfr_id, error, body)
    if flaw:
        raise WireError(HEADER, WireReason.BAD_FIELD, flaw)
    return Report(
        state=ReportState(state),
        bfr_id=bfr_id,
        flow=flow,
        cursor=cursor,
        nonce=nonce,
        n_have=n_have,
        error=ReportError(error),
        elapsed_us=elapsed_us,
        digest=fields[-2],
        mac=fields[-1],
        body=body,
    )


def encode(report: Report) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field, or decode would refuse it.
    """
    flaw = _flaw(report.state, report.bfr_id, report.error, report.body)
    if not flaw and len(report.digest) != DIGEST_BYTES:
        flaw = f"digest of {len(report.digest)} bytes"
    if not flaw and len(report.mac) != MAC_BYTES:
        flaw = f"mac of {len(report.mac)} bytes"
    if flaw:
        raise MisuseError(f"{HEADER}: got {flaw}, allowed: see docs/wire/fan.md")
    fixed = pack(
        HEADER,
        _LAYOUT,
        first_byte(Kind.REPORT),
        report.state,
        report.bfr_id,
        report.flow,
        report.cursor,
        report.nonce,
        report.n_have,
        report.error,
        report.body_len,
        report.elapsed_us,
        report.digest,
        report.mac,
    )
    return fixed + report.body


def _flaw(state: int, bfr_id: int, error: int, body: bytes) -> str:
    """Name the first rule that the fields break, or nothing."""
    if not 0 <= state <= max(ReportState):
        return f"state {state}"
    if bfr_id == 0:
        return "bfr_id 0"
    if not 0 <= error <= max(ReportError):
        return f"error {error}"
    if state in {ReportState.FAILED, ReportState.CHECKING}:
        return _text_flaw(body)
    most = _MOST_BODY.get(state, 0)
    return f"body of {len(body)} bytes in state {state}" if len(body) > most else ""


def _text_flaw(body: bytes) -> str:
    """Name what is wrong with a text, or nothing."""
    if len(body) > MAX_TEXT_BYTES:
        return f"text of {len(body)} bytes"
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as cause:
        return f"text not UTF-8 at byte {cause.start}"
    return ""
