"""Reads GOAL, the text form of schedules that LogGOPSim and ATLAHS run.

    num_ranks 2
    rank 0 {
      a: calc 1500 cpu 1                1500 ns; a label and a core are optional
      b: send 4096b to 1 tag 7          so are a tag, a core and a port (nic 0)
      b requires a                      begins when a is over
      b irequires a                     begins when a begins
    }

recv takes ``from``. Comments are ``//`` to the end of the line and ``/* */`` (Hoefler,
Schneider and Lumsdaine, LogGOPSim, 2010; txt2bin of spcl/LogGOPSim). One core computes one
thing at a time. A recv from any source, or with any tag, is refused: what it meets depends on
the network.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.work.trace import Trace
from fanfold.work.trace_ops import Op, join_ops

PS_PER_NS = 1000
MAX_RANKS = 2**20
MAX_BYTES = 2**55
MAX_NS = 2**50
_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_RANKS = re.compile(r"num_ranks\s+([0-9]{1,8})", re.ASCII)
_RANK = re.compile(r"rank\s+([0-9]{1,8})\s*\{", re.ASCII)
_EXTRA = r"(?:\s+tag\s+(-?[0-9]{1,19}))?(?:\s+cpu\s+([0-9]{1,8}))?(?:\s+nic\s+[0-9]{1,8})?"
_CALC = re.compile(rf"(?:({_LABEL})\s*:\s*)?calc\s+([0-9]{{1,19}}){_EXTRA}", re.ASCII)
_MOVE = re.compile(
    rf"(?:({_LABEL})\s*:\s*)?(send|recv)\s+([0-9]{{1,19}})\s*b\s+(to|from)\s+(-?[0-9]{{1,8}})"
    + _EXTRA,
    re.ASCII,
)
_WAIT = re.compile(rf"({_LABEL})\s+(i?requires)\s+({_LABEL})", re.ASCII)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FORM = "num_ranks, rank R {, calc, send, recv, requires, irequires or }"


class _Wait(NamedTuple):
    """One label [i]requires another, at a line."""

    after: str
    before: str
    is_start: bool
    where: str


class _Rank:
    """One block, as its lines come."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ops: list[Op] = []
        self.at: dict[str, int] = {}
        self.waits: list[_Wait] = []

    def add(self, label: str | None, op: Op) -> None:
        if label is not None:
            if label in self.at:
                raise ConfigError(op.where, f"label {label} twice", "each label once a rank")
            self.at[label] = len(self.ops)
        self.ops.append(op)

    def finish(self) -> list[Op]:
        """Operations with what they wait for."""
        over: list[set[int]] = [set() for _ in self.ops]
        begun: list[set[int]] = [set() for _ in self.ops]
        for wait in self.waits:
            for label in (wait.after, wait.before):
                if label not in self.at:
                    raise ConfigError(wait.where, label, f"a label of rank {self.number}")
            to = begun if wait.is_start else over
            to[self.at[wait.after]].add(self.at[wait.before])
        self._spread(over, begun)
        return [
            op._replace(needs=tuple(sorted(needs)))
            for op, needs in zip(self.ops, over, strict=True)
        ]

    def _spread(self, over: list[set[int]], begun: list[set[int]]) -> None:
        """Who begins with another waits for all that the other waits for."""
        left = [len(befores) for befores in begun]
        followers: list[list[int]] = [[] for _ in self.ops]
        for after, befores in enumerate(begun):
            for before in befores:
                followers[before].append(after)
        ready = [i for i, n in enumerate(left) if n == 0]
        for before in ready:
            for after in followers[before]:
                over[after] |= over[before]
                left[after] -= 1
                if left[after] == 0:
                    ready.append(after)
        if len(ready) < len(self.ops):
            op = self.ops[next(i for i, n in enumerate(left) if n)]
            raise ConfigError(op.where, "begins after itself", "irequires without a circle")


def load_goal(path: Path) -> Trace:
    """Trace of a GOAL file in its text form.

    Raises:
        ConfigError: unreadable, or the first faulty line, as "FILE:LINE".
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as err:
        allowed = "a GOAL file in its text form (txt2bin makes the binary one of it)"
        raise ConfigError(str(path), type(err).__name__, allowed) from err
    return read_goal(text, str(path))


def read_goal(text: str, name: str = "goal") -> Trace:
    """Trace of a text; ``name`` leads error lines."""
    n_ranks: int | None = None
    blocks: dict[int, _Rank] = {}
    now: _Rank | None = None
    for where, line in _lines(text, name):
        if now is None:
            if (found := _RANKS.fullmatch(line)) and n_ranks is None:
                n_ranks = _number(found[1], f"{where} num_ranks", 1, MAX_RANKS)
            elif found := _RANK.fullmatch(line):
                number = _number(found[1], f"{where} rank", 0, (n_ranks or 0) - 1)
                if number in blocks:
                    raise ConfigError(where, f"rank {number} twice", "a block for each rank")
                now = blocks[number] = _Rank(number)
            else:
                raise ConfigError(where, line[:60], "num_ranks N once, then rank R {")
        elif line == "}":
            now = None
        else:
            _read_line(now, line, where, n_ranks or 0)
    if n_ranks is None or now is not None:
        got = (
            "no num_ranks"
            if n_ranks is None
            else f"rank {now.number} without }}"
            if now
            else ""
        )
        raise ConfigError(name, got, "num_ranks N, and each block closed")
    return join_ops([blocks[r].finish() if r in blocks else [] for r in range(n_ranks)])


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Lines that say something, without comments, each with where it stands."""
    bare = _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)
    for number, line in enumerate(bare.split("\n"), 1):
        if words := line.strip():
            yield f"{name}:{number}", words


def _read_line(rank: _Rank, line: str, where: str, n_ranks: int) -> None:
    at = f"{where} rank {rank.number}"
    if found := _WAIT.fullmatch(line):
        rank.waits.append(_Wait(found[1], found[3], found[2] == "irequires", at))
        return
    if found := _CALC.fullmatch(line):
        label, ns, tag, cpu = found.groups()
        if tag is not None:
            raise ConfigError(at, line[:60], "calc NS [cpu C]")
        duration = _number(ns, f"{at} calc", 0, MAX_NS) * PS_PER_NS
        op = Op("compute", _of(at, label), (), duration_ps=duration, lane=int(cpu or 0))
        rank.add(label, op)
        return
    found = _MOVE.fullmatch(line)
    if found is None or (found[2] == "send") != (found[4] == "to"):
        raise ConfigError(at, line[:60], FORM)
    label, kind, size, _, peer, tag, _ = found.groups()
    other = _number(peer, f"{at} {kind} peer", 0, n_ranks - 1)
    op = Op(
        "send" if kind == "send" else "recv",
        _of(at, label),
        (),
        n_bytes=_number(size, f"{at} {kind} size", 0, MAX_BYTES),
        peer=other,
        tag=_number(tag or "0", f"{at} {kind} tag", 0, 2**32 - 2),
    )
    rank.add(label, op)


def _of(at: str, label: str | None) -> str:
    return at if label is None else f"{at} {label}"


def _number(text: str, field: str, least: int, most: int) -> int:
    value = int(text)
    if not least <= value <= most:
        raise ConfigError(field, value, f"{least}..{most}")
    return value
