"""One rank's operations in their order: agree on what is asked, move blocks, tell what failed.

Before an array is touched, one block of bytes is joined by maximum: what each rank was asked
for, once as it is and once inverted, so that all see at once whether all agree; and exponents
of the first window of blocks, as many as fit (ADR 0033). All ranks see the same, so all refuse.
"""

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanfold.group.ask import N_FIELDS, ROOTED, Ask, text_of
from fanfold.group.communicator import GroupError
from fanfold.group.gone import GONE_TEXTS
from fanfold.group.layout import LARGE_BLOCKS, Segment, build_blocks
from fanfold.group.rules import EXCLUDE, Inside, Rules
from fanfold.group.silence import Setting, Verdict, judge
from fanfold.group.values import MOVED, Form
from fanfold.group.ways import MAX_ROOT_LEVEL
from fanfold.kernels.absorb import FLAG_OVERFLOW
from fanfold.kernels.reduce import KIND_BYTES, KIND_F16, KIND_I32, OP_MAX
from fanfold.kernels.state import I64
from fanfold.kernels.words import unmark_block
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live.clock import now_ps
from fanfold.live.rank import Batch, RankEnd
from fanfold.live.rank_late import HAVE_LATE, UNLIKE
from fanfold.live.rank_state import NOTHING
from fanfold.live.room import Room
from fanfold.units import PS_PER_SECOND

OF_ALL = ("all_gather", "gather", "scatter", "all_to_all")
MORE_AT = 23
"""Byte of these, 0 in itself: blocks of exponents that go along with what is asked."""
MOST_MORE = 127
UNSAID = LEAST = -(2**31)
"""Word of a rank that has none to say: any other is larger."""
STOPPED_PS = PS_PER_SECOND
"""A rank that looks up so long after its deadline did not run meanwhile."""
WAIT_FOR_ALL = Rules()
NO_CODES = np.zeros(0, np.int64)
Codes = NDArray[np.uint8]


