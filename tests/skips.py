"""What did not run on this machine, by reason."""

from collections import Counter
from typing import Any

OF_MODE = "compiled code"
"""What waits for the other half of the gate says so; it is no lack of this machine."""


def skipped(reports: list[Any]) -> Counter[str]:
    """Skips by reason, those left out that the other half of the gate runs."""
    reasons: Counter[str] = Counter()
    for report in reports:
        where = report.longrepr
        reason = where[2] if isinstance(where, tuple) else str(where)
        if OF_MODE not in reason:
            reasons[reason.removeprefix("Skipped: ")] += 1
    return reasons
