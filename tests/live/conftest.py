"""A state folder for each session; whatever was started in it ends with it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import LiveLab, Site


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Commands with a state folder of their own; its path is short, as Unix sockets need."""
    state = Path(tempfile.mkdtemp(prefix="fanfold-"))
    made = Site(state)
    try:
        yield made
    finally:
        for folder in (f for f in (state / "labs").glob("*") if f.is_dir()):
            made.run("lab", "down", "--name", folder.name, "--purge")
        made.end_all()
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def lab(module_lab: LiveLab) -> LiveLab:
    """A module's lab with all nodes live, whatever the test before did."""
    module_lab.revive()
    return module_lab
