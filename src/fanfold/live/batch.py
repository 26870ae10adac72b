"""Threads that move packets take turns of some length (sched(7), SCHED_BATCH).

Where processors are shared, as in a lab, a packet would wake its receiver in the middle of its
sender's work, and every 64 KB cost two switches. A batch thread that is woken lets who runs end
its turn, and finds more to do when its own comes. Where a processor is free it runs at once.
"""

import os
from contextlib import suppress


def take_turns() -> None:
    """Let this thread be one of a batch, unless somebody gave it another policy."""
    with suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
