"""Small files of a push, made out of the pack: one tight loop over all of them.

What is done once for each of thousands of files, at each of many receivers, is what the end of
such a push costs. So bytes are read ahead, a folder is looked up once for all files in it, and
a file is created with its own mode: only where the process may not give that (umask, rules
of the folder) is it set afterwards. The folder they are made in is private.
"""

import os
from stat import S_IMODE

import numpy as np
from blake3 import blake3

from fanfold.push.fds import write_full
from fanfold.push.manifest import MODE_BITS, Entry, Manifest
from fanfold.push.parts import Parts
from fanfold.push.remove import VISIT_BYTES
from fanfold.push.survey import Steps
from fanfold.push.swap import flush_disk
from fanfold.push.target import StoreError, Target, refusal, reported
from fanfold.wire.report import ReportError

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

FLUSH_BYTES = 1 << 26
"""Where all is to survive a power cut: what is written to the disk in one step."""
AT_ONCE = 16
"""Files of one step."""


def create_steps(parts: Parts, indices: list[int], tree: Target | None = None) -> Steps:
    """Make the files of small entries, with their modes and times.

    Args:
        tree: where they go by their paths; None: into the staging folder, by their numbers.

    Raises:
        StoreError: BAD_MANIFEST where bytes are read back and one's BLAKE3 is not its own;
            what the system says.
    """
    maker = _Maker(parts, tree)
    for at in range(0, len(indices), AT_ONCE):
        some = indices[at : at + AT_ONCE]
        maker.make(some)
        yield VISIT_BYTES * len(some)
        if parts.is_fsynced and maker.n_bytes >= FLUSH_BYTES:
            maker.n_bytes = 0
            yield from flush_steps(parts.staging.folder.dir_fd)


class _Maker:
    def __init__(self, parts: Parts, tree: Target | None) -> None:
        self._parts, self._tree = parts, tree
        self._starts, self._times = parts.layout.starts(), times_ns(parts.manifest)
        self._given: set[int] = set()  # modes that files have as they are created
        self._ahead, self._base = memoryview(b""), 0
        self.n_bytes = 0
        self._folder, self._dir_fd = "/", parts.staging.folder.dir_fd  # "/": no folder's path

    def make(self, indices: list[int]) -> None:
        """Some files; what is done here is done once for each of all."""
        parts, starts, times, given = self._parts, self._starts, self._times, self._given
        entries, is_rechecked = parts.manifest.entries, parts.is_rechecked
        path = ""
        try:
            for index in indices:
                entry = entries[index]
                path, size, mode = entry.path, entry.size, entry.mode
                at = starts[index] - self._base
                if at < 0 or at + size > len(self._ahead):
                    at = self._read_ahead(starts[index], size)
                view = self._ahead[at : at + size]
                if is_rechecked and blake3(view).digest() != entry.blake3:
                    refuse_hash(parts, entry)
                name = self._name(index, path)
                fd = os.open(name, FLAGS, mode, dir_fd=self._dir_fd)
                try:
                    if os.pwrite(fd, view, 0) < size:
                        write_full(fd, view, 0)
                    if mode not in given:
                        self._give(fd, mode)
                    os.utime(fd, ns=(times[index], times[index]))
                finally:
                    os.close(fd)
        except OSError as error:
            raise refusal(path, error) from error

    def _name(self, index: int, path: str) -> str:
        """Where the file is made, in the folder that is open."""
        if self._tree is None:
            return str(index)
        folder, _, name = path.rpartition("/")
        if folder != self._folder:
            self._dir_fd, self._folder = self._tree.at(path)[0], folder
        return name

    def _read_ahead(self, start: int, size: int) -> int:
        self._ahead, self._base = self._parts.staging.read_pack(start, size), start
        self.n_bytes += len(self._ahead)
        return 0

    def _give(self, fd: int, mode: int) -> None:
        """Set a mode, unless files have it as they are created."""
        if S_IMODE(os.fstat(fd).st_mode) & MODE_BITS == mode:
            self._given.add(mode)
        else:
            os.fchmod(fd, mode)


def flush_steps(fd: int) -> Steps:
    """Wait for the disk, between two signs of life."""
    yield VISIT_BYTES
    with reported("fsync"):
        flush_disk(fd)
    yield VISIT_BYTES


def times_ns(manifest: Manifest) -> list[int]:
    """When each entry, then each folder, changed last at the source."""
    times: list[int] = np.frombuffer(manifest.times, ">i8").tolist()
    return times


def refuse_hash(parts: Parts, entry: Entry) -> None:
    """The bytes are those of the chunks and not of the file: no try will ever make it right."""
    parts.staging.folder.remove()
    message = f"{entry.path}: chunks are right, BLAKE3 of the file is not"
    raise StoreError(ReportError.BAD_MANIFEST, message)
