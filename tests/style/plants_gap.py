"""Planted faults of the gap table: file, old text, faulty text, test that must turn red."""

STUDY = "src/fanfold/study/"
NUMBERS = "tests/unit/study/test_gap_numbers.py::"
WORDS = "tests/unit/study/test_gap_words.py::"
CLI = "tests/unit/cli/test_cli_gap.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        STUDY + "thresholds.py",
        "if value <= good:",
        "if value < good:",
        WORDS + "test_less_is_better",
    ),
    (
        STUDY + "thresholds.py",
        "value, good, moderate = -value, -limit.good, -limit.moderate",
        "good, moderate = limit.good, limit.moderate",
        WORDS + "test_more_is_better_for_goodput",
    ),
    (
        STUDY + "thresholds.py",
        'if value == NEVER_HERE:\n        return "Poor"',
        "",
        WORDS + "test_never_is_poor",
    ),
    (
        STUDY + "thresholds.py",
        "return max(words, key=ORDER.index)",
        "return min(words, key=ORDER.index)",
        WORDS + "test_the_worst_number_makes_the_word",
    ),
    (
        STUDY + "thresholds.py",
        "token_ps = 8 * TOKEN_BYTES",
        "token_ps = TOKEN_BYTES",
        WORDS + "test_limits_of_dynamics_follow_the_rate_and_no_others",
    ),
    (
        STUDY + "gap_words.py",
        'if draft_word not in ("", word):',
        'if draft_word == "":',
        WORDS + "test_a_difference_from_the_draft_is_explained",
    ),
    (
        STUDY + "gap_words.py",
        'at = limit.good if number.word == "Moderate" else limit.moderate',
        "at = limit.good",
        WORDS + "test_a_reason_names_the_worst_numbers_and_the_limits_they_pass",
    ),
    (
        STUDY + "gap_words.py",
        '"bier": (_P, _M, _G, _P, _G)',
        '"bier": (_P, _M, _P, _G, _G)',
        WORDS + "test_the_draft_has_a_word_for_each_requirement_of_its_four_rows",
    ),
    (
        STUDY + "gap.py",
        "self.ground, (row.program, row.feedback)",
        "self.ground, (row.feedback, row.feedback)",
        WORDS + "test_a_small_gap_has_a_cell_for_each_row_and_survives_json",
    ),
    (
        STUDY + "gap_ground.py",
        "drawn = 1 + stream(",
        "drawn = stream(",
        NUMBERS + "test_groups_are_spread_and_drawn_without_the_source",
    ),
    (
        STUDY + "bier_domain.py",
        "is_tunnel=self.world.end(link) >= self.world.net.n_hosts",
        "is_tunnel=False",
        NUMBERS + "test_time_that_a_dead_link_cuts_somebody_off[bier-0-0]",
    ),
    (
        STUDY + "bier_domain.py",
        "if self._paths is not self.world.paths:",
        "if self._paths is None:",
        NUMBERS + "test_time_that_a_dead_link_cuts_somebody_off[bier+igp-200-200]",
    ),
    (
        STUDY + "measure_faults.py",
        "missing = missing.difference(*(fault.after[number][1] for fault in faults[1:]))",
        "pass",
        NUMBERS + "test_aids_take_over_when_the_fault_is_noticed[pim-sm+mofrr-pim-sm]",
    ),
    (
        STUDY + "measure_faults.py",
        "recover_ps += span_ps - since_ps if missing else 0",
        "recover_ps = span_ps - since_ps if missing else 0",
        NUMBERS + "test_time_that_a_dead_link_cuts_somebody_off[pim-sm-200-203]",
    ),
    (
        STUDY + "measure_faults.py",
        "is_named = len(sim.fans.lost) >= len(behind)",
        "is_named = False",
        NUMBERS + "test_a_source_names_those_behind_the_fault_before_routers_notice_it",
    ),
    (
        STUDY + "measure_faults.py",
        ".hops(above, router) < FAR",
        ".hops(above, router) <= FAR",
        NUMBERS + "test_a_cable_without_a_detour_does_not_die",
    ),
    (
        STUDY + "measure_dynamics.py",
        'worst_of([c.took_ps for c in changes if c.what == "leave"])',
        'worst_of([c.took_ps for c in changes if c.what == "join"])',
        NUMBERS + "test_leaving_takes_two_queries_unless_routers_know_each_member",
    ),
    (
        STUDY + "measure_dynamics.py",
        "changed = _pairs(row, before) ^ _pairs(row, after)",
        "changed = _pairs(row, before) | _pairs(row, after)",
        NUMBERS + "test_a_host_that_joins_a_chain_changes_three_pairs",
    ),
    (
        STUDY + "measure_dynamics.py",
        "both = [change for run in runs for change in parts_of(ground, run)[1]]",
        "both = changes",
        NUMBERS + "test_two_trees_take_twice_the_messages",
    ),
    (
        STUDY + "measure_feedback.py",
        "base.feedback_at_source[_items_of(program)]",
        "base.feedback_at_source",
        NUMBERS + "test_a_ring_counts_only_what_the_source_hears",
    ),
    (
        STUDY + "measure_feedback.py",
        "np.argmax(base",
        "np.argmin(base",
        NUMBERS + "test_the_slow_line_is_one_that_carries_the_receivers_data",
    ),
    (
        STUDY + "thresholds.py",
        "max(MS, 20 * rtt_ps)",
        "MS",
        WORDS + "test_limits_of_feedback_follow_long_round_trips",
    ),
    (
        STUDY + "gap_sim.py",
        "return Settings(feedback=row.feedback)",
        "return Settings()",
        NUMBERS + "test_each_receiver_acknowledges_each_packet_unless_words_are_folded",
    ),
    (
        STUDY + "measure_loss.py",
        "healthy &= ~on_ways(ground, sender, victim)",
        "pass",
        NUMBERS + "test_a_tree_repairs_to_everybody_and_fanfold_to_those_who_lack_it",
    ),
    (
        STUDY + "measure_loss.py",
        "return bool(outcome.stuck), outcome.end_ps",
        "return False, outcome.end_ps",
        NUMBERS + "test_half_the_goodput_is_left_when_it_takes_twice_as_long",
    ),
    (
        STUDY + "measure_loss.py",
        "kept = PPM * base.end_ps // told.end_ps",
        "kept = PPM * told.end_ps // base.end_ps",
        NUMBERS + "test_half_the_goodput_is_left_when_it_takes_twice_as_long",
    ),
    (
        STUDY + "measure_loss.py",
        "hops[host] = 0",
        "pass",
        NUMBERS + "test_links_on_shortest_paths_between_two_leaves",
    ),
    (
        STUDY + "measure_sparseness.py",
        "PPM * extra // max(saved, 1)",
        "PPM * extra // plain.n_copies",
        NUMBERS + "test_unicast_saves_nothing_and_trees_all",
    ),
    (
        STUDY + "measure_sparseness.py",
        "if state.node not in busy",
        "if state.node in busy",
        NUMBERS + "test_dense_mode_has_state_where_no_member_is",
    ),
    (
        STUDY + "measure_simplicity.py",
        "has_slots = base is not None and sum(base.n_folds) > 0",
        "has_slots = base is not None",
        NUMBERS + "test_bier_has_no_slots",
    ),
    (
        STUDY + "measure_simplicity.py",
        "for per_mille in (500, 990)",
        "for per_mille in (500, 1000)",
        NUMBERS + "test_spread_is_the_99th_percentile_over_the_median",
    ),
    (
        STUDY + "gap_examples.py",
        "500 * 10**9",
        "400 * 10**9",
        WORDS + "test_examples_are_the_files_of_the_same_name",
    ),
    (
        STUDY + "gap_examples.py",
        "round_to(each.source_pkts * Settings().payload_bytes, size)",
        "each.source_pkts * Settings().payload_bytes",
        WORDS + "test_four_regions_take_a_quarter_of_the_egress",
    ),
    (
        "src/fanfold/cli/gap.py",
        "loss_ppb=loss_ppb,",
        "",
        CLI + "test_flags_reach_the_measurement",
    ),
    (
        "src/fanfold/cli/gap_tables.py",
        "if numbers:\n        _show_numbers(console, gap)",
        "",
        CLI + "test_numbers_are_all_told_with_what_was_assumed",
    ),
)
