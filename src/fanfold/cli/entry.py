"""`fanfold` as the shell calls it: Ctrl-C ends it in one line, also while it imports or ends.

An exception in the midst of an import may be caught or told by whom it meets there; so until a
command begins, and once it is over, the signal ends the process by itself.
"""

import gc
import os
import signal
import sys

INTERRUPTED = 130
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""numpy starts a thread for each processor, which spins for 0.1 s; nothing here multiplies
matrices."""


def main() -> None:
    """Run the command line and exit with its code."""
    gc.disable()  # what is imported stays: to look through it again and again takes 0.1 s
    is_told = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # nohup has its own
    if is_ours:
        signal.signal(signal.SIGINT, _stop)
    try:
        from fanfold.cli.main import run  # noqa: PLC0415 - these imports are what may be stopped

        code = run(ready=lambda: _begin(is_ours=is_ours, is_told=is_told))
    except KeyboardInterrupt:
        _tell()
        code = INTERRUPTED
    if is_ours:
        signal.signal(signal.SIGINT, _stop)
    gc.freeze()  # nor is it looked through at the end, which takes 0.2 s
    gc.enable()
    sys.exit(code)


def _begin(*, is_ours: bool, is_told: bool) -> None:
    """All is imported; from here on a command may want to end in its own way.

    Programs that it starts have as many threads as they like.
    """
    if not is_told:
        os.environ.pop(BLAS_THREADS, None)
    gc.freeze()
    gc.enable()
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> None:
    _tell()
    os._exit(INTERRUPTED)


def _tell() -> None:
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
