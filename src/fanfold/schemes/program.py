"""A program: unicast messages, fans and sums, and what each of them waits for.

Letters: F = messages, M = fans, A = sums, P = pauses, D = dependencies. Items are numbered
messages first, then fans, then sums, then pauses. An item starts when all it needs has
happened, at its ``start_ps`` at the earliest. A pause sends nothing: it is done its time after
it has started, as a host that computes. One of no time joins dependencies.

Messages from one host to one other share a connection: they leave one after the other, in the
order in which they start; of equal starts the smallest first, then by item number. Connections
of a host to different hosts share its port in turn, packet by packet.

The compact form says of a pipeline only what one piece does: with ``chunks`` = C each item
stands for C equal pieces, and piece j waits for piece j of each item that its item waits for.
``expand`` spells it out. With ``shift`` = 1 piece j waits for piece j - 1 instead, so that
items may stand in a ring: what came round in one step is sent on in the next.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.streams import stream_key
from fanfold.units import NEVER

I64 = NDArray[np.int64]
RECEIVED = 0
"""An item is done when its receiver (each of a fan's receivers) has all bytes."""
ACKED = 1
"""An item is done when its sender knows that."""


N_ENTROPY = 2**20
_MASK = 2**64 - 1
NO_PAUSES = np.zeros(0, np.int64)
NO_PAUSES.flags.writeable = False
ANY = -1
"""Entropy of a fan that takes whatever path comes."""


NO_TREE = -1
"""In place of a tree: the fan goes by the BIFTs of the fabric."""


class Fan(NamedTuple):
    """One message to many: source host, receivers, bytes, earliest start, BIER entropy.

    tree: of the program's, or NO_TREE.
    """

    source: int
    receivers: tuple[int, ...]
    n_bytes: int
    start_ps: int = 0
    entropy: int = ANY
    tree: int = NO_TREE


MIDDLE = -1
"""Root level of a sum whose root lies half way between the BFRs of the first and last rank."""


class Sum(NamedTuple):
    """Arrays of many hosts that the network adds up, and the result that it brings back.

    It is a group of its own: armed when it starts, closed when all have the result
    (docs/wire/fold.md). It is done when every member knows that it has what it is to get.

    hosts: members by rank, rank 0 arms. n_bytes: of each array and of the result. start_ps:
    earliest start. to_all: the result goes to all members, else to rank 0 alone. window: blocks
    a rank has under way at most, 0: as the settings say; each BFR is asked for twice as many
    slots. root_level: BFRs above rank 0's own before one is the root, or MIDDLE. tree: of the
    program's, that was installed for it in switches, or NO_TREE.
    """

    hosts: tuple[int, ...]
    n_bytes: int
    start_ps: int = 0
    to_all: bool = True
    window: int = 0
    root_level: int = MIDDLE
    tree: int = NO_TREE


class Exchange(NamedTuple):
    """Every one of some hosts to every other, in rounds, said without a message for each pair.

    A host begins a round when all of the round before has come to it.

    hosts: (n,). sizes: of each round (n,) bytes, by receiver in a round of ``by_sender`` False.
    """

    hosts: I64
    sizes: tuple[I64, ...]
    by_sender: tuple[bool, ...]

    @property
    def n_messages(self) -> int:
        """Of all rounds."""
        return len(self.sizes) * self.hosts.size * (self.hosts.size - 1)

    @property
    def mean_bytes(self) -> list[int]:
        """Of a message, in each round."""
        return [int(each.mean()) for each in self.sizes]

    def n_pkts(self, payload_bytes: int) -> int:
        """Packets of all messages."""
        pkts = sum(int((-(-each // payload_bytes)).sum()) for each in self.sizes)
        return pkts * (self.hosts.size - 1)


class Rounds(NamedTuple):
    """Messages between pairs, in rounds, said without an item for each.

    A round begins when all of the round before has come.

    sends: of each round, senders, receivers and bytes, (F,) each.
    """

    sends: tuple[tuple[I64, I64, I64], ...]

    @property
    def n_messages(self) -> int:
        """Of all rounds."""
        return sum(src.size for src, _, _ in self.sends)

    @property
    def mean_bytes(self) -> list[int]:
        """Of a message, in each round."""
        return [int(n_bytes.mean()) for _, _, n_bytes in self.sends]

    def n_pkts(self, payload_bytes: int) -> int:
        """Packets of all messages."""
        return sum(int((-(-n_bytes // payload_bytes)).sum()) for _, _, n_bytes in self.sends)


class Phase(NamedTuple):
    """Links that a tree has from a time on, the source's own one among them.

    links: directed, each once. labels: bytes that a packet has on each of them for the tree's
    sake, beside what it has on the source's link.
    """

    from_ps: int
    links: tuple[int, ...]
    labels: tuple[int, ...]


class FanTree(NamedTuple):
    """A tree that was set up for fans of one source: what it is from when on.

    That of a sum begins at a switch, its root.
    """

    source: int
    phases: tuple[Phase, ...]


class Setup(NamedTuple):
    """What it took until all trees of a program were up.

    ps: the slowest. n_messages, n_bytes: of control, on all links. n_entries: state of all
    routers. most_entries: of the fullest one.
    """

    ps: int
    n_messages: int
    n_bytes: int
    n_entries: int
    most_entries: int


NO_SETUP = Setup(0, 0, 0, 0, 0)


class Program(NamedTuple):
    """What is sent.

    src, dst, n_bytes, start_ps: (F,) of each message; sizes are at least 1 byte.
    fans: M fans. folds: whether BFRs fold the feedback of fans. sums: A sums.
    n_needs: (I,) items to wait for, I = F + M + A + P. first_dep, dep: (I + 1,), (D,): who
    waits for item i stands at dep[first_dep[i]:first_dep[i + 1]]. on: RECEIVED or ACKED, when
    an item counts as done for those who wait. chunks: 1, or pieces of each item in the compact
    form, which only the flow rung takes; sums have none. shift: 0, or 1 in the compact form.
    pauses_ps: (P,) time of each pause.
    exchange: in place of messages, which only the flow rung takes.
    protocol: of trees that the fans are to go by, empty for BIER. trees, setup: those trees,
    once they were laid on a net (tree_fans.py). reroutes: from when on unicast keeps off which
    links, all that are dead by then. n_mending: messages of trees after failures.
    """

    src: I64
    dst: I64
    n_bytes: I64
    start_ps: I64
    fans: tuple[Fan, ...]
    folds: bool
    n_needs: I64
    first_dep: I64
    dep: I64
    on: int
    chunks: int = 1
    protocol: str = ""
    trees: tuple[FanTree, ...] = ()
    setup: Setup = NO_SETUP
    reroutes: tuple[tuple[int, tuple[int, ...]], ...] = ()
    pauses_ps: I64 = NO_PAUSES
    sums: tuple[Sum, ...] = ()
    shift: int = 0
    exchange: Exchange | Rounds | None = None
    n_mending: int = 0

    @property
    def n_messages(self) -> int:
        """From one host to one other."""
        return self.src.size if self.exchange is None else self.exchange.n_messages

    @property
    def many(self) -> tuple[Fan | Sum, ...]:
        """Items that are not from one host to one other: fans, then sums."""
        return (*self.fans, *self.sums)

    @property
    def first_sum(self) -> int:
        """Item of the first sum: messages and fans."""
        return self.src.size + len(self.fans)

    @property
    def n_sent(self) -> int:
        """Messages, fans and sums."""
        return self.first_sum + len(self.sums)

    @property
    def n_items(self) -> int:
        """Messages, fans, sums and pauses."""
        return self.n_sent + self.pauses_ps.size


def build_program(
    messages: NDArray[np.int64],
    edges: NDArray[np.int64],
    *,
    fans: tuple[Fan, ...] = (),
    folds: bool = False,
    on: int = RECEIVED,
    chunks: int = 1,
    pauses_ps: I64 = NO_PAUSES,
    sums: tuple[Sum, ...] = (),
) -> Program:
    """Program from tables.

    Args:
        messages: (F, 4) source, destination, bytes, start in ps. edges: (D, 2) item, the item
            that waits for it. pauses_ps, sums: none in the compact form.
    """
    assert chunks == 1 or not (pauses_ps.size or sums)
    n = len(messages) + len(fans) + len(sums) + pauses_ps.size
    before, after = edges[:, 0], edges[:, 1]
    order = np.argsort(before, kind="stable")
    first = np.searchsorted(before[order], np.arange(n + 1)).astype(np.int64)
    src, dst, n_bytes, start_ps = np.ascontiguousarray(messages.T)
    needs = np.bincount(after, minlength=n).astype(np.int64)
    dep = after[order].copy()
    sent = (src, dst, n_bytes, start_ps, fans, folds)
    return Program(*sent, needs, first, dep, on, chunks, pauses_ps=pauses_ps, sums=sums)


def with_entropy(fans: tuple[Fan, ...], seed: int) -> tuple[Fan, ...]:
    """The same fans, each with an entropy: its own, or one by seed, source and what it is.

    It does not depend on where a fan stands. Fans of one source take tables in turn, the first
    of them by a hash, as a message takes its path.
    """
    given, n_before = list(fans), Counter[int]()
    key = stream_key(seed, "sim/fans") & _MASK
    for m in order_of(fans):
        if given[m].entropy == ANY:
            source = fans[m].source
            first = _mixed(source * 1_000_003 ^ key)
            given[m] = fans[m]._replace(entropy=(first + n_before[source]) % N_ENTROPY)
            n_before[source] += 1
    return tuple(given)


def _mixed(code: int) -> int:
    """Finisher of SplitMix64 (Steele et al. 2014)."""
    code = (code ^ code >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    code = (code ^ code >> 27) * 0x94D049BB133111EB & _MASK
    return code ^ code >> 31


def order_of(fans: tuple[Fan, ...]) -> list[int]:
    """Fans by what they are, not by where they stand; those alike by number."""
    return sorted(
        range(len(fans)),
        key=lambda m: (fans[m].source, fans[m].start_ps, -fans[m].n_bytes, fans[m].receivers),
    )


def edges_of(program: Program) -> I64:
    """(D, 2) item, the item that waits for it."""
    before = np.repeat(np.arange(program.n_items), np.diff(program.first_dep))
    return np.column_stack([before, program.dep])


def expand(program: Program) -> Program:
    """The plain form: piece j of message f is message j * F + f, fans likewise after them.

    Pieces differ by at most a byte. Those that start by themselves all start at their item's
    ``start_ps``; their connection keeps them in order.

    Raises:
        ConfigError: an item with fewer bytes than pieces.
    """
    c = program.chunks
    if c == 1:
        return program
    sizes = [fan.n_bytes for fan in program.fans]
    smallest = min([*sizes, int(program.n_bytes.min(initial=NEVER))])
    if smallest < c:
        raise ConfigError("chunks", c, f"1..{smallest}, the bytes of the smallest item")
    n, m = program.src.size, len(program.fans)
    piece = np.arange(c)[:, None, None]
    begins = np.arange(c + 1)[:, None]
    bounds = begins * (program.n_bytes // c) + np.minimum(begins, program.n_bytes % c)
    table = np.empty((c, n, 4), np.int64)
    table[:, :, 0], table[:, :, 1] = program.src, program.dst
    table[:, :, 2], table[:, :, 3] = np.diff(bounds, axis=0), program.start_ps
    fans = tuple(
        fan._replace(n_bytes=fan.n_bytes // c + (j < fan.n_bytes % c))
        for j in range(c)
        for fan in program.fans
    )
    edges = edges_of(program)
    piece = piece[program.shift :] - np.array(
        [program.shift, 0]
    )  # who is waited for, who waits
    pieces = np.where(edges < n, edges + piece * n, c * n + edges - n + piece * m)
    return build_program(
        table.reshape(-1, 4),
        pieces.reshape(-1, 2),
        fans=fans,
        folds=program.folds,
        on=program.on,
    )._replace(
        protocol=program.protocol,
        trees=program.trees,
        setup=program.setup,
        reroutes=program.reroutes,
        n_mending=program.n_mending,
    )
