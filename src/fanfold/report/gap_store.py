"""The gap table of this version, measured once and kept beside the studies."""

import msgspec
from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.results.store import Store
from fanfold.study.gap import Progress, build_main_rows
from fanfold.study.gap_ground import TOPOLOGY
from fanfold.study.gap_table import Gap
from fanfold.study.task import study_version

FOLDER = "gaps"
ID_DIGITS = 16


def kept_gap(store: Store, progress: Progress | None = None) -> Gap:
    """Main rows of the table on its own fabric: as kept, or measured now and kept.

    Raises:
        ConfigError: a folder that cannot be written.
    """
    name = blake3(f"{TOPOLOGY}\n{study_version()}".encode()).hexdigest()[:ID_DIGITS]
    path = store.folder / FOLDER / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Gap)
    except (OSError, msgspec.MsgspecError):
        gap = build_main_rows(progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        making = path.with_suffix(".writing")
        making.write_bytes(msgspec.json.encode(gap))
        making.replace(path)
    except OSError as err:
        allowed = f"a folder that can be written: {err.strerror}"
        raise ConfigError("--from", str(path.parent), allowed) from err
    return gap
