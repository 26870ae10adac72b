"""Planted faults of arrays: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

REDUCE = "src/fanfold/kernels/reduce.py"
WORDS = "src/fanfold/kernels/words.py"
VAT = "src/fanfold/kernels/vat.py"
ABSORB = "src/fanfold/kernels/absorb.py"
PACKET = "src/fanfold/kernels/vat_packet.py"
SUMS = "tests/unit/kernels/test_kernel_reduce.py"
STEPS = "tests/unit/kernels/test_kernel_vat.py"
LAWS = "tests/property/test_vat_laws.py"
LAYOUT = "src/fanfold/group/layout.py"
EXPECTED = "src/fanfold/group/expectation.py"
EXPECTATION = "tests/unit/group/test_expectation.py"
LAYOUTS = "tests/unit/group/test_layout.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/group/expectation.py",
        "slack = slack * np.abs(row) + np.abs(product)",
        "slack = slack + np.abs(product)",
        "tests/unit/group/test_expectation.py"
        "::test_a_small_product_rounded_before_a_large_factor_is_no_fault",
    ),
    (
        "src/fanfold/group/session.py",
        "if self.given in WIDENED:",
        "if False:",
        "tests/live/test_live_fold.py"
        "::test_ranks_that_were_asked_for_different_things_all_hear_it",
    ),
    (
        "src/fanfold/group/session.py",
        'OP_NAMES.index("avg") if self.is_mean else self.form.op',
        "self.form.op",
        "tests/live/test_live_fold.py"
        "::test_ranks_that_were_asked_for_different_things_all_hear_it",
    ),
    (
        REDUCE,
        "np.int32(i64(v + _MAGIC - _MAGIC))",
        "np.int32(i64(v))",
        f"{SUMS}::test_a_sum_has_the_same_bits_in_any_order_and_its_error_is_bounded",
    ),
    (
        REDUCE,
        "    return 1 if wrong < 0 else 0\n\n\n@kernel\ndef add_i64",
        "    return 0\n\n\n@kernel\ndef add_i64",
        f"{SUMS}::test_integers_wrap_and_say_so",
    ),
    (
        REDUCE,
        "    while 1 << room < n_ranks:",
        "    while 4 << room < n_ranks:",
        f"{SUMS}::test_the_largest_values_of_all_ranks_do_not_overflow",
    ),
    (
        REDUCE,
        "    if size < 0x38800000:",
        "    if size < 0x38000000:",
        f"{SUMS}::test_every_float16_and_every_rounding_of_it",
    ),
    (
        WORDS,
        "        key = b ^ _MAX_16 if b > _MAX_16 else b\n        out[i] = worst",
        "        key = b\n        out[i] = worst",
        f"{SUMS}::test_smallest_and_largest_are_numpys",
    ),
    (
        ABSORB,
        "    elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):",
        "    elif meets(bits, flushed, n_words):",
        f"{STEPS}::test_a_rank_heard_twice_is_added_once",
    ),
    (
        ABSORB,
        "    elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):",
        "    elif meets(bits, flushed, n_words):",
        f"{LAWS}::test_sums_are_exact_whatever_is_lost_or_repeated",
    ),
    (
        ABSORB,
        "    elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):",
        "    elif is_inside(bits, heard, n_words):",
        f"{STEPS}::test_partial_overlap_is_refused_and_counted",
    ),
    (
        ABSORB,
        "    if not is_inside(bits, vats.a_bm[vat], n_words):",
        "    if n_words == 0:",
        f"{STEPS}::test_partial_overlap_is_refused_and_counted",
    ),
    (
        ABSORB,
        "    return buf[fan + 16] == room[head + 16] and buf[fan + 17] == room[head + 17]",
        "    return True",
        f"{STEPS}::test_what_is_unlike_is_refused",
    ),
    (
        ABSORB,
        '    if now_ps - slot["sent_ps"] < HOLD_PS:',
        '    if now_ps - slot["sent_ps"] < 0:',
        f"{STEPS}::test_a_partial_that_got_lost_is_sent_again_by_who_made_it",
    ),
    (
        VAT,
        "    return diff if diff < HALF else diff - BLOCK_MASK - 1",
        '    return block - slot["block"]',
        f"{STEPS}::test_slots_are_used_again_and_old_blocks_are_stale",
    ),
    (
        VAT,
        '    if slots_of(vats, row["group"]) + n_slots > vats.limits[1]:',
        "    if n_slots > vats.limits[1]:",
        f"{STEPS}::test_a_group_gets_no_more_slots_than_its_quota",
    ),
    (
        VAT,
        "    return total < vats.limits[0]",
        "    return total <= vats.limits[0]",
        f"{STEPS}::test_more_groups_than_may_have_slots_are_passed_on",
    ),
    (
        VAT,
        "        if is_other and meets(vats.a_bm[r], bits, n_words):",
        "        if is_other and n_words == 0:",
        f"{STEPS}::test_a_root_that_has_no_slots_passes_on_once_the_root_is_further_up",
    ),
    (
        ABSORB,
        "    elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):",
        "    elif meets(bits, flushed, n_words):",
        f"{LAWS}::test_fifty_storms_leave_the_same_words",
    ),
    (
        EXPECTED,
        "    return int((got != want).sum()) if got.shape",
        "    return 0 if got.shape",
        f"{EXPECTATION}::test_what_is_moved_to_a_wrong_place_is_seen",
    ),
    (
        EXPECTED,
        "    return int((~(np.abs(_wide(case.kind, out) - want) <= last)).sum())",
        "    return 0",
        f"{EXPECTATION}::test_the_exact_join_is_right_and_a_rank_counted_twice_is_not",
    ),
    (
        VAT,
        "    empty_slot(vats.slots[at])\n",
        "",
        f"{STEPS}::test_deadline_sends_what_there_is_and_the_parent_finishes",
    ),
    (
        VAT,
        '    slot["deadline_ps"] = min(slot["deadline_ps"], now_ps + soon)',
        '    slot["deadline_ps"] = max(slot["deadline_ps"], now_ps + soon)',
        f"{STEPS}::test_a_part_from_below_hurries_its_parent",
    ),
    (
        VAT,
        "            if run == n_slots:",
        "            if s + 1 == n_slots:",
        f"{STEPS}::test_rows_are_bounded_reused_and_closed",
    ),
    (
        PACKET,
        "        above[w] |= mine[w]",
        "        above[w] |= ZERO",
        f"{STEPS}::test_a_partial_that_got_lost_is_sent_again_by_who_made_it",
    ),
    (
        PACKET,
        '        send_on(buf, at, size, vats, row["port"], drops)\n\n\n@kernel\ndef is_heard',
        "        return\n\n\n@kernel\ndef is_heard",
        f"{STEPS}::test_request_is_answered_by_who_knows",
    ),
    (
        LAYOUT,
        "        order = np.lexsort((which, place))",
        "        order = np.lexsort((place, which))",
        f"{LAYOUTS}::test_an_exchange_keeps_all_uplinks_busy",
    ),
    (
        LAYOUT,
        "            int(in_at[i]) if j == rank else NOTHING,",
        "            int(out_at[i]) if j == rank else NOTHING,",
        f"{LAYOUTS}::test_uneven_parts_of_an_exchange",
    ),
)
