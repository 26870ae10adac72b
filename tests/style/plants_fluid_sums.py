"""Planted faults of sums as fluid and of installed trees: file, text, faulty text, test."""

SUMS = "src/fanfold/sim/fluid_sums.py"
SLOTS = "src/fanfold/sim/fluid_slots.py"
SHARP = "src/fanfold/schemes/sharp.py"
T = "tests/unit/sim/test_fluid_sums.py::"
U = "tests/unit/schemes/test_sharp.py::"
S = "tests/unit/schemes/test_schemes.py::"
F = "tests/unit/scenario/test_fidelity.py::"
Y = "tests/unit/study/test_study_allreduce.py::"

PLANTS = (
    (
        SLOTS,
        "if 0 < settings.group_slots < least:",
        "if 0 < settings.group_slots < 0:",
        T + "test_slots_are_granted_in_halves_down_to_eight",
    ),
    (
        SLOTS,
        "_refused(a, 1, settings)",
        "_refused(a, 2 * LEAST_WINDOW, settings)",
        T + "test_installed_trees_take_a_slot_for_each_block_under_way",
    ),
    (
        SUMS,
        "rest_ps = int(up.max()) - pace_ps + down",
        "rest_ps = int(up.max()) + down",
        T + "test_arm_then_agreement_then_all_blocks_and_the_last_result",
    ),
    (
        SUMS,
        "    out[tree.down, DATA] += agreed\n",
        "",
        T + "test_what_links_carry",
    ),
    (
        SUMS,
        "for links in (home, tree.down, home):",
        "for links in (home, tree.down):",
        T + "test_what_links_carry",
    ),
    (
        SUMS,
        "return self.down if self.to_all else own[own >= 0].astype(np.int64)",
        "return self.down",
        T + "test_a_sum_for_one_goes_whole_to_it_and_as_headers_to_the_rest",
    ),
    (
        SUMS,
        "    if span_ps > sizes.n_blocks * pace_ps:\n",
        "    if span_ps < 0:\n",
        T + "test_a_window_that_is_too_small_waits_for_each_round",
    ),
    (
        SUMS,
        "window + max(window // 2, 1)",
        "window + max(window, 1)",
        T + "test_windows_grow_from_sixteen_blocks_by_half",
    ),
    (
        SUMS,
        "n_left = (int((last >= 0).sum()) - 1) // 2",
        "n_left = int((last >= 0).sum()) - 1",
        T + "test_depth_costs_latency_only",
    ),
    (
        SUMS,
        "        out[tree.down, ACK] += acks\n",
        "",
        T + "test_an_installed_tree_acknowledges_each_hop_and_says_nothing_else",
    ),
    (
        SUMS,
        "np.add.at(copies, above[node[passes]], copies[from_below[passes]])",
        "copies[above[node[passes]]] = 1",
        T + "test_a_bfr_without_slots_passes_on_what_comes",
    ),
    (
        SLOTS,
        "window = max(window // 2, LEAST_WINDOW)",
        "window = LEAST_WINDOW",
        T + "test_slots_are_granted_in_halves_down_to_eight",
    ),
    (
        SLOTS,
        "key=lambda a: (sums[a].start_ps, a)",
        "key=lambda a: a",
        T + "test_sums_compete_for_slots_in_the_order_in_which_they_start",
    ),
    (
        SLOTS,
        "            free[nodes[has_room]] -= 2 * window\n",
        "",
        Y + "test_groups_that_compete_are_told_apart",
    ),
    (
        SHARP,
        "for _ in range(int(away[root]) // 2):",
        "for _ in range(int(away[root])):",
        U + "test_the_root_is_half_way_to_the_farthest_member",
    ),
    (
        SHARP,
        "(switches.nodes.size - 1) * mad_ps",
        "0 * mad_ps",
        U + "test_what_the_manager_sends_and_switches_keep",
    ),
    (
        SHARP,
        "        entries[switches.nodes] += switches.n_links\n",
        "        entries[switches.nodes] = switches.n_links\n",
        U + "test_sums_of_one_group_share_a_tree_and_groups_do_not",
    ),
    (
        "src/fanfold/schemes/parameter_server.py",
        "draft.wait_for_all(pushes, pulls, n_alike=chunks)",
        "draft.wait(pushes, pulls)",
        S + "test_every_rank_ends_with_what_is_promised",
    ),
    (
        "src/fanfold/scenario/fidelity.py",
        "    if has_installed(program):\n        return",
        "    if not program:\n        return",
        F + "test_sums_of_installed_trees_go_by_flow_only",
    ),
    (
        "src/fanfold/scenario/fidelity.py",
        "        return total + self.sum_hops\n",
        "        return total\n",
        F + "test_a_sum_is_its_tree_up_and_down",
    ),
    (
        "src/fanfold/sim/sum_links.py",
        "found = np.where((found < 0) & leads, link, found)",
        "found = first.copy()",
        "tests/unit/sim/test_fluid_sums.py::test_members_take_part_by_a_link_that_leads_to_all",
    ),
)
