"""Which symbolic links of a source are followed: those that end where the operator pointed.

That is below the pushed folder itself, below a root that is named (``--follow``), or, in a
snapshot of a Hugging Face cache, in the ``blobs`` of the same model. What a link leads to
travels in its place. All others are refused by name: a link that leads out of the folder would
hand out files that nobody meant.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from fanfold.errors import ConfigError

SNAPSHOTS, BLOBS = "snapshots", "blobs"


class Links:
    """The rule for one source.

    Args:
        top: real path of what is pushed. roots: folders that links may end in as well.
    """

    def __init__(self, top: str, roots: Iterable[Path] = ()) -> None:
        self._top = top
        self._roots = [top, *_blobs_of(top)]
        for root in roots:
            if not root.is_dir():
                raise ConfigError("--follow", str(root), "a folder that exists")
            self._roots.append(os.path.realpath(root))

    def end_of(self, full_path: str) -> str:
        """Real path of what a link leads to.

        Raises:
            ConfigError: it leads nowhere, or out of all roots; names the link.
        """
        try:
            real = os.path.realpath(full_path, strict=True)
        except OSError as error:
            got = f"symbolic link, {error.strerror}"
            raise ConfigError(full_path, got, "links that lead to a file or folder") from error
        if not any(_is_below(real, root) for root in self._roots):
            allowed = f"links that end below {self._top}; --follow FOLDER allows others"
            raise ConfigError(full_path, f"symbolic link to {real}", allowed)
        return real


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _blobs_of(top: str) -> list[str]:
    """The blobs beside the snapshots that a path lies in, where it does."""
    for parent in Path(top).parents:
        if parent.name == SNAPSHOTS and (parent.parent / BLOBS).is_dir():
            return [os.path.realpath(parent.parent / BLOBS)]
    return []
