"""Which encoding is cheapest at which size of a group.

Groups are nested: each size is the head of one order of hosts, so that a larger group holds
every smaller one.
"""

from collections.abc import Sequence

import msgspec
from numpy.typing import ArrayLike

from fanfold.encodings.catalog import ALL, BASELINE
from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.ground import Ground
from fanfold.encodings.survey import OPTIONS, Options, survey_on
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

MAX_STEP = 4


class SizeRow(msgspec.Struct, frozen=True):
    """One size: rows of all encodings, and who moves the fewest bytes over links."""

    n_members: int
    rows: tuple[EncodingRow, ...]
    cheapest: str


class Sweep(msgspec.Struct, frozen=True):
    """All sizes, rising.

    beats: by encoding, from which size on it never costs more bytes than unicast copies; 0
    where it does at the largest size, or cannot.
    """

    sizes: tuple[SizeRow, ...]
    beats: dict[str, int]


def sizes_up_to(n: int, step: int = MAX_STEP) -> list[int]:
    """1, step, step squared and so on, and n."""
    found, size = [], 1
    while size < n:
        found.append(size)
        size *= step
    return [*found, n]


def sweep(
    net: Net,
    routes: Routes,
    order: Sequence[int],
    payload_bytes: int,
    *,
    source: int = 0,
    encodings: Sequence[str] = (ALL,),
    options: Options = OPTIONS,
) -> Sweep:
    """Survey of groups of rising size.

    Args:
        order: hosts in the order in which groups take them, without the source.
        payload_bytes, source, encodings, options: as of ``survey``.

    Raises:
        ConfigError: as ``survey``.
    """
    names = list(dict.fromkeys([BASELINE, *encodings]))
    ground = Ground(net, routes)
    found = []
    for size in sizes_up_to(len(order)):
        members: ArrayLike = order[:size]
        rows = survey_on(ground, members, payload_bytes, source, names, options)
        able = [row for row in rows if not row.refusal]
        cheapest = min(able, key=lambda row: row.link_bytes).encoding
        found.append(SizeRow(size, tuple(rows), cheapest))
    return Sweep(tuple(found), paying_from(found))


def paying_from(found: Sequence[SizeRow]) -> dict[str, int]:
    """By encoding, from which size on it never costs more than unicast, or 0."""
    beats: dict[str, int] = {}
    for at, first in enumerate(found[-1].rows):
        least = 0
        for size_row in reversed(found):
            row = size_row.rows[at]
            if row.refusal or row.link_bytes > row.unicast_link_bytes:
                break
            least = size_row.n_members
        if first.encoding != BASELINE:
            beats[first.encoding] = least
    return beats
