"""Compiled kernels on disk: one process compiles a kernel, the others wait and load it.

numba's own cache is made for one process at a time: two that compile together write over each
other's data, and a file that a crash left short ends whoever reads it. Here the process that
finds nothing takes a lock in the folder, looks once more, and compiles; a lock dies with its
process, children that it forked meanwhile do not hold it. What cannot be read counts as not
there. Equal sources in two folders, two checkouts or a new install, share what was compiled.
"""

import fcntl
import functools
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

_FLAGS = cast("Any", config)  # numba defines its flags at run time
LOCK = "compile.lock"
STAMP = "the folder's name says of which sources"
PACKAGE = Path(__file__).parent.parent
AGAIN_NS = 2 * 10**9
"""Between two words of one who waits."""
LOOK_MS = 50
waiters: list[Callable[[str], None]] = []
"""Told, now and then, that a kernel is waited for: which process has the lock, and where."""


class Lock:
    """Of one folder, for all that this process compiles into it."""

    def __init__(self, folder: Path) -> None:
        self._file, self._fd = folder.joinpath(LOCK), -1

    def take(self) -> None:
        """Wait for it; where no lock can be had, each process is for itself."""
        if self._fd >= 0:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._wait(fd)
                os.truncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            except BaseException:
                os.close(fd)
                raise
            self._fd = fd

    def give(self) -> None:
        """Let others have it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait(self, fd: int) -> None:
        told_ns = -AGAIN_NS
        while True:
            try:
                return fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if time.monotonic_ns() - told_ns >= AGAIN_NS:
                    told_ns = time.monotonic_ns()
                    owner = os.pread(fd, 20, 0).decode(errors="replace").strip() or "another"
                    for waiter in waiters:
                        waiter(f"process {owner} compiles kernels into {self._file.parent}")
                select.poll().poll(LOOK_MS)


_locks: dict[Path, Lock] = {}


def lock_of(folder: Path) -> Lock:
    """The one of a folder."""
    return _locks.setdefault(folder, Lock(folder))


class Place:
    """Where kernels of one module are kept; the folder's name is a digest of sources."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_cache_path(self) -> str:
        """Its path."""
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """Make it."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """The same for all."""
        return STAMP


class KeptKernel(FunctionCache):
    """numba's cache of one kernel, one process at a time."""

    def __init__(self, fn: Callable[..., Any], folder: Path) -> None:
        super().__init__(fn)
        self._lock = lock_of(folder)
        if Path(fn.__code__.co_filename).is_relative_to(PACKAGE):
            # numba would compile anew for each folder that the same sources lie in.
            place = folder.joinpath(fn.__module__)
            self._impl._locator = Place(place)
            self._cache_file = IndexDataCacheFile(str(place), self._impl.filename_base, STAMP)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for these types; None: compile it, the lock is ours."""
        found = self._read(sig, target_context)
        if found is None:
            self._lock.take()
            found = self._read(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it; where nothing can be written it serves this process alone."""
        with suppress(OSError):
            super().save_overload(sig, data)

    def give(self) -> None:
        """It is loaded, compiled, or cannot be: who waits goes on."""
        self._lock.give()

    def _read(self, sig: Any, target_context: Any) -> Any:
        # numba would first load all that a compiler needs, which what is compiled does not.
        try:
            return self._load_overload(sig, target_context)
        except Exception:  # files of a crash, of another numba, of anybody
            with suppress(OSError):
                self.flush()
            return None


def keep(dispatcher: Any, folder: Path) -> None:
    """Let a dispatcher keep what it compiles in a folder; nothing is looked for before."""
    inner = dispatcher.compile

    @functools.cache
    def kept() -> KeptKernel:
        _FLAGS.CACHE_DIR = str(folder)
        return KeptKernel(dispatcher.py_func, folder)

    def compile_once(sig: Any) -> Any:
        with cast(
            "Any", global_compiler_lock
        ):  # threads of this process share the folder's lock
            dispatcher._cache = kept()
            try:
                return inner(sig)
            finally:
                kept().give()

    dispatcher.compile = compile_once
