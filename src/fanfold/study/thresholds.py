"""What makes Good, Moderate and Poor of a number, for all schemes alike.

A requirement is met as well as its worst number is. Limits stand on what a fabric or its hosts
do anyway: a token's time on the source's link, an acknowledgement for each packet, the 50 ms in
which protected lines are restored; none of them mentions a scheme, and none is moved to get a
word. Where words differ from the draft's, the table lists it.
"""

from collections.abc import Mapping
from typing import Literal

from fanfold.study.gap_ground import TOKEN_BYTES
from fanfold.study.gap_table import NEVER_HERE, Limit, Number, Word
from fanfold.study.metric_catalog import metric_of
from fanfold.units import PS_PER_US

MS = 1000 * PS_PER_US
SECOND = 1000 * MS
PERCENT = 10_000
"""In parts per million."""
ORDER: tuple[Word, ...] = ("Good", "Moderate", "Poor")


def build_limits(bps: int, rtt_ps: int = 0) -> tuple[Limit, ...]:
    """Limits of all deciding metrics.

    Args:
        bps: of the source's link, which dynamics depend on. rtt_ps: to the farthest receiver
            and back; on a WAN feedback takes some of them, and not microseconds.
    """
    token_ps = 8 * TOKEN_BYTES * SECOND // bps
    fresh = "one token on the source's link; what a person does not notice: 100 ms"
    return (
        Limit(
            "feedback_per_kpkt",
            100,
            1000,
            "a tenth of, and as much as, a sender of unicast hears: an ACK for each packet",
        ),
        Limit(
            "feedback_ps",
            max(10 * PS_PER_US, 2 * rtt_ps),
            max(MS, 20 * rtt_ps),
            "microseconds, or two round trips; sub-millisecond, or 20",
        ),
        Limit(
            "reaction_ps",
            max(100 * PS_PER_US, 20 * rtt_ps),
            max(MS, 200 * rtt_ps),
            "0.1 ms, or 20 round trips; sub-millisecond (FANN), or 200",
        ),
        Limit("goodput_ppm", 90 * PERCENT, 50 * PERCENT, "a tenth gone; half gone"),
        Limit(
            "healthy_repair_ppm", 1000, 10 * PERCENT, "lost in the noise; a tenth of the fabric"
        ),
        Limit("recover_ps", MS, 50 * MS, "switched locally; a protected line, 50 ms"),
        Limit(
            "domain_ppm",
            100 * PERCENT,
            200 * PERCENT,
            "nobody but those behind the fault; twice as many",
        ),
        Limit("join_ps", token_ps, 100 * MS, fresh),
        Limit("leave_ps", token_ps, 100 * MS, fresh),
        Limit("change_gap_ps", token_ps, SECOND, "a change for each token; one a second"),
        Limit("header_ppm", PERCENT, 10 * PERCENT, "a hundredth, a tenth of a token"),
        Limit("far_header_ppm", PERCENT, 10 * PERCENT, "the same"),
        Limit("lost_saving_ppm", 10 * PERCENT, 50 * PERCENT, "a tenth, half of what it is for"),
        Limit("far_lost_saving_ppm", 10 * PERCENT, 50 * PERCENT, "the same"),
        Limit("idle_state_ppm", 10 * PERCENT, 50 * PERCENT, "a tenth, half of the state"),
        Limit("message_kinds", 1, 4, "one at most; a question and an answer on two sides"),
        Limit("state_kinds", 1, 2, "one table; two that must agree"),
        Limit("spread_ppm", 10 * PERCENT, 100 * PERCENT, "a tenth later; twice as late"),
    )


def word_of(limit: Limit, value: int) -> Word:
    """Word of one number."""
    if value == NEVER_HERE:
        return "Poor"
    if metric_of(limit.metric).better == "more":
        value, good, moderate = -value, -limit.good, -limit.moderate
    else:
        good, moderate = limit.good, limit.moderate
    if value <= good:
        return "Good"
    return "Moderate" if value <= moderate else "Poor"


def numbers_of(
    limits: tuple[Limit, ...], requirement: str, values: Mapping[str, int]
) -> tuple[Number, ...]:
    """Numbers of a requirement: the deciding ones in the order of the limits, then others."""
    deciding = [
        Number(limit.metric, values[limit.metric], word_of(limit, values[limit.metric]))
        for limit in limits
        if limit.metric in values and metric_of(limit.metric).requirement == requirement
    ]
    known = {number.metric for number in deciding}
    others = [
        Number(name, value)
        for name, value in values.items()
        if name not in known and metric_of(name).requirement == requirement
    ]
    return (*deciding, *others)


def worst_word(numbers: tuple[Number, ...]) -> Word | Literal[""]:
    """Word of the worst number; empty where none decides."""
    words = [number.word for number in numbers if number.word]
    return max(words, key=ORDER.index) if words else ""
