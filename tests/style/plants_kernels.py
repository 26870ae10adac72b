"""Planted faults of kernels/: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/kernels/jit.py",
        '        "live/rank_late.py",\n',
        "",
        "tests/unit/kernels/test_kernel_cache.py"
        "::test_every_file_with_kernels_is_in_the_digest_of_its_package",
    ),
    (
        "src/fanfold/kernels/replicate.py",
        "out_bits[at, j] |= bits[j] & f_bm[nbr + 1, j]  # step 7",
        "out_bits[at, j] |= bits[j]",
        "tests/property/test_kernels.py::test_replication_is_that_of_sets",
    ),
    (
        "src/fanfold/kernels/replicate.py",
        "bits[j] &= ~f_bm[nbr + 1, j]  # step 8",
        "bits[j] &= bits[j]",
        "tests/property/test_kernels.py::test_replication_is_that_of_sets",
    ),
    (
        "src/fanfold/kernels/replicate.py",
        "if nbr < NULL_NBR or nbr + 1 >= f_bm.shape[0]:",
        "if nbr < NULL_NBR:",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_a_row_whose_neighbour_has_no_mask_leads_nowhere",
    ),
    (
        "src/fanfold/kernels/state.py",
        "copy_nbr=np.zeros(n_ports + 1, np.int64)",
        "copy_nbr=np.zeros(n_ports, np.int64)",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_all_places_at_once_and_a_null_one_among_them",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "ttl -= 1\n",
        "ttl -= 0\n",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_ttl_0_is_dropped_and_ttl_1_is_delivered_here_only",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "if nbr != 0 and ttl < 1:",
        "if ttl < 1:",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_ttl_0_is_dropped_and_ttl_1_is_delivered_here_only",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "counters.drops[DROP_NULL_NBR] += 1\n"
        "            plan.clean[k] = 0\n"
        "            continue",
        "counters.drops[DROP_NULL_NBR] += 1\n            plan.clean[k] = 0\n            return",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_a_null_next_hop_does_not_stop_those_after_it",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "(read_u32(buf, at + 4) & 0xFFFFF) %",
        "(read_u32(buf, at + 4) & 0xF) %",
        "tests/unit/kernels/test_kernel_forward.py"
        "::test_equal_entropy_takes_the_same_of_several_paths",
    ),
    (
        "src/fanfold/kernels/slots.py",
        "            return\n    settle(fold, slot)",
        "            break\n    settle(fold, slot)",
        "tests/unit/kernels/test_kernel_slots.py"
        "::test_a_slot_completed_twice_in_one_pass_goes_up_once",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "for i in range(1, words + 2):",
        "for i in range(1, words + 1):",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "unlike |= there[words + 6] ^ here[words + 6]",
        "unlike |= ZERO",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "counters.drops[DROP_TTL_EXPIRED] += 1\n            plan.clean[k] = 0",
        "counters.drops[DROP_TTL_EXPIRED] += 1",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "if i64(buf[at + TTL_AT]) != ttl or not",
        "if not",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "_BUT_PSN = word_of(bytes((0xFF, 0xFF & ~FLAG_POLL,",
        "_BUT_PSN = word_of(bytes((0xFF, 0,",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/forward.py",
        "repeat_words(buf, at, seg, plan.run[k], words)",
        "repeat_words(buf, at, seg, plan.run[k] - 1, words)",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/octets.py",
        "    for j in range(1, n):\n        copy_octets(",
        "    for j in range(2, n):\n        copy_octets(",
        "tests/property/test_kernels.py::test_a_block_is_planned_as_its_packets_are_one_by_one",
    ),
    (
        "src/fanfold/kernels/frame.py",
        "if 1 << (bsl - 1) != n_words[t]:",
        "if 1 << (bsl - 1) > n_words[t]:",
        "tests/unit/kernels/test_kernel_frame.py"
        "::test_kernel_and_codec_refuse_a_header_for_the_same_reason[256]",
    ),
    (
        "src/fanfold/kernels/frame.py",
        "if n < BITS_AT + 8 * n_words[t]:",
        "if n < BITS_AT + 8 * n_words[t] - 1:",
        "tests/unit/kernels/test_kernel_frame.py::test_a_header_cut_anywhere_is_truncated[64]",
    ),
    (
        "src/fanfold/kernels/frame.py",
        "if sum_octets(buf, ip, IP_BYTES) != 0xFFFF:",
        "if sum_octets(buf, ip, IP_BYTES) == 0:",
        "tests/unit/kernels/test_kernel_frame.py"
        "::test_kernel_takes_an_inner_packet_where_the_codec_does[data]",
    ),
    (
        "src/fanfold/kernels/codes.py",
        "DROP_NULL_NBR = 7\nDROP_TTL_EXPIRED = 8",
        "DROP_NULL_NBR = 8\nDROP_TTL_EXPIRED = 7",
        "tests/unit/kernels/test_kernel_layout.py::test_words_stand_in_the_order_of_the_codes",
    ),
    (
        "src/fanfold/kernels/layout.py",
        "FEEDBACK_BYTES = 24",
        "FEEDBACK_BYTES = 28",
        "tests/unit/kernels/test_kernel_layout.py::test_headers_start_where_the_tables_say",
    ),
    (
        "src/fanfold/kernels/slots.py",
        "fold.words[at, P_BM, w] |= heard[w]",
        "fold.words[at, P_BM, w] ^= heard[w]",
        "tests/unit/kernels/test_kernel_slots.py::test_heard_twice_is_heard_once",
    ),
    (
        "src/fanfold/kernels/slots.py",
        "&= ~fold.words[at, DONE_BM, w]",
        "&= fold.words[at, P_BM, w]",
        "tests/unit/kernels/test_kernel_slots.py::test_done_wins_over_gaps_in_whatever_order",
    ),
    (
        "src/fanfold/kernels/slots.py",
        '        if heard == ZERO:\n            row["armed"] = 0',
        '        if heard == ZERO:\n            row["armed"] = 1',
        "tests/unit/kernels/test_kernel_slots.py"
        "::test_a_deadline_sends_up_what_was_heard_and_frees_the_silent",
    ),
    (
        "src/fanfold/kernels/slots.py",
        'row["room"] = min(row["room"], room)',
        'row["room"] = max(row["room"], room)',
        "tests/unit/kernels/test_kernel_slots.py::test_the_worst_branch_wins_and_is_named",
    ),
    (
        "src/fanfold/kernels/slots.py",
        'row["round"], row["queue"], row["room"] = 255, 0, 255',
        'row["round"], row["queue"], row["room"] = 0, 0, 255',
        "tests/unit/kernels/test_kernel_slots.py::test_the_worst_branch_wins_and_is_named",
    ),
    (
        "src/fanfold/kernels/feedback.py",
        "if n_rows > 0 and at + 4 + step",
        "if at + 4 + step",
        "tests/unit/kernels/test_kernel_slots.py"
        "::test_a_row_that_never_fits_goes_out_all_the_same",
    ),
    (
        "src/fanfold/kernels/feedback.py",
        'row["n_merged"] if psn == 0 else 0',
        'row["n_merged"]',
        "tests/unit/kernels/test_kernel_slots.py"
        "::test_rows_that_do_not_fit_go_on_in_further_packets",
    ),
    (
        "src/fanfold/kernels/feedback.py",
        "if psn <= last or psn >= n_psn or",
        "if psn < last or psn >= n_psn or",
        "tests/property/test_kernels.py::test_kernel_and_codec_take_the_same_feedback",
    ),
    (
        "src/fanfold/kernels/feedback.py",
        "if not is_within(buf, heard + step, heard, step):",
        "if not is_within(buf, heard, heard, step):",
        "tests/property/test_kernels.py::test_kernel_and_codec_take_the_same_feedback",
    ),
    (
        "src/fanfold/kernels/collect.py",
        'if row["polled"] == 0 and is_passed(collect, r):',
        "if is_passed(collect, r):",
        "tests/unit/kernels/test_kernel_collect.py"
        "::test_what_was_reported_is_not_due_again_before_its_time",
    ),
    (
        "src/fanfold/kernels/collect.py",
        "copy_octets(collect.room[r], psn * stride,",
        "copy_octets(collect.room[r], psn * size,",
        "tests/unit/kernels/test_kernel_collect.py"
        "::test_blocks_come_together_from_any_order_with_duplicates",
    ),
    (
        "src/fanfold/kernels/collect.py",
        '["newest"] >= row["block"] + 2',
        '["newest"] >= row["block"] + 3',
        "tests/unit/kernels/test_kernel_collect.py"
        "::test_a_block_two_further_on_makes_the_gaps_due",
    ),
    (
        "src/fanfold/kernels/collect.py",
        "nearest = min(nearest, report_at(collect, r))",
        'nearest = min(nearest, collect.blocks[r]["report_ps"])',
        "tests/unit/kernels/test_kernel_collect.py"
        "::test_the_next_report_is_due_exactly_when_it_is_said",
    ),
    (
        "src/fanfold/kernels/speak.py",
        "min(max(block - advance_floor(collect, f), 0), NOT_TOLD)",
        "0",
        "tests/unit/kernels/test_kernel_collect.py"
        "::test_a_word_tells_how_far_back_the_oldest_gap_is",
    ),
    (
        "src/fanfold/kernels/impose.py",
        "if flags & FLAG_REPAIR == 0 and has_more(wanted, psn):",
        "if has_more(wanted, psn):",
        "tests/unit/kernels/test_kernel_impose.py::test_packets_are_those_asked_for",
    ),
    (
        "src/fanfold/kernels/impose.py",
        "write_bits(out, at + BITS_AT, n_words, bits[psn])",
        "write_bits(out, at + BITS_AT, n_words, bits[0])",
        "tests/property/test_kernel_fabric.py"
        "::test_a_group_that_changes_with_every_packet_costs_nothing",
    ),
    (
        "src/fanfold/kernels/mishap.py",
        'z = plus(row["rng"], _GOLDEN)',
        "z = plus(_GOLDEN, _GOLDEN)",
        "tests/unit/kernels/test_kernel_mishap.py::test_a_seed_says_what_happens",
    ),
    (
        "src/fanfold/kernels/mishap.py",
        "mishaps.n_held[1] = (h + 1) % n_rows",
        "mishaps.n_held[1] = 0",
        "tests/unit/kernels/test_kernel_mishap.py::test_delay_keeps_the_order",
    ),
    (
        "src/fanfold/kernels/slots.py",
        'min(LAGS * node[0]["lag_ps"], MAX_WAITS * fold_ps)',
        'LAGS * node[0]["lag_ps"]',
        "tests/unit/kernels/test_kernel_slots.py::test_a_busy_machine_is_given_more_time",
    ),
    (
        "src/fanfold/kernels/slots.py",
        "OLD_WAITS = 4",
        "OLD_WAITS = 400",
        "tests/unit/kernels/test_kernel_slots.py::test_a_busy_machine_is_given_more_time",
    ),
    (
        "src/fanfold/kernels/slots.py",
        "wait = max(fold_ps, min(",
        "wait = fold_ps + max(0, min(",
        "tests/unit/kernels/test_kernel_slots.py::test_a_busy_machine_is_given_more_time",
    ),
    (
        "src/fanfold/kernels/mishap.py",
        "is_full = n > 0 and",
        "is_full = True and",
        "tests/unit/kernels/test_kernel_mishap.py"
        "::test_held_packets_of_any_size_come_out[65401]",
    ),
    (
        "src/fanfold/kernels/collect.py",
        "max(again_ps, min(silent_ps // 4, MAX_AGAIN_PS))",
        "again_ps",
        "tests/unit/push/test_push_receiving.py"
        "::test_gaps_that_nobody_fills_are_reported_less_and_less_often",
    ),
    (
        "src/fanfold/kernels/collect.py",
        '    if last and block < row["newest"]:\n        return False\n',
        "",
        "tests/unit/push/test_push_receiving.py"
        "::test_a_forged_end_is_not_learnt_from_a_packet_that_is_refused",
    ),
    (
        "src/fanfold/kernels/collect.py",
        "        if r >= 0:\n            hint = r\n            learn(",
        "        if True:\n            hint = max(r, 0)\n            learn(",
        "tests/unit/push/test_push_receiving.py"
        "::test_a_forged_end_is_not_learnt_from_a_packet_that_is_refused",
    ),
    (
        "src/fanfold/push/receiving.py",
        "if sum(s.n_manifest_bytes for s in self.sessions.values())",
        "if session.n_manifest_bytes",
        "tests/unit/push/test_push_receiving.py::test_manifests_of_all_pushes_share_one_bound",
    ),
    (
        "src/fanfold/live/outbox.py",
        "if psn >= n_psn and si == sets[-1]:\n",
        "if False:\n",
        "tests/unit/live/test_live_outbox.py"
        "::test_a_job_is_told_to_have_left_with_its_last_packet",
    ),
    (
        "src/fanfold/live/outbox.py",
        "while n_pieces < MAX_PIECES and lane.next_ps <= now_ps",
        "while n_pieces < MAX_PIECES",
        "tests/unit/live/test_live_outbox.py"
        "::test_pieces_that_are_due_leave_in_one_go_up_to_a_bound",
    ),
    (
        "src/fanfold/live/outbox.py",
        "n_pieces += n_bytes > 0",
        "n_pieces += MAX_PIECES",
        "tests/unit/live/test_live_outbox.py"
        "::test_pieces_that_are_due_leave_in_one_go_up_to_a_bound",
    ),
)
