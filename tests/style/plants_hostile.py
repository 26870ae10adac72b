"""Planted faults of odd values: file, old text, faulty text, test that must turn red."""

ODD = "tests/unit/cli/test_hostile_study.py::"
FIRST = "tests/unit/cli/test_cli_first_run.py::"
HORIZON = ODD + "test_the_horizon_counts_all_items_pauses_and_headers"
TIMES = ODD + "test_times_that_no_number_holds_are_refused"
WIDE = ODD + "test_settings_that_would_overflow_packets_are_refused"
DRAWS = ODD + "test_a_workload_says_no_before_it_draws"
MEMBERS = ODD + "test_members_that_are_none_are_told_at_once"
CAUSE = ODD + "test_the_cause_decides_the_code"

SETTINGS = "src/fanfold/scenario/settings.py"
LIMITS = "src/fanfold/scenario/horizon.py"
MAIN = "src/fanfold/cli/main.py"
EDGES = "tests/unit/cli/test_cli_edges.py::"
REPORT = "tests/unit/cli/test_cli_report.py::"

IDLE = "tests/unit/cli/test_cli_flags.py::test_a_flag_that_would_change_nothing_is_refused"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/cli/lab.py",
        "    for flag, value in given.items():\n",
        "    for flag, value in usual.items() if config is None else ():\n",
        IDLE,
    ),
    (
        "src/fanfold/cli/workload_takes.py",
        'refuse(ctx, ("skip_unknown", "ops_rate")',
        'refuse(ctx, ("ops_rate",)',
        IDLE,
    ),
    (
        "src/fanfold/cli/workload_takes.py",
        'refuse(ctx, ("gate", "skew", "tokens")',
        'refuse(ctx, ("skew", "tokens")',
        IDLE,
    ),
    (LIMITS, "wire_bytes = n_bytes + n_pkts", "wire_bytes = n_bytes + 0 * n_pkts", HORIZON),
    (LIMITS, "= _total(program.n_bytes)", "= int(program.n_bytes.max())", HORIZON),
    (LIMITS, "if fastest > MAX_RATE_BPS:", "if fastest > MAX_PS:", TIMES),
    (LIMITS, "if longest > MAX_DELAY_PS:", "if longest > MAX_PS:", TIMES),
    ("src/fanfold/scenario/ranks.py", "if n_hosts < 2:", "if n_hosts < 1:", TIMES),
    (SETTINGS, "header_bytes: Header = 64", "header_bytes: Count = 64", WIDE),
    (SETTINGS, "switch_ps: Delay = 0", "switch_ps: Time = 0", WIDE),
    (
        "src/fanfold/work/volumes.py",
        "        check_cells(n_tokens, n_ranks)\n",
        "",
        DRAWS,
    ),
    (
        "src/fanfold/cli/workload_flags.py",
        '    if n_bytes == 0:\n        raise ConfigError("size"',
        '    if n_bytes < 0:\n        raise ConfigError("size"',
        DRAWS,
    ),
    ("src/fanfold/cli/trees.py", " and len(text) < MAX_DIGITS:", ":", MEMBERS),
    ("src/fanfold/cli/vat.py", " and len(text) < MAX_DIGITS:", ":", MEMBERS),
    (
        "src/fanfold/cli/study_flags.py",
        "if not 0 <= tera <= MAX_OPS_RATE:",
        "if tera > MAX_OPS_RATE:",
        ODD + "test_operations_a_second_are_told_as_they_were_given",
    ),
    (MAIN, "case MemoryError():", "case ArithmeticError():", CAUSE),
    (MAIN, "    if code == ExitCode.INTERRUPTED:", "    if code == ExitCode.PARTIAL:", CAUSE),
    (
        MAIN,
        "with suppress(OSError):",
        "with suppress(ValueError):",
        ODD + "test_a_full_disk_below_the_output_is_one_line",
    ),
    (
        "src/fanfold/results/store.py",
        "if not self.is_sound(key.run_id):\n                    raise",
        "raise",
        ODD + "test_two_processes_that_keep_the_same_run_both_end_well",
    ),
    (
        "src/fanfold/cli/first_run.py",
        "if done.returncode == ExitCode.BAD_INPUT:",
        "if done.returncode == ExitCode.PARTIAL:",
        FIRST + "test_what_is_wrong_is_told_at_once",
    ),
    (
        "src/fanfold/cli/first_run.py",
        'read_scenario(tomllib.loads(Path(file).read_text(encoding="utf-8")))',
        '__import__("fanfold.scenario.scenario").scenario.scenario.load_scenario(Path(file))',
        FIRST + "test_a_file_named_from_here_is_found",
    ),
    (
        "src/fanfold/cli/seed.py",
        "0 <= seed <= MAX_SEED",
        "0 <= seed <= MAX_SEED + 1",
        EDGES + "test_a_seed_that_no_column_holds_is_refused",
    ),
    (
        "src/fanfold/cli/main.py",
        "except (BrokenPipeError, SystemExit):",
        "except BlockingIOError:",
        EDGES + "test_output_that_nobody_reads_ends_as_a_closed_pipe",
    ),
    (
        "src/fanfold/cli/entry.py",
        "INTERRUPTED = 130",
        "INTERRUPTED = 1",
        EDGES + "test_ctrl_c_in_the_midst_of_imports_is_one_line",
    ),
    (
        "src/fanfold/report/report.py",
        "if f'\"{file.stem}\": ' in before:",
        "if True:",
        REPORT + "test_figures_of_an_earlier_page_do_not_stay_beside_the_new_one",
    ),
    (
        "src/fanfold/report/report.py",
        "            file.unlink()",
        "            file.touch()",
        REPORT + "test_figures_of_an_earlier_page_do_not_stay_beside_the_new_one",
    ),
)
