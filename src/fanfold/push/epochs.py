"""Which push of a name is the newest at a receiver: epochs that only rise, kept over a restart.

A push has an epoch, nanoseconds since 1970 at its sender when it began; a sender that finds a
higher one at its start goes above it, so clocks need not agree. A receiver takes a name by a
push only with an epoch above all that it took the name by before (ADR 0060). Epoch 0 is that of
senders that tell none: below all others. Bounded: of more than MAX_TITLES the oldest become a
floor below which nothing is taken.
"""

import os
from pathlib import Path
from struct import Struct

import msgspec

from fanfold.errors import ConfigError
from fanfold.push.manifest import Manifest
from fanfold.push.target import reported

NO_EPOCH = 0
TOP = 2**63 - 1
"""No epoch is above it."""
MAX_TITLES = 4096
EPOCHS_FILE = "epochs.json"

_TOLD = Struct("!QH22x")


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """By which push a name is taken: its epoch, BFIR-id of its sender (0: forgotten), nonce."""

    epoch: int
    bfir_id: int = 0
    nonce: int = 0

    def is_before(self, known: "Holder") -> bool:
        """Whether it has to give way to another one; to itself it has not."""
        if not known.bfir_id:
            return self.epoch < known.epoch
        return known.epoch > NO_EPOCH and self.epoch <= known.epoch and self != known

    def encode(self) -> bytes:
        """What a REPORT says of it in place of a digest (docs/wire/fan.md section 4)."""
        return _TOLD.pack(self.epoch, self.bfir_id)


def holder_told(digest: bytes) -> Holder | None:
    """Who has taken a name, of a REPORT that refuses a push; None: it was no matter of that."""
    epoch, bfir_id = _TOLD.unpack(digest)
    return Holder(epoch, bfir_id) if epoch else None


class _Kept(msgspec.Struct):
    floor: int = NO_EPOCH
    titles: dict[str, Holder] = {}


class Epochs:
    """The names of one receiver. path: where they are kept, None: in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept = _read(path) if path is not None else _Kept()

    def newest(self, title: str) -> Holder:
        """By which push a name is taken."""
        return self._kept.titles.get(title, Holder(self._kept.floor))

    def take(self, title: str, holder: Holder) -> None:
        """A name is taken by a push that is not before the newest one.

        Raises:
            StoreError: it cannot be kept.
        """
        if holder.epoch == NO_EPOCH or self._kept.titles.get(title) == holder:
            return
        titles = self._kept.titles
        titles[title] = holder
        while len(titles) > MAX_TITLES:
            oldest = min(titles, key=lambda name: titles[name].epoch)
            self._kept.floor = max(titles.pop(oldest).epoch, self._kept.floor)
        if self._path is not None:
            with reported(self._path.name):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
                fresh.write_bytes(msgspec.json.encode(self._kept))
                fresh.replace(self._path)


def title_of(manifest: Manifest) -> str:
    """The name that a push takes: its folder, its only file, or what its files are called."""
    if manifest.place:
        return manifest.place
    if len(manifest.entries) == 1 and not manifest.folders:
        return manifest.entries[0].path
    return f"{manifest.name}/"


def _read(path: Path) -> _Kept:
    """What was kept; nothing where the file is not there yet.

    Raises:
        ConfigError: it is damaged: a push that was overtaken could come back.
    """
    try:
        text = path.read_bytes()
        return msgspec.json.decode(text, type=_Kept) if text else _Kept()  # by a power cut
    except FileNotFoundError:
        return _Kept()
    except (OSError, msgspec.MsgspecError) as error:
        allowed = "what a receiver wrote; without it one that was taken over can come back"
        raise ConfigError(str(path), str(error), allowed) from error
