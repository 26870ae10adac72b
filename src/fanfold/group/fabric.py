"""The communicator on a fabric: each collective is one layout of blocks (layout.py)."""

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import numpy as np

from fanfold.errors import ConfigError
from fanfold.group import layout
from fanfold.group.ask import LEAVING, Ask
from fanfold.group.casts import Casts
from fanfold.group.communicator import Array, GroupError, Op, Work
from fanfold.group.ends import is_one_host, is_tiered, open_session
from fanfold.group.messages import MessageMatcher, Receive, Received, Stream, message_ask
from fanfold.group.plane_session import PlaneSession
from fanfold.group.rules import BY_VALUE, PATIENCE_PS, WAIT, Inside, Rules, check_rules
from fanfold.group.values import (
    MOVED,
    Moved,
    as_float64,
    bytes_of,
    form_of,
    moved_kind,
    name_of,
    of_float64,
    wide_of,
    widened,
)
from fanfold.group.wants import FindTeller, Wants, find_nobody
from fanfold.group.work import FabricWork
from fanfold.kernels.reduce import join_floats
from fanfold.live.clock import now_ps
from fanfold.live.rank import WINDOW, port_of_pair
from fanfold.live.rank_state import NOTHING
from fanfold.live.worker import Worker
from fanfold.topo.fabric import Fabric
from fanfold.topo.vat_laid import LaidTree
from fanfold.units import PS_PER_SECOND

TIMEOUT_PS = 60 * PS_PER_SECOND
PAIR_WINDOW = 16
CLOSE_PS = PS_PER_SECOND
NO_BYTES = np.zeros(0, np.uint8)
BARRIER = Moved("barrier", 0, NO_BYTES.dtype)
PIECE_BYTES = 1 << 20
"""Floats that are multiplied are gathered from all ranks in pieces of this size."""


