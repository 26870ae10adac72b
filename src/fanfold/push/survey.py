"""What of a push lies on the receiver's disk already.

Two places are looked at: the staging files of an earlier try, and the final files that stand
where the push wants to put its own. A final file of the right size and BLAKE3 is in place:
nothing of it is wanted. All else goes chunk by chunk, and counts only when the hash is right.
"""

import os
import stat
from collections.abc import Generator
from contextlib import suppress
from enum import Enum, auto

from blake3 import blake3

from fanfold.push.fds import FdCache, is_hole, read_full
from fanfold.push.layout import Layout, Piece
from fanfold.push.manifest import MODE_BITS, Manifest, chunk_hash, mtime_ns
from fanfold.push.scan import Identity, identity_of
from fanfold.push.staging import Staging
from fanfold.push.target import StoreError, Target, reported
from fanfold.wire.report import ReportError

VISIT_BYTES = 4096  # what a look at a file costs, in bytes read

Steps = Generator[int, None, None]  # yields the bytes that each step read


class Found(Enum):
    """Where the bytes of a chunk were found."""

    NOWHERE = auto()
    IN_PLACE = auto()
    STAGED = auto()
    FINAL = auto()


class Survey:
    """Looks for verified bytes; reads only."""

    def __init__(
        self, manifest: Manifest, layout: Layout, staging: Staging, target: Target
    ) -> None:
        self.in_place: dict[int, Identity] = {}
        self._has_final: set[int] = set()
        self._manifest = manifest
        self._layout = layout
        self._staging = staging
        self._target = target
        self._finals = FdCache(self._open_final)
        self._is_bare = bool(manifest.place) and not self._has_place()

    def path_of(self, index: int) -> str:
        """Final place of an entry below the root."""
        return self.below(self._manifest.entries[index].path)

    def below(self, path: str) -> str:
        """A path below the place of the push, as one below the root."""
        place = self._manifest.place
        return f"{place}/{path}" if place and path else place or path

    def look_at_final(self, index: int, buffer: memoryview) -> Steps:
        """Find out whether an entry is in place; yields the bytes each step read.

        Raises:
            StoreError: something that cannot be replaced stands at the final place.
        """
        entry = self._manifest.entries[index]
        fd = None if self._is_bare else self._open_old(index)
        if fd is None:
            return
        try:
            self._has_final.add(index)
            identity = identity_of(fd)
            if identity.size != entry.size:
                return
            hasher = blake3()
            with reported(entry.path):
                yield from hash_steps(fd, hasher, buffer)
            if hasher.digest() == entry.blake3 and identity_of(fd) == identity:
                self.in_place[index] = identity
        finally:
            os.close(fd)

    def find(self, i: int, buffer: memoryview) -> Found:
        """Look for chunk i; when STAGED or FINAL, the buffer starts with its verified bytes."""
        if not self.in_place and not self._has_final and not self._staging.is_used:
            return Found.NOWHERE
        pieces = self._layout.pieces(i)
        if all(piece.entry in self.in_place for piece in pieces):
            return Found.IN_PLACE
        staged = [self._is_staged(piece) for piece in pieces]
        if self._is_read(i, pieces, staged, buffer):
            return Found.STAGED if all(staged) else Found.FINAL
        if any(staged) and self._is_read(i, pieces, [False] * len(pieces), buffer):
            return Found.FINAL
        return Found.NOWHERE

    def confirm(self, index: int) -> None:
        """See that a file in place is still the one that was hashed; give it mode and mtime."""
        entry = self._manifest.entries[index]
        fd = self._open_final(index)
        try:
            if identity_of(fd) != self.in_place[index]:
                message = f"{entry.path}: changed by somebody else during the push"
                raise StoreError(ReportError.COLLISION, message)
            with reported(entry.path):
                stamp(fd, entry.mode, mtime_ns(self._manifest, index))
        finally:
            os.close(fd)

    def close(self) -> None:
        """Close the final files."""
        self._finals.close()

    def _is_staged(self, piece: Piece) -> bool:
        return piece.entry not in self.in_place and self._staging.has(piece.entry)

    def _is_read(
        self, i: int, pieces: list[Piece], staged: list[bool], buffer: memoryview
    ) -> bool:
        for piece, is_staged in zip(pieces, staged, strict=True):
            view = buffer[piece.at : piece.at + piece.size]
            with reported(self._manifest.entries[piece.entry].path):
                if not self._is_piece_read(i, piece, is_staged, view):
                    return False
        view = buffer[: self._layout.chunk_size(i)]
        return blake3(view).digest() == chunk_hash(self._manifest, i)

    def _is_piece_read(self, i: int, piece: Piece, is_staged: bool, view: memoryview) -> bool:
        if is_staged:
            fd, offset = self._staging.place_of(i, piece)
            if is_hole(fd, offset, piece.size):
                return False
            return read_full(fd, view, offset) == piece.size
        if piece.entry not in self._has_final:
            return False
        return read_full(self._finals.fd(piece.entry), view, piece.offset) == piece.size

    def _has_place(self) -> bool:
        """Whether something stands where the folder is to be.

        Raises:
            StoreError: a file or a symbolic link is in the way.
        """
        fd = self._target.open_folder(self._manifest.place)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def _open_old(self, index: int) -> int | None:
        try:
            return self._target.open_file(self.path_of(index))
        except StoreError:
            if self._manifest.is_exact:  # it goes with the old folder, whatever it is
                return None
            raise

    def _open_final(self, index: int) -> int:
        path = self.path_of(index)
        fd = self._target.open_file(path)
        if fd is None:
            raise StoreError(ReportError.COLLISION, f"{path}: removed by somebody else")
        return fd


def stamp(fd: int, mode: int, mtime: int) -> None:
    """Give an open file or folder its mode and mtime, nanoseconds since 1970."""
    info = os.fstat(fd)
    if stat.S_IMODE(info.st_mode) & MODE_BITS != mode:
        os.fchmod(fd, mode)
    if info.st_mtime_ns != mtime:
        with suppress(PermissionError):  # another user's file: its bytes are right
            os.utime(fd, ns=(info.st_atime_ns, mtime))


def hash_steps(fd: int, hasher: blake3, buffer: memoryview) -> Steps:
    """Hash a file to its end, one buffer a step; yields the bytes of each."""
    offset = 0
    while n := read_full(fd, buffer, offset):
        hasher.update(buffer[:n])
        offset += n
        yield n
