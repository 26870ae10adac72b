"""What a receiver has of a push, to be sent on by it: the same manifest, files of its own.

The chunks keep the hashes that the first source gave them, so whoever gets them verifies what
left that source, not what lies on the relay's disk.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.push.geometry import Geometry
from fanfold.push.manifest import Manifest
from fanfold.push.scan import Scan, SourceFile, identity_of, open_source
from fanfold.push.source import SourceReader, Wish, build_manifest


class Handed(NamedTuple):
    """A push that its folder's owner has verified."""

    manifest: Manifest
    folder: Path


def read_source(
    path: Path | Handed,
    geometry: Geometry,
    progress: Callable[[str, int, int], None],
    wish: Wish,
) -> tuple[Manifest, SourceReader]:
    """Manifest and files of a push: hashed here, or as who hands it on got it.

    Args:
        progress: told ("hash", bytes done, bytes in all).

    Raises:
        ConfigError: as ``build_manifest`` and ``open_handed``.
    """
    if isinstance(path, Handed):
        return open_handed(path)
    return build_manifest(
        path,
        geometry.stride,
        geometry.n_psn,
        lambda done, total: progress("hash", done, total),
        wish,
    )


def open_handed(handed: Handed) -> tuple[Manifest, SourceReader]:
    """Manifest and files of a push as a receiver has them.

    Raises:
        ConfigError: a file is not there any more, or has another size.
    """
    manifest, folder = handed
    top = folder / manifest.place
    files = []
    for entry in manifest.entries:
        path = str(top / entry.path)
        fd = open_source(path)
        try:
            identity = identity_of(fd)
        finally:
            os.close(fd)
        if identity.size != entry.size:
            raise ConfigError(path, f"{identity.size} bytes", f"{entry.size}, as it arrived")
        files.append(SourceFile(entry.path, path, entry.mode, identity))
    is_folder = bool(manifest.place)
    scan = Scan(manifest.name, is_folder, tuple(files), (), {}, (), ())
    return manifest, SourceReader(scan, manifest.chunk_bytes)
