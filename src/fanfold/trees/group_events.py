"""What happens to a group, and what it led to: rows of a run.

Everything that is sent belongs to one of them, the one that caused it; SETUP to none.
"""

from typing import Literal, NamedTuple

import msgspec

What = Literal["join", "leave", "send", "fail"]
SETUP = -1
NOT_DONE = -1
MAX_PACKETS = 100_000


class GroupEvent(NamedTuple):
    """One thing that happens to the group at a time.

    join, leave: of ``host``. send: the source sends ``n`` packets, ``gap_ps`` apart. fail: all
    cables between ``nodes`` go down.
    """

    at_ps: int
    what: What
    host: int = NOT_DONE
    n: int = 1
    gap_ps: int = 0
    nodes: tuple[int, int] = (NOT_DONE, NOT_DONE)


class GroupEventRow(msgspec.Struct, frozen=True):
    """What one of them cost.

    took_ps: until data could reach the host (join), no longer could (leave), could again reach
    all who lost it (fail); NOT_DONE where that never came. n_messages: each counted once,
    however far it goes. n_bytes: on all links. n_writes: changes of forwarding tables.
    n_affected: hosts cut off by it.
    """

    at_ps: int
    what: What
    host: int
    took_ps: int
    n_messages: int
    n_bytes: int
    n_writes: int
    n_affected: int


class MessageRow(msgspec.Struct, frozen=True):
    """One kind of message: how many, and link crossings and bytes of all."""

    kind: str
    n: int
    n_hops: int
    n_bytes: int


class SentRow(NamedTuple):
    """One message: when it was sent and fully processed, from where to where."""

    sent_ps: int
    done_ps: int
    src: int
    dst: int
    kind: str
    cause: int


class StateRow(NamedTuple):
    """State of one router at the end: entries and bytes; entries whatever the source."""

    node: int
    n_entries: int
    n_bytes: int
    n_shared: int = 0


class PacketRow(NamedTuple):
    """One data packet: members when it was sent, what became of it, links it crossed.

    n_waited: times it waited for a router's processor. late_ps: last first copy minus sending.
    """

    sent_ps: int
    n_expected: int
    n_delivered: int
    n_copies: int
    n_hops: int
    n_waited: int
    late_ps: int
