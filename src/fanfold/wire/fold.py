"""FOLD: arrays on their way up and down the tree that sums them; docs/wire/fold.md.

    bits       field      meaning
    0-3        version    always 1
    4-7        kind       6 toward the root, 7 from the root to the ranks
    8-15       what       0 ARRAY, 1 REQUEST, 2 HEARD, 3 ARM, 4 CLOSE
    16-17      reserved   ignored, sent as 0
    18-23      flags      32 OUT, 16 NOT_FINITE, 8 OVERFLOW, 4 PARTIAL, 2 RETRY, 1 EMPTY
    24-27      op         0 sum, 1 product, 2 min, 3 max, 4 move
    28-31      word       0 32-bit, 1 64-bit, 2 16-bit integers, 3 bytes, 4 and 5 fixed-point
    32-63      group      which group of ranks
    64-95      block      number of the block since the group began
    96-111     exponent   of the block that is next in this slot; 4 and 5: bytes of exponents
    112-127    n_merged   ranks' own arrays inside
    128-143    only       BFR-id that `scope` speaks of, 0 none
    144-151    scope      who gets the array: 0 all, 1 only that one, 2 all but that one
    152-159    root_level      ARM: BFRs to pass before one becomes the root
    160-175    n_slots    ARM: slots that the group asks each BFR for
    176-191    patience   ARRAY: ms until the root hands out what there is; ARM: fewest slots

Words, or the BitString of a HEARD, follow the header up to the end of the UDP datagram; words
of a PARTIAL array on its way down are followed by its P-BM. Words 4 and 5 are of 32 and 64 bits
and have exponents of 8 and 16 bits before them, those of the block that is next in this slot.
"""

from enum import IntEnum, IntFlag
from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, kind_of
from fanfold.wire.width import fits, pack, within

HEADER = "fold"
FIXED_BYTES = 24

_LAYOUT = Struct("!BBBBIIHHHBBHH")


class FoldWhat(IntEnum):
    """What a FOLD message is about."""

    ARRAY = 0
    REQUEST = 1
    HEARD = 2
    ARM = 3
    CLOSE = 4


class FoldFlag(IntFlag):
    """Flags of FOLD."""

    EMPTY = 1
    RETRY = 2
    PARTIAL = 4
    OVERFLOW = 8
    NOT_FINITE = 16
    OUT = 32


class FoldOp(IntEnum):
    """How words are joined."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    MOVE = 4


class FoldWord(IntEnum):
    """What the words are."""

    I32 = 0
    I64 = 1
    I16 = 2
    BYTES = 3
    FIX32 = 4
    FIX64 = 5


class FoldScope(IntEnum):
    """Which ranks get the array of a result; the others get the same header, EMPTY."""

    ALL = 0
    ONLY = 1
    BUT = 2


UP = frozenset({FoldWhat.ARRAY, FoldWhat.REQUEST, FoldWhat.ARM, FoldWhat.CLOSE})
DOWN = frozenset({FoldWhat.ARRAY, FoldWhat.HEARD, FoldWhat.ARM, FoldWhat.CLOSE})


class Fold(msgspec.Struct, frozen=True, gc=False):
    """Header of one FOLD message."""

    kind: int
    what: int
    group: int
    block: int = 0
    op: int = FoldOp.SUM
    word: int = FoldWord.I32
    flags: int = 0
    exponent: int = 0
    n_merged: int = 0
    only: int = 0
    scope: int = FoldScope.ALL
    root_level: int = 0
    n_slots: int = 0
    patience: int = 0

    @property
    def size_bytes(self) -> int:
        """Length of the header; the words start here."""
        return FIXED_BYTES


def decode(buf: bytes) -> Fold:
    """Read the header at the start of `buf`.

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else escapes.
    """
    if len(buf) < FIXED_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    kind = kind_of(buf)
    if kind not in (Kind.FOLD, Kind.SPREAD):
        raise WireError(HEADER, WireReason.BAD_KIND, int(kind))
    _, what, flags, joins, group, block, exponent, n_merged, *rest = _LAYOUT.unpack_from(buf)
    only, scope, root_level, n_slots, patience = rest
    if what not in (UP if kind == Kind.FOLD else DOWN):
        raise WireError(HEADER, WireReason.BAD_FIELD, f"what {what}")
    if joins >> 4 > FoldOp.MOVE or joins & 0xF > FoldWord.FIX64:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"op {joins >> 4}, word {joins & 0xF}")
    if scope > FoldScope.BUT or (scope != FoldScope.ALL) != (only != 0):
        raise WireError(HEADER, WireReason.BAD_FIELD, f"scope {scope}, only {only}")
    return Fold(
        int(kind),
        what,
        group,
        block,
        joins >> 4,
        joins & 0xF,
        flags & 63,
        exponent,
        n_merged,
        only,
        scope,
        root_level,
        n_slots,
        patience,
    )


def encode(fold: Fold) -> bytes:
    """Write the header.

    Raises:
        MisuseError: a value does not fit its field, or `decode` would refuse it.
    """
    kind = within(HEADER, "kind", fold.kind, Kind.FOLD, Kind.SPREAD)
    allowed = sorted(UP if kind == Kind.FOLD else DOWN)
    if fold.what not in allowed:
        raise MisuseError(f"{HEADER}.what: got {fold.what}, allowed: {allowed}")
    op = within(HEADER, "op", fold.op, 0, FoldOp.MOVE)
    word = within(HEADER, "word", fold.word, 0, FoldWord.FIX64)
    least = 0 if fold.scope == FoldScope.ALL else 1
    return pack(
        HEADER,
        _LAYOUT,
        first_byte(Kind(kind)),
        fold.what,
        fits(HEADER, "flags", fold.flags, 6),
        op << 4 | word,
        fold.group,
        fold.block,
        fold.exponent,
        fold.n_merged,
        within(HEADER, "only", fold.only, least, 0xFFFF * least),
        within(HEADER, "scope", fold.scope, 0, FoldScope.BUT),
        fold.root_level,
        fold.n_slots,
        fold.patience,
    )
