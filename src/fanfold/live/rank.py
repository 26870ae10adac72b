"""One rank's end of a group: a socket at its host, a compiled loop, and a thread for it.

The socket is bound to the host's own address and the group's port, beside the host's node: the
last BFR sends what belongs to a group to that port (docs/wire/fold.md section 2).
"""

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.impair import Impairment, apply
from fanfold.kernels.absorb import WHAT_ARM, WHAT_CLOSE, fold_at
from fanfold.kernels.check import CHECK_ROOM
from fanfold.kernels.codes import N_DROPS
from fanfold.kernels.impairment import build_impairments
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.reduce import KIND_F16, KIND_F32, OP_SUM, join_floats
from fanfold.kernels.state import I64, U8
from fanfold.kernels.vouch import FIRST_PORT
from fanfold.kernels.words import is_fixed, unmark_block, word_of_kind
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live import rank_words as words
from fanfold.live import sock as s
from fanfold.live.channels import Channels, is_near
from fanfold.live.clock import now_ps
from fanfold.live.ports import check_mtu, close_exits, open_socket, time_arrivals
from fanfold.live.rank_build import Windows, bits_of, block_bytes_of, build_rank, check_root
from fanfold.live.rank_check import build_check, free_check
from fanfold.live.rank_late import ALL, ANY, UNLIKE
from fanfold.live.rank_links import RankLinks, build_rank_sock
from fanfold.live.rank_sight import Sight, is_told, sight_of
from fanfold.live.room import Room
from fanfold.topo.fabric import Fabric
from fanfold.topo.vat_laid import LaidTree
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring
from fanfold.wire.inner import address_of

WINDOW = 256
FEW = 8
"""Window of groups whose operations have few blocks."""
QUIET_PS = 10 * PS_PER_SECOND
"""After so long without a word rank 0 arms the tree again before it sends: BFRs that need slots
take them from groups that are idle for long."""
OFFER_PS = PS_PER_SECOND
MOST_PAUSE_PS = 32 * PS_PER_SECOND
"""Between two offers of a channel to a BFR that has taken none: twice as long each time."""
ANSWER_S = 0.1
"""For a BFR that is to take a channel, at first; what takes longer goes by the socket."""
SAID_TIMES = 3
PORT_BASE = 20_000
N_PORTS = 12_000
"""Ports of groups that name none lie below those that Linux hands out by itself."""
COUNTERS = (
    "sent",
    "sent_bytes",
    "sent_again",
    "sent_again_bytes",
    "requests",
    "received",
    "received_bytes",
    "duplicates",
    "refused",
    "send_failed",
    "arms",
    "probes",
)


def port_of_group(group: int) -> int:
    """UDP port of a group that names none."""
    return PORT_BASE + group % N_PORTS


NO_WORD = -1


def port_of_pair(group: int, n_ranks: int, source: int, to: int) -> int:
    """UDP port of what one rank of such a group sends to another: behind that of the group.

    No two pairs of a group have the same, up to a hundred ranks.
    """
    return port_of_group(group + 1 + source * n_ranks + to)


class Batch(NamedTuple):
    """One run of blocks through the network.

    kind, op: of kernels/reduce.py. blocks: (N, N_COLUMNS). src, dst: bytes. shared: exponents
    of the first window of blocks. share: what sums of floats are multiplied by. word: with
    exponents of values, else that of the kind. first: bytes of such exponents of the first
    window. own: of its blocks, what ``own_codes`` found before, none: not known. asked: first
    bytes of an agreement, which are to be the same on all ranks, or 0.
    """

    kind: int
    op: int
    blocks: I64
    src: U8
    dst: U8
    shared: I64
    share: float = 1.0
    word: int = NO_WORD
    first: U8 = np.zeros(0, np.uint8)
    own: I64 = np.zeros(0, np.int64)
    asked: int = 0


NO_BATCH = Batch(
    KIND_F32,
    OP_SUM,
    np.zeros((0, st.N_COLUMNS), np.int64),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint8),
    np.zeros(0, np.int64),
)


