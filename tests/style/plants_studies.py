"""Planted faults of study/: file, text, faulty text, test that turns red."""

S = "src/fanfold/study/"
T = "tests/unit/study/"
PHASES = T + "test_study_phases.py::"
LOWER = T + "test_study_lower.py::"
KINDS = T + "test_study_kinds.py::"
ENGINE = T + "test_study_engine.py::"
CLI = "tests/unit/cli/test_cli_studies.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        S + "phases.py",
        "start = max((spans[name].end_ps for name in phase.needs), default=0)",
        "start = min((spans[name].end_ps for name in phase.needs), default=0)",
        PHASES + "test_a_phase_begins_when_the_last_of_its_needs_has_ended",
    ),
    (
        S + "sweep.py",
        '    "sr-p2mp",\n',
        '    "srp2mp",\n',
        ENGINE + "test_every_scheme_of_a_study_is_in_the_catalog",
    ),
    (
        S + "summary.py",
        '(known or [""])[0]',
        '(known or [""])[-1]',
        ENGINE + "test_without_unicast_the_first_scheme_is_what_others_are_held_against",
    ),
    (
        S + "costs.py",
        '"idle_gpu_ps": step * graph.gpus - int(busy.sum()),',
        '"idle_gpu_ps": step - int(busy.sum()),',
        PHASES + "test_a_step_by_hand",
    ),
    (
        S + "costs.py",
        "total[host] = waited + int(outcome.host_ps[host]) - came",
        "total[host] = int(outcome.host_ps[host]) - came",
        PHASES + "test_receivers_of_two_phases_wait_for_both",
    ),
    (
        S + "costs.py",
        "came = 0 if since is None else int(since[host])",
        "came = 0",
        PHASES + "test_times_of_joiners_count_from_their_arrival",
    ),
    (
        S + "costs.py",
        "total = np.sum([o.link_bytes.sum(axis=1) for o in moves], axis=0)",
        "total = np.max([o.link_bytes.sum(axis=1) for o in moves], axis=0)",
        PHASES + "test_links_of_two_phases_add_up",
    ),
    (
        S + "costs.py",
        "total[leaves & home].sum()",
        "total[leaves].sum()",
        PHASES + "test_egress_is_what_the_first_source_s_site_hands_to_its_border",
    ),
    (
        S + "costs.py",
        'values["fabric_bytes"] * 8 * prices.pj_per_bit',
        'values["fabric_bytes"] * prices.pj_per_bit',
        PHASES + "test_money_and_energy_only_where_somebody_gave_a_price",
    ),
    (
        S + "lower.py",
        "one - bounds[kind] + np.array(starts)[kind]",
        "one + starts[0]",
        LOWER + "test_groups_sum_up_side_by_side",
    ),
    (
        S + "lower.py",
        "key = cast._replace(n_bytes=0)",
        "key = cast._replace(n_bytes=0, begin=0)",
        LOWER + "test_casts_to_the_same_receivers_are_one",
    ),
    (
        S + "lower.py",
        "np.maximum(ready_ps[program.src], ready_ps[program.dst])",
        "ready_ps[program.src]",
        LOWER + "test_nothing_reaches_a_host_before_it_is_ready",
    ),
    (
        S + "lower.py",
        "pair = (host, cast.source) if is_back else (cast.source, host)",
        "pair = (cast.source, host)",
        LOWER + "test_results_come_back_to_the_source",
    ),
    (
        S + "moe_dispatch.py",
        "receivers = tuple(rank for rank in chosen if rank != source)",
        "receivers = tuple(chosen)",
        KINDS + "test_tokens_of_a_trace_go_to_the_ranks_of_their_experts",
    ),
    (
        S + "moe_dispatch.py",
        "proxy = node * size + place",
        "proxy = node * size",
        KINDS + "test_by_node_reaches_the_same_ranks_over_fewer_copies_between_nodes",
    ),
    (
        S + "moe_dispatch.py",
        "sums[cast.source // step * step] += cast.n_bytes",
        "sums[cast.source // step * step] = cast.n_bytes",
        KINDS + "test_a_flood_takes_every_token_to_every_rank_from_some_of_them",
    ),
    (
        S + "moe_dispatch.py",
        "first = source // ep * ep",
        "first = source * 0",
        KINDS + "test_more_gpus_than_experts_are_several_groups",
    ),
    (
        S + "cold_start.py",
        "begins = -(-times // each_ps)",
        "begins = times // each_ps",
        KINDS + "test_every_joiner_gets_every_piece_once_after_it_came",
    ),
    (
        S + "checkpoint.py",
        "(gpu * replicas + r) % nodes",
        "(gpu * replicas + r // 2) % nodes",
        KINDS + "test_a_checkpoint_lies_on_replicas_of_different_nodes",
    ),
    (
        S + "inter_dc.py",
        "heads = tuple(site[0] for site in sites)",
        "heads = everybody",
        KINDS + "test_copies_go_to_regions_and_multicast_to_all",
    ),
    (
        S + "fabrics.py",
        'f"servers={servers},gpus={GPUS_PER_SERVER},spines={unit},unit={unit}"',
        'f"servers={servers},gpus={GPUS_PER_SERVER},spines=8,unit={unit}"',
        KINDS + "test_a_rail_fabric_is_not_oversubscribed",
    ),
    (
        S + "engine.py",
        "left = [i for i, row in enumerate(rows) if row is None]",
        "left = list(range(len(rows)))",
        ENGINE + "test_what_was_stopped_goes_on_where_it_was",
    ),
    (
        S + "engine.py",
        "if len(whole) < len(tasks):",
        "if not whole:",
        ENGINE + "test_a_task_that_gives_nothing_is_said",
    ),
    (
        S + "keep.py",
        'if found.get("format") != FORMAT:',
        'if "format" not in found:',
        ENGINE + "test_a_folder_of_another_form_is_refused",
    ),
    (
        S + "task.py",
        "if not error.field.startswith(REFUSED):",
        "if error.field:",
        ENGINE + "test_what_a_scheme_cannot_do_is_a_row",
    ),
    (
        S + "task.py",
        "    check_size(graph.topology, stage.net.n_hosts, graph.n_hosts)\n",
        "",
        ENGINE + "test_a_fabric_that_is_too_small_is_refused",
    ),
    (
        S + "sweep.py",
        "if name in seen or ask.given.get(name):",
        "if name in seen:",
        ENGINE + "test_a_wrong_request_is_refused_before_anything_runs",
    ),
    (
        S + "verdict.py",
        "return value * CLOSE < than",
        "return value < than",
        ENGINE + "test_those_within_a_part_in_a_hundred_are_equal",
    ),
    (
        S + "summary.py",
        '"saved_bytes": base - mine',
        '"saved_bytes": mine - base',
        ENGINE + "test_a_study_of_four_hosts",
    ),
    (
        S + "workers.py",
        'if cluster == "slurm" and shutil.which("sbatch") is None:',
        'if shutil.which("sbatch") is None and cluster == "pbs":',
        CLI + "test_a_cluster_that_is_not_here_is_code_3",
    ),
    (
        "src/fanfold/cli/study.py",
        'int((parts + "000000")[:6])',
        'int(parts or "0")',
        CLI + "test_sweeps_and_prices_are_read_exactly",
    ),
    (
        "src/fanfold/study/metric_catalog.py",
        '"until half of the receivers have everything"',
        '"until half of them have everything"',
        "tests/unit/study/test_study_notebook.py::test_every_cell_prints_what_it_shows",
    ),
)
