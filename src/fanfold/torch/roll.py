"""The roll of a group: which ranks are here in this attempt, whatever the store still holds.

A store may outlive the processes that wrote to it: ``torchrun --max-restarts`` starts ranks
anew on the store of those that died. So each rank writes a word that it drew itself; the first
rank makes the roll of all words; the others say yes to a roll that has their own word, under a
name that the roll gives; and when all did, the first says go. What ranks say from then on lies
under the name of the roll, which no earlier attempt can have had.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

HERE, ROLL, YES, GO = "here", "roll", "yes", "go"


class Keys(Protocol):
    """What is used of a store; none of it waits."""

    def set(self, key: str, value: str) -> None:
        """Write."""

    def get(self, key: str) -> bytes:
        """Read what is written."""

    def check(self, keys: list[str]) -> bool:
        """All are written."""


class Answer(NamedTuple):
    """What a rank says first: a word of its own, what it was told of, what it lacks."""

    word: str
    digest: str
    error: str = ""


class Called(NamedTuple):
    """A roll that all said yes to: its name, and what each rank said."""

    name: str
    answers: Sequence[Answer]


class Roll:
    """One rank's part in the roll; ``look`` is called until it is over.

    Args:
        digest: of the fabric that this rank was told of, empty for none. error: why this rank
            cannot take part; the others hear of it.
    """

    def __init__(self, store: Keys, rank: int, n: int, digest: str, error: str = "") -> None:
        self._store, self._rank, self._n = store, rank, n
        self._own = msgspec.json.encode((secrets.token_hex(8), digest, error)).decode()
        self._rows: list[str] = []
        self._name = ""
        store.set(f"{HERE}/{rank}", self._own)

    def look(self) -> Called | None:
        """The roll, as soon as all ranks of it know that all are on it."""
        is_known = self._call() if self._rank == 0 else self._hear()
        if not is_known:
            return None
        rows = [msgspec.json.decode(row, type=tuple[str, str, str]) for row in self._rows]
        return Called(self._name, [Answer(*row) for row in rows])

    def late(self) -> list[int]:
        """Ranks that are not on the roll yet."""
        if self._name:
            others = range(1, self._n)
            yes = [r for r in others if self._store.check([f"{YES}/{self._name}/{r}"])]
            return [r for r in others if r not in {*yes, self._rank}]
        return [r for r in range(self._n) if not self._store.check([f"{HERE}/{r}"])] or [0]

    def _call(self) -> bool:
        """The first rank: write down who is here, anew when a word has changed."""
        keys = [f"{HERE}/{rank}" for rank in range(self._n)]
        if not self._store.check(keys):
            return False
        rows = [self._store.get(key).decode() for key in keys]
        if rows != self._rows:
            self._take(rows)
            self._store.set(ROLL, msgspec.json.encode(rows).decode())
        if not self._store.check([f"{YES}/{self._name}/{r}" for r in range(1, self._n)]):
            return False
        self._store.set(f"{GO}/{self._name}", "")
        return True

    def _hear(self) -> bool:
        """The others: say yes to a roll with the own word on it, and wait for the go."""
        if not self._store.check([ROLL]):
            return False
        rows = msgspec.json.decode(self._store.get(ROLL), type=list[str])
        if len(rows) != self._n or rows[self._rank] != self._own:
            return False  # of an attempt before
        if rows != self._rows:
            self._take(rows)
            self._store.set(f"{YES}/{self._name}/{self._rank}", "")
        return self._store.check([f"{GO}/{self._name}"])

    def _take(self, rows: list[str]) -> None:
        self._rows = rows
        self._name = blake2b("\n".join(rows).encode(), digest_size=8).hexdigest()
