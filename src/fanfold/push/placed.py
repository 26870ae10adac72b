"""What signed pushes put where, and when each was signed: nothing older goes there any more.

A recorded push is a right signature for ever. So a receiver keeps, for each key, the epoch of
the last push that it put in place there, and refuses what was signed no later, for that place,
for one below it and for one above. Epochs of one sender are of one clock; clocks of several are
never compared. Bounded: of more than MAX_PLACES the oldest become one for the whole root.

A receiver that ended right after it had put a push in place is asked again for the very same
one. So after each start it looks once whether all of it still stands there; it takes no byte.
"""

from pathlib import Path

import msgspec

from fanfold.errors import ConfigError
from fanfold.push.manifest import Manifest
from fanfold.seals.keys import PublicKey, write_whole
from fanfold.seals.trust import is_below

MAX_PLACES = 4096
ROOT = ""


class Placed:
    """The epochs of one receiver. path: where they are kept, None: in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._settled: set[tuple[str, str]] = set()  # known to have been told to the sender
        self._epochs: dict[str, dict[str, int]] = _read(path) if path is not None else {}

    def is_again(self, signer: PublicKey, manifest: Manifest, epoch: int) -> bool:
        """Whether a push is the last one here, put in place before this node started."""
        place = place_of(manifest)
        last = self._epochs.get(signer.text, {}).get(place)
        return last == epoch and (signer.text, place) not in self._settled

    def is_stale(self, signer: PublicKey, manifest: Manifest, epoch: int) -> bool:
        """Whether something signed as late stands where a push would put its own."""
        place = place_of(manifest)
        return any(
            epoch <= last and (is_below(place, other) or is_below(other, place))
            for other, last in self._epochs.get(signer.text, {}).items()
        )

    def note(self, signer: PublicKey, manifest: Manifest, epoch: int) -> None:
        """A push is in place."""
        places = self._epochs.setdefault(signer.text, {})
        place = place_of(manifest)
        places[place] = max(epoch, places.get(place, 0))
        self.settle(signer, manifest)
        while len(places) > MAX_PLACES:
            oldest = min((p for p in places if p != ROOT), key=places.__getitem__)
            places[ROOT] = max(places.pop(oldest), places.get(ROOT, 0))
        if self._path is not None:
            write_whole(self._path, msgspec.json.encode(self._epochs).decode())

    def settle(self, signer: PublicKey, manifest: Manifest) -> None:
        """The last push of a place needs no second look any more."""
        self._settled.add((signer.text, place_of(manifest)))


def place_of(manifest: Manifest) -> str:
    """The path that all of a push lies at or below; the root of several single files."""
    if manifest.place or len(manifest.entries) + len(manifest.folders) > 1:
        return manifest.place
    return manifest.entries[0].path if manifest.entries else manifest.folders[0].path


def _read(path: Path) -> dict[str, dict[str, int]]:
    """What was kept; nothing where the file is not there yet.

    Raises:
        ConfigError: it is damaged: nobody should take pushes as if none had come yet.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, int]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        allowed = "what a receiver wrote; without it recorded pushes can be replayed"
        raise ConfigError(str(path), str(error), allowed) from error
