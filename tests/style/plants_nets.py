"""Planted faults of nets: file, text, faulty text, test that must turn red."""

ROUTES = "tests/unit/topo/test_routes.py::"
NETS = "tests/unit/topo/test_nets.py::"
FILES = "tests/unit/topo/test_net_files.py::"
CATALOG = "tests/unit/topo/test_topo_catalog.py::"
PLACES = "tests/unit/topo/test_placement.py::"
PORTRAIT = "tests/unit/topo/test_portrait.py::"
CLI = "tests/unit/cli/test_cli_topo.py::"

PLANTS = (
    (
        "src/fanfold/topo/net.py",
        "np.arange(2 * n_cables) % max(n_cables, 1)",
        "np.arange(2 * n_cables)",
        NETS + "test_ports_of_a_fabric_are_the_links_of_its_net_in_order",
    ),
    (
        "src/fanfold/topo/routes.py",
        "rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1",
        "",
        ROUTES + "test_hosts_of_one_group_hang_on_the_same_routers",
    ),
    (
        "src/fanfold/topo/routes.py",
        "    refill(more)\n",
        "",
        ROUTES + "test_a_set_that_two_groups_share_is_kept_once_after_growth",
    ),
    (
        "src/fanfold/topo/routes.py",
        "np.full((n_routers, n_groups), FAR, np.int16)",
        "np.full((n_routers, n_groups), FAR - 1, np.int16)",
        ROUTES + "test_hosts_without_a_way_over_routers_stay_far",
    ),
    (
        "src/fanfold/topo/search.py",
        "k = _intern(arcs, batch, sets, r, b)",
        "k = sets.n[0] - 1 if sets.n[0] > 0 else _intern(arcs, batch, sets, r, b)",
        ROUTES + "test_hops_and_sets_are_those_of_a_plain_search",
    ),
    (
        "src/fanfold/topo/search.py",
        "    while sets.slot[s] != EMPTY:\n        k = i64",
        "    while False:\n        k = i64",
        ROUTES + "test_a_set_that_two_groups_share_is_kept_once",
    ),
    (
        "src/fanfold/topo/search.py",
        "hops[r, g0 + b] = level",
        "hops[r, g0 + b] = level - 1",
        ROUTES + "test_hops_and_sets_are_those_of_a_plain_search",
    ),
    (
        "src/fanfold/topo/search.py",
        "if n_all > 0:",
        "if n_all > 1:",
        ROUTES + "test_hops_and_sets_are_those_of_a_plain_search",
    ),
    (
        "src/fanfold/topo/fat_tree.py",
        "rack // half)",
        "rack // k)",
        NETS + "test_a_host_of_a_fat_tree_hangs_on_the_edge_switch_of_its_number",
    ),
    (
        "src/fanfold/topo/superpod.py",
        "leaf[plane], line, plane)",
        "leaf[plane], line)",
        NETS + "test_a_superpod_has_two_legs_of_400g_in_each_of_four_planes",
    ),
    (
        "src/fanfold/topo/rail.py",
        "leaf[pod * gpus + which]",
        "leaf[pod * gpus]",
        NETS + "test_a_gpu_hangs_on_its_server_and_on_the_leaf_of_its_rail",
    ),
    (
        "src/fanfold/topo/dragonfly.py",
        "(a * h - 1 - q) // h",
        "q // h",
        NETS + "test_every_two_groups_of_a_dragonfly_share_one_cable_and_ports_are_used_up",
    ),
    (
        "src/fanfold/topo/torus.py",
        "if size == 2:",
        "if size == 0:",
        NETS + "test_a_torus_joins_the_next_in_every_dimension",
    ),
    (
        "src/fanfold/topo/random_regular.py",
        "stream(seed,",
        "stream(0,",
        NETS + "test_random_graphs_are_of_their_seed",
    ),
    (
        "src/fanfold/topo/nets.py",
        "if key in given:",
        "if False:",
        NETS + "test_names_that_cannot_be_are_refused_with_field_value_and_what_is_allowed",
    ),
    (
        "src/fanfold/topo/net_rules.py",
        "if not home & other:",
        "if False:",
        FILES + "test_faults_of_a_node_link_file_are_named_by_their_place",
    ),
    (
        "src/fanfold/topo/net_rules.py",
        "if to < net.n_hosts:",
        "if False:",
        FILES + "test_faults_of_a_node_link_file_are_named_by_their_place",
    ),
    (
        "src/fanfold/topo/graph_file.py",
        "if graph.is_directed and",
        "if",
        FILES + "test_directed_pairs_are_one_cable_and_parallel_cables_stay",
    ),
    (
        "src/fanfold/topo/htsim_topo.py",
        "net.prop_ps + switch_ps[net.tier[net.dst]]",
        "net.prop_ps",
        FILES + "test_htsim_topology_file",
    ),
    (
        "src/fanfold/topo/htsim_topo.py",
        "if tier.down != n_below * tier.bundle:",
        "if False:",
        FILES + "test_faults_of_an_htsim_file_are_named",
    ),
    (
        "src/fanfold/topo/placement.py",
        "!= MAX_BFR_ID]",
        "!= -1]",
        PLACES + "test_naive_ids_follow_the_hosts_and_run_on_in_the_next_sub_domain",
    ),
    (
        "src/fanfold/topo/placement.py",
        "for _ in range(2):",
        "for _ in range(0):",
        PLACES + "test_no_rack_straddles_two_sets",
    ),
    (
        "src/fanfold/topo/placement.py",
        "if host not in seen]",
        "]",
        PLACES + "test_members_of_a_job_follow_each_other_and_the_rest_comes_last",
    ),
    (
        "src/fanfold/topo/portrait.py",
        "half[src] * half[dst] < 0",
        "half[src] * half[dst] != 0",
        PORTRAIT + "test_bisection_of_direct_networks",
    ),
    (
        "src/fanfold/topo/portrait.py",
        "if net.n_hosts > 1 else 0",
        "",
        PORTRAIT + "test_hosts_are_far_apart_only_where_there_are_two",
    ),
    (
        "src/fanfold/cli/topo.py",
        "build_named_net(name, seed)",
        "build_named_net(name)",
        CLI + "test_the_seed_draws_another_graph",
    ),
)
