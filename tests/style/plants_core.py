"""Planted faults of core/: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/core/sender.py",
        "if not self._split_silent(now_ps, out):",
        "if now_ps >= 0:",
        "tests/property/test_sender_machine.py"
        "::test_the_silent_hold_the_others_back_for_half_a_second_only",
    ),
    (
        "src/fanfold/core/flight.py",
        "bits = row.lacking & self.need",
        "bits = self.need",
        "tests/property/test_sender_machine.py"
        "::test_a_repair_goes_to_each_packets_own_receivers",
    ),
    (
        "src/fanfold/core/sender.py",
        "flight.n_queued += 1",
        "flight.n_queued += 0",
        "tests/property/test_sender_machine.py"
        "::test_a_block_still_queued_is_not_asked_for_again",
    ),
    (
        "src/fanfold/core/flight.py",
        "return self.n_queued == 0 and now_ps - self.sent_ps >= self.wait_ps",
        "return False",
        "tests/property/test_sender_machine.py"
        "::test_a_silent_receiver_is_asked_again_and_again",
    ),
    (
        "src/fanfold/core/sender.py",
        "flight.need |= self.need[block] & mask",
        "flight.need |= 0",
        "tests/property/test_sender_joins.py"
        "::test_who_shares_the_last_lane_joins_what_is_on_its_way_in_it",
    ),
    (
        "src/fanfold/core/signs.py",
        "return now_ps - max(self._heard_ps.get(bit, 0), since_ps)",
        "return now_ps - self._heard_ps.get(bit, 0)",
        "tests/property/test_sender_machine.py::test_who_was_not_asked_is_not_silent",
    ),
    (
        "src/fanfold/core/sender.py",
        "flight.tries >= n_asked or now_ps - flight.first_ps >= STALL_PS",
        "flight.tries >= n_asked",
        "tests/property/test_sender_machine.py"
        "::test_a_receiver_that_answers_and_finishes_nothing_is_given_up",
    ),
    (
        "src/fanfold/core/flight.py",
        "self.repaired[psn] = [*earlier, (self.round, to)]",
        "self.repaired[psn] = [(self.round, to)]",
        "tests/property/test_sender_machine.py"
        "::test_what_was_sent_again_is_not_sent_for_an_older_report",
    ),
    (
        "src/fanfold/core/sender.py",
        "if b < floor and",
        "if b <= floor and",
        "tests/property/test_sender_machine.py"
        "::test_word_of_a_later_block_makes_good_for_what_was_lost_before",
    ),
    (
        "src/fanfold/core/sender.py",
        "        if not self.need[block] & done:\n            return\n",
        "",
        "tests/property/test_sender_joins.py"
        "::test_a_word_that_ends_a_block_in_two_lanes_ends_it_once",
    ),
    (
        "src/fanfold/core/sender.py",
        "done = feedback.done & heard & self.need[block]",
        "done = feedback.done & self.need[block]",
        "tests/property/test_sender_joins.py"
        "::test_old_words_of_a_receiver_that_restarted_clear_nothing",
    ),
    (
        "src/fanfold/core/sender.py",
        "self._clear_before(block - feedback.behind, heard, out)",
        "self._clear_before(block - feedback.behind, feedback.heard, out)",
        "tests/property/test_sender_joins.py"
        "::test_old_words_of_a_receiver_that_restarted_clear_nothing",
    ),
    (
        "src/fanfold/core/signs.py",
        "if now_ps < until_ps and block < cursor:",
        "if now_ps < until_ps:",
        "tests/property/test_sender_joins.py"
        "::test_old_words_of_a_receiver_that_restarted_clear_nothing",
    ),
    (
        "src/fanfold/core/sender.py",
        "self._tick_ps = now_ps + TICK_PS",
        "self._tick_ps = now_ps",
        "tests/property/test_sender_machine.py"
        "::test_everybody_has_everything_once_the_network_heals",
    ),
    (
        "src/fanfold/core/pace.py",
        "if pressure >= HIGH:",
        "if pressure > 255:",
        "tests/property/test_sender_pace.py"
        "::test_pressure_shrinks_a_window_that_calm_had_opened",
    ),
    (
        "src/fanfold/core/pace.py",
        "per_mille >= MOST_PER_MILLE and queued_ps >= self._limited_ps",
        "per_mille >= MOST_PER_MILLE",
        "tests/property/test_sender_pace.py"
        "::test_a_limit_is_set_by_what_was_queued_under_the_last_one",
    ),
    (
        "src/fanfold/core/sender.py",
        "answers = flight.n_queued == 0 and feedback.round == flight.round",
        "answers = feedback.round == flight.round",
        "tests/property/test_sender_pace.py"
        "::test_loss_and_round_trip_are_those_of_a_job_that_has_left",
    ),
    (
        "src/fanfold/core/sender.py",
        "answers = flight.n_queued == 0 and feedback.round == flight.round",
        "answers = flight.n_queued == 0",
        "tests/property/test_sender_pace.py"
        "::test_loss_and_round_trip_are_those_of_a_job_that_has_left",
    ),
    (
        "src/fanfold/core/sender.py",
        "            if flight.clean and flight.n_queued == 0:",
        "            if flight.clean:",
        "tests/property/test_sender_pace.py"
        "::test_loss_and_round_trip_are_those_of_a_job_that_has_left",
    ),
    (
        "src/fanfold/core/sender.py",
        "limit_bps = main.pace.limit_bps or self._losses.passed(mask, main.pace.rate_bps())",
        "limit_bps = 0",
        "tests/property/test_sender_joins.py"
        "::test_who_is_split_off_for_its_loss_starts_with_what_gets_through",
    ),
    (
        "src/fanfold/core/sender.py",
        "ask_ps = ASK_PS // 2 if flight.tries == 1 else ASK_PS",
        "ask_ps = ASK_PS",
        "tests/property/test_sender_machine.py"
        "::test_a_silent_receiver_is_asked_again_and_again",
    ),
    (
        "src/fanfold/core/sender.py",
        "is_partial = bool(feedback.flags & FeedbackFlag.PARTIAL)",
        "is_partial = False",
        "tests/property/test_sender_machine.py"
        "::test_a_wait_in_a_slot_is_a_round_trip_while_nothing_better_is_known",
    ),
    (
        "src/fanfold/core/sender.py",
        "        if self.is_quiet(now_ps):\n            self._nudged",
        "        if True:\n            self._nudged",
        "tests/property/test_sender_machine.py::test_a_nudge_counts_where_all_has_left[False]",
    ),
    (
        "src/fanfold/core/sender.py",
        "flight, {last: flight.need & nudged}, out)",
        "flight, {last: flight.need}, out)",
        "tests/property/test_sender_machine.py::test_a_nudge_counts_where_all_has_left[True]",
    ),
    (
        "src/fanfold/core/sender.py",
        "waits |= is_repaired and now_ps - oldest.first_ps > HELD_PS",
        "pass",
        "tests/property/test_sender_machine.py"
        "::test_repairs_without_end_hold_the_others_back_as_well",
    ),
    (
        "src/fanfold/core/sender.py",
        "is_repaired = oldest.round > oldest.tries",
        "is_repaired = True",
        "tests/property/test_sender_machine.py::test_a_long_way_is_no_reason_to_be_split_off",
    ),
    (
        "src/fanfold/core/sender.py",
        "            flight.is_nudged = True\n",
        "",
        "tests/property/test_sender_machine.py"
        "::test_nudges_do_not_put_off_the_question_to_a_silent_one",
    ),
)
