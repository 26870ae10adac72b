"""The one door to numba (ADR 0004).

Every flag lives here: nopython, cached, GIL released, Python's division, no fastmath, no
parallel. numba watches only the file of the compiled function, so the cache folder's name is a
digest of all compiled sources that a function may call (kernels/, and its own package's), the
versions of numba and Python and whether bounds are checked: a changed callee is never served
stale, and a change in one package compiles nothing again in another.
"""

import ctypes
import functools
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from fanfold.folders import CACHE, cache_home, make_folder
from fanfold.kernels.kept import keep, waiters
from fanfold.kernels.parts import PartCompiler, WholeCompiler, listeners, make_quick

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent.parent
_COMPILED: dict[str, tuple[str, ...]] = {
    "kernels": ("kernels/*.py",),
    "live": (
        "kernels/*.py",
        "live/syscalls.py",
        "live/link_table.py",
        "live/sock.py",
        "live/link_tags.py",
        "live/trailers.py",
        "live/trailers_out.py",
        "live/rings.py",
        "live/life.py",
        "live/exits.py",
        "live/mending.py",
        "live/arrays.py",
        "live/pump.py",
        "live/pieces.py",
        "live/host_state.py",
        "live/host_loop.py",
        "live/rank_state.py",
        "live/rank_late.py",
        "live/rank_words.py",
        "live/rank_loop.py",
    ),
    "topo": ("kernels/*.py", "topo/search.py"),
    "sim": ("kernels/*.py", "sim/loop/*.py"),
    "trees": ("kernels/*.py", "trees/loop/*.py"),
}
"""Packages with compiled code, and the sources that it may be made of."""


_FLAGS = cast("Any", config)  # numba defines its flags at run time


def _digest(package: str) -> str:
    h = hashlib.blake2b(digest_size=8)
    checked = bool(_FLAGS.BOUNDSCHECK)
    h.update(f"{numba.__version__} {sys.version_info[:3]} {checked}".encode())
    for pattern in _COMPILED[package]:
        for file in sorted(_PACKAGE.glob(pattern)):
            h.update(file.name.encode())
            h.update(file.read_bytes())
    return h.hexdigest()


@functools.cache
def cache_dir(package: str) -> Path:
    """Folder of what is compiled in one package, "kernels" or "sim" for example.

    Raises:
        EnvironmentLack: this user may not write there.
    """
    folder = cache_home() / f"{package}-{_digest(package)}"
    return make_folder(folder, CACHE) if JIT else folder


JIT = not _FLAGS.DISABLE_JIT


Listener = Callable[[str], None]


def on_compile(listener: Listener) -> Callable[[], None]:
    """Let somebody hear the name of each kernel that is to be compiled, as none was kept.

    One listener of a kind: a second one like it is not added.

    Returns:
        What ends it.
    """
    return _listen(listeners, listener)


def on_wait(listener: Listener) -> Callable[[], None]:
    """Let somebody hear, now and then, which process compiles what this one waits for."""
    return _listen(waiters, listener)


def _listen(told: list[Listener], listener: Listener) -> Callable[[], None]:
    if listener not in told:
        told.append(listener)
    return lambda: told.remove(listener) if listener in told else None


i64 = cast("Callable[[Any], int]", np.int64)
"""Widen an array element or a word to a signed integer, inside kernels."""


