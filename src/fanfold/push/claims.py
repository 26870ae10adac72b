"""The room of a receiver's disk: what open pushes still owe it, and halves that may go for it.

A push that is taken has its room for certain, as far as pushes go: whoever comes later counts
what all before have still to write. A half that a broken push left waits for its next try; it
goes when it is old, or when a push needs its room, the one that waits longest first.
"""

import os
import re
from collections.abc import Callable
from typing import Protocol

from fanfold.push.manifest import STAGING_DIR
from fanfold.push.staging import Folder, lock_folder
from fanfold.push.survey import Steps
from fanfold.push.target import StoreError, names_in, open_dir, reported
from fanfold.wire.report import ReportError

DAY_NS = 86_400 * 10**9
KEEP_DAYS = 7
"""A half that nobody opened for so long is removed when the next push begins."""
DIGEST_HEX = re.compile("[0-9a-f]{64}")


class Claimant(Protocol):
    """A push that is open."""

    @property
    def owed_bytes(self) -> int:
        """Bytes it has still to write."""

    @property
    def name(self) -> str:
        """What people call it."""


class Claims:
    """The open pushes of one root. clock_ns: wall clock, nanoseconds since 1970."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._open: list[Claimant] = []
        self._clock_ns = clock_ns

    def add(self, push: Claimant) -> None:
        """Count a push from now on."""
        self._open.append(push)

    def drop(self, push: Claimant) -> None:
        """It ended."""
        if push in self._open:
            self._open.remove(push)

    def old_steps(self, folder: Folder) -> Steps:
        """Remove halves that nobody opened for KEEP_DAYS."""
        before_ns = self._clock_ns() - KEEP_DAYS * DAY_NS
        for newest_ns, name in halves(folder.root_fd):
            if newest_ns > before_ns:
                return
            yield from remove_half(folder.root_fd, name)

    def room_steps(self, push: Claimant, folder: Folder, wanted: int) -> Steps:
        """See that a push has room for what it still needs; removes halves for it.

        Raises:
            StoreError: DISK_FULL, says how much is free and who has a claim to it.
        """
        if wanted <= self._room(push, folder):
            return
        for _, name in halves(folder.root_fd):
            yield from remove_half(folder.root_fd, name)
            if wanted <= self._room(push, folder):
                return
        message = f"{wanted} bytes are lacking (got {folder.n_free_bytes()} bytes of free disk"
        others = [other for other in self._open if other is not push and other.owed_bytes]
        if others:
            owed = sum(other.owed_bytes for other in others)
            names = ", ".join(sorted({other.name for other in others}))
            message += f", {owed} of them for {names}, on its way here"
        raise StoreError(ReportError.DISK_FULL, message + ")")

    def _room(self, push: Claimant, folder: Folder) -> int:
        owed = sum(other.owed_bytes for other in self._open if other is not push)
        return folder.n_free_bytes() - owed


def halves(root_fd: int) -> list[tuple[int, str]]:
    """What unfinished pushes left: when each was open last, and its name; oldest first."""
    with reported(STAGING_DIR):
        try:
            fd = open_dir(STAGING_DIR, root_fd, STAGING_DIR)
        except FileNotFoundError:
            return []
        try:
            found = []
            for name in names_in(fd):
                try:
                    info = os.stat(f"{name}/lock", dir_fd=fd, follow_symlinks=False)
                except OSError:  # another one removes it
                    continue
                if DIGEST_HEX.fullmatch(name):
                    found.append((info.st_mtime_ns, name))
        finally:
            os.close(fd)
    return sorted(found)


def remove_half(root_fd: int, name: str) -> Steps:
    """Remove one, unless it is open."""
    folder = try_lock(root_fd, name)
    if folder is None:
        return
    try:
        yield from folder.remove_steps()
    finally:
        folder.close()


def try_lock(root_fd: int, name: str) -> Folder | None:
    """Lock one; None when it is open."""
    try:
        return lock_folder(root_fd, name)
    except StoreError as error:
        if error.code is ReportError.COLLISION:
            return None
        raise
