"""Planted faults of words about silent BFRs: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

WORDS = "src/fanfold/live/rank_words.py"
SIGHT = "src/fanfold/live/rank_sight.py"
LOOP = "src/fanfold/live/rank_loop.py"
SILENCE = "src/fanfold/group/silence.py"
WAYS = "src/fanfold/group/ways.py"
SEEN = "tests/unit/live/test_rank_sight.py"
SAID = "tests/unit/group/test_silence.py"

CREW = "src/fanfold/group/crew.py"
BENCH = "src/fanfold/group/bench.py"
RUN = "tests/unit/group/test_crew.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        CREW,
        "                if not self._said[rank]:\n",
        "                if not self._said[rank] and not waiting:\n",
        f"{RUN}::test_a_rank_that_is_killed_is_named_at_once_and_the_others_are_ended",
    ),
    (
        CREW,
        "                    until = now_ps() + GRACE_PS\n",
        "                    until = None\n",
        f"{RUN}::test_the_first_rank_that_failed_says_why_and_the_rest_is_not_waited_for",
    ),
    (
        CREW,
        "            watch()\n",
        "",
        f"{RUN}::test_who_watches_ends_all",
    ),
    (
        "src/fanfold/live/syscalls.py",
        "    if os.getppid() != parent:\n",
        "    if not parent:\n",
        f"{RUN}::test_who_is_orphaned_before_it_could_ask_for_it_ends_as_well",
    ),
    (
        BENCH,
        "if free is not None and need > free:",
        "if free is not None and need > 2 * free:",
        f"{RUN}::test_a_case_that_does_not_fit_is_refused_before_it_begins[all_reduce-float32-65536]",
    ),
    (
        "src/fanfold/cli/reduce_bench.py",
        "key=lambda line: (line.at_host, line.n_refused)",
        "key=lambda line: (not line.at_host, line.n_refused)",
        f"{RUN}::test_too_few_slots_are_told_in_words",
    ),
    (
        WORDS,
        'max(job["floor_ps"] + STALL_PS, row["probe_ps"])',
        'job["floor_ps"] + STALL_PS',
        f"{SEEN}::test_a_rank_probes_when_nothing_has_moved_and_then_again",
    ),
    (
        WORDS,
        '        rank.row[0]["ping_ps"] = when\n        return False\n',
        '        rank.row[0]["ping_ps"] = when\n',
        f"{SEEN}::test_a_ping_that_comes_back_is_no_answer",
    ),
    (
        LOOP,
        'if hops_of(buf, at) == row["root_hops"]:',
        'if hops_of(buf, at) >= row["root_hops"] - 2:',
        f"{SEEN}::test_only_the_root_says_who_is_missing",
    ),
    (
        SIGHT,
        'bool(job["told_ps"] > now - LATELY_PS)',
        "True",
        f"{SEEN}::test_what_the_root_said_is_told_while_it_is_new_and_the_block_awaited",
    ),
    (
        SIGHT,
        "not state.have[i] and",
        "",
        f"{SEEN}::test_what_the_root_said_is_told_while_it_is_new_and_the_block_awaited",
    ),
    (
        SIGHT,
        "_farthest(state.told, max(now - SILENT_PS, 0))",
        "_farthest(state.told, 0)",
        f"{SEEN}::test_the_farthest_that_answered_lately_is_known_by_its_hops",
    ),
    (
        SIGHT,
        'job["floor_ps"] > now - STALL_PS',
        'job["floor_ps"] > 0',
        f"{SEEN}::test_results_that_still_come_are_seen",
    ),
    (
        WAYS,
        "if them <= set(missing)}",
        "if them & set(missing)}",
        f"{SAID}::test_a_bfr_that_others_were_heard_through_is_no_suspect",
    ),
    (
        WAYS,
        '("", up[-2], name)',
        '("", up[-2])',
        f"{SAID}::test_a_climb_ends_at_the_last_bfr_before_a_rank",
    ),
    (
        SILENCE,
        "    if seen.is_moving:\n",
        "    if seen.is_moving and not missing:\n",
        f"{SAID}::test_a_slow_sum_accuses_nobody",
    ),
    (
        SILENCE,
        "        known = own if seen.is_passing else ()\n",
        "        known = own\n",
        f"{SAID}::test_without_arm_all_between_rank_0_and_this_one_is_suspect_but_what_answers",
    ),
    (
        SILENCE,
        "None if seen.is_full else tree_seen(setting, seen)",
        "tree_seen(setting, seen._replace(is_full=False))",
        f"{SAID}::test_without_arm_all_between_rank_0_and_this_one_is_suspect_but_what_answers",
    ),
    (
        SILENCE,
        "if name != tree.up[-1]}",
        "}",
        f"{SAID}::test_the_node_of_a_host_that_is_the_root_is_a_suspect_as_any_other",
    ),
    (
        SILENCE,
        "    if seen.has_known_next:",
        "    if True:",
        f"{SAID}::test_the_first_bfr_that_does_not_answer_is_named_and_what_is_beyond",
    ),
    (
        SILENCE,
        "    return trees[0] if len(trees) == 1 else None",
        "    return trees[0] if trees else None",
        f"{SAID}::test_a_root_that_rank_0_moved_is_told_by_its_distance_or_not_at_all",
    ),
)
