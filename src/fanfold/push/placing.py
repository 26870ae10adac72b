"""The end of a push: verified bytes get their final names, file by file or as one folder.

All that can fail is done before the first name changes. Every function here is a row of small
steps, so that a node stays alive while thousands of files are put in place.
"""

import os
from collections.abc import Callable

from fanfold.push.manifest import mtime_ns
from fanfold.push.order import rank_of
from fanfold.push.parts import Parts
from fanfold.push.remove import VISIT_BYTES
from fanfold.push.small_files import FLUSH_BYTES, create_steps, flush_steps
from fanfold.push.survey import Steps, stamp
from fanfold.push.swap import flush_range
from fanfold.push.target import Target, reported


def place_files(parts: Parts) -> Steps:
    """Rename each file into its place, what says that all is there last (push/order.py)."""
    manifest, staging, survey, target = parts[0], parts.staging, parts.survey, parts.target
    dir_fd = staging.folder.dir_fd
    entries, in_place = manifest.entries, survey.in_place
    wanted = [index for index in range(len(entries)) if index not in in_place]
    with reported(manifest.name):
        staging.remove_small()
    yield from create_steps(parts, [index for index in wanted if staging.is_small(index)])
    yield from write_out_steps(parts)
    target.close()  # look at the folders afresh
    made: list[str] = []
    for folder in manifest.folders:
        made += target.make(folder.path)
        yield VISIT_BYTES
    for index, entry in enumerate(entries):
        if index in in_place:
            survey.confirm(index)
        else:
            if not staging.is_small(index):
                with reported(entry.path):
                    stamp_big(parts, index)
            made += target.prepare(entry.path)
        yield VISIT_BYTES
    if parts.is_fsynced:
        yield from flush_steps(dir_fd)
    wanted.sort(key=lambda index: rank_of(entries[index].path))  # stable
    for index in wanted:
        target.replace(dir_fd, str(index), entries[index].path)
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


def write_out_steps(parts: Parts) -> Steps:
    """Wait for the disk part by part, so that no step waits for all that memory may hold."""
    staging, in_place = parts.staging, parts.survey.in_place
    for index, entry in enumerate(parts.manifest.entries if parts.is_fsynced else ()):
        if index in in_place or staging.is_small(index):
            continue
        for at in range(0, entry.size, FLUSH_BYTES):
            with reported(entry.path):
                flush_range(staging.fd(index), at, FLUSH_BYTES)
            yield VISIT_BYTES


def stamp_big(parts: Parts, index: int) -> None:
    """Give the file of an entry that is not small its mode and mtime."""
    fd = parts.staging.fd(index)
    os.fchmod(fd, parts.manifest.entries[index].mode)
    os.utime(fd, ns=(mtime_ns(parts.manifest, index),) * 2)
