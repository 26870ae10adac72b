"""A receiver's disk in the swarm of tests/swarm.py."""

import errno
import os
from typing import TYPE_CHECKING

from fanfold.push.incoming import Incoming, Progress
from fanfold.push.manifest import Manifest
from fanfold.push.store import Store
from fanfold.push.target import reported

if TYPE_CHECKING:
    from swarm import World


class Disk(Store):
    """A receiver's disk that may be slow, or full."""

    def __init__(self, world: "World", host: str) -> None:
        super().__init__(world.folder / host / "root", recheck=False)
        self.world, self.host = world, host
        self.busy_ps = 0  # until when it writes

    def open_push(
        self, manifest: Manifest, progress: Progress | None = None, key: bytes = b""
    ) -> Incoming:
        """An open push whose writes take their time, or fail."""
        incoming = super().open_push(manifest, progress, key)
        staging = incoming._staging
        write, free = staging.write, staging.folder.n_free_bytes

        def write_here(i: int, view: memoryview, but: object) -> None:
            if self._is_full():
                with reported(manifest.name):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(i, view, but)
            if self.host == self.world.draw.more.slow:
                now = max(self.world.now, self.busy_ps)
                self.busy_ps = now + self.world.draw.more.slow_ps

        staging.write = write_here
        staging.folder.n_free_bytes = lambda: 0 if self._is_full() else free()
        return incoming

    def _is_full(self) -> bool:
        more = self.world.draw.more
        return self.host == more.full and more.full_ps <= self.world.now < more.until_ps
