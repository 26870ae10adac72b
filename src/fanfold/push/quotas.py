"""What one sender may hold at a receiver, and who gives way when there is no more room.

A sender is a BFIR-id. Whoever is idle longest goes first: a live sender speaks more often than
every 150 ms. What was verified of a push that goes stays on the disk, and its sender, asked or
sending again, finds it forgotten and begins anew.
"""

from collections.abc import Callable, Iterable

from fanfold.push.manifest import MAX_ENTRIES
from fanfold.push.session import LOOKING, Session
from fanfold.push.store import Incoming, StoreError
from fanfold.wire.report import ReportError, ReportState

MAX_PUSHES = 16
"""Pushes followed at once, of all senders."""
MAX_OF_SENDER = 8
MAX_FILES = MAX_ENTRIES
"""Files of one sender's pushes at once."""
QUIET_PS = 1_000_000_000_000
"""A push whose sender was quiet for this long gives its place to a new one."""
OVER = (ReportState.DONE, ReportState.FAILED)

HeardPs = Callable[[Session], int]
"""When the sender of a push was heard last."""


def who_gives_way(
    now_ps: int, sessions: Iterable[Session], bfir_id: int, heard_ps: HeardPs
) -> Session | None:
    """The push that makes place for a new one of a sender; None when it gets none.

    First one whose manifest never came, then one whose sender is quiet, then one of the sender
    that holds two more than this one, which is at its own limit or finds all places taken.
    """
    among = list(sessions)
    mine = [s for s in among if s.bfir_id == bfir_id]
    if len(mine) >= MAX_OF_SENDER:
        among = mine
    bare = [s for s in among if s.state == ReportState.UNKNOWN]
    quiet = [s for s in among if now_ps - heard_ps(s) > QUIET_PS and s.state not in LOOKING]
    counts = {s.bfir_id: 0 for s in among}
    for s in among:
        counts[s.bfir_id] += 1
    most = max(counts.values(), default=0)
    greedy = [s for s in among if counts[s.bfir_id] == most > len(mine) + 1]
    for some in (bare, quiet, greedy):
        if some:
            return min(some, key=heard_ps)
    return None


def is_full(sessions: Iterable[Session], bfir_id: int) -> bool:
    """Whether a new push of this sender needs another one to go."""
    ids = [s.bfir_id for s in sessions]
    return len(ids) >= MAX_PUSHES or ids.count(bfir_id) >= MAX_OF_SENDER


def excess(
    sessions: Iterable[Session], session: Session, incoming: Incoming, max_bytes: int | None
) -> StoreError | None:
    """What is too much when this push is opened beside its sender's others; None: it fits."""
    others = [
        s.incoming.manifest
        for s in sessions
        if s is not session
        and s.bfir_id == session.bfir_id
        and s.incoming is not None
        and s.state not in OVER
    ]
    every = [incoming.manifest, *others]
    whose, trusted = "(--max-bytes)", session.grant.trusted if session.grant else None
    of_key = trusted.max_bytes if trusted is not None else None
    if of_key is not None and (max_bytes is None or of_key < max_bytes):
        max_bytes, whose = of_key, "to its key"
    n_files = sum(len(manifest.entries) for manifest in every)
    if n_files > MAX_FILES:
        text = f"{n_files} files of one sender at once, allowed {MAX_FILES}"
        return StoreError(ReportError.TOO_LARGE, text)
    n_bytes = sum(manifest.total_bytes for manifest in every)
    if max_bytes is not None and n_bytes > max_bytes:
        text = f"{n_bytes} bytes of one sender at once, allowed {max_bytes} {whose}"
        return StoreError(ReportError.TOO_LARGE, text)
    return None


def idlest(
    now_ps: int, sessions: Iterable[Session], session: Session, heard_ps: HeardPs
) -> Session | None:
    """Another push of the same sender that it was quiet on for longest; None: it is on all."""
    idle = [
        s
        for s in sessions
        if s is not session
        and s.bfir_id == session.bfir_id
        and s.state not in OVER
        and now_ps - heard_ps(s) > QUIET_PS
    ]
    return min(idle, key=heard_ps, default=None)


def larger_manifest(sessions: Iterable[Session], session: Session, most: int) -> Session | None:
    """Where all manifests are too large together: the largest that is not whole, of others."""
    among = list(sessions)
    if sum(s.n_manifest_bytes for s in among) <= most:
        return None
    larger = [
        s
        for s in among
        if s.state == ReportState.UNKNOWN
        and s.bfir_id != session.bfir_id
        and s.n_manifest_bytes > session.n_manifest_bytes
    ]
    return max(larger, key=lambda s: s.n_manifest_bytes, default=None)
