"""The end of a push: verified bytes get their final names, file by file or as one folder.

All that can fail is done before the first name changes. Every function here is a row of small
steps, so that a node stays alive while thousands of files are put in place.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from fanfold.push.fds import write_full
from fanfold.push.layout import Layout
from fanfold.push.manifest import Manifest, mtime_ns
from fanfold.push.order import rank_of
from fanfold.push.remove import VISIT_BYTES
from fanfold.push.staging import Staging
from fanfold.push.survey import Steps, Survey, stamp
from fanfold.push.swap import flush_disk
from fanfold.push.target import Target, reported


class Parts(NamedTuple):
    """What an open push is made of. is_fsynced: its end survives a power cut."""

    manifest: Manifest
    layout: Layout
    staging: Staging
    survey: Survey
    target: Target
    is_fsynced: bool


def place_files(parts: Parts) -> Steps:
    """Rename each file into its place, what says that all is there last (push/order.py)."""
    manifest, staging, survey, target = parts[0], parts.staging, parts.survey, parts.target
    target.close()  # look at the folders afresh
    made: list[str] = []
    for folder in manifest.folders:
        made += target.make(folder.path)
        yield VISIT_BYTES
    wanted = []
    for index, entry in enumerate(manifest.entries):
        if index in survey.in_place:
            survey.confirm(index)
        else:
            wanted.append(index)
            with reported(entry.path):
                _ready(parts, index)
            made += target.prepare(entry.path)
        yield VISIT_BYTES
    if parts.is_fsynced:
        yield from flush_steps(staging.folder.dir_fd)
    wanted.sort(key=lambda index: rank_of(manifest.entries[index].path))  # stable
    for index in wanted:
        target.replace(staging.folder.dir_fd, str(index), manifest.entries[index].path)
        yield VISIT_BYTES
    yield from stamp_folders(parts, target, set(made).__contains__)
    if parts.is_fsynced:
        yield from flush_steps(target.root_fd)


def stamp_folders(parts: Parts, target: Target, is_ours: Callable[[str], object]) -> Steps:
    """Give folders their modes and times, the deepest first: nothing changes in them after."""
    manifest = parts.manifest
    n_files = len(manifest.entries)
    numbered = sorted(enumerate(manifest.folders), key=lambda row: -row[1].path.count("/"))
    for i, folder in numbered:
        fd = target.open_folder(folder.path) if is_ours(folder.path) else None
        if fd is not None:
            try:
                with reported(folder.path):
                    stamp(fd, folder.mode, mtime_ns(manifest, n_files + i))
            finally:
                os.close(fd)
        yield VISIT_BYTES


def flush_steps(fd: int) -> Steps:
    """Wait for the disk, between two signs of life."""
    yield VISIT_BYTES
    with reported("fsync"):
        flush_disk(fd)
    yield VISIT_BYTES


def create_small(parts: Parts, index: int, dir_fd: int, name: str) -> None:
    """Make the file of a small entry out of the pack, with its mode and mtime."""
    entry = parts.manifest.entries[index]
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    try:
        write_full(fd, parts.staging.small_bytes(index), 0)
        os.fchmod(fd, entry.mode)
        os.utime(fd, ns=(mtime_ns(parts.manifest, index),) * 2)
    finally:
        os.close(fd)


def stamp_big(parts: Parts, index: int) -> None:
    """Give the file of an entry that is not small its mode and mtime."""
    fd = parts.staging.fd(index)
    os.fchmod(fd, parts.manifest.entries[index].mode)
    os.utime(fd, ns=(mtime_ns(parts.manifest, index),) * 2)


def _ready(parts: Parts, index: int) -> None:
    """Make the staged file of an entry what its final file is to be, but for the name."""
    if not parts.staging.is_small(index):
        stamp_big(parts, index)
        return
    name, dir_fd = str(index), parts.staging.folder.dir_fd
    try:
        create_small(parts, index, dir_fd, name)
    except FileExistsError:  # of a try that was killed here
        os.unlink(name, dir_fd=dir_fd)
        create_small(parts, index, dir_fd, name)
