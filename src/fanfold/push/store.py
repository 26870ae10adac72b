"""A receiver's disk: a root folder that takes any number of pushes, several at once.

Below the root stand the files that arrived, and STAGING_DIR while something is unfinished. What
a killed or failed push left there is picked up when the same push is opened again, or removed
by sweep. A file gets exactly the mode of its entry, whatever the umask.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError, WireError
from fanfold.live.clock import unix_ns
from fanfold.push.claims import DAY_NS, Claims, halves, try_lock
from fanfold.push.incoming import Incoming, Progress
from fanfold.push.layout import Layout
from fanfold.push.manifest import Manifest, check, digest
from fanfold.push.parts import Parts
from fanfold.push.staging import PushOpenError, Staging, lock_folder
from fanfold.push.survey import Survey
from fanfold.push.target import StoreError, Target, reported
from fanfold.wire.report import ReportError

__all__ = ["Incoming", "Leftover", "PushOpenError", "ReportError", "Store", "StoreError"]


class Leftover(NamedTuple):
    """The staging folder of a push that nobody has open; newest_ns: when it was open last."""

    digest: str
    n_bytes: int
    newest_ns: int


class Store:
    """Takes pushes below one root.

    Args:
        root: made when absent; may be a symbolic link itself, nothing below it may.
        fsync: finish survives a power cut.
        recheck: finish reads the files back and compares each with its own BLAKE3.
        max_bytes: most of one sender's pushes at once; None accepts what fits on the disk.
    """

    def __init__(
        self,
        root: Path,
        *,
        fsync: bool = False,
        recheck: bool = True,
        max_bytes: int | None = None,
    ) -> None:
        self.root = root
        self._fsync = fsync
        self._recheck = recheck
        self.max_bytes = max_bytes
        self._claims = Claims(unix_ns)

    def open_push(
        self, manifest: Manifest, progress: Progress | None = None, key: bytes = b""
    ) -> Incoming:
        """Lock the push's staging folder; what is there already is found by check_some.

        Args:
            key: digest of the manifest, where it was checked and counted already.

        Raises:
            StoreError: BAD_MANIFEST, TOO_LARGE, COLLISION when the same push is open already,
                or what the system says.
        """
        key = self._accept(manifest, key)
        with self._opened_root() as root_fd:
            folder = lock_folder(root_fd, key.hex())
        try:
            layout = Layout((e.size for e in manifest.entries), manifest.chunk_bytes)
            staging = Staging(folder, manifest.entries, layout)
            target = Target(folder.root_fd)
            survey = Survey(manifest, layout, staging, target)
            ways = self._fsync, self._recheck
            parts = Parts(manifest, key, layout, staging, survey, target, *ways)
            return Incoming(parts, self._claims, progress)
        except BaseException:
            folder.close()
            raise

    def require_usable(self, flag: str) -> None:
        """See at the start that files can be put here.

        Raises:
            ConfigError: it is no folder, or nothing can be written to it; names the flag.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".fanfold-{os.getpid()}"
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            probe.unlink()
        except OSError as error:
            is_file = isinstance(error, FileExistsError) or self.root.is_file()
            what = "a file" if is_file else error.strerror
            got = f"{self.root}: {what}"
            raise ConfigError(flag, got, "a folder that can be written to") from error

    def sweep(
        self, now_ns: int, older_than_days: int, *, is_dry: bool = False
    ) -> list[Leftover]:
        """Remove what unfinished pushes left that did not change for so many days.

        Args:
            now_ns: wall clock, nanoseconds since 1970.
            older_than_days: 0 removes all that is not open.
            is_dry: only list.

        Returns:
            What was removed, or would be.
        """
        before_ns = now_ns - older_than_days * DAY_NS
        with self._opened_root() as root_fd:
            names = [name for _, name in halves(root_fd)]
            leftovers = [_sweep_one(root_fd, name, before_ns, is_dry) for name in names]
        return [leftover for leftover in leftovers if leftover]

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        with reported(str(self.root)):
            self.root.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)

    def _accept(self, manifest: Manifest, key: bytes) -> bytes:
        """Its digest, unless it is refused."""
        try:
            if not key:
                check(manifest)
        except WireError as error:
            raise StoreError(ReportError.BAD_MANIFEST, str(error)) from error
        if self.max_bytes is not None and manifest.total_bytes > self.max_bytes:
            message = f"{manifest.total_bytes} bytes, allowed: {self.max_bytes}"
            raise StoreError(ReportError.TOO_LARGE, message)
        return key or digest(manifest)


def _sweep_one(root_fd: int, name: str, before_ns: int, is_dry: bool) -> Leftover | None:
    folder = try_lock(root_fd, name)
    if folder is None:
        return None
    try:
        leftover = Leftover(name, *folder.usage())
        if leftover.newest_ns > before_ns:
            return None
        if not is_dry:
            folder.remove()
        return leftover
    finally:
        folder.close()
