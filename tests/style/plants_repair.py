"""Planted faults of repair and pace: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

LOOP = "src/fanfold/live/rank_loop.py"
WORDS = "src/fanfold/live/rank_words.py"
TIMERS = "src/fanfold/kernels/rank_timers.py"
TIMED = "tests/unit/kernels/test_kernel_rank_timers.py"
TESTS = "tests/unit/live/test_rank_repair.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        TIMERS,
        'row["srtt_ps"]) - row["var_ps"]) // 4',
        'row["srtt_ps"]) - row["var_ps"]) // 8',
        f"{TIMED}::test_a_later_one_counts_an_eighth_and_its_distance_a_quarter",
    ),
    (
        TIMERS,
        'min(rto << row["patience"], RTO_MOST_PS)',
        'rto << row["patience"]',
        f"{TIMED}::test_a_timeout_is_twice_the_mean_and_four_deviations_within_bounds",
    ),
    (
        WORDS,
        '["patience"] = min(row["patience"] + 1, MOST_PATIENCE)',
        '["patience"] = min(row["patience"], MOST_PATIENCE)',
        f"{TESTS}::test_longer_round_trips_than_ever_are_not_taken_for_loss",
    ),
    (
        LOOP,
        '        row["patience"] = 0\n',
        "",
        f"{TESTS}::test_longer_round_trips_than_ever_are_not_taken_for_loss",
    ),
    (
        WORDS,
        '        if job["fresh_ps"] > last + reorder:',
        '        if tries == 0 and job["fresh_ps"] > last + reorder:',
        f"{TESTS}::test_what_left_later_and_is_here_shows_a_loss_again_and_again",
    ),
    (
        LOOP,
        "slot] = when  # who is not in there sends again: give it time",
        "slot] += 0",
        f"{TESTS}::test_who_is_heard_waits_for_the_others_repair",
    ),
    (
        LOOP,
        "                queue_ps = REPAIR_QUEUE_PS",
        "                queue_ps = QUEUE_PS",
        f"{TESTS}::test_what_is_under_way_follows_the_round_trip",
    ),
)
