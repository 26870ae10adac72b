"""One rank's operations in their order: agree on what is asked, move blocks, tell what failed.

Before an array is touched, one block of words is joined by maximum: what each rank was asked
for, once as it is and once inverted, so that all see at once whether all agree; and the
exponents of the first window of blocks (ADR 0022). All ranks see the same, so all refuse.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.group.communicator import GroupError
from fanfold.group.layout import Segment, build_blocks
from fanfold.group.values import MOVED, WORDS, Form
from fanfold.kernels.absorb import FLAG_OVERFLOW
from fanfold.kernels.words import unmark_block
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live.rank import LEAST_WINDOW, Batch, RankEnd
from fanfold.live.rank_state import NOTHING

NAMES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "send",
    "barrier",
)
KIND_NAMES = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "bytes")
OP_NAMES = ("sum", "product", "min", "max", "move")
ROOTED = ("reduce", "broadcast", "gather", "scatter")
N_FIELDS = 7
LEAST = -(2**31)
MAX_CLIMB = 3


class Ask(NamedTuple):
    """What a rank was asked for, as it is compared: all of it must be the same on all ranks.

    moved_kind: what the bytes are that are moved, as far as it has a name.
    """

    name: str
    form: Form
    root: int = 0
    n_bytes: int = 0
    sizes: int = 0
    moved_kind: int = MOVED.kind

    def words(self) -> list[int]:
        """Seven numbers below 2**31."""
        return [
            NAMES.index(self.name),
            self.moved_kind if self.form == MOVED else self.form.kind,
            self.form.op,
            self.root,
            self.n_bytes & 0x7FFFFFFF,
            self.n_bytes >> 31,
            self.sizes & 0x7FFFFFFF,
        ]


def text_of(words: Sequence[int]) -> str:
    """What a rank was asked for, in words."""
    name, kind, op, root, low, high, _ = words
    how = f", {OP_NAMES[op]}" if OP_NAMES[op] != "move" else ""
    whose = f", root {root}" if NAMES[name] in ROOTED else ""
    return f"{NAMES[name]} of {low + (high << 31)} bytes of {KIND_NAMES[kind]}{how}{whose}"


class Session:
    """What the worker's thread does for one communicator."""

    def __init__(self, end: RankEnd, rank: int) -> None:
        self.end, self.rank, self.size = end, rank, len(end.members)
        self.broken: GroupError | None = None
        self.n_operations = 0
        self.n_overflows = 0
        self.n_not_finite = 0
        self.n_shrunk = 0

    def do(
        self,
        ask: Ask,
        segments: Sequence[Segment],
        src: NDArray[Any],
        dst: NDArray[Any],
        until_ps: int,
        *,
        share: float = 1.0,
        mixed: bool = False,
    ) -> None:
        """One operation from agreement to the last result; src and dst are bytes."""
        if self.broken is not None:
            raise self.broken
        self.n_operations += 1
        form = ask.form
        values = self.end.block_bytes // form.word_bytes * form.value_bytes
        blocks = build_blocks(segments, values, mixed=mixed)
        none = np.zeros(0, np.int64)
        batch = Batch(form.kind, form.op, blocks, src, dst, none, share)
        codes = self.end.codes_of(batch) & 0xFFFF if form.is_fixed else none
        shared = self._agree(ask, codes, until_ps)
        if not len(blocks):
            return
        self._run(ask.name, batch._replace(shared=shared), until_ps)
        if self.end.flags() & FLAG_OVERFLOW:
            self.n_overflows += 1
            if form.is_fixed:
                raise GroupError(
                    f"{ask.name}: a sum outgrew its words: some rank broke the agreed exponent",
                    op=ask.name,
                )
        if form.is_fixed and len(self.end.not_finite()):
            self._mend(ask.name, form, batch, until_ps)

    def _agree(self, ask: Ask, codes: NDArray[np.int64], until_ps: int) -> NDArray[np.int64]:
        """Exponents of the first window, the largest of all ranks.

        Raises:
            GroupError: ranks were asked for different things; names those that differ.
        """
        window = len(self.end.state.ring[0])
        asked = ask.words()
        words = np.zeros(2 * N_FIELDS + window, np.int32)
        words[:N_FIELDS] = asked
        words[N_FIELDS : 2 * N_FIELDS] = [~word for word in asked]
        words[2 * N_FIELDS : 2 * N_FIELDS + len(codes)] = codes
        most = self._join_words(ask.name, words, until_ps)
        top, low = most[:N_FIELDS], ~most[N_FIELDS : 2 * N_FIELDS]
        if (top != low).any():
            raise self._disagreement(ask, until_ps)
        return most[2 * N_FIELDS :].astype(np.int64)

    def _disagreement(self, ask: Ask, until_ps: int) -> GroupError:
        words = np.full((self.size, N_FIELDS), LEAST, np.int32)
        words[self.rank] = ask.words()
        rows = self._join_words(ask.name, words.reshape(-1), until_ps).reshape(words.shape)
        found: dict[tuple[int, ...], list[int]] = {}
        for r, row in enumerate(rows.tolist()):
            found.setdefault(tuple(row), []).append(r)
        usual = max(found.values(), key=len)
        told = "; ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text_of(row)}"
            for row, ranks in found.items()
        )
        others = sorted(set(range(self.size)) - set(usual))
        return GroupError(
            f"{ask.name}: ranks were asked for different things: {told}",
            op=ask.name,
            ranks=others,
        )

    def _join_words(
        self, name: str, words: NDArray[np.int32], until_ps: int
    ) -> NDArray[np.int32]:
        """Largest of each word over all ranks."""
        out = np.zeros_like(words)
        blocks = build_blocks([Segment(0, 0, words.nbytes)], self.end.block_bytes)
        none = np.zeros(0, np.int64)
        batch = Batch(
            WORDS.kind, WORDS.op, blocks, words.view(np.uint8), out.view(np.uint8), none
        )
        self._run(name, batch, until_ps)
        return out

    def _run(self, name: str, batch: Batch, until_ps: int) -> None:
        row = self.end.state.row[0]
        while True:
            code = self.end.run(batch, until_ps)
            if code == loop.NO_ROOM and self._ask_for_less(row):
                self.n_shrunk += 1
                continue
            break
        if code != loop.DONE:
            self.broken = self._failure(name, code)
            raise self.broken

    def _ask_for_less(self, row: Any) -> bool:
        """Rank 0 asks for half as many slots, then for a root further up."""
        if self.rank != 0:
            return False
        climb = len(self.end.state.head) - 1
        if row["window"] > LEAST_WINDOW:
            row["window"] = max(row["window"] // 2, LEAST_WINDOW)
        elif self.end.state.head[climb] < MAX_CLIMB:
            row["window"] = len(self.end.state.ring[0])
            self.end.state.head[climb] += 1
        else:
            return False
        row["n_slots"] = 2 * row["window"]
        row["armed"], row["arm_ps"] = 0, 0
        row["cwnd"] = min(row["cwnd"], row["window"])
        return True

    def _failure(self, name: str, code: int) -> GroupError:
        end = self.end
        branch = end.uplink()
        if code == loop.WOKEN:
            return GroupError(f"{name}: the group was closed meanwhile", op=name)
        if code == loop.NO_ROOM:
            text = f"{name}: no BFR of {branch} and above has slots for this group"
            return GroupError(text, op=name, branch=branch)
        missing = end.missing()
        row = end.state.row[0]
        if missing == [self.rank]:
            text = f"{name}: what rank {self.rank} sends does not reach {branch}"
        elif missing:
            who = ", ".join(f"{r} ({end.members[r]})" for r in missing)
            text = f"{name}: deadline, not heard: rank {who}"
        elif row["armed"] == 0:
            text = f"{name}: deadline, rank 0 ({end.members[0]}) is silent or {branch} is down"
            missing = [0] if self.rank else []
        else:
            text = f"{name}: deadline, {branch} does not answer"
        return GroupError(text, op=name, ranks=missing, branch=branch, is_deadline=True)

    def _mend(self, name: str, form: Form, batch: Batch, until_ps: int) -> None:
        """Put infinities and not-a-numbers where a rank had them: marks, joined by OR."""
        bad = self.end.not_finite()
        self.n_not_finite += len(bad)
        marks = self.end.state.marks
        rows = batch.blocks[bad]
        width = form.value_bytes
        counts = rows[:, st.B_BYTES] // width
        starts = np.cumsum(counts) - counts
        srcs = [NOTHING if at == NOTHING else int(at) // width for at in rows[:, st.B_SRC]]
        triples = zip(srcs, starts, counts, strict=True)
        segments = [Segment(src, int(at), int(n)) for src, at, n in triples]
        found = np.zeros(int(counts.sum()), np.uint8)
        table = build_blocks(segments, self.end.block_bytes)
        none = np.zeros(0, np.int64)
        self._run(name, Batch(MOVED.kind, MOVED.op, table, marks, found, none), until_ps)
        for row, segment in zip(rows, segments, strict=True):
            at = int(row[st.B_DST])
            if at != NOTHING:
                values = batch.dst[at : at + int(row[st.B_BYTES])]
                part = found[segment.dst : segment.dst + segment.n_bytes]
                unmark_block(form.kind, part, values)
