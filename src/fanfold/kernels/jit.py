"""The one door to numba (ADR 0004).

Every flag lives here: nopython, cached, GIL released, Python's division, no fastmath, no
parallel. numba watches only the file of the compiled function, so the cache folder's name is a
digest of all kernel sources, the versions of numba and Python and whether bounds are checked: a
changed callee is never served stale.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import config

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent.parent
_OUTSIDE = tuple(_PACKAGE / "live" / name for name in ("syscalls.py", "sock.py", "pump.py"))
"""Compiled code that is not in kernels/: the socket loop."""


_FLAGS = cast("Any", config)  # numba defines its flags at run time


def _digest() -> str:
    h = hashlib.blake2b(digest_size=8)
    checked = bool(_FLAGS.BOUNDSCHECK)
    h.update(f"{numba.__version__} {sys.version_info[:3]} {checked}".encode())
    compiled = [*sorted((_PACKAGE / "kernels").glob("*.py")), *_OUTSIDE]
    for file in compiled:
        h.update(file.name.encode())
        h.update(file.read_bytes())
    return h.hexdigest()


def _cache_home() -> Path:
    named = os.environ.get("FANFOLD_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fanfold"


CACHE_DIR = _cache_home() / _digest()
_FLAGS.CACHE_DIR = str(CACHE_DIR)

JIT = not _FLAGS.DISABLE_JIT

i64 = cast("Callable[[Any], int]", np.int64)
"""Widen an array element or a word to a signed integer, inside kernels."""


def kernel(fn: Callable[P, R]) -> Callable[P, R]:
    """Compile a pure array function: nopython, cached, GIL released, no allocation.

    Without numba's runtime (_nrt) an allocation fails to compile and arrays are not reference
    counted, which halves the code. A constant argument is compiled as its plain type: numba
    would make one copy of a kernel for each combination of constants it is called with.
    """
    flags: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}  # not in numba's stubs
    jitted = cast("Any", numba.njit(cache=True, nogil=True, **flags)(fn))
    if JIT:
        resolve = jitted.get_call_template
        unliteral = cast("Any", types).unliteral

        def resolve_plain(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            plain = tuple(unliteral(a) for a in args)
            return resolve(plain, {k: unliteral(a) for k, a in kws.items()})

        jitted.get_call_template = resolve_plain
    return cast("Callable[P, R]", jitted)


def extern(name: str, result: str, *args: str) -> Callable[..., int]:
    """C function of the running process by symbol name, callable from a kernel.

    Types are numba's names ("int64", "int32", "uint64"). Unlike a ctypes pointer it can be
    cached. Without JIT there is no such door: callers supply their own twin.
    """
    signature = getattr(types, result)(*(getattr(types, a) for a in args))
    return cast("Callable[..., int]", types.ExternalFunction(name, signature))
