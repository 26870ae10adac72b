"""Planted faults of what a command refuses: file, old text, faulty text, test that sees it."""

HERE = "tests/unit/cli/test_cli_refusals.py::"
IDLE = HERE + "test_a_flag_that_another_makes_idle_is_refused"
FORM = HERE + "test_typer_s_refusals_have_our_form"
TWIN = HERE + "test_a_twin_that_is_refused_is_named"
KEY = HERE + "test_a_key_of_a_file_is_no_flag"
ROWS = HERE + "test_a_workload_takes_every_flag_that_changes_its_rows"
FLAGS = HERE + "test_every_flag_of_workloads_is_taken_by_one"
TREES = HERE + "test_a_file_of_trees_names_its_topology_from_where_it_lies"
BARE = HERE + "test_no_command_is_help_and_one_line"
SIGNAL = (
    "tests/unit/cli/test_cli_edges.py::"
    "test_ctrl_c_is_the_command_s_own_matter_only_while_it_runs"
)
NAMED = "tests/unit/report/test_report.py::test_an_imported_file_is_named_without_folders"

VERB = "src/fanfold/cli/verb.py"
TAKES = "src/fanfold/cli/workload_takes.py"
COMPARE = "src/fanfold/cli/compare.py"
BENCH = "src/fanfold/cli/reduce_bench.py"
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
    (REPORT, '[IMPORT, file.rpartition("/")[2], *rates]', "[IMPORT, file, *rates]", NAMED),
)
