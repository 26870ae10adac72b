"""Planted faults of the study: file, old text, faulty text, test that must fail."""

SCENARIO = "src/fanfold/scenario/"
RESULTS = "src/fanfold/results/"
T_SCENARIO = "tests/unit/scenario/test_scenario.py::"
T_MATRIX = "tests/unit/scenario/test_matrix.py::"
T_FIDELITY = "tests/unit/scenario/test_fidelity.py::"
T_RESULTS = "tests/unit/results/test_results.py::"
T_RUN = "tests/unit/run/test_run.py::"
T_CLI = "tests/unit/cli/test_cli_study.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        SCENARIO + "scenario.py",
        '    digest.update(f"\\n{version}".encode())\n',
        "",
        T_SCENARIO + "test_a_run_id_covers_all_that_can_change_a_result",
    ),
    (
        SCENARIO + "scenario.py",
        'name="", schemes=schemes',
        "schemes=schemes",
        T_SCENARIO + "test_a_run_id_covers_nothing_else",
    ),
    (
        SCENARIO + "scenario.py",
        '{name} {blake3(files[name]).hexdigest()}"',
        '{name}"',
        T_SCENARIO + "test_a_run_id_covers_what_a_file_holds_and_not_where_it_lies",
    ),
    (
        "src/fanfold/toml_table.py",
        '.replace("\\x7f", "\\\\u007f")',
        "",
        T_SCENARIO + "test_a_saved_scenario_is_loaded_as_it_was",
    ),
    (
        "src/fanfold/toml_table.py",
        'f"{name}[{i}].")',
        'f"{name}.")',
        T_SCENARIO + "test_a_fault_is_named_by_its_key",
    ),
    (
        SCENARIO + "settings.py",
        "Block = Annotated[int, Meta(ge=1, le=64)]",
        "Block = Annotated[int, Meta(ge=1, le=65)]",
        T_SCENARIO + "test_limits_have_two_sides",
    ),
    (
        SCENARIO + "matrix.py",
        "if n_fired != trigger.n_fires:",
        "if n_fired < trigger.n_fires:",
        T_MATRIX + "test_a_fault_is_named_by_its_line",
    ),
    (
        SCENARIO + "matrix.py",
        "            yield i, waiter\n",
        "            yield waiter, i\n",
        T_MATRIX + "test_messages_and_what_they_wait_for",
    ),
    (
        SCENARIO + "fidelity.py",
        "    return best + 1\n",
        "    return best\n",
        T_FIDELITY + "test_hosts_of_a_fat_tree_are_two_four_or_six_links_apart",
    ),
    (
        SCENARIO + "fidelity.py",
        "return -(-pkts // segment_pkts) * n_chunks",
        "return -(-pkts // segment_pkts)",
        T_FIDELITY + "test_pieces_of_the_compact_form_count_as_pieces",
    ),
    (
        SCENARIO + "fidelity.py",
        "settings.loss_ppb or settings.queue_bytes",
        "settings.loss_ppb",
        T_RUN + "test_choice_and_simulator_agree_on_where_trains_go",
    ),
    (
        SCENARIO + "ranks.py",
        'stream(seed, "ranks")',
        'stream(0, "ranks")',
        T_FIDELITY + "test_ranks_stand_as_asked",
    ),
    (
        RESULTS + "writer.py",
        " FROM given ORDER BY row",
        " FROM given ORDER BY random()",
        T_RESULTS + "test_equal_rows_give_equal_bytes",
    ),
    (
        RESULTS + "store.py",
        "return bool(told == _digests(self.place(run_id)))",
        "return bool(told)",
        T_RESULTS + "test_a_run_whose_file_was_changed_is_not_believed",
    ),
    (
        RESULTS + "rows.py",
        "np.isin(place.src, np.array(task.sources, np.int64))",
        "np.isin(place.dst, np.array(task.sources, np.int64))",
        T_RESULTS + "test_only_links_that_carried_or_lost_something_are_kept",
    ),
    (
        RESULTS + "query.py",
        "CASE WHEN n_unfinished = 0 THEN last_ps END AS last_ps",
        "last_ps",
        T_RESULTS + "test_one_that_never_ended_has_no_last_and_stands_last",
    ),
    (
        RESULTS + "query.py",
        "ORDER BY bytes DESC, link",
        "ORDER BY bytes, link",
        T_RESULTS + "test_the_comparison_is_that_of_a_pencil",
    ),
    (
        RESULTS + "schema.py",
        '"ppb", "chance of loss of each packet on each link"',
        '"", "chance of loss of each packet on each link"',
        T_RESULTS + "test_every_column_is_named_once_and_explained",
    ),
    (
        "src/fanfold/run.py",
        "    if use_cache and store.is_sound(name_of_run):",
        "    if store.is_sound(name_of_run):",
        T_RUN + "test_a_kept_run_is_not_made_again",
    ),
    (
        "src/fanfold/run.py",
        "seed=scenario.seed,\n        segment_pkts=job",
        "seed=0,\n        segment_pkts=job",
        T_RUN + "test_another_seed_gives_another_result",
    ),
    (
        "src/fanfold/run.py",
        '_OF_A_SCHEME = ("workload", ',
        '_OF_A_SCHEME = ("work.load", ',
        T_RUN + "test_all_takes_all_that_can_and_tells_why_others_cannot",
    ),
    (
        "src/fanfold/sim/timeline.py",
        "for hop in sorted(set(hops)):",
        "for hop in sorted(hops):",
        "tests/unit/sim/test_timeline.py"
        "::test_only_what_is_passed_on_early_waits_less_than_nothing[True]",
    ),
    (
        "src/fanfold/sim/loop/heap_bench.py",
        "            if times[child] >= when:\n",
        "            if times[child] > when + LATER_PS:\n",
        "tests/unit/sim/test_heap_bench.py::test_times_stay_a_heap_and_no_turn_is_lost",
    ),
    (
        "src/fanfold/sim/bench_cases.py",
        "item[:, :-1].ravel(), item[:, 1:].ravel()",
        "item[:, 1:].ravel(), item[:, :-1].ravel()",
        T_CLI + "test_bench_programs_are_those_of_the_rule",
    ),
    (
        "src/fanfold/cli/compare.py",
        "raise typer.Exit(ExitCode.PARTIAL)",
        "raise typer.Exit(ExitCode.OK)",
        T_CLI + "test_what_could_not_finish_is_named_and_exits_four",
    ),
    (
        "src/fanfold/cli/study_flags.py",
        "    if loss == PPB_ONE:\n",
        "    if loss > PPB_ONE:\n",
        T_CLI + "test_bad_input_is_one_line_and_exit_two",
    ),
    (
        "src/fanfold/run.py",
        "if len(work.hosts) > MAX_JOINS:",
        "if len(work.hosts) >= MAX_JOINS:",
        "tests/unit/run/test_many_joins.py::test_trees_of_many_are_left_out_with_the_reason",
    ),
)
