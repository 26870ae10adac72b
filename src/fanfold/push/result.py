"""What is known of a push when it has ended."""

import msgspec

from fanfold.errors import CheckFailed, ExitCode
from fanfold.push.avoided import AvoidedLink
from fanfold.push.gray import GrayLink
from fanfold.push.peer import State
from fanfold.push.planes import PlaneResult, PlaneWeights


class ReceiverResult(msgspec.Struct, frozen=True):
    """How one receiver ended."""

    id: str
    state: str
    blake3: str
    seconds: float
    error: str
    split: bool
    kept: int = 0
    """Blocks that it had before this push, and was not sent."""
    receipt: str = ""
    """File of its receipt, where receipts were asked for."""
    attested: str = "not attested"
    """What a verifier made of its statement, where there was one."""


class LinkResult(msgspec.Struct, frozen=True):
    """One direction of a link: what was predicted and what its sending end counted."""

    src: str = msgspec.field(name="from")
    dst: str = msgspec.field(name="to")
    predicted_packets: int
    predicted_bytes: int
    packets: int
    bytes: int
    repair_packets: int
    repair_bytes: int
    feedback_packets: int
    counted: bool = True
    """The sending end told what it counted."""


class PushResult(msgspec.Struct, frozen=True):
    """Everything a push knows of itself; ``--json`` prints it."""

    name: str
    source: str
    flow: int
    bytes: int
    n_blocks: int
    seconds: float
    data_seconds: float
    goodput_bps: int
    receivers: list[ReceiverResult]
    links: list[LinkResult]
    feedback: dict[str, int]
    repairs: dict[str, int]
    source_link_bytes: int
    drops: dict[str, dict[str, int]]
    suspects: list[str]
    warnings: list[str]
    cpu_seconds: float
    unheard: list[str] = []
    """Nodes on the push's trees that told no counters."""
    notes: list[str] = msgspec.field(default_factory=list)
    """What a user can mend at nodes, in words."""
    gray: list[GrayLink] = msgspec.field(default_factory=list)
    """Directions of links that lost or damaged packets, worst first."""
    avoided: list[AvoidedLink] = msgspec.field(default_factory=list)
    """Links named gray by this push or one before, and what became of them (--avoid-gray)."""
    is_interrupted: bool = False
    """Stopped by a signal before everybody had ended."""
    taken_over_by: str = ""
    """Host whose newer push has the name of this one; empty: none."""
    planes: list[PlaneResult] = msgspec.field(default_factory=list)
    """What each plane of the source carried; none where it has one."""
    weights: list[PlaneWeights] = msgspec.field(default_factory=list)
    """Weights of these planes at the start, and each change while it ran."""

    @property
    def is_taken_over(self) -> bool:
        """A newer push goes on in its place."""
        return bool(self.taken_over_by)

    def is_complete(self) -> bool:
        """Every receiver has verified everything."""
        return all(r.state == State.VERIFIED for r in self.receivers)


class TakenOver(CheckFailed):
    """A newer push has the name of this one, and goes on in its place."""

    exit_code = ExitCode.TAKEN_OVER


def require_complete(result: PushResult) -> None:
    """Turn a push that did not reach everyone into an error that names who and why.

    Raises:
        TakenOver: a newer push has its name. CheckFailed: at least one receiver failed.
    """
    n_verified = sum(r.state == State.VERIFIED for r in result.receivers)
    if result.is_taken_over:
        heir = result.taken_over_by
        who = f"a newer push of {heir}" if heir == result.source else heir
        raise TakenOver(
            f"push {result.name}: taken over by {who}; {n_verified} of "
            f"{len(result.receivers)} were verified before"
        )
    failed = [r for r in result.receivers if r.state != State.VERIFIED]
    if failed:
        who = "; ".join(f"{r.id}: {r.error}" for r in failed)
        where = (
            f"; all of them are behind {', '.join(result.suspects)}" if result.suspects else ""
        )
        n = len(result.receivers)
        raise CheckFailed(
            f"push {result.name}: {n - len(failed)} of {n} verified; {who}{where}"
            + "".join(f"; {note}" for note in result.notes)
        )