class RankEnd:
    """A rank's socket and state; one batch at a time.

    Args:
        members: host names by rank. rank: which of them this is. group: its number.
        port: UDP port of the group at all its hosts. window, usual: see Windows.
        root_level: BFRs above the first one before the root. root: host whose node is the root,
            empty where a BFR is. secret: of ranks that check their sums.

    Raises:
        ConfigError: members that no BitString of this fabric can name together.
        EnvironmentLack: the port is in use.
    """

    def __init__(  # noqa: PLR0913 - all but three by name
        self,
        fabric: Fabric,
        members: Sequence[str],
        rank: int,
        *,
        group: int,
        port: int,
        window: int = WINDOW,
        usual: int = WINDOW,
        root_level: int = 0,
        root: str = "",
        secret: bytes = b"",
    ) -> None:
        self.fabric, self.members = fabric, tuple(members)
        me = fabric.by_name[members[rank]]
        self.name = me.name
        check_mtu(fabric, me.name)
        self.bits, _ = bits_of(fabric, members)
        most = block_bytes_of(fabric)
        self.block_bytes = most - CHECK_ROOM if secret else most
        self.windows = Windows(window, min(usual, window))
        who, check = (fabric, members, rank), build_check(fabric, members, group, secret, most)
        self.state = build_rank(*who, group, port, window, root_level, check)
        if root:
            check_root(fabric, members, root)
            self.state.row[0]["root_id"] = fabric.by_name[root].bfr_id
        if port < FIRST_PORT:
            raise ConfigError("port", port, f"{FIRST_PORT}..65535")
        self.sock = open_socket(me.address, port, f"rank {rank} on {me.name}")
        self.io = build_rank_sock(fabric, me.name, self.sock, len(self.state.near) + 1)
        self.channels = Channels(self.io)
        self._marks, self._codes = Room(), Room()
        self._offer_ps, self._pause_ps = 0, OFFER_PS
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self.io.ints[s.WAKE_FD] = self._woken.fileno()
        self.impairments = build_impairments(len(self.state.near) + 1, 2048, fabric.line_mtu())
        self.drops = np.zeros(N_DROPS, np.int64)
        self.links = RankLinks(
            fabric, me.name, self.sock, self.io, self.state.near, self.drops, self.channels
        )
        self.is_stopped = self.is_laid = self.is_recalled = False
        self._is_impaired = False
        self._warm()
        self._join_channels()
        self.channels.wait(ANSWER_S)
        self.links.begin(self.state, self.impairments, self.drops)

    def lean_on(self, laid: LaidTree) -> None:
        """Use a tree that was installed: nobody arms it, and nobody closes it."""
        row, self.is_laid = self.state.row[0], True
        row["armed"], row["is_first"] = 1, 0
        row["n_slots"] = row["n_asked"] = laid.slots
        row["up_addr"] = address_of(self.fabric.by_name[laid.ups[self.name]].address)
        row["root_hops"] = laid.n_down[self.name] - 1

    def _warm(self) -> None:
        """Compile or load what an operation calls: no deadline runs meanwhile."""
        self._load(NO_BATCH)
        loop.serve_rank(self.io, self.state, self.impairments, self.drops, 0)
        st.code_first(self.state)
        st.first_bytes(self.state)
        st.first_codes(self.state, self.state.own)
        st.set_first(self.state, self.state.own)
        fold_at(int(self.state.row[0]["n_words"]))
        unmark_block(KIND_F32, np.zeros(0, np.uint8), np.zeros(0, np.uint8))
        join_floats(OP_SUM, np.zeros(0), np.zeros(0))

    def _join_channels(self) -> None:
        """Offer a channel to each BFR beside this rank that has none, now and then."""
        if len(self.channels) == len(self.io.channels):
            self._pause_ps = OFFER_PS
            return
        now = now_ps()
        if now < self._offer_ps:
            return
        self._offer_ps = now + self._pause_ps
        self._pause_ps = min(2 * self._pause_ps, MOST_PAUSE_PS)
        own = self.sock.getsockname()
        ups = enumerate(self.fabric.port_nodes(self.name))
        for port, n in ups:
            if port == 0 or n.role != "bfr" or not is_near(n.address) or self._is_impaired:
                continue
            if self.channels.find(address_of(n.address), self.fabric.port) < 0:
                self.channels.offer(n.address, self.fabric.port, own, port)

    def codes_of(self, batch: Batch) -> I64:
        """Exponent of the first window of blocks, this rank's own; NOT_FINITE may be added."""
        self._load(batch)
        st.code_first(self.state)
        return self.own_codes()

    def own_codes(self) -> I64:
        """Of the first window of the batch in hand, for the batch that follows."""
        return self.state.codes[: self.windows.most]

    def first_codes(self, batch: Batch) -> U8:
        """Exponents of this rank's values of the first window; kept until asked again."""
        self._load(batch)
        out = self._codes.of(int(st.first_bytes(self.state)))
        st.first_codes(self.state, out)
        return out

    def _load(self, batch: Batch) -> None:
        n = len(batch.blocks)
        job = np.zeros(1, st.JOB_ROW)
        word = batch.word if batch.word != NO_WORD else word_of_kind(batch.kind, batch.op)
        job[0]["word"] = word
        job[0]["kind"], job[0]["op"], job[0]["n_blocks"] = batch.kind, batch.op, n
        job[0]["most"], job[0]["window"] = self.windows.of(n), self.window_for(n)
        job[0]["heard_of"], job[0]["asked"] = -1, batch.asked
        shared = np.zeros(n, np.int64)
        self.state.lacking[0], self.state.lacking[1] = 0, self.state.live
        k = min(n, len(batch.shared))
        shared[:k] = batch.shared[:k]
        codes = np.zeros(n, np.int64)
        codes[: len(batch.own)] = batch.own[:n]
        self.state = self.state._replace(
            job=job,
            blocks=batch.blocks,
            have=np.zeros(n, np.uint8),
            codes=codes,
            shared=shared,
            tally=np.zeros(n, np.int64),
            src=batch.src,
            dst=batch.dst,
            share=np.full(1, batch.share, np.float64),
            marks=self._marks.of(len(batch.src) // 2 if batch.kind <= KIND_F16 else 0),
        )

    def run(self, batch: Batch, until_ps: int, *, may_end: bool = False) -> int:
        """Send a batch and take in its results; the loop's code, WOKEN when it was stopped.

        Args:
            may_end: ``recall`` ends it too; the same batch may be run later.
        """
        self.channels.sweep()
        self._join_channels()
        self._load(batch)
        if is_fixed(batch.kind, batch.op) and not len(batch.own):
            st.code_first(self.state)
        if len(batch.first):
            st.set_first(self.state, batch.first)
        job, row = self.state.job[0], self.state.row[0]
        job["floor_ps"] = now_ps()
        if row["is_first"] and row["armed"] == 1 and row["heard_ps"] + QUIET_PS < now_ps():
            words.send_word(self.io, self.state, WHAT_ARM, row["n_asked"])  # if it is forgotten
        while True:
            code = self.links.serve(self.state, self.impairments, self.drops, until_ps)
            if code == loop.WOKEN:
                self._drain_wakes()
                self.channels.sweep()
                if not (self.is_stopped or (may_end and self.is_recalled)):
                    continue
                self.is_recalled = False
            n_past = len(batch.blocks) if code == loop.DONE else 0
            if self.gone() == UNLIKE:
                n_past = int(row["window"])  # more than any rank had
            row["base"] = (row["base"] + n_past) & 0xFFFFFFFF
            return code

    def not_finite(self) -> NDArray[np.int64]:
        """Blocks of the last batch with a value that is not finite, on any rank."""
        return np.flatnonzero(self.state.have & 2)

    def flags(self) -> int:
        """Flags of all results of the last batch."""
        return int(self.state.job[0]["flags"])

    def flushed(self) -> int:
        """Values of the last batch, of this rank's, that were not 0 and went as 0."""
        return int(self.state.job[0]["n_flushed"])

    def be_patient(self, patience_ms: int, *, is_strict: bool) -> None:
        """What blocks say from now on; is_strict: this rank ends when a result lacks it."""
        fan = fold_at(int(self.state.row[0]["n_words"]))
        self.state.head[fan + 22 : fan + FOLD_BYTES] = patience_ms >> 8, patience_ms & 0xFF
        self.state.row[0]["is_patient"] = patience_ms > 0
        self.state.row[0]["is_strict"] = is_strict

    def inside(self) -> tuple[int, list[int], int]:
        """Of the last batch: arrays in its emptiest block, ranks some lack, blocks that do."""
        tally = self.state.tally
        if not self.state.job[0]["n_partial"]:  # as many everywhere
            return int(tally[0]) if len(tally) else len(self.members), [], 0
        least = int(tally.min())
        lacking = self._ranks_of(bitstring.from_words(self.state.lacking[ANY]))
        return least, lacking, int(self.state.job[0]["n_partial"])

    def never_inside(self) -> set[int]:
        """Ranks that no block of the last batch has."""
        return set(self._ranks_of(bitstring.from_words(self.state.lacking[ALL])))

    def divide(self, dtype: Any) -> None:
        """Integer means, rounded down: each block of the last batch by its arrays inside."""
        blocks, dst = self.state.blocks, self.state.dst
        for row, n in zip(blocks.tolist(), self.state.tally.tolist(), strict=True):
            at = row[st.B_DST]
            if at != st.NOTHING:
                values = dst[at : at + row[st.B_BYTES]].view(dtype)
                np.floor_divide(values, n, out=values)

    def gone(self) -> int:
        """Why this rank cannot go on, of rank_late."""
        return int(self.state.job[0]["gone"])

    def narrow(self, ranks: Sequence[int]) -> None:
        """Go on with these ranks; the first of them arms the tree for them."""
        self.bits, _ = bits_of(self.fabric, [self.members[r] for r in ranks])
        n_words = int(self.state.row[0]["n_words"])
        bsl = bitstring.bsl_of_bits(self.fabric.bitstring_bits)
        at = fold_at(n_words) + FOLD_BYTES
        whole = np.frombuffer(bitstring.to_bytes(self.bits, bsl), np.uint8)
        self.state.head[at : at + len(whole)] = whole
        self.state.live[:] = bitstring.to_words(self.bits, bsl)
        row = self.state.row[0]
        row["is_first"] = self.members[ranks[0]] == self.name
        row["arm_ps"] = 0

    def _ranks_of(self, bits: int) -> list[int]:
        n_bits = self.fabric.bitstring_bits
        ids = [self.fabric.by_name[name].bfr_id for name in self.members]
        return [r for r, bfr_id in enumerate(ids) if bits >> ((bfr_id - 1) % n_bits) & 1]

    def missing(self) -> list[int]:
        """Ranks that the root has not heard, as it told lately; empty: it told nothing."""
        if not is_told(self.state, now_ps()):
            return []
        return self._ranks_of(self.bits & ~bitstring.from_words(self.state.at_root))

    def members_left(self) -> list[int]:
        """Ranks that are of the group still."""
        return self._ranks_of(self.bits)

    def sight(self) -> Sight:
        """What this rank saw of its way to the root."""
        return sight_of(self.state, self.uplink(), now_ps())

    def impair(self, impairment: Impairment, seed: int) -> None:
        """Let an impairment befall what arrives at this rank, from every neighbour."""
        names = [n.name for n in self.fabric.port_nodes(self.name)]
        self._is_impaired = True
        for port, name in enumerate(names[1:], start=1):
            self.channels.leave(port)
            apply(self.impairments, port, impairment, seed, f"link/{name}-{self.name}")
        if impairment.needs_times():
            time_arrivals(self.sock)

    def take_root(self) -> bool:
        """Let this rank's own host be the root; False where a host is it already."""
        row = self.state.row[0]
        if row["root_id"]:
            return False
        row["root_id"] = self.fabric.by_name[self.name].bfr_id
        return True

    def root(self) -> str:
        """Host whose node is the root, as this rank knows; empty: a BFR is."""
        root_id = int(self.state.row[0]["root_id"])
        return self.fabric.by_bfr_id[root_id].name if root_id else ""

    def ask_for_slots(self, n_blocks: int) -> None:
        """Rank 0, before the tree is armed: ask for what its first operation needs."""
        row, window = self.state.row[0], self._window_for(n_blocks)
        if row["is_first"] and row["armed"] == 0 and not row["base"]:
            row["n_asked"] = row["n_slots"] = 2 * window
            row["n_least"] = min(2 * window, loop.LEAST_SLOTS)

    def has_slots_for(self, n_blocks: int) -> bool:
        """The tree is armed, and not to be armed anew for an operation of so many blocks."""
        row = self.state.row[0]
        return bool(row["armed"] == 1 and 2 * self._window_for(n_blocks) <= row["n_asked"])

    def ask_for_more(self, n_blocks: int) -> bool:
        """Whether the tree is to be armed anew, for an operation of so many blocks.

        All ranks call it with the same when they know that all have begun the operation, so
        that nobody needs more than what the slots keep. The next batch waits for it.
        """
        row, window = self.state.row[0], self._window_for(n_blocks)
        is_more = 2 * window > row["n_asked"]
        if is_more:
            row["n_asked"] = row["n_slots"] = 2 * window
            row["n_least"] = 2 * row["window"]
            row["armed"], row["arm_ps"] = 0, 0
            if row["told_asked"] == row["n_asked"]:
                row["window"], row["n_slots"] = row["told_slots"] // 2, row["told_slots"]
                row["armed"], row["n_least"] = 1, 0
        return bool(is_more)

    def has_fewer_slots(self) -> bool:
        """The root had fewer than were asked for."""
        row = self.state.row[0]
        return bool(row["armed"] == 1 and row["n_slots"] < row["n_asked"])

    def window_for(self, n_blocks: int) -> int:
        """Blocks under way at most, of an operation of so many, with the slots there are."""
        return min(self.windows.of(n_blocks), int(self.state.row[0]["window"]))

    def _window_for(self, n_blocks: int) -> int:
        return min(max(1 << max(n_blocks - 1, 0).bit_length(), FEW), self.windows.of(n_blocks))

    def say_no_room(self) -> None:
        """Rank 0 lets all ranks hear once more that nobody has slots."""
        for _ in range(SAID_TIMES if self.state.row[0]["is_first"] else 0):
            words.send_word(self.io, self.state, WHAT_ARM, self.state.row[0]["n_asked"])

    def uplink(self) -> str:
        """Node that this rank sends to."""
        by_address = {address_of(n.address): n.name for n in self.fabric.nodes}
        return by_address[int(self.state.row[0]["up_addr"])]

    def counters(self) -> dict[str, int]:
        """What was sent and received, the round trip, and what the root granted."""
        counts = dict(zip(COUNTERS, map(int, self.state.counts), strict=True))
        row = self.state.row[0]
        own = {name: int(row[name]) for name in ("srtt_ps", "cwnd", "window")}
        return counts | own | {"host_root": int(row["root_id"] != 0)}

    def recall(self) -> None:
        """End a wait that may end, from another thread."""
        self.is_recalled = True
        self.wake()

    def wake(self) -> None:
        """End the current wait, from another thread."""
        try:
            self._wake.send(b"x")
        except OSError:
            return

    def _drain_wakes(self) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return

    def leave(self) -> None:
        """Rank 0 tells the BFRs that the group is over; twice, nobody answers."""
        if self.state.row[0]["is_first"] and self.state.row[0]["armed"] == 1:
            for _ in range(2):
                words.send_word(self.io, self.state, WHAT_CLOSE, 0)

    def close(self) -> None:
        """Give the sockets back."""
        self.channels.close()
        self.links.close()
        free_check(self.state.check)
        close_exits(self.io)
        for each in (self.sock, self._wake, self._woken):
            each.close()
