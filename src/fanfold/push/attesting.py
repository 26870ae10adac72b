"""What is believed of a receiver's own statement: software, key, and what vouches for it.

A statement travels in a receipt, so it is signed by the receiver's key and stands for one push.
A verifier says what it is worth. Without one nobody is attested, and no result says otherwise.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.seals.receipts import Receipt
from fanfold.version import VERSION

ATTESTED, NOT_ATTESTED = "attested", "not attested"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHORT = 16


class Verdict(NamedTuple):
    """Whether a statement was believed, and why or why not."""

    is_attested: bool
    why: str

    @property
    def text(self) -> str:
        """As a result has it."""
        return f"{ATTESTED if self.is_attested else NOT_ATTESTED}: {self.why}"


class Verifier(Protocol):
    """Judges statements; a receipt is of the receiver that it names, and of this push.

    One for a quote of hardware reads ``receipt.quote``, over ``challenge_of`` of the push.
    """

    def judge(self, receipt: Receipt) -> Verdict:
        """Say whether a statement is believed."""


class AllowList:
    """Digests of trusted software, one a line of a file; what is behind # is for people.

    A digest is a receiver's own word: who runs other software can say it too. It finds nodes
    that were not brought up to date, and says in a signed receipt what they claimed.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._known = _read(path)

    def judge(self, receipt: Receipt) -> Verdict:
        """Whether the software is on the list."""
        if not receipt.software:
            return Verdict(False, "it told no software")
        short = receipt.software[:_SHORT]
        if receipt.software not in self._known:
            return Verdict(False, f"software {short}.. is not in {self._name}")
        return Verdict(True, f"software {short}.. is in {self._name}")


def challenge_of(flow: int, nonce: int, digest: bytes) -> bytes:
    """What a quote is to be over: nothing that was made before the push can have it."""
    return blake3(flow.to_bytes(4) + nonce.to_bytes(4) + digest).digest()


@cache
def software_digest() -> bytes:
    """BLAKE3 of the program that runs: its version, and each of its files by path."""
    root, whole = Path(__file__).parents[1], blake3(VERSION.encode())
    files = (path for end in ("*.py", "*.lua") for path in root.rglob(end))
    for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
        whole.update(blake3(path.relative_to(root).as_posix().encode()).digest())
        whole.update(blake3(path.read_bytes()).digest())
    return whole.digest()


def _read(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "--attest", str(path), "a list of digests that can be read"
        ) from error
    found = set()
    for i, line in enumerate(lines, 1):
        word = line.partition("#")[0].strip()
        if word and not _DIGEST.fullmatch(word):
            allowed = "64 digits of BLAKE3 in hex, as `fanfold keys software` prints them"
            raise ConfigError(f"{path}: line {i}", word[:80], allowed)
        found |= {word} if word else set()
    return frozenset(found)
