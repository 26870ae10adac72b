"""Which placement of BFR-ids and which encoding suit a job, and why.

Every encoding is tried, those with BFR-ids under every placement. What moves the fewest bytes
wins; of those within one percent of it, what takes the fewest packets, then the fewest rows
read of one packet at one switch, the shortest header, the least static state.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fanfold.encodings.catalog import ALL, offers_of
from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.ground import Ground
from fanfold.encodings.survey import OPTIONS, Options, survey_on
from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.placement import KINDS
from fanfold.topo.routes import Routes

NEAR_PPM = 10_000
"""Within so many parts per million of the fewest bytes, bytes do not decide."""
_RULES = (
    ("n_packets", "packets"),
    ("most_lookups", "rows read of one packet"),
    ("header_bytes", "bytes of header"),
    ("state_bytes", "bytes of static state"),
)


class Candidate(msgspec.Struct, frozen=True):
    """One encoding under one placement, and what spoke for or against it."""

    row: EncodingRow
    verdict: str


class EncodingPlan(msgspec.Struct, frozen=True):
    """What was picked, and every candidate, best first, those that cannot last."""

    picked: EncodingRow
    candidates: tuple[Candidate, ...]


def plan(
    net: Net,
    routes: Routes,
    members: ArrayLike,
    payload_bytes: int,
    *,
    source: int = 0,
    encodings: Sequence[str] = (ALL,),
    options: Options = OPTIONS,
    may_store: bool = False,
) -> EncodingPlan:
    """Pick for one job.

    Args:
        members, payload_bytes, source, encodings: as of ``survey``.
        options: its placement and jobs are not used; source and members are the job.
        may_store: whether switches may keep rows for the group.

    Raises:
        ConfigError: as ``survey``, or nothing that is asked for can reach these receivers.
    """
    offered = offers_of(encodings)
    names = [offer.name for offer in offered]
    jobs = ([source, *np.asarray(members, np.int64).reshape(-1).tolist()],)
    ground = Ground(net, routes)
    rows: list[EncodingRow] = []
    for kind in KINDS:
        mine = options._replace(placement=kind, jobs=jobs)
        found = survey_on(ground, members, payload_bytes, source, names, mine)
        able = {row.encoding for row in found if not row.refusal}
        names = [o.name for o in offered if o.kind.is_placed and o.name in able]
        rows += found
        if not names:
            break
    return _weighed(rows, may_store)


def _weighed(rows: list[EncodingRow], may_store: bool) -> EncodingPlan:
    able = [r for r in rows if not r.refusal and (may_store or not r.group_entries)]
    if not able:
        why = "; ".join(f"{r.encoding}: {_why_not(r)}" for r in rows)
        raise ConfigError("encoding", why, "one that can reach these receivers")
    least = min(row.link_bytes for row in able)
    able.sort(key=lambda row: (not _is_near(row, least), *_key(row), row.link_bytes))
    far = sorted((r for r in able if not _is_near(r, least)), key=lambda r: r.link_bytes)
    best = able[0]
    ranked = [row for row in able if _is_near(row, least)] + far
    told = [Candidate(row, _verdict(row, best, least)) for row in ranked]
    told += [Candidate(row, _why_not(row)) for row in rows if row not in ranked]
    return EncodingPlan(best, tuple(told))


def _is_near(row: EncodingRow, least: int) -> bool:
    return (row.link_bytes - least) * 1_000_000 <= NEAR_PPM * least


def _key(row: EncodingRow) -> tuple[int, ...]:
    return tuple(getattr(row, field) for field, _ in _RULES)


def _verdict(row: EncodingRow, best: EncodingRow, least: int) -> str:
    """Why a candidate was picked or lost: the first rule that tells it from the best."""
    if row is best:
        return "picked"
    if not _is_near(row, least):
        per_mille = (row.link_bytes - least) * 1000 // least
        return f"{per_mille // 10}.{per_mille % 10} % more bytes on links than the least"
    for (_, text), mine, its in zip(_RULES, _key(row), _key(best), strict=True):
        if mine != its:
            return f"near the least bytes, but more {text}: {mine:,} to {its:,}"
    return "as good as the one picked"


def _why_not(row: EncodingRow) -> str:
    if row.refusal:
        return f"cannot: {row.refusal}"
    return f"leaves {row.group_entries:,} rows for the group in switches"
