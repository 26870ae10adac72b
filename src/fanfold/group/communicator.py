"""What a rank of a group asks of the fabric: the collectives, and what they promise.

Arrays are one-dimensional C-contiguous numpy arrays, used in place without a copy; ``uint16``
with ``kind="bfloat16"`` stands for bfloat16. Every operation is asynchronous: it returns a
``Work`` at once, runs outside the GIL, in the order of the calls, and its arrays belong to it
until ``wait`` returns. All ranks call the same operations in the same order; sizes, kinds and
operators that differ are refused on every rank before an array is touched.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

from numpy.typing import NDArray

from fanfold.errors import FanfoldError

Array = NDArray[Any]


class Op(IntEnum):
    """How arrays are joined; integers wrap as numpy's do, floats have equal bits in any order.

    An element of a sum of floats is off by rounding of its own terms only (ADR 0033).
    """

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    AVG = 4


class GroupError(FanfoldError):
    """An operation failed on this rank: names the operation, the ranks it waited for and where.

    ``op``: its name; ``ranks``: those that were not heard, or that asked for something else;
    ``branch``: the node that was heard last or did not answer; ``suspects``: nodes and links
    (``leaf1-spine1``) that explain the silence; ``is_deadline``: time was over.
    The group is unusable afterwards, the process and the fabric are not.
    """

    def __init__(
        self,
        text: str,
        *,
        op: str,
        ranks: Sequence[int] = (),
        branch: str = "",
        suspects: Sequence[str] = (),
        is_deadline: bool = False,
    ) -> None:
        super().__init__(text)
        self.op, self.ranks, self.branch = op, tuple(ranks), branch
        self.suspects, self.is_deadline = tuple(suspects), is_deadline


class Work(Protocol):
    """One operation under way."""

    def wait(self, timeout_ps: int | None = None) -> None:
        """Return when it is done; may be called in any order, from any thread, and twice.

        Args:
            timeout_ps: longest wait here; the operation itself goes on until its own deadline.

        Raises:
            GroupError: it failed, or ``timeout_ps`` is over.
        """

    def is_done(self) -> bool:
        """Over, well or badly."""

    def error(self) -> GroupError | None:
        """Why it failed, None while it runs or when it went well."""


class Message(Work, Protocol):
    """A receive under way."""

    def source(self) -> int:
        """Rank that the message came from; waits for it."""


class Communicator(Protocol):
    """Rank ``rank`` of the group ``members`` on a fabric.

    Built as ``Communicator(fabric, members, rank, group=..., port=..., timeout_ps=...)``:
    fabric: as ``load_fabric`` or ``Lab(name).fabric()`` gives it. members: host names by rank,
    the same for ranks that share a host. group: 32-bit number that no other living group of
    the fabric has, the same on all ranks. port: UDP port, free on every member's host, the
    same on all ranks; 0 takes the one that belongs to ``group``. timeout_ps: deadline of each
    operation that names none. Nothing is sent before the first operation; every rank must
    have been built by then.
    """

    rank: int
    size: int

    def all_reduce(
        self, array: Array, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Work:
        """Replace ``array`` on every rank by the join of all."""

    def reduce(
        self, array: Array, root: int, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Work:
        """Replace ``array`` on ``root`` by the join of all; elsewhere it stays as it is."""

    def broadcast(self, array: Array, root: int, *, timeout_ps: int = 0) -> Work:
        """Replace ``array`` on every rank by that of ``root``, of any dtype."""

    def all_gather(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Work:
        """Fill ``out`` with the arrays of all ranks, one behind the other; equal sizes."""

    def all_gather_v(self, outs: Sequence[Array], array: Array, *, timeout_ps: int = 0) -> Work:
        """Fill ``outs[r]`` with the array of rank r; sizes may differ, and are known to all."""

    def gather(
        self, out: Array | None, array: Array, root: int, *, timeout_ps: int = 0
    ) -> Work:
        """Fill ``out`` on ``root`` with the arrays of all ranks, equal sizes."""

    def scatter(
        self, out: Array, array: Array | None, root: int, *, timeout_ps: int = 0
    ) -> Work:
        """Fill ``out`` of rank r with part r of the root's ``array``."""

    def reduce_scatter(
        self,
        out: Array,
        array: Array,
        op: Op = Op.SUM,
        *,
        kind: str = "",
        timeout_ps: int = 0,
    ) -> Work:
        """Fill ``out`` of rank r with part r of the join of all ``array``; equal parts."""

    def reduce_scatter_v(
        self,
        out: Array,
        array: Array,
        counts: Sequence[int],
        op: Op = Op.SUM,
        *,
        kind: str = "",
        timeout_ps: int = 0,
    ) -> Work:
        """The same with parts of ``counts[r]`` elements."""

    def all_to_all(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Work:
        """Part r of ``out`` becomes this rank's part of the array of rank r; equal parts."""

    def all_to_all_v(
        self,
        out: Array,
        array: Array,
        counts: Sequence[Sequence[int]],
        *,
        timeout_ps: int = 0,
    ) -> Work:
        """The same with ``counts[i][j]`` elements from rank i to rank j, known to all."""

    def send(self, array: Array, to: int, *, tag: int = 0, timeout_ps: int = 0) -> Work:
        """Send to one rank; done when a ``recv`` there took the message, or kept it."""

    def recv(
        self, array: Array, source: int | None, *, tag: int = 0, timeout_ps: int = 0
    ) -> "Message":
        """Receive the first message with a tag from one rank, or from any (None).

        Messages of one rank with one tag arrive in their order; sizes must agree.
        """

    def barrier(self, *, timeout_ps: int = 0) -> Work:
        """Done when every rank has called it."""

    def counters(self) -> dict[str, int]:
        """Packets, bytes, requests, retransmissions and round trip so far."""

    def close(self) -> None:
        """End the group here: socket and thread are given back; BFRs forget it in time."""
