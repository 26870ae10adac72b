"""What a machine asks its driver to do, and the words for what was dropped.

Kernels count drops and folds by small integers (kernels/codes.py); these names, in the same
order, are what counters, traces and reports show.
"""

from enum import StrEnum

import msgspec


class DropReason(StrEnum):
    """Why a packet went no further; the member's place is the kernels' drop code."""

    TRUNCATED = "truncated"
    UNKNOWN_PEER = "unknown_peer"
    UNKNOWN_BIFT = "unknown_bift"
    BAD_VERSION = "bad_version"
    BAD_BSL = "bad_bsl"
    BSL_MISMATCH = "bsl_mismatch"
    ZERO_BITSTRING = "zero_bitstring"
    NULL_NBR = "null_nbr"
    TTL_EXPIRED = "ttl_expired"
    BAD_INNER = "bad_inner"
    BAD_CHECKSUM = "bad_checksum"
    BAD_FAN = "bad_fan"
    BAD_FEEDBACK = "bad_feedback"
    UNKNOWN_FLOW = "unknown_flow"
    NO_BUFFER = "no_buffer"
    DUPLICATE = "duplicate"
    NOT_MINE = "not_mine"
    SEND_FAILED = "send_failed"
    IMPAIRED = "impaired"
    SOCKET_FULL = "socket_full"
    CORRUPT_CHUNK = "corrupt_chunk"
    BAD_REPORT = "bad_report"
    HELD_FULL = "held_full"
    UNKNOWN_PROTO = "unknown_proto"
    BAD_FOLD = "bad_fold"
    NOT_BELIEVED = "not_believed"
    PORT_FULL = "port_full"
    TOO_LARGE = "too_large"
    RATE_FULL = "rate_full"
    BAD_BFIR = "bad_bfir"
    WRONG_PORT = "wrong_port"
    TURNED_BACK = "turned_back"
    FOREIGN_PORT = "foreign_port"
    NOT_MEMBER = "not_member"
    FAULT = "fault"
    BAD_MAC = "bad_mac"
    BAD_SIGNATURE = "bad_signature"
    NOT_TRUSTED = "not_trusted"
    REPLAYED = "replayed"
    LINK_DOWN = "link_down"
    BAD_LINK = "bad_link"
    STALE_EPOCH = "stale_epoch"
    LINK_NO_KEY = "link_no_key"
    BAD_LINK_MAC = "bad_link_mac"
    LINK_REPLAYED = "link_replayed"
    LINK_FLOOD = "link_flood"
    BAD_HANDSHAKE = "bad_handshake"
    WRONG_TENANT = "wrong_tenant"
    TENANT_RATE = "tenant_rate"
    TENANT_RECEIVERS = "tenant_receivers"


class FoldEvent(StrEnum):
    """What happened to feedback at a BFR; the member's place is the kernels' fold code."""

    ARMED = "armed"
    MERGED = "merged"
    COMPLETE = "complete"
    PARTIAL = "partial"
    UNFOLDED = "unfolded"
    FULL = "full"
    UNHEARD = "unheard"
    EARLY = "early"


class StoreEvent(StrEnum):
    """What a BFR did with the DATA it keeps; the member's place is the kernels' code.

    KEPT, EVICTED, CORRUPT: packets. HIT, MISS: packets that somebody lacked. HEAVY, SPENT:
    receivers left to the source, who lacked much or lacked it after two repairs. FULL: words
    of which too much was to be sent at once. LATE: receivers before whom a deep queue stands.
    """

    KEPT = "kept"
    EVICTED = "evicted"
    HIT = "hit"
    MISS = "miss"
    HEAVY = "heavy"
    SPENT = "spent"
    FULL = "full"
    CORRUPT = "corrupt"
    LATE = "late"


class VatEvent(StrEnum):
    """What happened to arrays at a BFR; the member's place is the kernels' code."""

    ARMED = "armed"
    ABSORBED = "absorbed"
    COMPLETE = "complete"
    PARTIAL = "partial"
    DUPLICATE = "duplicate"
    OVERLAP = "overlap"
    STALE = "stale"
    EVICTED = "evicted"
    PASSED = "passed"
    FULL = "full"
    UNKNOWN = "unknown"
    UNLIKE = "unlike"
    REQUEST = "request"
    RESENT = "resent"
    OVERFLOW = "overflow"
    QUOTA = "quota"


class TrafficClass(StrEnum):
    """Columns of the link counters; the member's place is the kernels' class code."""

    DATA = "data"
    REPAIR = "repair"
    FEEDBACK = "feedback"
    CONTROL = "control"
    OPAQUE = "opaque"
    FOLD = "fold"


class SendBlock(msgspec.Struct, frozen=True):
    """Send PSNs of one block, each to its own BitString.

    flow, block: which. psns: bit p set = send PSN p. bits: BitString of each PSN sent, as
    integers, one for all when it has one entry. round: written into the packets. by_unicast: to
    each receiver a packet of its own, which only senders along trees ask for. is_ask: those who
    lack nothing are to say so, where receivers do not do that by themselves.
    """

    flow: int
    block: int
    psns: int
    bits: tuple[int, ...]
    round: int
    is_repair: bool
    is_last: bool
    lane: int
    by_unicast: bool = False
    is_ask: bool = False


class ReceiverLost(msgspec.Struct, frozen=True):
    """A receiver was given up: its bit, why, and how long it had been silent."""

    bit: int
    reason: str
    silent_ps: int


class ReceiverSplit(msgspec.Struct, frozen=True):
    """A receiver that held the others back now has a lane of its own."""

    bit: int
    reason: str


class BlockDone(msgspec.Struct, frozen=True):
    """Every receiver still wanted has this block."""

    flow: int
    block: int


Effect = SendBlock | ReceiverLost | ReceiverSplit | BlockDone
