"""The folder of studies: rows of tasks, runs, and whole studies, each written in one go.

format.json         which form the rest has
tasks/*.json        one row each
studies/*.json      one study each
studies/last        the name of the one made last
*/                  the run that a row was measured on, results/store.py
"""

import os
from pathlib import Path

import msgspec
from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.extras import require
from fanfold.folders import STATE, make_folder
from fanfold.results.store import results_home
from fanfold.study.result import Row, Study

FORMAT = 1
ID_DIGITS = 16


class Shelf:
    """One folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        """Make the folder, or see that it is one of ours.

        Raises:
            ConfigError: a folder of another form, or one that cannot be written.
            EnvironmentLack: what runs and keeps studies is not installed.
        """
        require(("duckdb", "loky"), "study", "study")
        told = self.folder / "format.json"
        if told.is_file():
            try:
                found = msgspec.json.decode(told.read_bytes(), type=dict[str, int])
            except msgspec.MsgspecError:
                found = {}
            if found.get("format") != FORMAT:
                got = f"{self.folder} of format {found.get('format', 'unknown')}"
                raise ConfigError("--out", got, f"format {FORMAT}, or an empty folder")
        else:
            _write(told, msgspec.json.encode({"format": FORMAT}))

    def row(self, task_id: str) -> Row | None:
        """The row of a task, if it was kept whole."""
        try:
            return msgspec.json.decode(self._row(task_id).read_bytes(), type=Row)
        except (OSError, msgspec.MsgspecError):
            return None

    def drop_row(self, task_id: str) -> None:
        """Forget a row, so that it is made anew."""
        self._row(task_id).unlink(missing_ok=True)

    def put_row(self, task_id: str, row: Row) -> None:
        """Keep a row."""
        _write(self._row(task_id), msgspec.json.encode(row))

    def put_study(self, study: Study) -> str:
        """Keep a study; its name."""
        text = msgspec.json.encode(study)
        name = blake3(text).hexdigest()[:ID_DIGITS]
        _write(self._study(name), msgspec.json.format(text, indent=1) + b"\n")
        _write(self.folder / "studies" / "last", name.encode())
        return name

    def study(self, start: str = "") -> Study:
        """A study by the start of its name, or the one made last.

        Raises:
            ConfigError: none, or several, or one of another version.
        """
        names = sorted(path.stem for path in (self.folder / "studies").glob("*.json"))
        if start:
            found = [name for name in names if name.startswith(start)]
        else:
            found = [self._last()] if names else []
        if len(found) != 1:
            allowed = f"one study of {self.folder}: {', '.join(names[:8]) or 'none yet'}"
            raise ConfigError("STUDY", start or "the last", allowed)
        path = self._study(found[0])
        try:
            return msgspec.json.decode(path.read_bytes(), type=Study)
        except (OSError, msgspec.MsgspecError) as err:
            raise ConfigError("STUDY", str(path), "a study of this version") from err

    def _last(self) -> str:
        try:
            return (self.folder / "studies" / "last").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def _row(self, task_id: str) -> Path:
        return self.folder / "tasks" / f"{task_id}.json"

    def _study(self, name: str) -> Path:
        return self.folder / "studies" / f"{name}.json"


def _write(path: Path, content: bytes) -> None:
    """All of it, or nothing; several processes may do so at once."""
    making = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_relative_to(results_home()):
            make_folder(path.parent, STATE)
        path.parent.mkdir(parents=True, exist_ok=True)
        making.write_bytes(content)
        making.replace(path)
    except OSError as err:
        raise ConfigError("--out", str(path.parent), "a folder that can be written") from err
