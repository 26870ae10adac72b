"""Puts tests/ on the import path, for ``naive``, and sets the profiles of hypothesis.

Started in the background tests would ignore Ctrl-C, and so would all that they start.
"""

import os
import signal

from hypothesis import HealthCheck, settings

SLOW_MACHINE = [HealthCheck.too_slow]

settings.register_profile(
    "gate",
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=SLOW_MACHINE,
)
settings.register_profile(
    "hunt", max_examples=1_000, deadline=None, suppress_health_check=SLOW_MACHINE
)
settings.load_profile("gate")

os.environ.pop("COLUMNS", None)  # tables have the width that a pipe takes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
