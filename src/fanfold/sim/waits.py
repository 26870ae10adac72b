"""How long whoever waits for an answer waits: one rule for every scheme, by round trips.

A round trip is the longest of the net without queues (sim/round_trip.py). A sender of
messages waits for three of them, or longer as its own round trips say (RFC 6298 2.3, without
a least second, as in RFC 8985 7.2 and RFC 9002 6.2). A slot of a BFR waits for one on each
level above the leaves, and a fan's sender for three after the highest slot; for two usual ones
where it sent some again, as a live one does: only who lacked it speaks of that.
Where words queue (many fans meet, an ACK a packet) slots and senders of fans wait so much more
(sim/fan_crowd.py), and what else a sender does goes slower: ``FanArrays.clock``.
"""

ROUNDS = 3
"""Round trips without an answer after which a sender asks, or sends again."""
AGAIN_ROUNDS = 2
"""Usual round trips after which a fan's sender asks about what it sent again."""
SLOT_ROUNDS = 1
"""Round trips that a slot waits for each level of slots below it and for itself."""
MEND_ROUNDS = 1
"""And where BFRs repair: of its own level, for two repairs and the words on them."""


def message_wait_ps(rtt_ps: int, asked_ps: int) -> int:
    """Shortest retransmit time of a message; asked_ps: by the settings, 0 for none."""
    return max(asked_ps, ROUNDS * rtt_ps)


def slot_wait_ps(rtt_ps: int, n_levels: int) -> int:
    """What a BFR's slot waits a level; n_levels: of the net where BFRs repair, else 0."""
    mend_ps = MEND_ROUNDS * rtt_ps // n_levels if n_levels else 0
    return SLOT_ROUNDS * rtt_ps + mend_ps


def fan_rounds(n_levels: int) -> int:
    """Round trips that a fan's sender waits for word of a block; all slots are up by then."""
    return ROUNDS + n_levels * SLOT_ROUNDS
