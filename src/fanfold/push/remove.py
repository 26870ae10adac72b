"""Removing what may be a large tree: bit by bit, through no link, on no other disk."""

import os
import stat
from collections.abc import Callable, Iterator

from fanfold.push.target import DIR_FLAGS

VISIT_BYTES = 4096  # what a look at a file costs, in bytes read

Saved = Callable[[str, int, str], None]
"""(path below the tree, folder that holds the file, its name), before it is removed"""


def remove_steps(
    dir_fd: int, name: str, save: Saved | None = None, path: str = ""
) -> Iterator[int]:
    """Remove a file, or a folder with all in it; yields a cost for each.

    A disk that is mounted inside stays, and so do the folders above it: the system refuses to
    remove them.

    Args:
        save: may give a file another name first. path: of the tree's own top.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
        if save is not None:
            save(path, dir_fd, name)
        os.unlink(name, dir_fd=dir_fd)
        yield VISIT_BYTES
        return
    fd = _open_emptied(name, dir_fd)
    try:
        with os.scandir(fd) as children:
            names = [child.name for child in children]
        if os.fstat(fd).st_dev == os.fstat(dir_fd).st_dev:
            for child in names:
                below = f"{path}/{child}" if path else child
                yield from remove_steps(fd, child, save, below)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=dir_fd)
    yield VISIT_BYTES


def _open_emptied(name: str, dir_fd: int) -> int:
    """Open a folder that can be emptied, whatever its mode was."""
    try:
        fd = os.open(name, DIR_FLAGS, dir_fd=dir_fd)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=dir_fd)
        fd = os.open(name, DIR_FLAGS, dir_fd=dir_fd)
    if os.fstat(fd).st_mode & 0o300 != 0o300:
        os.fchmod(fd, 0o700)
    return fd