def kernel(fn: Callable[P, R]) -> Callable[P, R]:
    """Compile a pure array function: nopython, cached, GIL released, no allocation.

    Without numba's runtime (_nrt) an allocation fails to compile and arrays are not reference
    counted, which halves the code. What another kernel calls is compiled as a part of it
    (parts.py). A constant argument is compiled as its plain type: numba would make one copy of
    a kernel for each combination of constants it is called with.
    """
    package = fn.__module__.removeprefix("fanfold.").partition(".")[0]
    folder = cache_dir(package if package in _COMPILED else "kernels")
    flags: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}  # not in numba's stubs
    whole = flags | {"pipeline_class": WholeCompiler}
    jitted = cast("Any", numba.njit(nogil=True, **whole)(fn))
    if JIT:
        flags |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}

        @functools.cache
        def part() -> Any:  # made where something is compiled that calls it
            made = cast("Any", numba.njit(nogil=True, **flags)(fn))
            make_quick(made)
            return made

        keep(jitted, folder)
        make_quick(jitted)
        unliteral = cast("Any", types).unliteral

        def resolve(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            plain = tuple(unliteral(a) for a in args)
            return part().get_call_template(plain, {k: unliteral(a) for k, a in kws.items()})

        jitted.get_call_template = resolve
        jitted.get_overload = lambda signature: part().get_overload(signature)
    return cast("Callable[P, R]", jitted)


def bind(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
    """A kernel as it is called with arguments of the types that ``args`` have, and no others.

    numba looks at the type of each array of an argument in each call, which for what a node's
    loop works on takes four times as long as all else of a call (ADR 0084). Here that is done
    once, so who calls it answers for the types: with others it reads what is not there.
    Keyword arguments are not for kernels. Without JIT it is the kernel itself.
    """
    del kwargs
    if not JIT:
        return fn
    dispatcher = cast("Any", fn)
    entry = dispatcher.compile(tuple(dispatcher.typeof_pyval(arg) for arg in args))
    return cast("Callable[P, R]", entry)


def extern(name: str, result: str, *args: str) -> Callable[..., int]:
    """C function of the running process by symbol name, callable from a kernel.

    Types are numba's names ("int64", "int32", "uint64"). Unlike a ctypes pointer it can be
    cached. Without JIT there is no such door: callers supply their own twin.
    """
    signature = getattr(types, result)(*(getattr(types, a) for a in args))
    return cast("Callable[..., int]", types.ExternalFunction(name, signature))


def _prefetch(typing: Any, address: Any) -> Any:
    """The compiler's own: a load that nothing waits for and that cannot fault."""
    octet, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [octet, word, word, word])

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = cast("Any", cgutils).get_or_insert_function
        fn = own(builder.module, shape, "llvm.prefetch.p0")
        # To be read, to stay in all caches, data.
        builder.call(fn, [builder.inttoptr(args[0], octet), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.uint64), lower


def _none(address: np.uint64) -> None:
    del address


prefetch = cast("Callable[[np.uint64], None]", intrinsic(_prefetch) if JIT else _none)
"""Bring the line of an address to the cache, inside kernels; without JIT nothing."""


def _stream_pair(typing: Any, to: Any, here: Any) -> Any:
    """A store past the caches, of 16 bytes at a multiple of 16; they are read from anywhere."""
    pair = ir.VectorType(ir.IntType(64), 2)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[1], pair.as_pointer()), align=1)
        stored = builder.store(value, builder.inttoptr(args[0], pair.as_pointer()), align=16)
        one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        stored.set_metadata("nontemporal", one)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), lower


def _no_store(to: np.uint64, here: np.uint64) -> None:
    raise NotImplementedError(f"a store past the caches from {here} to {to} without JIT")


stream_pair = cast(
    "Callable[[np.uint64, np.uint64], None]", intrinsic(_stream_pair) if JIT else _no_store
)
"""Copy 16 bytes to an address that is a multiple of 16; without JIT nobody calls it."""


def _load_word(typing: Any, address: Any) -> Any:
    """A load that is made once, and nothing that follows before it."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.uint64), lower


def _store_word(typing: Any, address: Any, value: Any) -> Any:
    """A store that is made once, and nothing that precedes after it."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store_atomic(args[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.int64), lower


def _fence(typing: Any) -> Any:
    """Stores before it are seen by others before loads after it are made."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), lower


def _call_at(typing: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """A call of a C function by its address, with five words."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        shape = ir.FunctionType(word, [word] * N_WORDS)
        return builder.call(builder.inttoptr(args[0], shape.as_pointer()), args[1:])

    return types.int64(*[types.uint64] * (1 + N_WORDS)), lower


def _add_words(typing: Any, a: Any, b: Any) -> Any:
    """The sum as the processor makes it."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(*args)

    return types.uint64(types.uint64, types.uint64), lower


def _add_plain(a: np.uint64, b: np.uint64) -> np.uint64:
    return np.uint64((int(a) + int(b)) & (1 << 64) - 1)


add_words = cast(
    "Callable[[np.uint64, np.uint64], np.uint64]", intrinsic(_add_words) if JIT else _add_plain
)
"""Sum of two words modulo 2**64, of one instruction; inside kernels."""


def _call_plain(address: np.uint64, *given: np.uint64) -> int:
    shape = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * N_WORDS)
    return int(shape(int(address))(*map(int, given)))


def _load_plain(address: np.uint64) -> int:
    return ctypes.c_int64.from_address(int(address)).value


def _store_plain(address: np.uint64, value: int) -> None:
    ctypes.c_int64.from_address(int(address)).value = int(value)


def _no_fence() -> None:
    """The interpreter is slower than any store buffer."""


load_word = cast("Callable[[np.uint64], int]", intrinsic(_load_word) if JIT else _load_plain)
"""64-bit word at an address of memory that other processes write; inside kernels."""
store_word = cast(
    "Callable[[np.uint64, int], None]", intrinsic(_store_word) if JIT else _store_plain
)
"""Write such a word: who reads it sees all that was written before; inside kernels."""
N_WORDS = 5
call_at = cast("Callable[..., int]", intrinsic(_call_at) if JIT else _call_plain)
"""C function at an address, with N_WORDS words; inside kernels. Its result is an ``int``, so 32
bits of what comes back. Unlike ``extern`` the library may be missing where nobody calls it."""
fence: Callable[[], None] = cast("Any", intrinsic(_fence) if JIT else _no_fence)
"""Between a store and a load of what another process stores; inside kernels."""
