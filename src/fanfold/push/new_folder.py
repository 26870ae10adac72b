"""A folder of a push as a whole: put together in private, then exchanged for the one there was.

A reader sees all of the old folder or all of the new one. What the old one holds and the push
does not name is kept under a second name (a hard link) in the new one, unless the push is
exact. The old folder is removed afterwards.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from fanfold.push.parts import Parts
from fanfold.push.placing import stamp_big, stamp_folders, write_out_steps
from fanfold.push.remove import VISIT_BYTES, remove_steps
from fanfold.push.small_files import create_steps, flush_steps
from fanfold.push.staging import NEW, OLD, PLACE
from fanfold.push.survey import Steps, stamp
from fanfold.push.swap import put_folder
from fanfold.push.target import StoreError, Target, names_in, open_dir, reported
from fanfold.wire.report import ReportError

OWN_MODE = 0o700
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def place_folder(parts: Parts) -> Steps:
    """Put the folder together and in its place; nothing is done where all of it is there."""
    made = _NewFolder(parts)
    parts.target.close()  # look at the folders afresh
    if (yield from made.is_there()):
        yield from made.confirm()
        return
    try:
        yield from made.build()
        yield from made.swap()
    finally:
        made.close()


class _NewFolder:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._manifest, self._staging = parts.manifest, parts.staging
        self._dir_fd = parts.staging.folder.dir_fd
        self._paths = {entry.path for entry in self._manifest.entries}
        self._folders = {folder.path for folder in self._manifest.folders}
        self._kept: set[str] = set()
        self._kept_folders: list[tuple[str, os.stat_result]] = []
        self._tree: Target | None = None
        self._tree_fd = -1

    @property
    def tree(self) -> Target:
        assert self._tree is not None
        return self._tree

    def close(self) -> None:
        if self._tree is not None:
            self._tree.close()
            os.close(self._tree_fd)
            self._tree = None

    # What is there.

    def is_there(self) -> Generator[int, None, bool]:
        """Whether the old folder is the new one already."""
        parts = self._parts
        if len(parts.survey.in_place) < len(self._manifest.entries):
            return False
        for path in {"", *self._folders}:
            fd = parts.target.open_folder(parts.survey.below(path))
            if fd is None:
                return False
            try:
                names = names_in(fd)
            finally:
                os.close(fd)
            prefix = f"{path}/" if path else ""
            known = (prefix + name in self._paths | self._folders for name in names)
            if self._manifest.is_exact and not all(known):
                return False
            yield VISIT_BYTES
        return True

    def confirm(self) -> Steps:
        """Give what is there already its modes and times."""
        for index in range(len(self._manifest.entries)):
            self._parts.survey.confirm(index)
            yield VISIT_BYTES
        at = _At(self._parts)
        yield from stamp_folders(self._parts, at, lambda _: True)

    # Building.

    def build(self) -> Steps:
        """Put the folder together, private until its modes are set."""
        parts = self._parts
        with reported(self._manifest.place):
            yield from self._begin()
            for folder in self._manifest.folders:
                self.tree.make(folder.path, OWN_MODE)
                yield VISIT_BYTES
        yield from self._fill()
        old_fd = parts.target.open_folder(self._manifest.place)
        if old_fd is not None:
            try:
                with reported(self._manifest.place):
                    self._refuse_disks(old_fd)
                    if not self._manifest.is_exact:
                        yield from self._keep(old_fd, "")
            finally:
                os.close(old_fd)
        for path, info in reversed(self._kept_folders):
            fd = self.tree.open_folder(path)
            if fd is not None:
                stamp(fd, stat.S_IMODE(info.st_mode) & 0o777, info.st_mtime_ns)
                os.close(fd)
        yield from stamp_folders(parts, self.tree, bool)  # all but the top
        if parts.is_fsynced:
            yield from flush_steps(self._dir_fd)

    def _begin(self) -> Steps:
        yield from self._staging.folder.restore_steps()
        os.mkdir(NEW, OWN_MODE, dir_fd=self._dir_fd)
        self._tree_fd = open_dir(NEW, self._dir_fd, NEW)
        self._tree = Target(self._tree_fd)

    def _fill(self) -> Steps:
        """Put every entry of the push into the new folder."""
        in_place, is_small = self._parts.survey.in_place, self._staging.is_small
        n_all = len(self._manifest.entries)
        small = [k for k in range(n_all) if k not in in_place and is_small(k)]
        yield from create_steps(self._parts, small, self.tree)
        yield from write_out_steps(self._parts)
        for k in sorted(set(range(n_all)).difference(small)):
            path = self._manifest.entries[k].path
            with reported(path):
                self._take(k, path)
            yield VISIT_BYTES

    def _take(self, index: int, path: str) -> None:
        """Give an entry that is not created its name in the new folder."""
        parts = self._parts
        if index in parts.survey.in_place:
            parts.survey.confirm(index)
            from_fd, from_name = parts.target.at(parts.survey.path_of(index))
            link(from_fd, from_name, *self.tree.at(path))
        else:
            stamp_big(parts, index)
            link(self._dir_fd, str(index), *self.tree.at(path))

    def _keep(self, old_fd: int, prefix: str) -> Steps:
        """Link what the push does not name into the new folder."""
        for name in names_in(old_fd):
            path = prefix + name
            if path in self._paths:
                continue
            info = os.stat(name, dir_fd=old_fd, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                if path not in self._folders:
                    link(old_fd, name, *self.tree.at(path))
                    self._kept.add(path)
                yield VISIT_BYTES
                continue
            if path not in self._folders:
                self.tree.make(path, OWN_MODE)
                self._kept_folders.append((path, info))
            below_fd = open_dir(name, old_fd, path)
            try:
                yield from self._keep(below_fd, path + "/")
            finally:
                os.close(below_fd)

    def _refuse_disks(self, old_fd: int) -> None:
        """Refuse where a disk is mounted in the old folder: it would be removed with it."""
        top = str(Path(f"/proc/self/fd/{old_fd}").readlink())
        try:
            lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            point = _unescaped(line.split(b" ")[4])
            if point == top or point.startswith(top + "/"):
                message = f"{self._manifest.place}: a disk is mounted at {point}"
                raise StoreError(ReportError.COLLISION, message)

    # The exchange.

    def swap(self) -> Steps:
        """Exchange old and new; then remove the old, bit by bit."""
        parts, place = self._parts, self._manifest.place
        parts.target.make(place.rpartition("/")[0])
        top = next(folder for folder in self._manifest.folders if not folder.path)
        with reported(place):
            os.fchmod(self._tree_fd, top.mode | OWN_MODE)  # its owner could not rename it else
            parent_fd, name = parts.target.at(place)
            os.symlink(place, PLACE, dir_fd=self._dir_fd)
            old = self._exchange(parent_fd, name)
            yield from stamp_folders(parts, self.tree, lambda path: not path)
            if parts.is_fsynced:
                yield from flush_steps(parent_fd)
            if old:
                save = None if self._manifest.is_exact else self._save
                yield from remove_steps(self._dir_fd, old, save)

    def _exchange(self, parent_fd: int, name: str) -> str:
        try:
            return put_folder(self._dir_fd, NEW, parent_fd, name, OLD)
        except PermissionError:  # a folder that nobody may write to cannot be moved either
            fd = open_dir(name, parent_fd, name)
            try:
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | 0o300)
            finally:
                os.close(fd)
            return put_folder(self._dir_fd, NEW, parent_fd, name, OLD)

    def _save(self, path: str, dir_fd: int, name: str) -> None:
        """Keep a file that was put into the old folder while the new one was made."""
        if path in self._paths or path in self._kept:
            return
        with suppress(OSError):  # its folder is no more, or the name is taken
            link(dir_fd, name, *self.tree.at(path))


def _unescaped(path: bytes) -> str:
    """A path of mountinfo, which writes blanks as octal numbers."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), path))


class _At(Target):
    """Folders of the push as they stand below the root."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.target.root_fd)
        self._below = parts.survey.below

    def open_folder(self, path: str) -> int | None:
        return super().open_folder(self._below(path))


def link(from_fd: int, from_name: str, to_fd: int, to_name: str) -> None:
    """Give a file a second name; a copy where the file system has no such thing."""
    try:
        os.link(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _copy(from_fd, from_name, to_fd, to_name)


def _copy(from_fd: int, from_name: str, to_fd: int, to_name: str) -> None:
    """Copy a regular file or a symbolic link with its mode and mtime."""
    info = os.stat(from_name, dir_fd=from_fd, follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        end = os.readlink(from_name, dir_fd=from_fd)
        os.symlink(end, to_name, dir_fd=to_fd)
        return
    source = os.open(from_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=from_fd)
    with open(source, "rb") as reader:  # noqa: PTH123 - a descriptor
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        target = os.open(to_name, flags, 0o600, dir_fd=to_fd)
        with open(target, "wb") as writer:  # noqa: PTH123 - a descriptor
            shutil.copyfileobj(reader, writer, 1 << 20)
            writer.flush()
            stamp(target, stat.S_IMODE(info.st_mode) & 0o777, info.st_mtime_ns)
