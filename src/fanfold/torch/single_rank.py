"""A group of one rank: every collective is a copy, nothing is sent."""

from collections.abc import Sequence

import numpy as np

from fanfold.errors import ConfigError
from fanfold.group.communicator import Array, GroupError, Op


class Done:
    """An operation that is over."""

    def wait(self, timeout_ps: int | None = None) -> None:
        """Return."""

    def source(self) -> int:
        """This rank."""
        return 0

    def is_done(self) -> bool:
        """Yes."""
        return True

    def error(self) -> GroupError | None:
        """None."""
        return None


def _copy(out: Array, array: Array, name: str) -> Done:
    if out.size != array.size or out.dtype != array.dtype:
        text = f"{name}: {out.size} x {out.dtype} cannot take {array.size} x {array.dtype}"
        raise GroupError(text, op=name, ranks=[0])
    np.copyto(out, array)
    return Done()


def _check_root(root: int) -> None:
    if root:
        raise ConfigError("root", root, "0")


class SingleRank:
    """Communicator of a group of one; see ``Communicator`` for what each operation is."""

    rank = 0
    size = 1

    def all_reduce(
        self, array: Array, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Done:
        """The array stays as it is."""
        return Done()

    def reduce(
        self, array: Array, root: int, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Done:
        """The array stays as it is."""
        _check_root(root)
        return Done()

    def broadcast(self, array: Array, root: int, *, timeout_ps: int = 0) -> Done:
        """The array stays as it is."""
        _check_root(root)
        return Done()

    def all_gather(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Done:
        """A copy."""
        return _copy(out, array, "all_gather")

    def all_gather_v(self, outs: Sequence[Array], array: Array, *, timeout_ps: int = 0) -> Done:
        """A copy."""
        return _copy(outs[0], array, "all_gather")

    def gather(
        self, out: Array | None, array: Array, root: int, *, timeout_ps: int = 0
    ) -> Done:
        """A copy."""
        _check_root(root)
        return _copy(array if out is None else out, array, "gather")

    def scatter(
        self, out: Array, array: Array | None, root: int, *, timeout_ps: int = 0
    ) -> Done:
        """A copy."""
        _check_root(root)
        return _copy(out, out if array is None else array, "scatter")

    def reduce_scatter(
        self,
        out: Array,
        array: Array,
        op: Op = Op.SUM,
        *,
        kind: str = "",
        timeout_ps: int = 0,
    ) -> Done:
        """A copy."""
        return _copy(out, array, "reduce_scatter")

    def reduce_scatter_v(
        self,
        out: Array,
        array: Array,
        counts: Sequence[int],
        op: Op = Op.SUM,
        *,
        kind: str = "",
        timeout_ps: int = 0,
    ) -> Done:
        """A copy."""
        return _copy(out, array, "reduce_scatter")

    def all_to_all(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Done:
        """A copy."""
        return _copy(out, array, "all_to_all")

    def all_to_all_v(
        self,
        out: Array,
        array: Array,
        counts: Sequence[Sequence[int]],
        *,
        timeout_ps: int = 0,
    ) -> Done:
        """A copy."""
        return _copy(out, array, "all_to_all")

    def send(self, array: Array, to: int, *, tag: int = 0, timeout_ps: int = 0) -> Done:
        """Refused: there is nobody else."""
        raise GroupError("send: a group of one has nobody to send to", op="send", ranks=[0])

    def recv(
        self, array: Array, source: int | None, *, tag: int = 0, timeout_ps: int = 0
    ) -> Done:
        """Refused: there is nobody else."""
        raise GroupError("recv: a group of one has nobody who sends", op="recv", ranks=[0])

    def barrier(self, *, timeout_ps: int = 0) -> Done:
        """Done."""
        return Done()

    def counters(self) -> dict[str, int]:
        """None."""
        return {}

    def close(self) -> None:
        """Nothing to give back."""
