"""Order of memory transactions over a network of planes, and what follows for litmus tests.

draft-xu-rtgwg-fare-in-sun section 4 has three classes of order that a network may guarantee to
loads and stores of a GPU at the memory of others. An address lies at one home, which takes one
transaction after the other; what differs is which transactions of one source come there in the
order in which they were sent:

    spray    none: packets go over all planes, and count as they come
    weak     those to one home: sprayed too, and the home's reorder buffer puts them right
    partial  those to one address: it is hashed to one queue pair, which keeps their order
    strong   those to one home: all of them go one way

A fence holds its source back until all that it sent before is answered. No class orders what
goes to different homes; only a fence does.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Mode(StrEnum):
    """How a network delivers transactions."""

    SPRAY = "spray"
    WEAK = "weak"
    PARTIAL = "partial"
    STRONG = "strong"


class Op(NamedTuple):
    """A transaction: a store of a value above 0, or a load where that is 0."""

    address: str
    value: int = 0


Thread = tuple[Op, ...]
Homes = Mapping[str, int]
"""Home of each address."""
ONE_HOME: Homes = {"x": 0, "y": 0}
TWO_HOMES: Homes = {"x": 0, "y": 1}


class Outcome(NamedTuple):
    """What loads found, in the order of threads, and what each address holds at the end."""

    loads: tuple[int, ...]
    finals: tuple[int, ...]


class Litmus(NamedTuple):
    """A program of several sources. All addresses hold 0 first.

    loads, finals: the outcome in question, which no order of whole transactions has; empty:
    whatever they are. words: what it would mean.
    """

    name: str
    threads: tuple[Thread, ...]
    words: str
    loads: tuple[int, ...] = ()
    finals: tuple[int, ...] = ()

    def is_relaxed(self, outcome: Outcome) -> bool:
        """Whether an outcome is the one in question."""
        return outcome.loads[: len(self.loads)] == self.loads and (
            not self.finals or outcome.finals == self.finals
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """In the order of their names."""
        return tuple(sorted({op.address for thread in self.threads for op in thread}))


_X, _Y, _READ_X, _READ_Y = Op("x", 1), Op("y", 1), Op("x"), Op("y")
LITMUS: tuple[Litmus, ...] = (
    Litmus("MP", ((_X, _Y), (_READ_Y, _READ_X)), "the flag is there, its data not", (1, 0)),
    Litmus("SB", ((_X, _READ_Y), (_Y, _READ_X)), "neither sees the other's store", (0, 0)),
    Litmus("LB", ((_READ_X, _Y), (_READ_Y, _X)), "each sees a store that came later", (1, 1)),
    Litmus(
        "IRIW",
        ((_X,), (_Y,), (_READ_X, _READ_Y), (_READ_Y, _READ_X)),
        "two readers see two stores in opposite orders",
        (1, 0, 1, 0),
    ),
    Litmus("CoWW", ((_X, Op("x", 2)),), "the older of two stores stays", finals=(1,)),
    Litmus("CoRR", ((_X,), (_READ_X, _READ_X)), "a value is seen and gone again", (1, 0)),
    Litmus("CoWR", ((_X, _READ_X),), "a source does not see its own store", (0,)),
    Litmus("CoRW", ((_READ_X, _X),), "a load sees a store that came after it", (1,)),
)
"""Message passing, store and load buffering, independent reads of independent writes; the rest
is coherence of one location."""


def keeps_order(mode: Mode, first: Op, second: Op, homes: Homes) -> bool:
    """Whether two transactions of one source, no fence between, take effect in their order."""
    is_one_home = homes[first.address] == homes[second.address]
    match mode:
        case Mode.SPRAY:
            return False
        case Mode.PARTIAL:
            return first.address == second.address
        case Mode.WEAK | Mode.STRONG:
            return is_one_home


def outcomes(litmus: Litmus, mode: Mode, homes: Homes, *, is_fenced: bool) -> set[Outcome]:
    """All that may come of a program, by every order of its transactions that a mode allows.

    Args:
        is_fenced: a fence stands between any two transactions of a source.
    """
    ops = [(t, op) for t, thread in enumerate(litmus.threads) for op in thread]
    before = [
        [
            i
            for i in range(j)
            if ops[i][0] == t and (is_fenced or keeps_order(mode, ops[i][1], op, homes))
        ]
        for j, (t, op) in enumerate(ops)
    ]
    return {
        _perform([op for _, op in ops], order, litmus.addresses)
        for order in _orders(before, (), len(ops))
    }


def _orders(
    before: Sequence[Sequence[int]], done: tuple[int, ...], n: int
) -> Iterator[tuple[int, ...]]:
    """Every order in which what stands before a transaction comes before it."""
    if len(done) == n:
        yield done
    for j in range(n):
        if j not in done and all(i in done for i in before[j]):
            yield from _orders(before, (*done, j), n)


def _perform(ops: Sequence[Op], order: Sequence[int], addresses: Sequence[str]) -> Outcome:
    memory = dict.fromkeys(addresses, 0)
    found: dict[int, int] = {}
    for j in order:
        if ops[j].value:
            memory[ops[j].address] = ops[j].value
        else:
            found[j] = memory[ops[j].address]
    loads = tuple(found[j] for j in sorted(found))
    return Outcome(loads, tuple(memory.values()))
