"""One push on its way to a receiver's disk: verify a chunk, write it, flip all at the end.

Order of calls: check_some until it is done, write_chunk for each chunk that is lacking (also
while the check runs), recheck_some if the loop must stay alive, finish. Until finish nothing
changes outside the staging folder. Finish renames file by file: each file is the old or the new
one at every moment, also after a kill, but a reader can see some files new and others old. With
fsync the same holds after a power cut.
"""

import os
import sys
from collections.abc import Callable
from types import TracebackType

from blake3 import blake3

from fanfold.errors import MisuseError
from fanfold.push.fds import write_full
from fanfold.push.layout import Layout, Piece
from fanfold.push.manifest import Manifest, chunk_hash, whole_digest
from fanfold.push.staging import Staging
from fanfold.push.survey import VISIT_BYTES, Found, Steps, Survey, hash_steps
from fanfold.push.target import StoreError, Target, reported
from fanfold.wire.report import ReportError

Progress = Callable[[int, int], None]  # bytes looked at, bytes in all: final files, then chunks


class Incoming:
    """An open push. A failed check or finish closes it; opening it again resumes.

    have: one bit a chunk, most significant bit first, as a REPORT carries it.
    """

    def __init__(
        self,
        manifest: Manifest,
        staging: Staging,
        target: Target,
        *,
        is_fsynced: bool,
        is_rechecked: bool,
        progress: Progress | None,
    ) -> None:
        self.manifest = manifest
        self.layout = Layout((entry.size for entry in manifest.entries), manifest.chunk_bytes)
        self.have = bytearray((self.layout.n_chunks + 7) // 8)
        self.n_have = 0
        self._staging = staging
        self._target = target
        self._survey = Survey(manifest, self.layout, staging, target)
        self._is_fsynced = is_fsynced
        self._is_rechecked = is_rechecked
        self._progress = progress
        self._buffer = memoryview(bytearray(min(manifest.chunk_bytes, manifest.total_bytes)))
        self._checking = self._check_steps()
        self._rechecking = self._recheck_steps()
        self._is_open = True

    def __enter__(self) -> "Incoming":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_complete(self) -> bool:
        """Whether every chunk is there."""
        return self.n_have == self.layout.n_chunks

    def has(self, i: int) -> bool:
        """Whether chunk i is there, verified."""
        return bool(self.have[i >> 3] & 0x80 >> (i & 7))

    def check_some(self, max_bytes: int) -> bool:
        """Look for bytes that are here already, about max_bytes of them; True when all is done.

        Raises:
            StoreError: a final place cannot be taken, or the disk has no room for the rest.
        """
        return self._advance(self._checking, max_bytes)

    def write_chunk(self, i: int, data: memoryview | bytes | bytearray) -> bool:
        """Verify chunk i, then write it; False when the bytes are not those of chunk i.

        A chunk that is there already is not looked at again. Raises StoreError when the disk
        fails; the push stays open.
        """
        self._require_open()
        size = self.layout.chunk_size(i)
        if size and self.has(i):
            return True
        view = memoryview(data)
        if len(view) != size or blake3(view).digest() != chunk_hash(self.manifest, i):
            return False
        self._write(i, view)
        self._mark(i)
        return True

    def recheck_some(self, max_bytes: int) -> bool:
        """Read back and hash about max_bytes of the complete files; True when all is done.

        Raises:
            StoreError: BAD_MANIFEST when a file's chunks are right and its own hash is not.
        """
        self._require_complete()
        return self._advance(self._rechecking, max_bytes)

    def finish(self) -> bytes:
        """Put every file in its place, remove the staging folder and close.

        Returns:
            manifest.whole_digest: the BLAKE3 of a single file, else the manifest's digest.
        """
        self._require_complete()
        try:
            if self._is_rechecked:
                self._advance(self._rechecking, sys.maxsize)
            self._prepare()
            self._flip()
            self._staging.folder.remove()
        finally:
            self.close()
        return whole_digest(self.manifest)

    def discard(self) -> None:
        """Give up: remove what was staged and close."""
        self._require_open()
        try:
            self._staging.folder.remove()
        finally:
            self.close()

    def close(self) -> None:
        """Close and unlock; what was staged stays for the next try."""
        if self._is_open:
            self._is_open = False
            self._checking.close()
            self._rechecking.close()
            self._survey.close()
            self._target.close()
            self._staging.close_files()
            self._staging.folder.close()

    def _advance(self, steps: Steps, max_bytes: int) -> bool:
        self._require_open()
        spent = 0
        try:
            with reported(self.manifest.name):
                for n_bytes in steps:
                    spent += n_bytes
                    if spent >= max_bytes:
                        return False
        except StoreError:
            self.close()
            raise
        return True

    def _check_steps(self) -> Steps:
        done = 0
        for index, entry in enumerate(self.manifest.entries):
            at = done
            for n_bytes in self._survey.look_at_final(index, self._buffer):
                at += n_bytes
                self._tell(at)
                yield n_bytes
            done += entry.size
            self._tell(done)
            yield VISIT_BYTES
        for i in range(self.layout.n_chunks):
            yield self._check_chunk(i)
            done += self.layout.chunk_size(i)
            self._tell(done)
        yield from self._room_steps()

    def _check_chunk(self, i: int) -> int:
        size = self.layout.chunk_size(i)
        found = Found.NOWHERE if self.has(i) else self._survey.find(i, self._buffer)
        if found is Found.FINAL:
            self._write(i, self._buffer[:size])
        if found is not Found.NOWHERE:
            self._mark(i)
        return size if found in {Found.FINAL, Found.STAGED} else VISIT_BYTES

    def _room_steps(self) -> Steps:
        # Chunks that arrive while this counts lower both sides, so the room is taken first.
        room = self._staging.folder.n_free_bytes()
        lacking = 0
        for i in range(self.layout.n_chunks):
            if not self.has(i):
                lacking += sum(piece.size for piece in self._wanted(i))
                yield VISIT_BYTES
        if lacking > room:
            message = f"{lacking} bytes are lacking (got {room} bytes of free disk)"
            raise StoreError(ReportError.DISK_FULL, message)

    def _recheck_steps(self) -> Steps:
        for index, entry in enumerate(self.manifest.entries):
            if index in self._survey.in_place:
                continue
            hasher = blake3()
            with reported(entry.path):
                yield from hash_steps(self._staging.fd(index), hasher, self._buffer)
            if hasher.digest() != entry.blake3:
                message = f"{entry.path}: chunks are right, BLAKE3 of the file is not"
                raise StoreError(ReportError.BAD_MANIFEST, message)
            yield VISIT_BYTES

    def _prepare(self) -> None:
        """Do all that can fail before the first file is flipped."""
        self._target.close()  # look at the folders afresh
        for index, entry in enumerate(self.manifest.entries):
            if index in self._survey.in_place:
                self._survey.confirm(index)
                continue
            with reported(entry.path):
                fd = self._staging.fd(index)
                os.fchmod(fd, entry.mode)
                if self._is_fsynced:
                    os.fsync(fd)
            self._target.prepare(entry.path)

    def _flip(self) -> None:
        for index, entry in enumerate(self.manifest.entries):
            if index not in self._survey.in_place:
                self._target.replace(self._staging.folder.dir_fd, str(index), entry.path)

    def _write(self, i: int, view: memoryview) -> None:
        for piece in self._wanted(i):
            with reported(self.manifest.entries[piece.entry].path):
                part = view[piece.at : piece.at + piece.size]
                write_full(self._staging.fd(piece.entry), part, piece.offset)

    def _wanted(self, i: int) -> list[Piece]:
        in_place = self._survey.in_place
        return [piece for piece in self.layout.pieces(i) if piece.entry not in in_place]

    def _mark(self, i: int) -> None:
        self.have[i >> 3] |= 0x80 >> (i & 7)
        self.n_have += 1

    def _tell(self, done: int) -> None:
        if self._progress:
            self._progress(done, 2 * self.layout.total_bytes)

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreError(ReportError.CLOSED, f"{self.manifest.name}: the push is closed")

    def _require_complete(self) -> None:
        self._require_open()
        if not self.is_complete:
            n_lacking = self.layout.n_chunks - self.n_have
            raise MisuseError(f"finish of a push that lacks {n_lacking} chunks")
