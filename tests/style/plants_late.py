"""Planted faults of ranks that are late: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

LATE = "src/fanfold/kernels/late.py"
ABSORB = "src/fanfold/kernels/absorb.py"
PACKET = "src/fanfold/kernels/vat_packet.py"
VAT = "src/fanfold/kernels/vat.py"
STEPS = "tests/unit/kernels/test_kernel_late.py"
LAWS = "tests/property/test_late_laws.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        LATE,
        "min(vats.clock[1], patience // 2)",
        "min(vats.clock[1], patience)",
        f"{STEPS}::test_half_of_the_patience_is_waited_below_the_root_and_all_of_it_there",
    ),
    (
        ABSORB,
        '        slot["state"] = DONE\n        leave_out(vats, s, n_words)\n',
        '        slot["state"] = DONE\n',
        f"{STEPS}::test_what_comes_after_the_decision_changes_nothing_and_gets_the_same",
    ),
    (
        ABSORB,
        "    note_here(vats, vat, bits, n_words)\n",
        "",
        f"{STEPS}::test_who_was_late_is_not_waited_for_until_it_is_heard",
    ),
    (
        ABSORB,
        "        note_late(vats, s, n_words)\n",
        "        pass\n",
        f"{STEPS}::test_who_was_late_is_not_waited_for_until_it_is_heard",
    ),
    (
        ABSORB,
        'patience_ps = min(patience_ps, slot["patience_ps"])',
        'patience_ps = max(patience_ps, slot["patience_ps"])',
        f"{STEPS}::test_one_who_waits_makes_all_wait",
    ),
    (
        ABSORB,
        '        slot["exponent"] = max(slot["exponent"], read_u16(buf, fan + 12))\n    ',
        "    ",
        f"{STEPS}::test_a_rank_that_says_out_is_not_inside_and_not_waited_for",
    ),
    (
        ABSORB,
        '    if slot["n_merged"] == 0:\n        return\n    row =',
        "    row =",
        f"{STEPS}::test_a_block_of_nobody_is_no_result",
    ),
    (
        PACKET,
        '        vats.rows[vat]["is_anew"] = 1\n',
        '        vats.rows[vat]["is_anew"] = 0\n',
        f"{STEPS}::test_a_root_armed_after_blocks_were_sent_decides_nothing",
    ),
    (
        PACKET,
        "    vats.small[n][fold_at(n_words) + 2] |= FLAG_OUT\n",
        "",
        f"{STEPS}::test_who_asks_for_what_is_no_longer_kept_is_told",
    ),
    (
        VAT,
        "    if stays and (same or narrow_vat(vats, at, bits, n_words)):",
        "    if stays and same:",
        f"{STEPS}::test_a_narrower_a_bm_keeps_what_was_joined_and_tells_who_is_out",
    ),
    (
        VAT,
        '        soon = min(soon, slot["patience_ps"] // SOON_PART)\n',
        "        pass\n",
        f"{STEPS}::test_a_part_hurries_its_parent_within_the_patience",
    ),
    (
        ABSORB,
        '+ slot["n_bytes"], n_words, vats.words[s, HEARD_BM])',
        '+ slot["n_bytes"], n_words, vats.words[s, FLUSHED_BM])',
        f"{LAWS}::test_a_block_has_one_result_and_says_whose_arrays_are_inside",
    ),
)
