"""Planted faults of what a command refuses: file, old text, faulty text, test that sees it."""

HERE = "tests/unit/cli/test_cli_refusals.py::"
IDLE = HERE + "test_a_flag_that_another_makes_idle_is_refused"
FORM = HERE + "test_typer_s_refusals_have_our_form"
TWIN = HERE + "test_a_twin_that_is_refused_is_named"
KEY = "tests/unit/cli/test_cli_edges.py::test_a_study_names_what_is_wrong_as_it_was_given"
ROWS = HERE + "test_a_workload_takes_every_flag_that_changes_its_rows"
FLAGS = HERE + "test_every_flag_of_workloads_is_taken_by_one"
TREES = HERE + "test_a_file_of_trees_names_its_topology_from_where_it_lies"
BARE = HERE + "test_no_command_is_help_and_one_line"
SIGNAL = (
    "tests/unit/cli/test_cli_edges.py::"
    "test_ctrl_c_is_the_command_s_own_matter_only_while_it_runs"
)
NAMED = "tests/unit/report/test_report.py::test_an_imported_file_is_named_without_folders"

PUSHING = "tests/unit/cli/test_cli_push.py::"

VERB = "src/fanfold/cli/verb.py"
TAKES = "src/fanfold/cli/workload_takes.py"
COMPARE = "src/fanfold/cli/compare.py"
BENCH = "src/fanfold/cli/reduce_bench.py"
SHOWN = "test_a_trace_is_shown_only_where_it_is_asked_for"
LEFT_OUT = "test_a_host_that_would_be_left_out_is_refused"
OWN = "test_a_link_s_own_mishap_comes_after_that_of_all_links"
TWICE = "test_a_mishap_that_another_would_replace_is_refused"
CAPTURE = "test_a_capture_that_cannot_be_written_is_refused_before_the_push"
STARTS = "test_nothing_starts_for_what_cannot_be"
MAIN = "src/fanfold/cli/main.py"
PUSH = "src/fanfold/cli/push.py"
LAB = "src/fanfold/cli/lab.py"
VAT = "src/fanfold/cli/vat.py"
ENTRY = "src/fanfold/cli/entry.py"
REPORT = "src/fanfold/report/comparison.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (VERB, "if _source(ctx, name) not in _UNSET]", "if name == ctx]", IDLE),
    ("src/fanfold/cli/encodings.py", '"none without --topology, which', '"none, which', IDLE),
    ("src/fanfold/cli/push.py", '(("lab",), "whose', '(("to",), "whose', IDLE),
    (BENCH, "    if high > MAX_BYTES:", "    if high > MAX_BYTES << 9:", IDLE),
    (BENCH, "if not set(wanted) & set(JOINED):", "if not set(wanted):", IDLE),
    (
        COMPARE,
        '        ("--tree-repair", trees),\n',
        '        ("--tree-repair", told),\n',
        IDLE,
    ),
    (COMPARE, '== "folded" else set())', '!= "folded" else set())', IDLE),
    (
        VERB,
        "        verb.allow_extra_args = True",
        "        verb.allow_extra_args = False",
        FORM,
    ),
    (VERB, "and not each.strip()", 'and each == "-"', FORM),
    (VERB, '    if getattr(known[name], "is_flag", False):', "    if False:", FORM),
    (VERB, 'int: "a whole number"', 'float: "a whole number"', FORM),
    (VERB, 'if source == "ENVIRONMENT"', 'if source == "COMMANDLINE"', TWIN),
    (VERB, "        if source in _UNSET:\n            continue\n", "", KEY),
    (VERB, "if is_bare and commands is not None:", "if is_bare and commands is None:", BARE),
    (TAKES, '"federated": ("size", "replicas", ', '"federated": ("size", ', ROWS),
    (TAKES, '*("node", "bits", "payload"),', '*("node", "bits"),', FLAGS),
    (VAT, "beside(file.topology, check.parent)", "file.topology", TREES),
    (VAT, "beside(topology, Path.cwd())", "topology", TREES),
    (
        ENTRY,
        "    if is_ours:\n        signal.signal(signal.SIGINT, _stop)\n    try:",
        "    try:",
        SIGNAL,
    ),
    (ENTRY, "    signal.signal(signal.SIGINT, signal.default_int_handler)\n", "", SIGNAL),
    (COMPARE, '("--loss", "--transport", ', '("--transport", ', IDLE),
    ("src/fanfold/topo/nets.py", "if error.field not in values:", "if True:", FORM),
    (MAIN, ".strip().lower() in TRUE", ' != ""', HERE + SHOWN),
    (PUSH, "    if len(sources) > 1:", "    if not sources:", PUSHING + LEFT_OUT),
    (PUSH, "    if len(targets) > 1 and", "    if not targets and", PUSHING + LEFT_OUT),
    (PUSH, "key=lambda one: bool(one.a))", "key=lambda one: 0)", PUSHING + OWN),
    (PUSH, "        places.add((one.a, one.b))\n", "", PUSHING + TWICE),
    ("src/fanfold/impair.py", "        named.add(key.strip())\n", "", PUSHING + TWICE),
    (PUSH, " and pcap.samefile(path):", " and pcap.is_dir():", PUSHING + CAPTURE),
    (LAB, "if name and not Lab(name)", "if not name and not Lab(name)", PUSHING + STARTS),
    (
        LAB,
        "        if not least <= mtu <= most:",
        "        if not mtu <= most:",
        PUSHING + STARTS,
    ),
    (
        "src/fanfold/cli/demo.py",
        "if not what.exists():",
        "if what == path == 0:",
        PUSHING + STARTS,
    ),
    (BENCH, "    if rest:\n", "    if rest < 0:\n", PUSHING + "test_sizes_are_whole_values"),
    (REPORT, '[IMPORT, file.rpartition("/")[2], *rates]', "[IMPORT, file, *rates]", NAMED),
    (
        VERB,
        "if allowed == _WORDS[Path] and Path(value).exists():",
        "if False:",
        "tests/unit/cli/test_cli_refusals.py::test_what_this_user_may_not_read_is_told",
    ),
)
