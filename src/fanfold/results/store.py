"""A folder of runs: one folder for each, named by its run id, checked before it is believed."""

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.extras import require
from fanfold.folders import STATE, make_folder, state_home
from fanfold.results.rows import Tables
from fanfold.results.schema import TABLES
from fanfold.results.writer import RunKey, write_tables

DIGESTS = "digests.json"
SCENARIO = "scenario.toml"
RESULTS = "results"
_PREFIX = ".writing-"


def results_home() -> Path:
    """Where runs are kept unless a folder is named."""
    return state_home() / RESULTS


class Store:
    """Runs below one folder. Finished folders only: a run is renamed into its place.

    Raises:
        EnvironmentLack: what reads and writes Parquet is not installed.
    """

    def __init__(self, folder: Path) -> None:
        require(("duckdb",), "study")
        self.folder = folder

    def place(self, run_id: str) -> Path:
        """Folder of one run."""
        return self.folder / run_id

    def is_sound(self, run_id: str) -> bool:
        """Whether the run is there, and every file is what was written."""
        try:
            told = json.loads((self.place(run_id) / DIGESTS).read_text(encoding="utf-8"))
            return bool(told == _digests(self.place(run_id)))
        except (OSError, ValueError):
            return False

    def put(self, key: RunKey, tables: Tables, files: Mapping[str, bytes]) -> None:
        """Write one run, in the place of what stood there; ``files``: name, content."""
        try:
            if self.folder.name == RESULTS and self.folder == results_home():
                make_folder(self.folder, STATE)
            self.folder.mkdir(parents=True, exist_ok=True)
            making = Path(mkdtemp(prefix=_PREFIX, dir=self.folder))
        except OSError as err:
            allowed = "a folder that can be written"
            raise ConfigError(str(self.folder), err.strerror, allowed) from err
        try:
            write_tables(TABLES, key, tables, making)
            for name, content in files.items():
                (making / name).write_bytes(content)
            (making / DIGESTS).write_text(json.dumps(_digests(making), indent=1) + "\n")
            making.chmod(0o755)
            shutil.rmtree(self.place(key.run_id), ignore_errors=True)
            try:
                making.rename(self.place(key.run_id))
            except OSError:  # another process put the same run there meanwhile
                if not self.is_sound(key.run_id):
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def find(self, start: str) -> str:
        """The one run id that starts like this.

        Raises:
            ConfigError: none does, or several.
        """
        known = sorted(p.parent.name for p in self.folder.glob(f"*/{DIGESTS}"))
        found = [name for name in known if start and name.startswith(start)]
        if len(found) != 1:
            got = f"{start} ({len(found)} runs)" if found else start
            allowed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise ConfigError("RUN", got, f"one run of {self.folder}: {allowed or 'none yet'}")
        return found[0]

    def newest(self, scheme: str = "") -> str:
        """The run id of the run that was written last, of a scheme where one is named.

        Raises:
            ConfigError: there is none.
        """
        files = sorted(
            self.folder.glob(f"*/{DIGESTS}"),
            key=lambda file: (file.stat().st_mtime_ns, file.parent.name),
        )
        for file in reversed(files):
            if self._has_scheme(file.parent, scheme):
                return file.parent.name
        got = f"no run by {scheme}" if scheme else "nothing"
        raise ConfigError("--last", got, f"a run of {self.folder}; fanfold compare makes one")

    @staticmethod
    def _has_scheme(place: Path, scheme: str) -> bool:
        """Whether a run can be made again, and is by the scheme."""
        try:
            table = tomllib.loads((place / SCENARIO).read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            return False
        return not scheme or table.get("schemes") == [scheme]


def _digests(folder: Path) -> dict[str, str]:
    names = sorted(p.name for p in folder.iterdir() if p.name != DIGESTS)
    return {name: blake3((folder / name).read_bytes()).hexdigest() for name in names}
