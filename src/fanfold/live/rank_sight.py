"""What a rank knows of its way to the root when its time is over, as plain values."""

from typing import NamedTuple

import numpy as np

from fanfold.live.rank_state import RankState
from fanfold.live.rank_words import STALL_PS
from fanfold.units import PS_PER_SECOND

LATELY_PS = 3 * PS_PER_SECOND
"""A rank asks once a second at least: what the root said before then is out of date."""
SILENT_PS = 3 * PS_PER_SECOND // 2
"""Probes go four times a second: who answered none for so long is silent."""


class Sight(NamedTuple):
    """Of one operation that did not end.

    uplink: node this rank sends to. is_armed: ARM came. root_hops: BFRs between the uplink and
    the root, -1 unknown. is_full: the root had no room before. is_moving: results came until
    now. n_done, n_blocks: results that are here. n_probes: were sent in vain or not.
    is_passing: the uplink gives pings back. answers: hops behind the uplink of the farthest BFR
    that answers, -1 none. has_known_next: the one behind it answered before.
    """

    uplink: str
    is_armed: bool
    root_hops: int
    is_full: bool
    is_moving: bool
    n_done: int
    n_blocks: int
    n_probes: int
    is_passing: bool
    answers: int
    has_known_next: bool


def sight_of(state: RankState, uplink: str, now: int) -> Sight:
    """Sight of a rank."""
    row, job = state.row[0], state.job[0]
    answers = _farthest(state.told, max(now - SILENT_PS, 0))
    return Sight(
        uplink=uplink,
        is_armed=bool(row["armed"] == 1),
        root_hops=int(row["root_hops"]),
        is_full=bool(row["n_full"] > 0),
        is_moving=bool(job["floor"] > 0 and job["floor_ps"] > now - STALL_PS),
        n_done=int(job["n_done"]),
        n_blocks=int(job["n_blocks"]),
        n_probes=int(job["n_probes"]),
        is_passing=is_passing(state, now),
        answers=answers,
        has_known_next=bool(state.told[answers + 1 :][:1].any()),
    )


def is_told(state: RankState, now: int) -> bool:
    """The root said lately whom it has heard of a block that is still awaited.

    Behind an uplink that is silent nobody knows whom it has heard since.
    """
    job = state.job[0]
    i = int(job["heard_of"])
    lately_ps = LATELY_PS if is_passing(state, now) else SILENT_PS
    return i >= 0 and not state.have[i] and bool(job["told_ps"] > now - lately_ps)


def is_passing(state: RankState, now: int) -> bool:
    """The uplink gave a ping back lately."""
    return bool(state.row[0]["ping_ps"] > max(now - SILENT_PS, 0))


def _farthest(told: np.ndarray, since: int) -> int:
    found = np.flatnonzero(told > since)
    return int(found[-1]) if len(found) else -1