class Session:
    """What the worker's thread does for one communicator.

    Args:
        n_spare: bytes that an agreement has room for beside what is asked, on all ranks alike.
    """

    def __init__(
        self, end: RankEnd, rank: int, rules: Rules = WAIT_FOR_ALL, n_spare: int = 0
    ) -> None:
        self.end, self.rank, self.size = end, rank, len(end.members)
        self.n_spare, self.alone_bytes = n_spare, LARGE_BLOCKS * end.block_bytes
        self.called: Sequence[int] = range(self.size)
        """What errors call each rank: a pair is two ranks of a larger group."""
        self.rules = rules
        self.excluded: tuple[int, ...] = ()
        self.broken: GroupError | None = None
        self.n_operations = self.n_overflows = 0
        self.n_not_finite = 0
        self.n_shrunk = 0
        self.n_partial = 0
        self.n_flushed = 0
        self._first = Room()

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
    ) -> Inside:
        """One operation from agreement to the last result; src and dst are bytes."""
        n = ask.form.block_bytes(self.end.block_bytes)
        blocks = build_blocks(segments, n, mixed=mixed)
        return self.do_blocks(ask, blocks, src, dst, until_ps, share)

    def do_blocks(
        self,
        ask: Ask,
        blocks: I64,
        src: NDArray[Any],
        dst: NDArray[Any],
        until_ps: int,
        share: float = 1.0,
    ) -> Inside:
        """``do``, of rows of ``build_blocks``."""
        self._refuse_excluded(ask)
        self.begin()
        ask = ask._replace(rules=self.rules.number())
        patience_ms = self.rules.patience_ms(ask.name, is_joined=ask.form != MOVED)
        self.end.be_patient(patience_ms, is_strict=self.rules.stragglers == EXCLUDE)
        form = ask.form
        batch = Batch(form.kind, form.op, blocks, src, dst, NO_CODES, share, form.word)
        self.end.ask_for_slots(len(blocks))
        batch, late = self._agree(ask, batch, until_ps)
        inside = self._inside()
        if len(blocks):
            inside = self._move_blocks(ask, batch, until_ps)
        if self.rules.stragglers == EXCLUDE:
            self._exclude(ask.name, {*late, *inside.missing})
        return inside

    def agree_to_move(
        self, ask: Ask, told: NDArray[np.uint8], until_ps: int
    ) -> NDArray[np.uint8]:
        """Begin an operation that only moves bytes; the largest of each byte of all ranks.

        Args:
            told: ``n_spare`` bytes at most.
        """
        self._refuse_excluded(ask)
        self.begin()
        self.end.be_patient(0, is_strict=self.rules.stragglers == EXCLUDE)
        self.end.ask_for_slots(1)
        ask = ask._replace(rules=self.rules.number())
        return self._agree_asked(ask, told, until_ps)[: len(told)]

    def _grow(self, name: str, n_blocks: int, until_ps: int) -> None:
        """Have slots for so many blocks; what the window is by then is known on all ranks."""
        if self.end.ask_for_more(n_blocks):
            self._largest(name, np.zeros(1, np.uint8), KIND_BYTES, until_ps)

    def begin(self) -> None:
        """Count an operation; raises what broke the group before."""
        if self.broken is not None:
            raise self.broken
        self.n_operations += 1

    def move(
        self,
        name: str,
        segments: Sequence[Segment],
        raw: Codes,
        until_ps: int,
        *,
        out: Codes | None = None,
        how: tuple[int, int] = (MOVED.kind, MOVED.op),
    ) -> None:
        """Move bytes, or join values without exponents, whose sizes all ranks know."""
        blocks = build_blocks(segments, self.end.block_bytes)
        arrays = raw, raw if out is None else out
        self.move_blocks(name, blocks, arrays, until_ps, how)

    def move_blocks(
        self,
        name: str,
        blocks: I64,
        arrays: tuple[Codes, Codes],
        until_ps: int,
        how: tuple[int, int] = (MOVED.kind, MOVED.op),
    ) -> None:
        """``move``, of rows of ``build_blocks``; arrays: what is sent from and kept in."""
        self._grow(name, len(blocks), until_ps)
        if len(blocks):
            self._run(name, Batch(*how, blocks, *arrays, NO_CODES), until_ps)

    def lateness(self, name: str, until_ps: int) -> GroupError:
        """Why nothing came by a deadline; the group goes on."""
        return self._failure(name, loop.LATE, until_ps)

    def _move_blocks(self, ask: Ask, batch: Batch, until_ps: int) -> Inside:
        form = ask.form
        self._run(ask.name, batch, until_ps)
        inside = self._inside()
        self.n_flushed += self.end.flushed()
        if self.end.flags() & FLAG_OVERFLOW:
            self.n_overflows += 1
            if form.is_fixed:
                raise GroupError(
                    f"{ask.name}: a sum outgrew its words: some rank broke the agreed exponent",
                    op=ask.name,
                )
        if form.is_fixed and len(self.end.not_finite()):
            absent = self.end.never_inside()
            self._mend(ask.name, form, batch, until_ps)
            fell = set(self._inside().missing) - absent
            if fell:
                text = f"{ask.name}: values that are not finite: not heard: {self._who(fell)}"
                self.broken = GroupError(text, op=ask.name, ranks=sorted(fell))
                raise self.broken
        return inside

    def _inside(self) -> Inside:
        least, missing, n_partial = self.end.inside()
        self.n_partial += n_partial
        return Inside(least, tuple(missing), n_partial)

    def _refuse_excluded(self, ask: Ask) -> None:
        """What needs all ranks cannot be done without some."""
        lost = self.excluded if ask.name in OF_ALL else ()
        if ask.name in ROOTED and ask.root in self.excluded:
            lost = (ask.root,)
        if lost:
            text = f"{ask.name}: needs rank {self._who(lost)}, left out of the group before"
            raise GroupError(text, op=ask.name, ranks=lost)

    def _exclude(self, name: str, late: Collection[int]) -> None:
        """Go on without ranks that were late: all others do the same."""
        if not late:
            return
        self.excluded = tuple(sorted({*self.excluded, *late}))
        self.end.narrow([r for r in range(self.size) if r not in self.excluded])
        text = f"{name}: rank {self._who(late)} was late and is left out from now on"
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _who(self, ranks: Collection[int]) -> str:
        return ", ".join(f"{self.called[r]} ({self.end.members[r]})" for r in sorted(ranks))

    def _called(self, ranks: Collection[int]) -> list[int]:
        return [self.called[r] for r in ranks]

    def _numbers(self, ranks: Collection[int]) -> str:
        return ", ".join(map(str, self._called(ranks)))

    def _agree(self, ask: Ask, batch: Batch, until_ps: int) -> tuple[Batch, set[int]]:
        """The batch with exponents of its first window, and ranks that these may lack.

        Raises:
            GroupError: ranks were asked for different things; names those that differ.
        """
        form = ask.form
        own = np.zeros(0, np.uint8)
        if form.has_codes:
            own = self.end.first_codes(batch)
            batch = batch._replace(own=self.end.own_codes())
        elif form.is_fixed:
            own = (self.end.codes_of(batch) & 0xFF).astype(np.uint8)
            batch = batch._replace(own=self.end.own_codes())
        room = self.n_spare if form.code_bytes < 2 else 0
        is_little = form.has_codes and room < len(own) <= MOST_MORE * self.end.block_bytes
        told = own[:room]
        if room and is_little and self.end.has_slots_for(len(batch.blocks)):
            told = self._first_window(form, batch, own)
        near = self._agree_asked(ask, told, until_ps)
        late = set(self._inside().missing)
        self._grow(ask.name, len(batch.blocks), until_ps)
        if not form.has_codes:
            return batch._replace(shared=near.astype(np.int64)), late
        own = self._first_window(form, batch, own)
        if room > 0 and len(own) <= len(near):
            return batch._replace(first=near[: len(own)]), late
        kind = KIND_BYTES if form.code_bytes == 1 else KIND_F16
        first = self._first.of(len(own))
        first[:room] = near[:room]
        self._largest(ask.name, own[room:], kind, until_ps, first[room:])
        return batch._replace(first=first), {*late, *self._inside().missing}

    def _first_window(self, form: Form, batch: Batch, own: Codes) -> Codes:
        """Of the exponents of values, those of the blocks that go first."""
        window = self.end.window_for(len(batch.blocks))  # maybe fewer than asked for
        n_values = int(batch.blocks[:window, st.B_BYTES].sum()) // form.value_bytes
        return own[: n_values * form.code_bytes]

    def _agree_asked(self, ask: Ask, codes: Codes, until_ps: int) -> Codes:
        """The largest of each of these bytes, after all ranks were found to be asked alike.

        Above ``n_spare`` they go in blocks behind; not returned where ranks had other numbers.
        """
        more = max(len(codes) - self.n_spare, 0)
        asked = np.array(ask.words(), np.int32).view(np.uint8)
        asked[MORE_AT] = -(-more // self.end.block_bytes)
        head = 2 * asked.size
        told = np.zeros(head + self.n_spare + more, np.uint8)
        told[:head] = np.concatenate([asked, ~asked])
        told[head : head + len(codes)] = codes
        most = self._largest(ask.name, told, KIND_BYTES, until_ps, asked=asked.size)
        top, low = most[: asked.size], ~most[asked.size : head]
        has_all = top[MORE_AT] == low[MORE_AT] == asked[MORE_AT]
        asked[MORE_AT] = top[MORE_AT] = low[MORE_AT] = 0
        if (top != low).any():
            raise self._disagreement(ask, until_ps)
        if (top != asked).any():  # this rank was late, the others do not know
            what = text_of(top.view(np.int32).tolist())
            text = f"{ask.name}: the others went on with {what}"
            self.broken = GroupError(text, op=ask.name, ranks=self._called([self.rank]))
            raise self.broken
        return most[head:] if has_all else most[head : head + self.n_spare]

    def _disagreement(self, ask: Ask, until_ps: int) -> GroupError:
        words = np.full((self.size, N_FIELDS), LEAST, np.int32)
        words[self.rank] = ask.words()
        most = self._largest(ask.name, words.reshape(-1).view(np.uint8), KIND_I32, until_ps)
        rows = most.view(np.int32).reshape(words.shape)
        found: dict[tuple[int, ...], list[int]] = {}
        for r, row in enumerate(rows.tolist()):
            found.setdefault(tuple(row), []).append(r)
        usual = max(found.values(), key=len)
        texts = [text_of(row) for row in found]
        told = "; ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {self._numbers(ranks)}: {text}"
            + (
                " for other members or sizes"
                if ranks != usual and texts.count(text) > 1
                else ""
            )
            for text, ranks in zip(texts, found.values(), strict=True)
        )
        others = sorted(set(range(self.size)) - set(usual))
        return GroupError(
            f"{ask.name}: ranks were asked for different things: {told}",
            op=ask.name,
            ranks=self._called(others),
        )

    def join_words(
        self, name: str, words: NDArray[np.int32], until_ps: int, *, may_end: bool = False
    ) -> NDArray[np.int32] | None:
        """Largest of each word over all ranks.

        Args:
            may_end: end with None at the deadline, or when the rank is recalled; the same
                words are then joined later.
        """
        out = np.zeros_like(words)
        blocks = build_blocks([Segment(0, 0, words.nbytes)], self.end.block_bytes)
        raw, found = words.view(np.uint8), out.view(np.uint8)
        batch = Batch(KIND_I32, OP_MAX, blocks, raw, found, NO_CODES)
        is_over = self._run(name, batch, until_ps, may_end=may_end)
        return out if is_over else None

    def _largest(
        self,
        name: str,
        src: NDArray[np.uint8],
        kind: int,
        until_ps: int,
        out: NDArray[np.uint8] | None = None,
        asked: int = 0,
    ) -> NDArray[np.uint8]:
        """Bytes of the largest of each value over all ranks.

        Args:
            kind: what the bytes are; KIND_F16 for positive 16-bit integers, of the same order.
            out: where they go, fresh memory where it is None. asked: so many bytes first, and
                again inverted; where ranks differ in them only that block has a result.
        """
        out = np.zeros_like(src) if out is None else out
        n = 2 * asked + self.n_spare if asked else len(src)
        more = [Segment(n, n, len(src) - n)] if n < len(src) else []
        blocks = build_blocks([Segment(0, 0, n), *more], self.end.block_bytes)
        self._run(name, Batch(kind, OP_MAX, blocks, src, out, NO_CODES, asked=asked), until_ps)
        return out

    def _run(self, name: str, batch: Batch, until_ps: int, *, may_end: bool = False) -> bool:
        row = self.end.state.row[0]
        while True:
            code = self.end.run(batch, until_ps, may_end=may_end)
            if may_end and (
                code == loop.LATE or (code == loop.WOKEN and not self.end.is_stopped)
            ):
                return False
            if code != loop.NO_ROOM or not self._ask_elsewhere(row):
                break
            self.n_shrunk += 1
        if code != loop.DONE and self.end.gone() != UNLIKE:
            self.broken = self._failure(name, code, until_ps)
            raise self.broken
        return True

    def _ask_elsewhere(self, row: Any) -> bool:
        """Rank 0 asks for slots further up, then at its own host; the others wait for it."""
        root_level = len(self.end.state.head) - 1
        if not row["is_first"]:
            return False
        if self.end.state.head[root_level] < MAX_ROOT_LEVEL and not row["root_id"]:
            self.end.state.head[root_level] += 1
        elif self.end.take_root():
            text = f"no BFR has slots for group {row['group']}: rank {self._who([0])} sums"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            self.end.say_no_room()
            return False
        row["armed"], row["arm_ps"] = 0, 0
        return True

    def _failure(self, name: str, code: int, until_ps: int) -> GroupError:
        end = self.end
        branch = end.uplink()
        if code == loop.WOKEN:
            return GroupError(f"{name}: the group was closed meanwhile", op=name)
        if code == loop.NO_ROOM:
            text = f"{name}: neither a BFR of {branch} nor a host has slots for this group"
            return GroupError(text, op=name, branch=branch)
        if code == loop.GONE:
            text = f"{name}: {GONE_TEXTS[end.gone()].format(self.called[self.rank])}"
            return GroupError(text, op=name, ranks=self._called([self.rank]), branch=branch)
        missing = end.missing()
        if end.is_laid:  # no ARM made the tree that suspects are worked out from
            who = f"not heard: {self._who(missing)}" if missing else "nothing came"
            text = f"{who}; branch {branch}, the tree is installed"
            found = Verdict(text, missing, (), branch)
        elif missing in ([], [self.rank]) and now_ps() > until_ps + STOPPED_PS:
            text = f"rank {self._who([self.rank])} itself was stopped past the deadline"
            found = Verdict(text, [self.rank], (), branch)
        else:
            found = judge(self._setting(), end.sight(), missing)
        return GroupError(
            f"{name}: {found.text}",
            op=name,
            ranks=self._called(found.ranks),
            branch=found.branch,
            suspects=found.suspects,
            is_deadline=True,
        )

    def _setting(self) -> Setting:
        row = self.end.state.row[0]
        return Setting(
            fabric=self.end.fabric,
            members=self.end.members,
            group=int(row["group"]),
            rank=self.rank,
            ranks=self.end.members_left(),
            root_level=int(self.end.state.head[-1]),
            root=self.end.root(),
            most_level=MAX_ROOT_LEVEL,
            who=self._who,
        )

    def _mend(self, name: str, form: Form, batch: Batch, until_ps: int) -> None:
        """Put infinities and not-a-numbers where a rank had them: marks, joined by OR."""
        bad = self.end.not_finite()
        self.n_not_finite += len(bad)
        marks = self.end.state.marks
        rows = batch.blocks[bad]
        late = self.end.state.have[bad] & HAVE_LATE != 0
        unmarked = self.end.state.codes[bad] & st.MARKED == 0
        width = form.value_bytes
        counts = rows[:, st.B_BYTES] // width
        starts = np.cumsum(counts) - counts
        srcs = [NOTHING if at == NOTHING else int(at) // width for at in rows[:, st.B_SRC]]
        empty = (late | unmarked) & (rows[:, st.B_SRC] != NOTHING)
        for at, n in zip(rows[empty, st.B_SRC], counts[empty], strict=True):
            marks[int(at) // width : int(at) // width + n] = 0  # finite, or not inside
        triples = zip(srcs, starts, counts, strict=True)
        segments = [Segment(src, int(at), int(n)) for src, at, n in triples]
        found = np.zeros(int(counts.sum()), np.uint8)
        table = build_blocks(segments, self.end.block_bytes)
        self._run(name, Batch(MOVED.kind, MOVED.op, table, marks, found, NO_CODES), until_ps)
        for row, segment in zip(rows, segments, strict=True):
            at = int(row[st.B_DST])
            if at != NOTHING:
                values = batch.dst[at : at + int(row[st.B_BYTES])]
                part = found[segment.dst : segment.dst + segment.n_bytes]
                unmark_block(form.kind, part, values)
