"""Schemes of a scenario at once, each in one of a few processes forked from this one.

They share its net and its routes: what a scenario needs in common is made once. Each keeps its
runs itself; what goes between processes is how far a run is, and what became of it.
"""

import contextlib
import functools
import itertools
import signal
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from fanfold.errors import CheckFailed, ConfigError
from fanfold.live.memory import free_bytes
from fanfold.results import query
from fanfold.results.store import Store

Tell = Callable[..., None]
"""Is told the name of a scheme, and what can be pickled: for runs their Choice and counters."""
Work = Callable[[str, Tell | None], Any]
"""Run one scheme; what it returns can be pickled."""
DIED = "its process died, for want of memory perhaps: --jobs 1; what is done is kept"
END_S = 2.0
"""Longest that a worker takes to see that nobody asks any more."""
ROOM_BYTES = 2 << 30
"""Free memory from which a second run begins beside one that is under way."""


class Worker(NamedTuple):
    """A process, and its end of the pipe."""

    process: BaseProcess
    pipe: Connection


def run_beside(
    names: Sequence[str], jobs: int, work: Work, tell: Tell | None
) -> Iterator[tuple[str, Any]]:
    """Run schemes, so many at once, while there is memory for one more.

    Args:
        names: of the schemes. tell: is told how far each is.

    Returns:
        Name, and what ``work`` returned, as each ends; or the ConfigError that it raised, once
        all named before it have ended: the first that is told is that of one process.

    Raises:
        CheckFailed: a process died. RuntimeError: a fault of ours, with its trace.
    """
    left = list(reversed(names))
    workers = [_fork(work, is_told=tell is not None) for _ in range(min(jobs, len(names)))]
    idle, busy = [worker.pipe for worker in workers], dict[Connection, str]()
    held = dict[str, ConfigError]()
    try:
        while left or busy:
            while left and idle and (not busy or _has_room()):
                pipe = idle.pop(0)
                busy[pipe] = left.pop()
                with contextlib.suppress(OSError):  # it is dead, which is read below
                    pipe.send(busy[pipe])
            for pipe in [pipe for pipe in wait([*busy]) if isinstance(pipe, Connection)]:
                name = busy[pipe]
                got = _word(name, pipe, tell)
                if got is not None:
                    idle.append(pipe)
                    del busy[pipe]
                    if isinstance(got, ConfigError):
                        held[name] = got
                    else:
                        yield name, got
            yield from _due(names, held, {*left, *busy.values()})
    finally:
        _end(workers, busy)


def with_row(work: Work, store: Store, name: str, tell: Tell | None) -> Any:
    """Run one scheme and ask its tables at once: nobody waits for it at the end."""
    run = work(name, tell)
    return run._replace(row=query.comparison([store.place(run.run_id)])[0])


def _due(
    names: Sequence[str], held: dict[str, ConfigError], going: Collection[str]
) -> Iterator[tuple[str, ConfigError]]:
    """Refusals that nobody named before them can forestall any more."""
    for name in itertools.takewhile(lambda name: name not in going, names):
        if name in held:
            yield name, held.pop(name)


def _word(name: str, pipe: Connection, tell: Tell | None) -> Any | None:
    """What became of a scheme; None where it only says how far it is."""
    try:
        what, told = pipe.recv()
    except (EOFError, OSError) as err:
        raise CheckFailed(f"{name}: {DIED}") from err
    if what == "fault":
        raise RuntimeError(f"{name}: {told}")
    if what == "at" and tell is not None:
        tell(name, *told)
        return None
    return ConfigError(*told) if what == "refused" else told


def _has_room() -> bool:
    free = free_bytes()
    return free is None or free >= ROOM_BYTES


def _end(workers: Sequence[Worker], busy: Mapping[Connection, str]) -> None:
    for process, pipe in workers:
        process.kill() if pipe in busy else pipe.close()
    for process, _ in workers:
        process.join(END_S)
        process.kill()


def _fork(work: Work, *, is_told: bool) -> Worker:
    context = get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, mine, is_told), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, mine)


def _serve(work: Work, pipe: Connection, other: Connection, is_told: bool) -> None:
    """What a worker does: one run after the other, until nobody asks for more."""
    other.close()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asked
    with contextlib.suppress(EOFError, OSError):
        while True:
            name = pipe.recv()
            try:
                told = work(name, functools.partial(_tell, pipe) if is_told else None)
                pipe.send(("done", told))
            except ConfigError as error:
                pipe.send(("refused", (error.field, error.got, error.allowed)))
            except Exception:
                pipe.send(("fault", traceback.format_exc()))


def _tell(pipe: Connection, scheme: str, *told: Any) -> None:
    pipe.send(("at", told))
