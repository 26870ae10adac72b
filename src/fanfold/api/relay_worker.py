"""The process that sends on for a relay of a lab: ``python -m fanfold.api.relay_worker``.

Its input has one task a line, or ``stop``; it answers lines of JSON: ``began``, ``progress``,
``tell``, ``dead``, at last ``result`` or ``error`` of each task. It sends from the address of
the relay, in its namespace, with its keys, and only as long as the relay's node lives. When its
input ends, so does it.
"""

import signal
from contextlib import suppress
from functools import partial

import msgspec

from fanfold.api.one_push import Stoppable, Watch, run_once
from fanfold.api.relay_task import STOP, Line, Task
from fanfold.api.site import Site
from fanfold.errors import FanfoldError
from fanfold.live.crew import Inbox, Outbox, looking
from fanfold.live.lab import Lab
from fanfold.live.warm import warm

LOOK_S = 0.1
"""Between two looks whether the relay's node lives."""


def main() -> None:
    """Serve tasks until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; who asked says when to end
    outbox = Outbox()
    warm()
    watch = _Telling(outbox)
    inbox = Inbox(lambda line: line == STOP, watch.stop)
    while line := inbox.next():
        _serve(msgspec.json.decode(line, type=Task), watch)


def _serve(task: Task, watch: "_Telling") -> None:
    lab = Lab(task.lab)
    try:
        with looking(partial(_is_gone, lab, task, watch), LOOK_S):
            result = run_once(Site(lab, None, watch.warn), task.order(), watch)
        watch.say(Line("result", result=msgspec.Raw(msgspec.json.encode(result))))
    except FanfoldError as error:
        watch.say(Line("error", text=str(error)))
    finally:
        watch.job = None


def _is_gone(lab: Lab, task: Task, watch: "_Telling") -> bool:
    """End the fan of a relay whose node is gone: the dead send nothing."""
    if not task.manifest:
        return True
    if lab.nodes().get(task.source, {}).get("alive"):
        return False
    watch.say(Line("dead", name=task.source))
    watch.end()
    return True


class _Telling(Watch):
    """Passes on what a fan tells; holds what can be stopped."""

    def __init__(self, outbox: Outbox) -> None:
        self.job: Stoppable | None = None
        self._outbox = outbox
        self._is_stopped = False

    def say(self, line: Line) -> None:
        """One line to who asked."""
        self._outbox.say(msgspec.json.encode(line).decode())

    def stop(self) -> None:
        """End the fan, also one that is not yet ready, and all after it."""
        self._is_stopped = True
        self.end()

    def end(self) -> None:
        """End the fan."""
        if self.job is not None:
            with suppress(OSError):  # it ended just now
                self.job.stop()

    def began(self, job: Stoppable) -> None:
        self.job = job
        self.say(Line("began"))
        if self._is_stopped:
            job.stop()

    def progress(self, name: str, done: int, total: int) -> None:
        self.say(Line("progress", name, done, total))

    def warn(self, text: str) -> None:
        self.say(Line("tell", text=text))


if __name__ == "__main__":
    main()