class FabricCommunicator:
    """Rank ``rank`` of ``members`` on a fabric; see ``Communicator``.

    Args:
        window: blocks under way at most. root_level: BFRs above rank 0's own before the root.
        root: host that is the root, or a switch (``root_level_of``); empty: a BFR, or rank
            0's host where it has none.
        stragglers: ``wait``, ``partial`` or ``exclude`` ranks that are late in all_reduce and
            reduce, the same on all ranks. patience_ps: how late, 1 ms to 65.535 s.
        numbers: each ``value`` of a sum of floats has an exponent, or each ``block`` (Rules).
        laid: of ``lay_trees``, a tree that `fanfold vat --install` made for the group.
        secret: of all ranks, which no BFR knows: false sums are refused (kernels/check.py).
        planes: ``auto`` or ``1,2``: large arrays go over these planes by weight
            (plane_session.py); empty: one, by the number. find_teller: of weights.

    Raises:
        ConfigError: members that one BitString cannot name. EnvironmentLack: port in use.
    """

    def __init__(  # noqa: PLR0913 - each has a default that is right
        self,
        fabric: Fabric,
        members: Sequence[str],
        rank: int,
        *,
        group: int,
        port: int = 0,
        timeout_ps: int = TIMEOUT_PS,
        window: int = WINDOW,
        root_level: int = 0,
        root: str = "",
        stragglers: str = WAIT,
        patience_ps: int = PATIENCE_PS,
        numbers: str = BY_VALUE,
        laid: LaidTree | None = None,
        secret: bytes = b"",
        planes: str = "",
        find_teller: FindTeller = find_nobody,
    ) -> None:
        for name, value, n in (("rank", rank, len(members)), ("group", group, 1 << 32)):
            if not 0 <= value < n:
                raise ConfigError(name, value, f"0 to {n - 1}")
        is_checked = bool(secret) and not is_one_host(members)  # no BFR adds there
        rules = Rules(stragglers, patience_ps, numbers, is_checked)
        rules = check_rules(rules, members, laid)
        self.fabric, self.members, self.group = fabric, tuple(members), group
        self.rank, self.size, self.root = rank, len(members), root
        self.timeout_ps, self._window, self._root_level = timeout_ps, window, root_level
        wants = Wants(port, window, root_level, root, laid, secret, planes, find_teller)
        self._session, self.root = open_session(fabric, members, rank, group, rules, wants)
        self.end = self._session.end
        self._ids = [fabric.by_name[name].bfr_id for name in members]
        if is_tiered(members):
            self._ids = [r + 1 for r in range(self.size)]  # a host's is not of one rank
        self._worker = Worker(f"fanfold-group-{group}")
        if isinstance(self._session, PlaneSession):
            self._session.submit = self._worker.submit
        self._who = layout.checksum([], self._ids)
        self._casts = Casts(self._session, self._ids, self._worker.submit)
        self._pairs: dict[tuple[int, int], FabricCommunicator] = {}
        self._streams: dict[tuple[int, int], Stream] = {}
        self._matcher = MessageMatcher()
        self._is_closed = False

    def all_reduce(
        self, array: Array, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Work:
        """See ``Communicator``."""

        def cut(size: int) -> list[layout.Segment]:
            return layout.all_reduce(size)

        return self._join("all_reduce", array, array, op, kind, cut, timeout_ps)

    def reduce(
        self, array: Array, root: int, op: Op = Op.SUM, *, kind: str = "", timeout_ps: int = 0
    ) -> Work:
        """See ``Communicator``."""
        self._check_rank("root", root)

        def cut(size: int) -> list[layout.Segment]:
            return layout.reduce(size, root, self.rank, self._ids)

        out = array if self.rank == root else None
        return self._join("reduce", array, out, op, kind, cut, timeout_ps, root)

    def reduce_scatter(
        self,
        out: Array,
        array: Array,
        op: Op = Op.SUM,
        *,
        kind: str = "",
        timeout_ps: int = 0,
    ) -> Work:
        """See ``Communicator``."""
        counts = [out.size] * self.size
        return self.reduce_scatter_v(out, array, counts, op, kind=kind, timeout_ps=timeout_ps)

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
        """See ``Communicator``."""
        self._check_sizes("counts", counts, out.size, array.size)

        def cut(size: int) -> list[layout.Segment]:
            width = size // max(array.size, 1)
            return layout.reduce_scatter([n * width for n in counts], self.rank, self._ids)

        return self._join("reduce_scatter", array, out, op, kind, cut, timeout_ps)

    def _join(
        self,
        name: str,
        array: Array,
        out: Array | None,
        op: Op,
        kind: str,
        cut: Callable[[int], list[layout.Segment]],
        timeout_ps: int,
        root: int = 0,
    ) -> Work:
        """Join arrays; kinds that do not travel are widened, products of floats ordered."""
        kind = name_of(array, kind)
        if out is not None and out.dtype != array.dtype:
            raise ConfigError("out", out.dtype, str(array.dtype))
        until_ps = self._until(timeout_ps)
        bytes_of(array, "array")
        if out is not None:
            bytes_of(out, "out")

        def run() -> Inside:
            inside = Inside(self.size)
            wide = wide_of(kind, op, self.size)
            src = array if wide == kind else widened(array, kind, wide)
            dst = src if out is array else out
            if dst is not None and dst is not src and wide != kind:
                dst = np.zeros(dst.shape, wide)
            form = form_of(wide, op, by_block=self._session.rules.is_by_block)
            if form.is_float and op == Op.PRODUCT:
                self._multiply(name, src, dst, wide, cut, until_ps)
            else:
                segments = cut(src.nbytes)
                sizes = layout.checksum(segments, self._ids)
                ask = Ask(name, form, root, src.nbytes, sizes, given=kind, is_mean=op == Op.AVG)
                share = 1 / self.size if op == Op.AVG else 1.0
                raw_dst = NO_BYTES if dst is None else bytes_of(dst, "out")
                raw = bytes_of(src, "array")
                inside = self._session.do(ask, segments, raw, raw_dst, until_ps, share=share)
                if op == Op.AVG and dst is not None and dst.size and not form.is_float:
                    self.end.divide(dst.dtype)
            if out is not None and dst is not out and dst is not None:
                narrowed = of_float64(dst, kind) if wide == "float64" else dst
                np.copyto(out, narrowed, casting="unsafe")
            return inside

        return FabricWork(name, self._submit(run))

    def _multiply(
        self,
        name: str,
        src: Array,
        dst: Array | None,
        kind: str,
        cut: Callable[[int], list[layout.Segment]],
        until_ps: int,
    ) -> None:
        """Product of floats in the order of ranks: gathered, then multiplied on each rank."""
        flat = src.reshape(-1)
        whole = np.zeros_like(flat)
        step = max(PIECE_BYTES // flat.itemsize, 1)
        for at in range(0, max(flat.size, 1), step):
            part = flat[at : at + step]
            n = self.size - len(self.excluded)
            every = np.zeros(part.size * n, flat.dtype)
            self._gather_now(name, every, part, until_ps)
            rows = every.reshape(n, part.size)
            result = as_float64(rows[0], kind)
            for row in rows[1:]:
                join_floats(int(Op.PRODUCT), result, as_float64(row, kind))
                result = as_float64(of_float64(result, kind), kind)
            whole[at : at + step] = of_float64(result, kind)
        raw, out = whole.view(np.uint8), NO_BYTES if dst is None else bytes_of(dst, "out")
        for segment in cut(whole.nbytes) if dst is not None else ():
            if segment.dst != NOTHING:
                out[segment.dst : segment.dst + segment.n_bytes] = raw[
                    segment.src : segment.src + segment.n_bytes
                ]

    def _submit(self, task: Callable[[], Any]) -> "Future[Any]":
        """Do it after all that was asked for before."""
        self._casts.end_row()
        return self._worker.submit(task)

    # Moved arrays.

    def broadcast(self, array: Array, root: int, *, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        self._check_rank("root", root)
        raw = bytes_of(array, "array")
        ask = Ask("broadcast", MOVED, root, raw.size, self._who, moved_kind(array.dtype))
        return self._casts.add(raw, ask, self._until(timeout_ps))

    def all_gather(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        until_ps = self._until(timeout_ps)
        self._check_total("out", out.nbytes, array.nbytes * self.size)
        bytes_of(out, "out")
        bytes_of(array, "array")
        work = self._submit(lambda: self._gather_now("all_gather", out, array, until_ps))
        return FabricWork("all_gather", work)

    def _gather_now(self, name: str, out: Array, array: Array, until_ps: int) -> None:
        raw, src = bytes_of(out, "out"), bytes_of(array, "array")
        sizes = [0 if r in self.excluded else src.size for r in range(self.size)]
        segments = layout.all_gather(sizes, self.rank, self._ids)
        ask = Ask(name, MOVED, 0, src.size, moved_kind=moved_kind(array.dtype))
        self._session.do(ask, segments, src, raw, until_ps)
        own = sum(sizes[: self.rank])
        raw[own : own + src.size] = src

    def all_gather_v(self, outs: Sequence[Array], array: Array, *, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        sizes = [out.nbytes for out in outs]
        self._check_total("outs", len(sizes), self.size)
        self._check_total("array", array.nbytes, sizes[self.rank])
        src = bytes_of(array, "array")
        room = np.zeros(sum(sizes), np.uint8)
        segments = layout.all_gather(sizes, self.rank, self._ids)

        def put() -> None:
            at = 0
            for r, out in enumerate(outs):
                part = src if r == self.rank else room[at : at + sizes[r]]
                np.copyto(bytes_of(out, "outs"), part)
                at += sizes[r]

        told = Moved("all_gather", 0, array.dtype)
        return self._move(told, src, room, segments, timeout_ps, then=put)

    def gather(
        self, out: Array | None, array: Array, root: int, *, timeout_ps: int = 0
    ) -> Work:
        """See ``Communicator``."""
        self._check_rank("root", root)
        src = bytes_of(array, "array")
        raw = NO_BYTES
        if self.rank == root:
            if out is None:
                raise ConfigError("out", None, "an array on the root")
            self._check_total("out", out.nbytes, src.size * self.size)
            raw = bytes_of(out, "out")
        segments = layout.gather(src.size, root, self.rank, self._ids)

        def put() -> None:
            if self.rank == root:
                raw[root * src.size : (root + 1) * src.size] = src

        told = Moved("gather", src.size, array.dtype)
        return self._move(told, src, raw, segments, timeout_ps, root, put)

    def scatter(
        self, out: Array, array: Array | None, root: int, *, timeout_ps: int = 0
    ) -> Work:
        """See ``Communicator``."""
        self._check_rank("root", root)
        raw, src = bytes_of(out, "out"), NO_BYTES
        if self.rank == root:
            if array is None:
                raise ConfigError("array", None, "an array on the root")
            self._check_total("array", array.nbytes, raw.size * self.size)
            src = bytes_of(array, "array")
        segments = layout.scatter(raw.size, root, self.rank, self._ids)

        def put() -> None:
            if self.rank == root:
                raw[:] = src[root * raw.size : (root + 1) * raw.size]

        told = Moved("scatter", raw.size, out.dtype)
        return self._move(told, src, raw, segments, timeout_ps, root, put)

    def all_to_all(self, out: Array, array: Array, *, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        if array.size % self.size:
            raise ConfigError("array", array.size, f"a multiple of {self.size} ranks")
        counts = [[array.size // self.size] * self.size] * self.size
        return self.all_to_all_v(out, array, counts, timeout_ps=timeout_ps)

    def all_to_all_v(
        self,
        out: Array,
        array: Array,
        counts: Sequence[Sequence[int]],
        *,
        timeout_ps: int = 0,
    ) -> Work:
        """See ``Communicator``."""
        self._check_total("counts", len(counts), self.size)
        self._check_total("array", array.size, sum(counts[self.rank]))
        self._check_total("out", out.size, sum(row[self.rank] for row in counts))
        src, raw, width = bytes_of(array, "array"), bytes_of(out, "out"), array.itemsize
        sizes = [[n * width for n in row] for row in counts]
        segments = layout.all_to_all(sizes, self.rank, self._ids)
        own = sizes[self.rank][self.rank]
        src_at = sum(sizes[self.rank][: self.rank])
        dst_at = sum(row[self.rank] for row in sizes[: self.rank])

        def put() -> None:
            raw[dst_at : dst_at + own] = src[src_at : src_at + own]

        told = Moved("all_to_all", 0, array.dtype)
        return self._move(told, src, raw, segments, timeout_ps, then=put)

    def _move(
        self,
        told: Moved,
        src: Array,
        dst: Array,
        segments: list[layout.Segment],
        timeout_ps: int,
        root: int = 0,
        then: Callable[[], None] | None = None,
    ) -> Work:
        until_ps = self._until(timeout_ps)
        name, n_bytes, dtype = told
        sizes = layout.checksum(segments, self._ids)
        ask = Ask(name, MOVED, root, n_bytes, sizes, moved_kind(dtype))

        def run() -> None:
            self._session.do(ask, segments, src, dst, until_ps, mixed=name == "all_to_all")
            if then is not None:
                then()

        return FabricWork(name, self._submit(run))

    def barrier(self, *, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        return self._move(BARRIER, NO_BYTES, NO_BYTES, [], timeout_ps)

    # Pairs.

    def send(self, array: Array, to: int, *, tag: int = 0, timeout_ps: int = 0) -> Work:
        """See ``Communicator``."""
        ask = message_ask(array, tag)
        until_ps = self._until(timeout_ps)
        return self._stream(self.rank, to).send(array, ask, until_ps)

    def recv(
        self, array: Array, source: int | None, *, tag: int = 0, timeout_ps: int = 0
    ) -> Received:
        """See ``Communicator``."""
        every = [r for r in range(self.size) if r != self.rank] if source is None else [source]
        receive = Receive(every, array, message_ask(array, tag), self._until(timeout_ps))
        return self._matcher.receive([self._stream(r, self.rank) for r in every], receive)

    def _stream(self, source: int, to: int) -> Stream:
        """One direction between two ranks, a group of two, made when first used."""
        self._check_rank("rank", source)
        self._check_rank("rank", to)
        if source == to:
            raise ConfigError("rank", to, "another rank")
        if (source, to) not in self._pairs:
            pair = FabricCommunicator(
                self.fabric,
                [self.members[source], self.members[to]],
                int(self.rank == to),
                group=zlib.crc32(f"{self.group}/{source}/{to}".encode()),
                port=port_of_pair(self.group, self.size, source, to),
                timeout_ps=self.timeout_ps,
                window=PAIR_WINDOW,
                root_level=self._root_level,
                root=self.root,
            )
            pair._session.called = (source, to)
            self._pairs[source, to] = pair
            self._streams[source, to] = Stream(pair._session, pair._worker, pair._ids)
        return self._streams[source, to]

    @property
    def excluded(self) -> tuple[int, ...]:
        """Ranks that were late and are no longer of the group."""
        return self._session.excluded

    def counters(self) -> dict[str, int]:
        """See ``Communicator``."""
        session = self._session
        own = {
            "operations": session.n_operations,
            "overflows": session.n_overflows,
            "not_finite_blocks": session.n_not_finite,
            "shrunk": session.n_shrunk + self.end.has_fewer_slots(),
            "partial_blocks": session.n_partial,
            "flushed_values": session.n_flushed,
            "excluded": len(session.excluded),
        }
        return self.end.counters() | own

    def close(self) -> None:
        """See ``Communicator``."""
        if self._is_closed:
            return
        for pair in self._pairs.values():
            pair.close()
        is_over = self._session.broken is not None
        if self._session.n_operations and not is_over:
            work = self._move(BARRIER, NO_BYTES, NO_BYTES, [], CLOSE_PS, LEAVING)
            with suppress(GroupError):  # somebody left without closing: the BFRs forget in time
                work.wait(2 * CLOSE_PS)
                is_over = True
        self._is_closed = True
        self.end.is_stopped = True
        self.end.wake()
        self._worker.close()
        if is_over:
            self.end.leave()
        self.end.close()

    def _until(self, timeout_ps: int) -> int:
        if self._is_closed:
            raise GroupError("the group is closed", op="")
        return now_ps() + (timeout_ps or self.timeout_ps)

    def _check_rank(self, what: str, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ConfigError(what, rank, f"0 to {self.size - 1}")

    def _check_total(self, what: str, got: int, due: int) -> None:
        if got != due:
            raise ConfigError(what, got, str(due))

    def _check_sizes(self, what: str, counts: Sequence[int], own: int, total: int) -> None:
        self._check_total(what, len(counts), self.size)
        self._check_total(f"{what}[{self.rank}]", counts[self.rank], own)
        self._check_total(f"sum of {what}", sum(counts), total)
