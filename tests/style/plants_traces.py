"""Planted faults of traces, pauses, weights and the smaller workloads."""

WORK = "src/fanfold/work/"
SIM = "src/fanfold/sim/"
T = "tests/unit/work/"
CHAKRA = T + "test_chakra.py::"
GOAL = T + "test_goal.py::"
TRACE = T + "test_trace.py::"
TRAFFIC = T + "test_traffic.py::"
WEIGHTS = T + "test_weights.py::"
TRACED = "tests/unit/schemes/test_traced.py::"
PAUSES = "tests/unit/sim/test_pauses.py::"
CLI = "tests/unit/cli/test_cli_traces.py::"
NAMED = CHAKRA + "test_what_is_wrong_is_named_by_rank_and_node"
LINES = GOAL + "test_a_wrong_line_is_named"
LANES = TRACE + "test_lanes_are_never_shared_and_order_holds"
ALL = TRACED + "test_every_scheme_runs_every_trace_to_its_end"
CHAIN = PAUSES + "test_pauses_add_their_time_to_a_chain"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        WORK + "chakra_schema.py",
        '"int64_val": (9, _F.TYPE_INT64)',
        '"int64_val": (10, _F.TYPE_INT64)',
        CHAKRA + "test_our_field_numbers_give_the_bytes_of_the_published_schema",
    ),
    (
        WORK + "chakra_schema.py",
        '("ctrl_deps", 4), ("data_deps", 5)',
        '("ctrl_deps", 5), ("data_deps", 4)',
        CHAKRA + "test_our_field_numbers_give_the_bytes_of_the_published_schema",
    ),
    (
        WORK + "chakra.py",
        "            n_bytes *= len(members)\n",
        "            n_bytes *= 1\n",
        CHAKRA + "test_every_type_of_collective_is_taken",
    ),
    (
        WORK + "chakra.py",
        '"GATHER": "gather",',
        '"GATHER": "scatter",',
        CHAKRA + "test_every_type_of_collective_is_taken",
    ),
    (
        WORK + "chakra.py",
        '    if kind == "broadcast":\n        return ConfigError',
        '    if kind == "reduce":\n        return ConfigError',
        CHAKRA + "test_a_broadcast_is_never_left_out",
    ),
    (
        WORK + "chakra.py",
        "            self.skipped[unknown.name] += 1\n",
        "",
        CHAKRA + "test_what_is_unknown_is_counted_where_that_is_asked_for",
    ),
    (
        WORK + "chakra.py",
        "        if length > min(len(data) - at, MAX_NODE_BYTES):",
        "        if length > MAX_NODE_BYTES:",
        CHAKRA + "test_no_change_of_a_real_trace_is_read_past_its_end",
    ),
    (
        WORK + "chakra.py",
        'key = "comm_dst" if is_send else "comm_src"',
        'key = "comm_src" if is_send else "comm_dst"',
        NAMED,
    ),
    (
        WORK + "chakra.py",
        "if node.id in at:",
        "if node.id in at and False:",
        CHAKRA + "test_an_id_stands_once",
    ),
    (
        WORK + "trace_ops.py",
        "        if len(there) != len(here):\n",
        "        if len(there) > len(here):\n",
        NAMED,
    ),
    (
        WORK + "trace_ops.py",
        'for name in ("kind", "n_bytes", "root"):',
        'for name in ("kind", "root"):',
        NAMED,
    ),
    (WORK + "trace_ops.py", "            if n < most:\n", "            if n > most:\n", NAMED),
    (
        WORK + "trace_ops.py",
        "return (parts[at], *parts[:at], *parts[at + 1 :])",
        "return parts",
        CHAKRA + "test_a_step_of_two_parallelisms",
    ),
    (WORK + "trace_ops.py", "        last[lane] = i\n", "", LANES),
    (
        WORK + "trace.py",
        "self._finish(i, 1, max(came, begin[1]))",
        "self._finish(i, 1, came)",
        TRACE + "test_a_receiver_that_is_ready_late_but_was_met_first",
    ),
    (
        WORK + "trace.py",
        "self._finish(i, 1, max(self.end[i][0], begin[1]))",
        "self._finish(i, 1, self.end[i][0])",
        TRACE + "test_a_receiver_counts_bytes_when_it_is_ready",
    ),
    (
        WORK + "trace.py",
        "max(begin) + cost",
        "min(begin) + cost",
        TRACE + "test_the_longest_path_by_hand",
    ),
    (
        WORK + "trace.py",
        '"all_reduce": 2 * around,',
        '"all_reduce": around,',
        TRACE + "test_the_time_of_each_kind_by_hand",
    ),
    (
        WORK + "trace.py",
        "phase.n_bytes * len(phase.ranks)",
        "phase.n_bytes",
        TRACE + "test_too_many_bytes_for_64_bits_are_refused",
    ),
    (
        WORK + "goal.py",
        "                over[after] |= over[before]\n",
        "",
        GOAL + "test_irequires_begins_with_the_other",
    ),
    (
        WORK + "goal.py",
        'lambda m: "\\n" * m[0].count("\\n") or " "',
        'lambda m: " "',
        GOAL + "test_lines_are_counted_over_comments",
    ),
    (
        WORK + "goal.py",
        '(found[2] == "send") != (found[4] == "to")',
        "False",
        LINES,
    ),
    (WORK + "goal.py", "            if label in self.at:\n", "            if False:\n", LINES),
    (
        "src/fanfold/schemes/traced.py",
        "        for gate, rank, needs in self.joins:\n",
        "        for gate, rank, needs in self.joins[:0]:\n",
        TRACED + "test_computing_delays_what_waits_for_it",
    ),
    (
        "src/fanfold/schemes/traced.py",
        "        self._wait(begin, ids[:n])\n",
        "",
        TRACED + "test_a_collective_waits_for_its_ranks",
    ),
    (
        "src/fanfold/schemes/traced.py",
        "            self.folds |= plan.folds\n",
        "",
        TRACED + "test_fans_fold_where_the_scheme_folds",
    ),
    (
        "src/fanfold/schemes/traced.py",
        "            stand_ins[phase.kind] = doer.name\n",
        "            pass\n",
        TRACED + "test_who_stands_in_is_said",
    ),
    (
        SIM + "loop/unicast.py",
        'items[waiting]["start_ps"]) + items[waiting]["pause_ps"]',
        'items[waiting]["start_ps"])',
        CHAIN,
    ),
    (
        SIM + "loop/unicast.py",
        "        settle(q, items, deps, i, RECEIVED)\n",
        "",
        CHAIN,
    ),
    (
        SIM + "build.py",
        'items["start_ps"][order] + items["pause_ps"][order]',
        'items["start_ps"][order]',
        CHAIN,
    ),
    (
        SIM + "loop/drain.py",
        'max(now, items[j]["start_ps"]) + items[j]["pause_ps"]',
        'max(now, items[j]["start_ps"])',
        CHAIN,
    ),
    (
        WORK + "trace_files.py",
        'return name, files | ({f"{name}.json": groups} if groups else {})',
        "return name, files",
        CLI + "test_a_run_of_a_trace_is_kept_with_its_files_and_found_again",
    ),
    (
        "src/fanfold/run.py",
        "kind, busy = scenario.trace.form, max(busy_ps(stage.trace))",
        "kind, busy = scenario.trace.form, min(busy_ps(stage.trace))",
        CLI + "test_goal_runs_and_can_be_explained",
    ),
    (
        WORK + "weights.py",
        "return self.first + self.layers[0]",
        "return self.layers[0]",
        WEIGHTS + "test_a_cold_start_waits_for_embeddings_and_the_first_layer",
    ),
    (
        WORK + "weights.py",
        "routed if i in routing else dense",
        "dense if i in routing else routed",
        WEIGHTS + "test_layers_of_a_shape_are_the_whole_model",
    ),
    (
        WORK + "model_config.py",
        'if Path(name).name != name or name in ("", ".", ".."):',
        "if not name:",
        WEIGHTS + "test_a_wrong_index_is_named",
    ),
    (
        WORK + "budgets.py",
        '"EP": PS_PER_MS,',
        '"EP": 10 * PS_PER_MS,',
        TRAFFIC + "test_verdicts_of_one_latency",
    ),
    (
        WORK + "steps.py",
        "FLOPS_RECOMPUTED if degrees.recompute else FLOPS_A_PARAM",
        "FLOPS_A_PARAM",
        TRAFFIC + "test_computing_by_hand",
    ),
    (
        WORK + "steps.py",
        "period_ps = busy_ps + sum(on.values())",
        "period_ps = busy_ps + max(on.values())",
        TRAFFIC + "test_bursts_share_out_the_iteration",
    ),
    (
        WORK + "checkpoint.py",
        "OPTIMIZER_BYTES = 12",
        "OPTIMIZER_BYTES = 8",
        TRAFFIC + "test_a_checkpoint_has_weights_and_three_words_a_parameter",
    ),
    (
        WORK + "federated.py",
        "total = clusters * (down + across) + workers * n_bytes",
        "total = clusters * down + across + workers * n_bytes",
        TRAFFIC + "test_federated_rounds_against_every_single_message",
    ),
    (
        WORK + "federated.py",
        "-(-(workers // 2) // (neighbours // 2))",
        "workers // 2 // (neighbours // 2)",
        TRAFFIC + "test_hops_on_a_ring_against_a_walk",
    ),
    (
        WORK + "incast.py",
        "queue = (senders - 1) * min(n_bytes, window_bytes)",
        "queue = senders * min(n_bytes, window_bytes)",
        TRAFFIC + "test_incast_by_hand",
    ),
    (
        WORK + "serving.py",
        "2 * at.n_kv_heads * at.head_dim",
        "at.n_kv_heads * at.head_dim",
        TRAFFIC + "test_keys_and_values_by_hand",
    ),
    (
        WORK + "inter_dc.py",
        "send_ps(sent, rate_bps) + far // 2",
        "send_ps(sent, rate_bps) + far",
        TRAFFIC + "test_500_gb_to_four_regions_over_a_wan",
    ),
    (
        WORK + "roles.py",
        "            workers * n_bytes + s,\n",
        "            n_bytes + s,\n",
        TRAFFIC + "test_roles_give_what_others_get",
    ),
)
