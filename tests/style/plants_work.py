"""Planted faults of work/: file, text, faulty text, test that turns red."""

WORK = "src/fanfold/work/"
T = "tests/unit/work/"
MODEL = T + "test_model.py::"
PARALLEL = T + "test_parallel.py::"
MOE = T + "test_moe.py::"
PUSH = T + "test_push.py::"
PUBLISHED = MODEL + "test_a_real_config_counts_to_the_published_parameter"
KEPT = MOE + "test_no_destination_is_lost_and_none_is_made_up"
MEASURED = PARALLEL + "test_gpt_3b_on_32_gpus_moves_what_was_measured"
GROUPS = PARALLEL + "test_groups_part_the_ranks_and_bytes_are_kept"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        WORK + "model.py",
        "latent = hidden * (self.kv_rank + self.rope_dim)",
        "latent = hidden * self.kv_rank",
        PUBLISHED,
    ),
    (
        WORK + "model.py",
        "return self.q_rank + self.kv_rank\n",
        "return self.kv_rank\n",
        PUBLISHED,
    ),
    (WORK + "model.py", '"head": 0 if model.is_tied else matrix', '"head": matrix', PUBLISHED),
    (
        WORK + "model.py",
        "router + e.n_routed * int(e.has_router_bias)",
        "router",
        PUBLISHED,
    ),
    (
        WORK + "model.py",
        "// n * (n - k)",
        "// n * k",
        MODEL + "test_active_parameters_are_those_that_are_published",
    ),
    (
        WORK + "model_families.py",
        "tuple(range(step - 1, n_layers, step))",
        "tuple(range(0, n_layers, step))",
        MODEL + "test_a_preset_is_what_its_config_says",
    ),
    (
        WORK + "config_fields.py",
        "or isinstance(value, bool) or not least",
        "or not least",
        MODEL + "test_a_wrong_field_is_named",
    ),
    (
        WORK + "parallel.py",
        "passes = 3 if degrees.recompute else 2",
        "passes = 2",
        MEASURED,
    ),
    (
        WORK + "parallel.py",
        "return -(-2 * (n - 1) * n_bytes // n)",
        "return -(-(n - 1) * n_bytes // n)",
        MEASURED,
    ),
    (
        WORK + "parallel.py",
        "alike = grid.reshape(degrees.pp, -1, degrees.ep).transpose(0, 2, 1)",
        "alike = grid.reshape(degrees.pp, degrees.ep, -1)",
        PARALLEL + "test_experts_of_eight_gpus_by_hand",
    ),
    (
        WORK + "parallel.py",
        "groups = grid[stage].reshape(-1, degrees.ep)",
        "groups = grid[0].reshape(-1, degrees.ep)",
        GROUPS,
    ),
    (
        WORK + "parallel.py",
        "replicas = grid.transpose(0, 2, 1).reshape(-1, degrees.dp)",
        "replicas = grid.reshape(-1, degrees.dp)",
        PARALLEL + "test_ranks_of_eight_gpus_by_hand",
    ),
    (
        WORK + "gate.py",
        "score[~kept] = -1",
        "score[~kept] += 0",
        MOE + "test_a_limited_gate_keeps_to_its_groups",
    ),
    (
        WORK + "gate.py",
        "rng.gumbel(size=(n, log_weight.size))",
        "rng.gumbel(size=(log_weight.size, n)).T",
        MOE + "test_a_token_chooses_alike_in_more_company",
    ),
    (
        WORK + "gate.py",
        "-skew_milli / 1000 * np.log(place)",
        "-np.log(place)",
        MOE + "test_a_uniform_gate_loads_all_alike_and_a_zipf_gate_does_not",
    ),
    (
        WORK + "gate_trace.py",
        "twice = np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))",
        "twice = np.flatnonzero((found[:, 1:] == found[:, :-1]).all(axis=0))",
        MOE + "test_a_wrong_trace_names_what_is_wrong",
    ),
    (
        WORK + "moe.py",
        "words[row, column // WORD_BITS] |= bit",
        "words[row, 0] |= bit",
        MOE + "test_words_and_members_are_one_another",
    ),
    (
        WORK + "moe.py",
        "words[row, column // WORD_BITS] |= bit",
        "words[row, column // WORD_BITS] = bit",
        KEPT,
    ),
    (WORK + "moe.py", "far_bits=rank_bits & ~own", "far_bits=rank_bits", KEPT),
    (
        WORK + "moe.py",
        "by_node = _popcount(made.node_bits & ~own_node)",
        "by_node = _popcount(made.node_bits)",
        KEPT,
    ),
    (
        WORK + "moe.py",
        "np.unique(row * n_si + member // bitstring_bits).size",
        "np.unique(row).size",
        MOE + "test_a_packet_leaves_for_each_set_that_its_ranks_touch",
    ),
    (
        WORK + "token_bytes.py",
        "if DTYPE_BITS[dtype] <= 8 else 0",
        "if DTYPE_BITS[dtype] <= 4 else 0",
        PARALLEL + "test_a_token_of_deepseek_v3_is_7392_bytes",
    ),
    (
        WORK + "push.py",
        "sent_ps += at + whole - ends",
        "sent_ps += whole",
        PUSH + "test_a_fan_is_as_byte_by_byte",
    ),
    (
        WORK + "push.py",
        "starts = np.maximum.accumulate(arrivals - turns) + turns",
        "starts = arrivals",
        PUSH + "test_three_joiners_by_hand",
    ),
    (
        WORK + "push.py",
        "n_bytes * len(regions), n_bytes)",
        "n_bytes * n_replicas, n_bytes)",
        PUSH + "test_a_model_of_500_gb_to_four_regions",
    ),
    (
        "src/fanfold/cli/workload_flags.py",
        "n_ranks=layout.ep or layout.gpus or 0",
        "n_ranks=layout.ep or 0",
        "tests/unit/cli/test_cli_workload.py"
        "::test_gpus_hold_the_experts_where_no_degree_is_given",
    ),
)
