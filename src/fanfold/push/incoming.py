"""One push on its way to a receiver's disk: verify a chunk, write it, place all at the end.

Order of calls: check_some until it is done, write_chunk for each chunk that is lacking (also
while the check runs), finish_steps, which may run in another thread. Until then nothing changes
outside the staging folder. A folder is placed as a whole (push/new_folder.py); files that go
below the root by themselves are renamed one by one (push/placing.py): each file is the old or
the new one at every moment, also after a kill. With fsync the same holds after a power cut.
"""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from blake3 import blake3

from fanfold.errors import MisuseError
from fanfold.push.claims import Claims
from fanfold.push.manifest import chunk_hash, whole_digest
from fanfold.push.new_folder import place_folder
from fanfold.push.parts import Parts
from fanfold.push.placing import place_files
from fanfold.push.remove import VISIT_BYTES
from fanfold.push.small_files import refuse_hash
from fanfold.push.survey import Found, Steps, hash_steps
from fanfold.push.target import StoreError, reported
from fanfold.wire.report import ReportError

Progress = Callable[[int, int], None]  # bytes looked at, bytes in all: final files, then chunks
VISITS = 1024
"""Entries that are counted in one step."""


class Incoming:
    """An open push. A failed check or finish closes it; opening it again resumes.

    have: one bit a chunk, most significant bit first, as a REPORT carries it.
    key: digest of the manifest.
    owed_bytes: what of its room on the disk it has not used yet.
    """

    def __init__(
        self,
        parts: Parts,
        claims: Claims,
        progress: Progress | None,
    ) -> None:
        self.manifest, self.layout = parts.manifest, parts.layout
        self.name = parts.manifest.name
        self.have = bytearray((self.layout.n_chunks + 7) // 8)
        self.n_have = 0
        self.owed_bytes = 0
        self._parts = parts
        self._staging, self._target, self._survey = parts.staging, parts.target, parts.survey
        self._claims = claims
        self._progress = progress
        size = min(self.layout.chunk_bytes, self.layout.total_bytes)
        self._buffer = memoryview(bytearray(size))
        self.key = parts.key
        self._zeros: dict[int, bytes] = {}
        self._checking = self._check_steps()
        self._is_open = True
        claims.add(self)

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

    @property
    def is_in_place(self) -> bool:
        """Whether every file stood where it goes when that was looked at."""
        return len(self._survey.in_place) == len(self.manifest.entries)

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

    def finish_steps(self) -> Steps:
        """Put all in its place, remove the staging folder and close; small steps.

        Raises:
            StoreError: BAD_MANIFEST when a file's chunks are right and its own hash is not;
                what the system says. Nothing was placed, or, of files by themselves, some.
        """
        self._require_complete()
        try:
            with reported(self.manifest.name):
                if self._parts.is_rechecked:
                    yield from self._recheck_steps()
                place = place_folder if self.manifest.place else place_files
                yield from place(self._parts)
                yield from self._staging.folder.remove_steps()
        finally:
            self.close()

    def finish(self) -> bytes:
        """Do all steps at once; whole_digest."""
        for _ in self.finish_steps():
            pass
        return self.whole_digest()

    def whole_digest(self) -> bytes:
        """Return the BLAKE3 of a single file, else the manifest's digest."""
        return whole_digest(self.manifest, self.key)

    def discard_steps(self) -> Steps:
        """Give up: remove what was staged and close; small steps."""
        self._require_open()
        try:
            with reported(self.manifest.name):
                yield from self._staging.folder.remove_steps()
        finally:
            self.close()

    def discard(self) -> None:
        """Do the same at once."""
        for _ in self.discard_steps():
            pass

    def close(self) -> None:
        """Close and unlock; what was staged stays for the next try."""
        if self._is_open:
            self._is_open = False
            self._claims.drop(self)
            self._checking.close()
            self._survey.close()
            self._target.close()
            self._staging.close_files()
            self._staging.folder.touch()
            with suppress(OSError, StoreError):
                if self._staging.folder.is_empty():
                    self._staging.folder.remove()
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
        yield from self._staging.folder.restore_steps()
        yield from self._claims.old_steps(self._staging.folder)
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
        if not self.has(i) and chunk_hash(self.manifest, i) == self._hash_of_zeros(size):
            self._write(i, memoryview(bytes(size)))
            self._mark(i)
            return size
        found = Found.NOWHERE if self.has(i) else self._survey.find(i, self._buffer)
        if found is Found.FINAL:
            self._write(i, self._buffer[:size])
        if found is not Found.NOWHERE:
            self._mark(i)
        return size if found in {Found.FINAL, Found.STAGED} else VISIT_BYTES

    def _hash_of_zeros(self, size: int) -> bytes:
        if size not in self._zeros:
            self._zeros[size] = blake3(bytes(size)).digest()
        return self._zeros[size]

    def _room_steps(self) -> Steps:
        """Count what is to be written yet, and see that there is room for it."""
        in_place, block = self._survey.in_place, self._staging.folder.block_bytes()
        wanted = 0
        for index, entry in enumerate(self.manifest.entries):
            if index not in in_place and self._staging.is_small(index):
                wanted += -(-entry.size // block) * block  # a file of its own at the end
            if index % VISITS == 0:
                yield VISIT_BYTES
        for i in range(self.layout.n_chunks):
            if not self.has(i):
                wanted += self._wanted_bytes(i)
                yield VISIT_BYTES
        yield from self._claims.room_steps(self, self._staging.folder, wanted)
        self.owed_bytes = wanted

    def _wanted_bytes(self, i: int) -> int:
        if not self._survey.in_place:
            return self.layout.chunk_size(i)
        in_place = self._survey.in_place
        return sum(p.size for p in self.layout.pieces(i) if p.entry not in in_place)

    def _recheck_steps(self) -> Steps:
        """Read back what is not small; what is, when its files are made."""
        for index, entry in enumerate(self.manifest.entries):
            if index in self._survey.in_place or self._staging.is_small(index):
                continue
            hasher = blake3()
            with reported(entry.path):
                yield from hash_steps(self._staging.fd(index), hasher, self._buffer)
            if hasher.digest() != entry.blake3:
                refuse_hash(self._parts, entry)
            yield VISIT_BYTES

    def _write(self, i: int, view: memoryview) -> None:
        self._staging.write(i, view, self._survey.in_place)
        self.owed_bytes = max(self.owed_bytes - len(view), 0)

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
