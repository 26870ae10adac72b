"""Planted faults of live/ and cli/: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

RANGE = "tests/unit/cli/test_cli_lab_range.py"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/live/lab.py",
        'claim.bind(f"\\0fanfold-range-{prefix}")',
        'claim.bind(f"\\0fanfold-range-{prefix}-{labs_home()}")',
        f"{RANGE}::test_labs_of_other_state_folders_take_other_ranges_even_at_once",
    ),
    (
        "src/fanfold/cli/lab.py",
        "            for node in fabric.nodes:\n                open_socket",
        "            for node in fabric.nodes[:2]:\n                open_socket",
        f"{RANGE}::test_a_range_with_one_address_in_use_is_left_and_not_kept",
    ),
    (
        "src/fanfold/cli/lab.py",
        "            os.close(claim)\n",
        "",
        f"{RANGE}::test_a_range_with_one_address_in_use_is_left_and_not_kept",
    ),
    (
        "src/fanfold/cli/lab.py",
        '"passed", "full", "quota",',
        '"passed", "quota",',
        "tests/unit/cli/test_cli_lab_status.py::test_arrays_that_found_no_slot_are_shown",
    ),
    (
        "src/fanfold/live/syscalls.py",
        "prctl(PR_SET_PDEATHSIG, signal.SIGKILL)",
        "prctl(PR_SET_PDEATHSIG, 0)",
        "tests/live/test_live_bench.py::test_ranks_end_with_the_command_that_started_them",
    ),
    (
        "src/fanfold/group/crew.py",
        "            os.kill(pid, signal.SIGKILL)  # it has said all, or nobody listens\n",
        "",
        "tests/live/test_live_bench.py::test_ranks_end_with_the_command_that_started_them",
    ),
    (
        "src/fanfold/live/lab.py",
        '_tell(tell, f"{name}: {type(error).__name__}: {error} (trace in {log})")',
        "pass",
        "tests/live/test_live_lab.py::test_any_error_of_a_node_is_named_and_its_trace_kept",
    ),
    (
        "src/fanfold/live/lab.py",
        "            traceback.print_exc()\n",
        "            traceback.format_exc()\n",
        "tests/live/test_live_lab.py::test_any_error_of_a_node_is_named_and_its_trace_kept",
    ),
    (
        "src/fanfold/live/ports.py",
        "heads + 4 * bitstring_bits // 8",
        "heads + 3 * bitstring_bits // 8",
        "tests/unit/live/test_live_ports.py"
        "::test_the_least_mtu_carries_a_word_with_one_row_exactly[256]",
    ),
    (
        "src/fanfold/live/ports.py",
        "if fabric.mtu < least:",
        "if fabric.mtu <= least:",
        "tests/unit/live/test_live_ports.py"
        "::test_an_mtu_without_room_for_a_row_is_refused_by_name[64]",
    ),
    (
        "src/fanfold/live/ports.py",
        "    require_mtu(fabric)\n",
        "",
        "tests/unit/live/test_live_ports.py"
        "::test_an_mtu_without_room_for_a_row_is_refused_by_name[64]",
    ),
    (
        "src/fanfold/cli/main.py",
        "            option.envvar = f",
        "            option.help = f",
        "tests/unit/cli/test_cli_flags.py::test_every_option_has_a_twin_named_as_the_option_is",
    ),
    (
        "src/fanfold/cli/main.py",
        '_name_twins(below, f"{prefix}_{_upper(name)}")',
        "_name_twins(below, prefix)",
        "tests/unit/cli/test_cli_flags.py::test_every_option_has_a_twin_named_as_the_option_is",
    ),
    (
        "src/fanfold/cli/main.py",
        "for n in range(1, len(words) + 1)]",
        "for n in range(2, len(words) + 1)]",
        "tests/unit/cli/test_cli_flags.py"
        "::test_a_refusal_is_an_object_when_the_twin_of_json_asks_for_it",
    ),
    (
        "src/fanfold/cli/push.py",
        'raise ConfigError("--rate", rate, "auto, or more than 0 such as 5Gbps") from error',
        "raise error",
        "tests/unit/cli/test_cli_flags.py::test_a_rate_that_is_none_is_told_what_is_allowed",
    ),
    (
        "src/fanfold/live/control.py",
        "sock.settimeout(max(until - time.monotonic(), 0.001))",
        "sock.settimeout(TIMEOUT_S)",
        "tests/unit/live/test_live_control.py::test_who_sends_a_byte_now_and_then_is_let_go",
    ),
    (
        "src/fanfold/live/control.py",
        " and len(line) < MAX_LINE:",
        ":",
        "tests/unit/live/test_live_control.py::test_a_line_too_long_is_refused[65537]",
    ),
    (
        "src/fanfold/live/control.py",
        "if self._places.acquire(blocking=False):",
        "if self._places.acquire(blocking=False) or True:",
        "tests/unit/live/test_live_control.py::test_no_more_callers_than_places",
    ),
    (
        "src/fanfold/live/lab.py",
        "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        except OSError as error:",
        "fcntl.flock(fd, fcntl.LOCK_UN)\n        except OSError as error:",
        "tests/live/test_live_lab.py"
        "::test_a_lab_that_somebody_is_starting_is_not_started_twice",
    ),
    (
        "src/fanfold/live/lab.py",
        '(fields[0] != "Z" or int(fields[17]) > 1)',
        'fields[0] != "Z"',
        "tests/live/test_live_lab.py::test_a_process_lives_until_its_last_thread_has_closed_what_it_holds",
    ),
)
