"""Files with keys of links, looked at while a node runs: its own, and the fabric's public ones.

A key is replaced without a restart: a node's folder has its new key, the fabric file names both
for a time. A file that is faulty is told of once, and what was read before counts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.seals.link_keys import LINK_KEY_FILE, LinkKey, load_link_key
from fanfold.topo.fabric import Fabric, Node
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND

LOOK_PS = PS_PER_SECOND
Stamp = tuple[int, int, int]


class KeyPlace(NamedTuple):
    """folder: of the node's own key. fabric: file of the fabric; None: nobody changes it."""

    folder: Path
    fabric: Path | None


class OwnKey(NamedTuple):
    """A node's key for its links, and where it is looked for again."""

    key: LinkKey
    place: KeyPlace | None = None


class KeyWatch:
    """Keys of a node and of its fabric as the files have them now.

    Args:
        tell: hears of a file that is faulty.
    """

    def __init__(
        self, own: OwnKey, fabric: Fabric, name: str, tell: Callable[[str], None]
    ) -> None:
        self.own = own.key
        self.nodes: dict[str, Node] = dict(fabric.by_name)
        self.older: LinkKey | None = None
        self._place, self._name, self.tell = own.place, name, tell
        self._seen: tuple[Stamp, ...] | None = None  # what was given may be of before a change
        self._next_ps = 0

    def look(self, now_ps: int, *, at_once: bool = False) -> bool:
        """Whether any key is another one now; reads files that changed, once a second."""
        if now_ps < self._next_ps and not at_once:
            return False
        self._next_ps = now_ps + LOOK_PS
        seen = self._stamps()
        if seen == self._seen or self._place is None:
            return False
        self._seen, before = seen, (dict(self.nodes), self.own, self.older)
        try:
            if self._place.fabric is not None:
                self.nodes |= load_fabric(self._place.fabric).by_name
            self._take_own(load_link_key(self._place.folder))
        except ConfigError as error:
            self.tell(f"keys stay as they are: {error}")
            return False
        return (self.nodes, self.own, self.older) != before

    def _take_own(self, found: LinkKey) -> None:
        """Use a key that the fabric names, answer by the one before as long as it is named."""
        node = self.nodes[self._name]
        named = {node.link_key, node.link_key_also}
        if found.text in named and found.text != self.own.text:
            self.own, self.older = found, self.own
        if self.older is not None and self.older.text not in named:
            self.older = None

    def _stamps(self) -> tuple[Stamp, ...]:
        if self._place is None:
            return ()
        files = [self._place.folder / LINK_KEY_FILE]
        if self._place.fabric is not None:
            files.append(self._place.fabric)
        return tuple(stamp_of(path) for path in files)


def stamp_of(path: Path) -> Stamp:
    """What changes when a file is another one."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
